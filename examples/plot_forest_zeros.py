"""
A forest's zeros and ones
=========================

A random forest votes. Where all trees agree it says 0 or 1, and a single such answer that is wrong makes the log loss
infinite. A calibrated forest knows what unanimity is worth.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import calibrant

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

forest = RandomForestClassifier(random_state=0)
raw = forest.fit(X, y).predict_proba(X_test)[:, 1]
calibrated = calibrant.CalibratedClassifier(forest).fit(X, y).predict_proba(X_test)[:, 1]

for name, p in (("votes", raw), ("calibrated", calibrated)):
    print(f"{name:12} log loss {calibrant.metrics.log_loss(y_test, p):.3f}, zeros and ones {(p % 1 == 0).sum()}")

# %%
# What the forest says, and what it means.

figure, axis = plt.subplots(figsize=(6, 4))
axis.scatter(raw, calibrated, c=y_test, cmap="coolwarm", s=12)
axis.set(xlabel="share of trees", ylabel="calibrated probability", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
plt.show()
