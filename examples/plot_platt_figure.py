"""
Platt's figures, for your data
==============================

Platt (1999) drew two pictures: the margins of both classes, and the share of positives beside the sigmoid. They answer
whether a sigmoid is the right shape at all. Here for a support vector machine on the Pima diabetes data.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibrant

data = calibrant.datasets.load("diabetes")
y = data.y == data.y.max()
margin = cross_val_predict(make_pipeline(StandardScaler(), SVC()), data.X, y, cv=5, method="decision_function")

fitted = calibrant.fit("platt", margin, y)
print(fitted)
figure, axis = plt.subplots(figsize=(7, 5))
calibrant.plots.ScoresDisplay.from_predictions(y, margin, fitted, ax=axis)
plt.show()
