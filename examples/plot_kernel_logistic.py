"""
Probabilities straight from a kernel
====================================

Kernel logistic regression has the flexibility of a support vector machine, and its answer is a probability, with a
band that says how sure it is of it. The duality gap certifies that the optimum has been found. Here for tumours of the
breast, by two of their measures, so that it can be drawn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import calibrant

tumours = load_breast_cancer()
measures = ["mean texture", "mean concave points"]
X = StandardScaler().fit_transform(tumours.data[:, [list(tumours.feature_names).index(each) for each in measures]])
y = 1 - tumours.target  # 1 is malignant
model = calibrant.KernelLogisticRegression().fit(X, y)
print(f"C = {model.C_:.3g} by leave-one-out, duality gap {model.duality_gap_:.1e}")

low, high = X.min(axis=0) - 1, X.max(axis=0) + 1
first, second = np.meshgrid(np.linspace(low[0], high[0], 120), np.linspace(low[1], high[1], 120))
places = np.column_stack([first.ravel(), second.ravel()])
p = model.predict_proba(places)[:, 1].reshape(first.shape)
band = model.predict_proba(places, confidence=0.95)[:, 1]

# %%
# On the left the probability, on the right how far the ends of its band are apart: little is known between the classes
# and where there are no tumours.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharey=True, layout="constrained")
width = (band[:, 1] - band[:, 0]).reshape(first.shape)
drawn = {"probability of a malignant tumour": (p, "coolwarm"), "width of its band": (width, "viridis")}
for axis, (name, (values, colours)) in zip(axes, drawn.items(), strict=True):
    surface = axis.contourf(first, second, values, levels=np.linspace(0, 1, 11), cmap=colours, alpha=0.7)
    axis.scatter(*X.T, c=y, cmap="coolwarm", s=8, edgecolor="black", linewidth=0.3)
    figure.colorbar(surface, label=name)
    axis.set(xlabel=f"{measures[0]}, standardised")
axes[0].set_ylabel(f"{measures[1]}, standardised")
plt.show()
