"""
A diagnosis that may say "I do not know"
========================================

Where a wrong answer is costly, a doctor would rather see the doubtful cases. With calibrated probabilities the rule is
one number: refuse where no class is sure enough. How many cases that leaves, and how many errors, is a curve.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibrant

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
model = calibrant.CalibratedClassifier(make_pipeline(StandardScaler(), SVC())).fit(X, y)
P = model.predict_proba(X_test)

for threshold in (0.5, 0.8, 0.95, 0.99):
    decided = calibrant.decisions.reject(P, threshold=threshold)
    kept = decided != calibrant.decisions.REJECT
    wrong = (decided != y_test)[kept].sum()
    print(f"sure by {threshold:.0%}: {kept.mean():.0%} of the cases decided, {wrong} of {kept.sum()} wrong")

# %%
# If refusing costs 5 % of a mistake, the threshold follows: 1 - 0.05.

print(calibrant.decisions.chow_threshold(0.05))
figure, axis = plt.subplots(figsize=(6, 4))
calibrant.plots.ErrorRejectDisplay.from_predictions(y_test, P, ax=axis)
plt.show()
