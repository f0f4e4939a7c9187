"""
One map per segment, pooled
===========================

A bank calls its customers; a machine that does not know the month scores them. What a score means changes with the
month. One map for all months misses that, a map for each has too few rows. Pooled maps lie in between: each month is
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
is_month = np.array([name.startswith("month=") for name in names])
month = np.array([name.removeprefix("month=") for name in names[is_month]])[bank.X[:, is_month].argmax(axis=1)]
X, y = bank.X[:, ~is_month & (names != "duration")], bank.y  # nobody knows the duration of a call before it
order = np.random.default_rng(0).permutation(len(y))
train, calibration, unseen = order[:5_000], order[5_000:6_500], order[6_500:]
machine = HistGradientBoostingClassifier(max_iter=20 if os.environ.get("CALIBRANT_SMALL") else 100, random_state=0)
scores = machine.fit(X[train], y[train]).decision_function(X)

rows = {"kind": "margin", "scores": scores[calibration], "y": y[calibration]}
one = calibrant.fit("platt", **rows)
warnings.filterwarnings("ignore", "y holds one class only")  # of the five rows of December
alone = calibrant.fit("platt", **rows, groups=month[calibration], pool=False)
pooled = calibrant.fit("platt", **rows, groups=month[calibration])
print(pooled)
print(pooled.why)

# %%
# The log loss of all unseen rows.

said = {
    "one map for all": one(scores[unseen]),
    "a map for each month": alone(scores[unseen], month[unseen]),
    "pooled maps": pooled(scores[unseen], month[unseen]),
}
for name, p in said.items():
    print(f"{name:22} {calibrant.metrics.log_loss(y[unseen], p):.4f}")

# %%
# Month by month: how much larger the mean probability is than the share of customers who said yes. Months are sorted
# by their number of rows in the calibration data, which is below their names.

months, counts = np.unique(month[calibration], return_counts=True)
months, counts = months[np.argsort(-counts)], np.sort(counts)[::-1]
figure, axis = plt.subplots(figsize=(8, 4))
for (name, p), marker, colour in zip(said.items(), "so^", ["tab:gray", "tab:orange", "tab:blue"], strict=True):
    off = [(p - y[unseen])[month[unseen] == each].mean() for each in months]
    axis.plot(range(len(months)), off, marker, color=colour, label=name)
axis.axhline(0.0, color="black", linewidth=0.8)
axis.set_xticks(range(len(months)), [f"{each}\n{count}" for each, count in zip(months, counts, strict=True)])
axis.set(ylabel="said minus happened")
axis.legend()
figure.tight_layout()
plt.show()
