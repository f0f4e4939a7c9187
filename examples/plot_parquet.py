"""
A Parquet file, where it lies
=============================

Scores in a file need not be read into memory: DuckDB groups and sums, calibrant solves, and the map goes back to the
file as a formula. The same three lines serve a thousand rows and a billion.
"""

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow
import pyarrow.parquet

import calibrant

n = 20_000 if os.environ.get("CALIBRANT_SMALL") else 1_000_000
rng = np.random.default_rng(0)
score = rng.normal(size=n)
bought = rng.random(n) < 1 / (1 + np.exp(2 - 1.5 * score))
folder = Path(tempfile.mkdtemp())
pyarrow.parquet.write_table(pyarrow.table({"score": score, "bought": bought}), folder / "scores.parquet")

fitted = calibrant.engines.fit("platt", str(folder / "scores.parquet"), score="score", label="bought")
print(fitted)

# %%
# The probabilities are a lazy column, and the evidence comes from the same file.

table = calibrant.engines.apply(fitted, str(folder / "scores.parquet"), score="score")
found = calibrant.engines.assess(table, probability="probability", label="bought")
print(found.verdict)

figure, axis = plt.subplots(figsize=(6, 4))
calibrant.plots.MapsDisplay([calibrant.curves.map_curve(fitted, score[:1000], name="Platt's sigmoid")]).plot(axis)
plt.show()
