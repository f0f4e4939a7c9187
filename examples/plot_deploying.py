"""
From Python to a database and to any language
=============================================

A fitted map is a few numbers and a formula. Here the map of a tumour's score leaves Python in three ways: as JSON, as
SQL that DuckDB runs, and as an ONNX model. All give the same probabilities.
"""

import tempfile
from pathlib import Path

import duckdb
import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import calibrant

X, y = load_breast_cancer(return_X_y=True)
machine = make_pipeline(StandardScaler(), LinearSVC(C=0.01))
margin = cross_val_predict(machine, X[:, :10], 1 - y, cv=5, method="decision_function")  # 1 is malignant
fitted = calibrant.fit("auto", margin, 1 - y, kind="margin")

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
axis.set(xlabel="margin", ylabel="probability that a tumour is malignant")
axis.legend()
plt.show()
