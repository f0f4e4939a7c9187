"""
A rare class: who will subscribe?
=================================

One customer in nine of a Portuguese bank subscribed after a call. To find them, the rare class is often given more
weight in training. That moves the decision, and ruins the probabilities: they say what would happen in a world where
both classes are equally frequent. Calibration brings back this world.
"""

import os

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import calibrant

data = calibrant.datasets.load("bank_marketing")
X, y = data.X, data.y == data.y.max()
rows = 6000 if os.environ.get("CALIBRANT_SMALL") else len(y)
X, X_test, y, y_test = train_test_split(X[:rows], y[:rows], test_size=0.5, random_state=0, stratify=y[:rows])

weighted = HistGradientBoostingClassifier(class_weight="balanced", max_iter=60, random_state=0)
said = weighted.fit(X, y).predict_proba(X_test)[:, 1]
print(f"said on average {said.mean():.1%}, happened {y_test.mean():.1%}")

# %%
# ``CalibratedClassifier`` scores rows that each machine has not seen, and fits the map to them.

calibrated = calibrant.CalibratedClassifier(weighted).fit(X, y).predict_proba(X_test)[:, 1]
print(f"calibrated {calibrated.mean():.1%}")

figure, axes = plt.subplots(1, 2, figsize=(10, 5), sharey=True)
for axis, p, title in zip(axes, (said, calibrated), ("as trained", "calibrated"), strict=True):
    calibrant.plots.ReliabilityDisplay.from_predictions(y_test, p, ax=axis)
    axis.set_title(f"{title}: log loss {calibrant.metrics.log_loss(y_test, p):.3f}")
plt.show()
