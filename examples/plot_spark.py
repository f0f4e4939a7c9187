"""
A table on Spark
================

The workers group and sum, calibrant solves, and the map goes back as a column of the same DataFrame. Where Spark or
Java is not installed, this page says so and asks DuckDB instead: the calls are the same, and so are the numbers.
"""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow
import pyarrow.parquet

from calibrant import engines

n = 5_000 if os.environ.get("CALIBRANT_SMALL") else 200_000
rng = np.random.default_rng(2)
score = rng.normal(size=n)
region = rng.choice(["north", "south", "east"], n)
paid = rng.random(n) < 1 / (1 + np.exp(1.0 - 1.8 * score - 0.7 * (region == "south")))
file = Path(tempfile.mkdtemp()) / "scores.parquet"
pyarrow.parquet.write_table(pyarrow.table({"score": score, "paid": paid, "region": region}), file)

with ExitStack() as stack:
    try:
        table = engines.read_spark(stack.enter_context(engines.open_spark("local[1]")), file)
    except (ImportError, ValueError) as reason:
        print(f"Without Spark, DuckDB reads the file. {reason}")
        table = str(file)
    fitted = engines.fit("platt", table, score="score", label="paid", kind="margin")
    by_region = engines.fit("platt", table, score="score", label="paid", kind="margin", by="region")
    scored = engines.apply(fitted, table, score="score", into="p")
    print(engines.assess(scored, probability="p", label="paid", draws=100).answers.good.claim)
print(fitted)
print(by_region)

# %%
# The map of all rows, and those of the regions.

grid = np.linspace(-3, 3, 121)
figure, axis = plt.subplots(figsize=(6, 4))
for each in ("north", "south", "east"):
    axis.plot(grid, by_region(grid, np.repeat(each, len(grid))), label=each)
axis.plot(grid, fitted(grid), color="black", linestyle="--", label="all regions")
axis.set(xlabel="score", ylabel="P(paid)")
axis.legend()
plt.show()
