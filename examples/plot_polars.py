"""
A Polars pipeline
=================

The table may be anything that narwhals knows: here a lazy frame of Polars, with the votes of a forest on e-mails that
it has not seen. The map is applied as one more expression of the query plan; nothing runs until you collect.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from sklearn.ensemble import RandomForestClassifier

import calibrant

mail = calibrant.datasets.load("spambase")
order = np.random.default_rng(0).permutation(len(mail.y))
train, rest = order[:1_500], order[1_500 : 2_500 if os.environ.get("CALIBRANT_SMALL") else None]
forest = RandomForestClassifier(100, max_depth=4, random_state=0).fit(mail.X[train], mail.y[train])
votes = forest.predict_proba(mail.X[rest])[:, 1].round(2)
frame = pl.LazyFrame({"votes": votes, "spam": mail.y[rest] == mail.y.max()})

fitted = calibrant.engines.fit("spline", frame, score="votes", label="spam", kind="probability")
print(fitted)
scored = calibrant.engines.apply(fitted, frame, score="votes", into="p")
print(scored.sort("p", descending=True).head(3).collect())

# %%
# What the votes mean. A point is a share of votes, larger where more e-mails have it. The trees are shallow, and the
# forest is timid: where seven trees in ten say spam, it nearly always is.

share = frame.group_by("votes").agg(pl.col("spam").mean(), pl.len()).sort("votes").collect()
figure, axis = plt.subplots(figsize=(6, 4))
axis.scatter(share["votes"], share["spam"], s=4 * np.sqrt(share["len"]), color="tab:gray", label="what happened")
grid = np.linspace(0, 1, 201)
axis.plot(grid, fitted(grid), label="spline")
axis.set(xlabel="share of votes", ylabel="share that is spam")
axis.legend()
plt.show()
