"""
A Polars pipeline
=================

The table may be anything that narwhals knows: here a lazy frame of Polars. The map is applied as one more expression
of the query plan; nothing runs until you collect.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import calibrant

n = 5_000 if os.environ.get("CALIBRANT_SMALL") else 200_000
rng = np.random.default_rng(1)
votes = rng.beta(0.4, 0.8, n).round(2)  # the share of a hundred trees
frame = pl.LazyFrame({"votes": votes, "left": rng.random(n) < 0.05 + 0.6 * votes})

fitted = calibrant.engines.fit("spline", frame, score="votes", label="left", kind="probability")
print(fitted)
scored = calibrant.engines.apply(fitted, frame, score="votes", into="p")
top = scored.sort("p", descending=True).head(3).collect()
print(top)

# %%
# What the votes mean.

share = frame.group_by("votes").agg(pl.col("left").mean(), pl.len()).sort("votes").collect()
figure, axis = plt.subplots(figsize=(6, 4))
axis.scatter(share["votes"], share["left"], s=np.sqrt(share["len"]), color="tab:gray", label="what happened")
grid = np.linspace(0, 1, 201)
axis.plot(grid, fitted(grid), label="spline")
axis.set(xlabel="share of votes", ylabel="share that left")
axis.legend()
plt.show()
