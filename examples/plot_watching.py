"""
Watching a deployed map
=======================

The calls of a bank are stored in the order in which they were made, from 2008 to 2010. A map fitted on the first of
them is watched on the rest, a thousand rows at a time. One may look after every batch, for ever: the probability of
ever raising a false alarm is at most 5 %. Here the alarm is a real one.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import calibrant

bank = calibrant.datasets.load("bank_marketing")
X = bank.X[:, np.array(bank.features) != "duration"]  # of the call, which nobody knows before it
y = bank.y
machine = HistGradientBoostingClassifier(max_iter=20 if os.environ.get("CALIBRANT_SMALL") else 60, random_state=0)
scores = machine.fit(X[:12_000], y[:12_000]).decision_function(X)
fitted = calibrant.fit("platt", scores[12_000:20_000], y[12_000:20_000], kind="margin")

state = None
for first in range(20_000, 34_000, 1_000):
    batch = slice(first, first + 1_000)
    state = calibrant.watch(fitted, scores[batch], y[batch], batch=f"call {first:,}", state=state)
print(state.verdict)

# %%
# The verdict says since when, how far off the map is, and what repairs it. The shares behind it:

late = slice(31_000, 34_000)
print(f"said {fitted(scores[late]).mean():.1%}, happened {y[late].mean():.1%}")

# %%
# The evidence over time, above, and the shift of the log-odds of each batch.

figure = plt.figure(figsize=(8, 5), layout="constrained")
calibrant.plots.WatchDisplay(state).plot(figure.add_subplot())
plt.show()
