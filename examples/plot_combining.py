"""
A forest and a support vector machine, together
===============================================

Two machines that err in different places are better than either. Their probabilities can be averaged, but only if both
mean the same by "0.8": calibrate first, then combine. "mean" averages the two; "pool" learns the weight of each from
rows that neither has seen.
"""

import os

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibrant

sonar = calibrant.datasets.load("sonar")
losses = {"forest": 0.0, "SVM": 0.0, "mean": 0.0, "pool": 0.0}
splits = 1 if os.environ.get("CALIBRANT_SMALL") else 4
for seed in range(splits):
    X, X_test, y, y_test = train_test_split(sonar.X, sonar.y, test_size=0.5, random_state=seed, stratify=sonar.y)
    forest = calibrant.CalibratedClassifier(RandomForestClassifier(60, random_state=0))
    machine = calibrant.CalibratedClassifier(make_pipeline(StandardScaler(), SVC()))
    together = {
        "forest": forest,
        "SVM": machine,
        "mean": calibrant.CombiningClassifier([forest, machine]),
        "pool": calibrant.CombiningClassifier([forest, machine], rule="log"),
    }
    for name, model in together.items():
        P = model.fit(X, y).predict_proba(X_test)
        losses[name] += calibrant.metrics.log_loss(y_test, P) / splits
print({name: round(loss, 3) for name, loss in losses.items()})

# %%
# Echoes of metal and of rock, 208 in all: trained on one half, tested on the other, means of four such splits. Both
# combinations are better than either machine.

figure, axis = plt.subplots(figsize=(6, 2.5))
axis.barh(list(losses), list(losses.values()), color=["tab:gray", "tab:gray", "tab:blue", "tab:blue"])
axis.invert_yaxis()
axis.set_xlabel("log loss of unseen rows")
figure.tight_layout()
plt.show()
