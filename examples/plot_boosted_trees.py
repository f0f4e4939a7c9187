"""
Boosted trees that have learned too much
========================================

Boosting drives the margin of training rows up long after the ranking has stopped improving. Too sure of themselves,
such trees lose money where probabilities are multiplied by amounts. No need to train again: one map repairs them.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split

import calibrant

loans = calibrant.datasets.load("german_credit")
X, y = loans.X, loans.y == loans.y.max()
X, X_rest, y, y_rest = train_test_split(X, y, test_size=0.6, random_state=0, stratify=y)
X_map, X_test, y_map, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0, stratify=y_rest)

trees = GradientBoostingClassifier(n_estimators=300, max_depth=4, random_state=0).fit(X, y)
said = trees.predict_proba(X_test)[:, 1]

# %%
# 300 rows with labels that the trees have not seen are enough for the map.

fitted = calibrant.fit("auto", trees.predict_proba(X_map)[:, 1], y_map, kind="probability")
print(fitted.why)
p = fitted(said)
for name, each in (("as trained", said), ("after the map", p)):
    print(f"{name:14} log loss {calibrant.metrics.log_loss(y_test, each):.3f}")

figure, axis = plt.subplots(figsize=(6, 5))
calibrant.plots.MapsDisplay([calibrant.curves.map_curve(fitted, said, name="auto")]).plot(axis)
axis.set(xlabel="what the trees say", ylabel="what it means")
plt.show()
