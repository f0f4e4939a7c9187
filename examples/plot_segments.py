"""
One map per segment, pooled
===========================

A bank calls its customers, and a machine scores them. Does a score mean the same in every month, and for every job?
One map for all segments cannot tell. A map for each has too few rows. Pooled maps lie in between: each segment is
drawn towards all of them, as far as they agree.
"""

import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import calibrant

bank = calibrant.datasets.load("bank_marketing")
names = np.array(bank.features)


def find(column):
    """Return which features hold a column, and its value in each row."""
    held = np.array([name.startswith(f"{column}=") for name in names])
    values = np.array([name.partition("=")[2] for name in names[held]])
    return held, values[bank.X[:, held].argmax(axis=1)]


is_month, month = find("month")
is_job, job = find("job")
known = ~is_month & ~is_job & (names != "duration")  # nobody knows the duration of a call before it
X, y = bank.X[:, known], bank.y
order = np.random.default_rng(0).permutation(len(y))
train, calibration, unseen = order[:5_000], order[5_000:6_500], order[6_500:]
machine = HistGradientBoostingClassifier(max_iter=20 if os.environ.get("CALIBRANT_SMALL") else 100, random_state=0)
scores = machine.fit(X[train], y[train]).decision_function(X)

# %%
# The log loss of all unseen rows, with the segments taken by month and by job. The machine knows neither.

warnings.simplefilter("ignore", UserWarning)  # a small segment alone may hold one class, or have a falling sigmoid
rows = {"kind": "margin", "scores": scores[calibration], "y": y[calibration]}
said = {}
for name, segment in {"month": month, "job": job}.items():
    one = calibrant.fit("platt", **rows)
    alone = calibrant.fit("platt", **rows, groups=segment[calibration], pool=False)
    pooled = calibrant.fit("platt", **rows, groups=segment[calibration])
    said[name] = {
        "one map for all": one(scores[unseen]),
        f"a map for each {name}": alone(scores[unseen], segment[unseen]),
        "pooled maps": pooled(scores[unseen], segment[unseen]),
    }
    print(f"by {name}: {pooled}")
    for kind, p in said[name].items():
        print(f"  {kind:22} {calibrant.metrics.log_loss(y[unseen], p):.4f}")

# %%
# By month the maps differ, and pooling gains most. By job they hardly do: a map for each job is worse than one map for
# all, while pooled maps stay level with it. That is the use of pooling: you need not know beforehand which of the two
# you have. We looked at both before we chose the month for the picture, so do not read its gain as what to expect;
# the page on :doc:`maps by segment </groups>` measures that on many settings.
#
# Month by month: how much larger the mean probability is than the share of customers who said yes. Months are sorted
# by their number of rows in the calibration data, which is below their names.

months, counts = np.unique(month[calibration], return_counts=True)
months, counts = months[np.argsort(-counts)], np.sort(counts)[::-1]
figure, axis = plt.subplots(figsize=(8, 4))
for (name, p), marker, colour in zip(said["month"].items(), "so^", ["tab:gray", "tab:orange", "tab:blue"], strict=True):
    off = [(p - y[unseen])[month[unseen] == each].mean() for each in months]
    axis.plot(range(len(months)), off, marker, color=colour, label=name)
axis.axhline(0.0, color="black", linewidth=0.8)
axis.set_xticks(range(len(months)), [f"{each}\n{count}" for each, count in zip(months, counts, strict=True)])
axis.set(ylabel="said minus happened")
axis.legend()
figure.tight_layout()
plt.show()
