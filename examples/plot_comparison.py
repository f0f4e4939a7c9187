"""
Reading a comparison honestly
=============================

Of many methods one always comes out first. Whether it is better than the second is another question: the same folds
say how far their difference would move by chance.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.naive_bayes import GaussianNB

import calibrant

mail = calibrant.datasets.load("spambase")
y = mail.y == mail.y.max()
rng = np.random.default_rng(0)
order = rng.permutation(len(y))
train, rest = order[:1000], order[1000:]
if os.environ.get("CALIBRANT_SMALL"):
    rest = rest[:800]
model = GaussianNB().fit(np.log1p(mail.X[train]), y[train])
said = model.predict_proba(np.log1p(mail.X[rest]))[:, 1]

methods = ["platt", "temperature", "kull_beta", "isotonic", "spline", "auto"]
found = calibrant.compare_scores(said, y[rest], kind="probability", methods=methods, progress=False)
print(found.verdict)

# %%
# The log loss of each method in each of ten folds: lines that cross belong to methods that chance could swap.

folds = {}
for name in methods:
    losses = []
    for fold in range(10):
        test = np.arange(len(rest)) % 10 == fold
        fitted = calibrant.fit(name, said[~test], y[rest][~test], kind="probability")
        losses.append(calibrant.metrics.log_loss(y[rest][test], fitted(said[test])))
    folds[name] = losses
figure, axis = plt.subplots(figsize=(7, 4))
for name, losses in folds.items():
    axis.plot(range(1, 11), losses, marker="o", markersize=3, label=name)
axis.set(xlabel="fold", ylabel="log loss", yscale="log")
axis.legend(ncols=2)
plt.show()
