"""
Every picture, and pictures for a paper
=======================================

Each display draws a record that was computed before, on your axes or on its own figure. `style` is "screen", "paper",
"slides", any style of matplotlib, or a dictionary of settings; `figure.savefig("name.pdf")` and `.svg` are vectors.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant
from calibrant import plots

DRAWS = 50 if os.environ.get("CALIBRANT_SMALL") else 500
X, y = load_breast_cancer(return_X_y=True)
y = 1 - y  # 1 is malignant
p = cross_val_predict(GaussianNB(), X[:, :10], y, cv=10, method="predict_proba")[:, 1]
repaired = cross_val_predict(
    calibrant.Calibrator("temperature", kind="probability"), p, y, cv=10, method="predict_proba"
)

# %%
# Two systems on one axis: a column of numbers each, the same histogram below.

figure, axis = plt.subplots(figsize=(4.6, 5.6), layout="constrained")
for name, forecast in (("naive Bayes", p), ("repaired", repaired[:, 1])):
    plots.ReliabilityDisplay.from_predictions(y, forecast, name=name, ax=axis, draws=DRAWS)
plt.show()

# %%
# Two pictures side by side in the column of a paper: the map with the scores it was fitted to (Platt 1999, Figures 1
# and 2), and what is left of the errors when the doubtful rows are refused.

figure, axis = plt.subplots(figsize=(4.2, 4.0), layout="constrained")
logit = np.log(np.clip(p, 1e-12, 1.0) / np.clip(1.0 - p, 1e-12, 1.0))
sigmoid = calibrant.fit("platt", logit, y, kind="logit")
plots.ScoresDisplay.from_predictions(y, logit, sigmoid, ax=axis, style="paper", name="Platt's sigmoid")
plt.show()

figure, axis = plt.subplots(figsize=(4.2, 3.0), layout="constrained")
for name, forecast in (("naive Bayes", p), ("repaired", repaired[:, 1])):
    plots.ErrorRejectDisplay.from_predictions(y, forecast, name=name, ax=axis, style="paper")
plt.show()

# %%
# Several maps of the same scores.

figure, axis = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
methods = ("platt", "isotonic", "spline", "auto")
plots.MapsDisplay.from_predictions(y, logit, methods, kind="logit", ax=axis, style={"font.size": 9})
plt.show()

# %%
# Ranks of methods over data sets, with the critical difference: the log loss, out of fold, of what logistic regression
# says of eight public data sets. Eight are too few to tell apart what one bar joins.

scores = {}
for name in ("diabetes", "ionosphere", "liver", "sonar", "german_credit", "charlesbookclub", "fundraising", "tayko"):
    data = calibrant.datasets.load(name)
    machine = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    scores[name] = cross_val_predict(machine, data.X, data.y, cv=5, method="decision_function"), data.y
methods = ["auto", "spline", "platt", "isotonic", "gauss"]
found = calibrant.compare_scores(scores, kind="margin", methods=methods, metrics=["log_loss"], cv=5, progress=False)
ranks = found.means[methods].rank(axis=1)
figure, axis = plt.subplots(figsize=(7.2, 2.6), layout="constrained")
plots.RanksDisplay.from_ranks(ranks, methods, ax=axis)
plt.show()

# %%
# A watch: the evidence of drift over batches. The e-mails are real, the change is made by us: from the sixth week on
# only one spam in eight arrives.

mail = calibrant.datasets.load("spambase")
order = np.random.default_rng(0).permutation(len(mail.y))
words, spam = np.log1p(mail.X[order]), (mail.y == mail.y.max())[order]
score = LogisticRegression(max_iter=2000).fit(words[:1_000], spam[:1_000]).decision_function(words)
known = calibrant.fit("platt", score[1_000:2_500], spam[1_000:2_500], kind="margin")
state = None
for week in range(12):
    rows = np.arange(2_500 + 170 * week, 2_670 + 170 * week)
    if week >= 5:
        rows = rows[~spam[rows] | (rows % 8 == 0)]
    state = calibrant.watch(known, score[rows], spam[rows], batch=f"week {week + 1}", state=state)
figure, axis = plt.subplots(figsize=(6.4, 5.0), layout="constrained")
plots.WatchDisplay(state).plot(axis)
plt.show()

# %%
# One diagram per class, on a figure of its own, which a notebook shows and `figure_.savefig("classes.svg")` saves.

X, y = load_digits(return_X_y=True)
P = cross_val_predict(LogisticRegression(max_iter=2000), X / 16, y, cv=3, method="predict_proba")
display = plots.ReliabilityPanelsDisplay.from_predictions(y, P, draws=DRAWS, style="paper")
display
