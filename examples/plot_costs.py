"""
A threshold from costs
======================

To grant a loan that is not paid back costs five times as much as to refuse a good one: so says the documentation of the
German credit data. With calibrated probabilities the threshold needs no search: it is 1/6.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import calibrant

loans = calibrant.datasets.load("german_credit")
X, y = loans.X, (loans.y == loans.y.max()).astype(int)  # 1: bad
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
costs = [[0, 1], [5, 0]]  # a row per class, a column per decision

print(f"refuse from P(bad) = {calibrant.decisions.elkan_threshold(costs):.3f}")
P = calibrant.CalibratedClassifier(RandomForestClassifier(100, random_state=0)).fit(X, y).predict_proba(X_test)
taken = calibrant.decisions.confusion(y_test, P, costs)
print(f"cost per 100 loans {100 * taken.cost / len(y_test):.0f}")

# %%
# What other thresholds would have cost on these loans.

thresholds = np.linspace(0.01, 0.99, 99)
cost = [(5 * ((P[:, 1] < t) & (y_test == 1)) + ((P[:, 1] >= t) & (y_test == 0))).mean() * 100 for t in thresholds]
figure, axis = plt.subplots(figsize=(7, 4))
axis.plot(thresholds, cost)
axis.axvline(1 / 6, color="black", linestyle=":", label="1/6, from the costs alone")
axis.set(xlabel="refuse from this probability of a bad loan", ylabel="cost per 100 loans", ylim=(0, None))
axis.legend()
plt.show()
