"""
Reading a comparison honestly
=============================

Of many methods one always comes out first. Whether it is better than the second is another question: the same folds
say how far their difference would move by chance.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import t
from sklearn.ensemble import RandomForestClassifier

import calibrant

mail = calibrant.datasets.load("spambase")
y = mail.y == mail.y.max()
order = np.random.default_rng(0).permutation(len(y))
train, rest = order[:1_500], order[1_500:]
if os.environ.get("CALIBRANT_SMALL"):
    rest = rest[:800]
forest = RandomForestClassifier(100, random_state=0).fit(mail.X[train], y[train])
votes = forest.predict_proba(mail.X[rest])[:, 1]

methods = ["platt", "temperature", "kull_beta", "spline", "auto", "isotonic"]
found = calibrant.compare_scores(votes, y[rest], kind="probability", methods=methods, progress=False)

# %%
# The verdict is three answers. Is it good enough?

print(found.answers.good)

# %%
# What is wrong? Which methods are within noise of the best, and which fail.

print(found.answers.wrong)

# %%
# What to do next? Not "use the first", but "use the simplest of those that nothing tells from the first".

print(found.answers.next)

# %%
# The intervals behind it: each method's log loss minus that of the best mean, over ten folds, with a variance that
# allows for training rows that folds share (Nadeau & Bengio 2003). An interval that reaches 0 says that chance could
# swap the two. A method that called impossible what happened has an infinite log loss, and is not drawn.

table = found.scores.pivot_table(index="fold", columns="method", values="log_loss", sort=False)
table = table[[name for name in table if np.isfinite(table[name]).all()]]
best = table[table.mean().idxmin()]
figure, axis = plt.subplots(figsize=(7, 3))
for place, name in enumerate(table.mean().sort_values().index):
    test = calibrant.inference.corrected_t(table[name], best, ratio=1 / 9)
    reach = t.ppf(0.975, test.degrees_of_freedom) * test.standard_error
    axis.errorbar(test.difference, place, xerr=reach, fmt="o", color="tab:blue", capsize=3)
axis.axvline(0.0, color="black", linewidth=0.8)
axis.set_yticks(range(table.shape[1]), table.mean().sort_values().index)
axis.invert_yaxis()
axis.set(xlabel=f"log loss minus that of {best.name}")
figure.tight_layout()
plt.show()
