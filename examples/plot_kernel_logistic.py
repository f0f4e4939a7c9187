"""
Probabilities straight from a kernel
====================================

Kernel logistic regression has the flexibility of a support vector machine, and its answer is a probability, with a
band that says how sure it is of it. The duality gap certifies that the optimum has been found.
"""

import matplotlib.pyplot as plt
import numpy as np

import calibrant

X, y = calibrant.generators.crossing(300, random_state=0)
model = calibrant.KernelLogisticRegression(C="loo").fit(X, y)
print(f"C = {model.C_:.3g} by leave-one-out, duality gap {model.duality_gap_:.1e}")

low, high = X.min(axis=0) - 1, X.max(axis=0) + 1
first, second = np.meshgrid(np.linspace(low[0], high[0], 120), np.linspace(low[1], high[1], 120))
p = model.predict_proba(np.column_stack([first.ravel(), second.ravel()]))[:, 1].reshape(first.shape)

figure, axis = plt.subplots(figsize=(6, 5))
surface = axis.contourf(first, second, p, levels=np.linspace(0, 1, 11), cmap="coolwarm", alpha=0.7)
axis.scatter(*X.T, c=y, cmap="coolwarm", s=10, edgecolor="black", linewidth=0.3)
figure.colorbar(surface, label="probability of the second class")
plt.show()
