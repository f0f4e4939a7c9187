"""
From Python to a database and to any language
=============================================

A fitted map is a few numbers and a formula. Here it leaves Python in three ways: as JSON, as SQL that DuckDB runs, and
as an ONNX model. All give the same probabilities.
"""

import tempfile
from pathlib import Path

import duckdb
import matplotlib.pyplot as plt
import numpy as np
import onnxruntime

import calibrant

rng = np.random.default_rng(0)
margin = rng.normal(size=800)
y = rng.random(800) < 1 / (1 + np.exp(1 - 2 * margin))
fitted = calibrant.fit("auto", margin, y)

file = Path(tempfile.mkdtemp()) / "map.json"
calibrant.save(fitted, file)
print(f"JSON: {file.stat().st_size:,} bytes")

grid = np.linspace(-3, 3, 61)
formula = calibrant.sql(fitted, "f", dialect="duckdb")
by_sql = duckdb.sql(f"select f, {formula} as p from (select unnest($1) as f)", params=[grid.tolist()]).fetchnumpy()["p"]

model = onnxruntime.InferenceSession(calibrant.onnx(fitted).SerializeToString())
(inputs,) = model.get_inputs()
by_onnx = model.run(None, {inputs.name: grid})[0][:, 1]

for name, p in (("SQL", by_sql), ("ONNX", by_onnx)):
    print(f"{name} differs from Python by {np.abs(p - fitted(grid)).max():.1e}")

# %%
# One curve, drawn four times.

figure, axis = plt.subplots(figsize=(6, 4))
axis.plot(grid, fitted(grid), linewidth=5, alpha=0.3, label="Python")
axis.plot(grid, by_sql, linestyle="--", label="SQL")
axis.plot(grid, by_onnx, linestyle="-.", label="ONNX")
axis.plot(grid, calibrant.load(file)(grid), linestyle=":", color="black", label="JSON, loaded again")
axis.set(xlabel="margin", ylabel="probability")
axis.legend()
plt.show()
