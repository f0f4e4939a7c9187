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
from sklearn.ensemble import HistGradientBoostingClassifier

import calibrant
from calibrant import engines

bank = calibrant.datasets.load("bank_marketing")
names = np.array(bank.features)
contacts = np.array([name.startswith("contact=") for name in names])  # by mobile telephone, by another, not known
contact = np.array([name.partition("=")[2] for name in names[contacts]])[bank.X[:, contacts].argmax(axis=1)]
X = bank.X[:, ~contacts & (names != "duration")]
order = np.random.default_rng(0).permutation(len(X))
train, rest = order[:5_000], order[5_000 : 10_000 if os.environ.get("CALIBRANT_SMALL") else None]
score = HistGradientBoostingClassifier(random_state=0).fit(X[train], bank.y[train]).decision_function(X[rest])
calls = {"score": score, "subscribed": bank.y[rest] == bank.y.max(), "contact": contact[rest]}
file = Path(tempfile.mkdtemp()) / "calls.parquet"
pyarrow.parquet.write_table(pyarrow.table(calls), file)

with ExitStack() as stack:
    try:
        table = engines.read_spark(stack.enter_context(engines.open_spark("local[1]")), file)
    except (ImportError, ValueError) as reason:
        print(f"Without Spark, DuckDB reads the file. {reason}")
        table = str(file)
    columns = {"score": "score", "label": "subscribed", "kind": "margin"}
    fitted = engines.fit("platt", table, **columns)
    by_contact = engines.fit("platt", table, **columns, by="contact")
    scored = engines.apply(by_contact, table, score="score", into="p")
    print(engines.assess(scored, probability="p", label="subscribed", draws=100).answers.good.claim)
print(fitted)
print(by_contact)

# %%
# The map of all calls, and those of each kind of telephone, which the machine does not know: the same score means least
# where the kind was not recorded.

grid = np.linspace(*np.quantile(score, [0.001, 0.999]), 121)
figure, axis = plt.subplots(figsize=(6, 4))
for each in ("cellular", "telephone", "unknown"):
    axis.plot(grid, by_contact(grid, np.repeat(each, len(grid))), label=each)
axis.plot(grid, fitted(grid), color="black", linestyle="--", label="all calls")
axis.set(xlabel="score", ylabel="P(subscribed)")
axis.legend()
plt.show()
