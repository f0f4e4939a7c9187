"""
When the classes become rarer
=============================

A filter is calibrated where 39 % of the mail is spam, and deployed where 5 % is. Its probabilities are then wrong,
though nothing else has changed. If the new share is known, the correction is a formula; if not, it can be estimated
from mail without labels (Saerens, Latinne & Decaestecker 2002).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant

mail = calibrant.datasets.load("spambase")
X, y = np.log1p(mail.X), (mail.y == mail.y.max()).astype(int)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.6, random_state=0, stratify=y)
rng = np.random.default_rng(0)
kept = (y_test == 0) | (rng.random(len(y_test)) < 0.08)  # most of the spam never arrives
X_new, y_new = X_test[kept], y_test[kept]

model = calibrant.CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y)
P = model.predict_proba(X_new)
old = [1 - y.mean(), y.mean()]
found = calibrant.decisions.saerens(P, old)  # no label of the new mail is used
corrected = calibrant.decisions.prior_shift(P, old, found.priors)
print(f"spam: {y.mean():.1%} then, {y_new.mean():.1%} now, estimated {found.priors[1]:.1%}")

# %%
# Before and after.

figure, axes = plt.subplots(1, 2, figsize=(10, 5), sharey=True)
for axis, p, title in zip(axes, (P, corrected), ("as calibrated", "corrected"), strict=True):
    calibrant.plots.ReliabilityDisplay.from_predictions(y_new, p[:, 1], ax=axis)
    axis.set_title(f"{title}: log loss {calibrant.metrics.log_loss(y_new, p):.3f}")
plt.show()
