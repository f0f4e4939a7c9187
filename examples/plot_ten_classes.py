"""
A network's ten classes
=======================

A small network reads digits, and is too sure of what it reads. One temperature for all classes is the usual repair;
``auto`` also learns which classes are confused, and leaves alone what is right.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import calibrant

X, y = load_digits(return_X_y=True)
X, X_rest, y, y_rest = train_test_split(X / 16, y, test_size=0.7, random_state=0, stratify=y)
X_map, X_test, y_map, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0, stratify=y_rest)
network = MLPClassifier((30,), alpha=0, max_iter=2000, random_state=0).fit(X, y)
P_map, P_test = network.predict_proba(X_map), network.predict_proba(X_test)

losses = {"as it is": calibrant.metrics.log_loss(y_test, P_test)}
for method in ("temperature", "matrix", "auto"):
    fitted = calibrant.fit(method, P_map, y_map, kind="probability")
    losses[method] = calibrant.metrics.log_loss(y_test, fitted(P_test))
print(fitted.why)

# %%
# Smaller is better.

figure, axis = plt.subplots(figsize=(6, 2.5))
axis.barh(list(losses), list(losses.values()), color="tab:blue")
axis.invert_yaxis()
axis.set_xlabel("log loss of unseen digits")
figure.tight_layout()
plt.show()
