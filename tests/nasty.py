"""Samples that break fits: dominating ties, rare classes, weights and scales of every size, clusters far apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

__all__ = ["Nasty", "nasty_probabilities", "nasty_samples"]


@dataclass(frozen=True, slots=True)
class Nasty:
    """Scores, labels and weights (None where every row counts once), with the recipe that made them."""

    score: np.ndarray
    label: np.ndarray
    weight: np.ndarray | None
    recipe: str

    def weights(self):
        return np.ones(len(self.score)) if self.weight is None else self.weight


def dominating_tie(rng):
    """One score holds thousands of rows of one class; a few rows lie elsewhere."""
    few, many = rng.integers(1, 6), 10 ** rng.integers(3, 6)
    side = rng.integers(2)
    score = np.concatenate([np.full(many, rng.normal()), rng.normal(0, 10.0 ** rng.integers(-2, 3), few)])
    label = np.concatenate([np.full(many, side), rng.integers(0, 2, few)])
    label[-1] = 1 - side
    return score, label


def forest(rng):
    """Probabilities k/m with heavy ties at 0 and 1, as forests, trees and nearest neighbours give them."""
    n, trees = rng.integers(20, 2_000), rng.choice([1, 3, 10, 100])
    share = rng.beta(0.1, 0.1 * 10.0 ** rng.integers(0, 3), n)
    score = np.round(share * trees) / trees
    label = (rng.random(n) < 0.02 + 0.9 * share * rng.random()).astype(int)
    return score, label


def rare_class(rng):
    """One to three positives among up to 1e5 rows."""
    n = int(10.0 ** rng.uniform(1, 5))
    label = np.zeros(n, int)
    label[rng.integers(0, n, rng.integers(1, 4))] = 1
    score = rng.normal(0, 1, n) + label * rng.normal(0, 3)
    return score, label if rng.integers(2) else 1 - label


def far_clusters(rng):
    """Clusters whose distances differ by powers of ten."""
    places = rng.normal(0, 1, 4) * 10.0 ** rng.integers(-6, 9, 4)
    which = rng.integers(0, 4, rng.integers(4, 60))
    score = places[which] + rng.normal(0, 10.0 ** rng.integers(-8, 0), len(which)) * rng.integers(0, 2)
    return score, rng.integers(0, 2, len(which))


def separable(rng):
    """Two classes that a threshold separates, or would but for a row."""
    n = rng.integers(2, 200)
    score = np.sort(rng.normal(0, 1, n))
    label = (np.arange(n) >= rng.integers(1, n)).astype(int)
    if rng.integers(2) and n > 2:
        row = rng.integers(n)
        label[row] = 1 - label[row]
    if rng.integers(2):
        score = score + 10.0 ** rng.integers(-3, 4) * label
    return score, label


def overlapping(rng):
    """An ordinary sample, right way round or wrong."""
    n = rng.integers(3, 3_000)
    score = rng.normal(0, 1, n)
    direction = rng.choice([-1.0, 1.0, 0.0]) * 10.0 ** rng.uniform(-2, 1.5)
    label = (rng.random(n) < 1 / (1 + np.exp(np.clip(-direction * score - rng.normal(), -50, 50)))).astype(int)
    return score, label


def few_rows(rng):
    """Two to six rows, scores with ties."""
    n = rng.integers(2, 7)
    return np.round(rng.normal(0, 2, n), rng.integers(0, 2)), rng.integers(0, 2, n)


def heavy_tails(rng):
    """Cauchy scores and their like."""
    n = rng.integers(3, 8_000)
    score = rng.standard_cauchy(n) ** rng.choice([1, 3])
    return score, (rng.random(n) < 0.5 + 0.3 * np.sign(score)).astype(int)


def soft_labels(rng):
    """Shares of positives instead of labels, many of them next to 0 or 1."""
    n = rng.integers(2, 400)
    return np.round(rng.normal(0, 3, n), rng.integers(0, 3)), rng.beta(0.2, 0.2, n)


SHAPES = [
    dominating_tie,
    forest,
    rare_class,
    far_clusters,
    separable,
    overlapping,
    few_rows,
    heavy_tails,
    soft_labels,
]
HARD = tuple(shape for shape in SHAPES if shape is not soft_labels)
WEIGHTS = {
    "none": lambda rng, n: None,
    "small whole numbers": lambda rng, n: rng.integers(1, 4, n).astype(float),
    "1e-12 to 1e12": lambda rng, n: 10.0 ** rng.uniform(-12, 12, n),
    "one dominates": lambda rng, n: np.where(np.arange(n) == rng.integers(n), 10.0 ** rng.uniform(2, 9), 1.0),
    "all tiny": lambda rng, n: np.full(n, 10.0 ** rng.uniform(-200, -3)),
    "all huge": lambda rng, n: np.full(n, 10.0 ** rng.uniform(3, 160)),
}
PLACES = {
    "as it is": lambda rng, score: score,
    "scale": lambda rng, score: score * 10.0 ** rng.uniform(-290, 290),
    "offset": lambda rng, score: score + 10.0 ** rng.uniform(0, 9),
    "float32": lambda rng, score: score.astype(np.float32),
    "one decimal": lambda rng, score: np.round(score, 1),
}


def make(seed, shape, weights, place):
    rng = np.random.default_rng(seed)
    score, label = shape(rng)
    if label.min() == label.max():
        label = label.copy()
        label[rng.integers(len(label))] = 1 - label[0]
    weight = WEIGHTS[weights](rng, len(score))
    with np.errstate(over="ignore"):
        moved = PLACES[place](rng, score)
    if not np.isfinite(moved).all():
        moved = score
    return Nasty(moved, label, weight, f"{shape.__name__}, weights {weights}, scores {place}, seed {seed}")


@st.composite
def nasty_samples(draw, places=tuple(PLACES), weights=tuple(WEIGHTS), shapes=tuple(SHAPES)):
    """Draw a sample of two classes with real scores."""
    return make(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.sampled_from(shapes)),
        draw(st.sampled_from(weights)),
        draw(st.sampled_from(places)),
    )


@st.composite
def nasty_probabilities(draw, weights=tuple(WEIGHTS), shapes=tuple(SHAPES)):
    """Draw a sample whose scores are probabilities, many of them exactly 0 and 1."""
    drawn = draw(nasty_samples(places=("as it is", "one decimal"), weights=weights, shapes=shapes))
    if drawn.score.min() >= 0 and drawn.score.max() <= 1:
        return drawn
    with np.errstate(over="ignore"):
        return Nasty(1 / (1 + np.exp(-drawn.score)), drawn.label, drawn.weight, drawn.recipe + ", through expit")
