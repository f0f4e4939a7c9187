"""
A Parquet file, where it lies
=============================

Scores in a file need not be read into memory: DuckDB groups and sums, calibrant solves, and the map goes back to the
file as a formula. Here the file holds forty thousand calls of a bank, with what a machine made of each; the same lines
serve a billion.
"""

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow
import pyarrow.parquet
from sklearn.ensemble import HistGradientBoostingClassifier

import calibrant

bank = calibrant.datasets.load("bank_marketing")
X = bank.X[:, np.array(bank.features) != "duration"]  # of the call, which nobody knows before it
order = np.random.default_rng(0).permutation(len(X))
train, rest = order[:5_000], order[5_000 : 15_000 if os.environ.get("CALIBRANT_SMALL") else None]
score = HistGradientBoostingClassifier(random_state=0).fit(X[train], bank.y[train]).decision_function(X[rest])
subscribed = bank.y[rest] == bank.y.max()

folder = Path(tempfile.mkdtemp())
half = len(rest) // 2
for name, rows in {"first": slice(half), "second": slice(half, None)}.items():
    part = pyarrow.table({"score": score[rows], "subscribed": subscribed[rows]})
    pyarrow.parquet.write_table(part, folder / f"{name}.parquet")

# %%
# The map is fitted to the first file. Nothing of the length of the file reaches Python.

fitted = calibrant.engines.fit("auto", folder / "first.parquet", score="score", label="subscribed", kind="margin")
print(fitted)

# %%
# In the second file the probabilities are a lazy column, and the evidence comes from it, too.

table = calibrant.engines.apply(fitted, folder / "second.parquet", score="score")
found = calibrant.engines.assess(table, probability="probability", label="subscribed")
print(found.verdict)

figure, axis = plt.subplots(figsize=(5, 5.4))
calibrant.plots.ReliabilityDisplay(found.curve).plot(axis)
plt.show()
