"""
Words and a linear machine: is it spam?
=======================================

``LinearSVC`` is the workhorse for text, and has no probabilities. Its margins become some, by a curve that is learned
from e-mails it has not seen.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import calibrant

mail = calibrant.datasets.load("spambase")  # how often 48 words and 6 characters occur in 4,601 e-mails
rows = 1500 if os.environ.get("CALIBRANT_SMALL") else 4601
keep = np.random.default_rng(0).permutation(len(mail.y))[:rows]
X, y = np.log1p(mail.X[keep]), mail.y[keep] == mail.y.max()
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

machine = make_pipeline(StandardScaler(), LinearSVC())
spam = calibrant.CalibratedClassifier(machine).fit(X, y)
P = spam.predict_proba(X_test)
print(f"log loss {calibrant.metrics.log_loss(y_test, P):.3f}")

# %%
# The map: margins of unseen e-mails of both kinds, and the probability of spam.

margin = spam.estimator_.decision_function(X_test)
fitted = spam.calibrated_[0][1].maps[0]
figure, axis = plt.subplots(figsize=(7, 5))
calibrant.plots.ScoresDisplay.from_predictions(y_test, margin, fitted, ax=axis)
plt.show()
