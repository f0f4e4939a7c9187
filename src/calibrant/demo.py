"""One real data set, one support vector machine, every method: computed here, drawn by `plots`, printed by `cli`.

The data are the 442 diabetes patients of Efron, Hastie, Johnstone & Tibshirani (2004), which come with scikit-learn;
the question is whether a patient's disease progressed more than the median. The classes overlap, so that the answer is
a probability and not a decision: on scikit-learn's other sets an SVM is right on 19 rows of 20 or more.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.maps import METHODS, Map, Sigmoid, fit_map, log_probabilities
from calibrant.samples import Sample, sample

__all__ = ["Demo", "Histogram", "Posterior", "Trial", "histogram", "posterior", "run"]

Floats = NDArray[np.float64]

DATA = "442 diabetes patients (scikit-learn's load_diabetes)"
QUESTION = "did the disease progress more than the median?"
MODEL = "SVC with an RBF kernel on standardised features, C = 1"
SEED = 0
BASE_RATE = "base rate"


@dataclass(frozen=True, slots=True)
class Trial:
    """One method fitted to the out-of-fold scores and tried on the held-out rows; no map where the method refused."""

    method: str
    mapping: Map | None
    log_loss: float
    brier: float
    error_rate: float
    note: str = ""
    losses: Floats = field(default_factory=lambda: np.empty(0), repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Demo:
    """The scores, and what each method made of them, best first."""

    fitting: Sample
    held_out: Sample
    trials: tuple[Trial, ...]
    base_rate: Trial
    data: str = DATA
    question: str = QUESTION
    model: str = MODEL
    seed: int = SEED

    def standard_error(self, trial: Trial) -> float:
        """Return the standard error of a log loss's distance from the best, from the rows' paired differences."""
        if not np.isfinite(trial.log_loss):
            return np.nan
        return float(np.std(trial.losses - self.trials[0].losses, ddof=1) / np.sqrt(len(self.held_out)))

    def ties(self) -> tuple[str, ...]:
        """Return the methods whose log loss is within two standard errors of the best."""
        best = self.trials[0].log_loss
        return tuple(t.method for t in self.trials[1:] if t.log_loss - best <= 2.0 * self.standard_error(t))

    def verdict(self) -> str:
        """Return what the table shows in one sentence."""
        best, ties = self.trials[0], self.ties()
        wrong = tuple(trial.method for trial in self.trials if trial.log_loss == np.inf)
        others = sum(trial.mapping is not None for trial in self.trials) - 1
        near = some(ties, others) if ties else "no other method is"
        never = f", and {some(wrong, others)} infinitely wrong, with probability 0 for what happened"
        return (
            f"{best.method} has the smallest log loss, {best.log_loss:.3f} against {self.base_rate.log_loss:.3f} for "
            f"the base rate; {near} within two standard errors of it on these {len(self.held_out)} rows"
            f"{never if wrong else ''}."
        )


def some(names: tuple[str, ...], total: int) -> str:
    """Return a few names with their verb, or how many of how many there are.

    >>> some(("platt",), 9), some(("platt", "pp", "gauss"), 9), some(("platt", "pp", "gauss", "bins"), 9)
    ('platt is', 'platt, pp and gauss are', '4 of the 9 others are')
    """
    if len(names) > 3:
        return f"{len(names)} of the {total} others are"
    return f"{', '.join(names[:-1])} and {names[-1]} are" if len(names) > 1 else f"{names[0]} is" if names else ""


def run(track: Callable[[Iterable[str]], Iterable[str]] = iter) -> Demo:
    """Train the machine, fit every method to its out-of-fold scores and try it on rows neither has seen.

    `track` wraps the names of the methods, to show how far it is.
    """
    fitting, held_out = scores()
    trials = [trial(name, fitting, held_out) for name in track(METHODS)]
    share = fitting.totals()[0] / len(fitting)
    constant = Sigmoid(0.0, float(-special.logit(share)))
    base_rate = judged(BASE_RATE, constant, held_out, "no score used")
    # A method that refused has no log loss and comes last.
    return Demo(fitting, held_out, tuple(sorted(trials, key=lambda t: (np.isnan(t.log_loss), t.log_loss))), base_rate)


def scores(seed: int = SEED) -> tuple[Sample, Sample]:
    """Return pooled out-of-fold scores of 70 % of the rows, and the scores of a machine trained on them on the rest."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import cross_val_predict, train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    features, progression = load_diabetes(return_X_y=True)
    label = progression > np.median(progression)
    seen, unseen, label_seen, label_unseen = train_test_split(
        features, label, test_size=0.3, stratify=label, random_state=seed
    )
    machine = make_pipeline(StandardScaler(), SVC(kernel="rbf"))
    out_of_fold = cross_val_predict(machine, seen, label_seen, cv=3, method="decision_function")
    machine.fit(seen, label_seen)
    return sample(out_of_fold, label_seen), sample(machine.decision_function(unseen), label_unseen)


def trial(name: str, fitting: Sample, held_out: Sample) -> Trial:
    """Fit one method and judge it; what it warned of, or why it refused, is the note."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            mapping = fit_map(name, fitting)
        except (ValueError, RuntimeError) as error:
            return Trial(name, None, np.nan, np.nan, np.nan, str(error))
    return judged(name, mapping, held_out, "; ".join(str(warning.message) for warning in caught))


def judged(name: str, mapping: Map, held_out: Sample, note: str) -> Trial:
    """Return a map's mean -log p(what happened), (y - p)^2 and [p on the wrong side of 1/2] on the held-out rows."""
    score, label = np.asarray(held_out.score, np.float64), np.asarray(held_out.label, bool)
    log_p = log_probabilities(mapping, score)
    losses = 0.0 - np.where(label, log_p[:, 1], log_p[:, 0])
    p = np.asarray(mapping(score), np.float64)
    if np.isinf(losses).any():
        impossible = f"{np.isinf(losses).sum()} of {len(losses)} rows had probability 0"
        note = f"{impossible}; {note}" if note else impossible
    return Trial(
        name,
        mapping,
        float(losses.mean()),
        float(np.mean((label - p) ** 2)),
        float(np.mean((p >= 0.5) != label)),
        note,
        losses,
    )


@dataclass(frozen=True, slots=True)
class Posterior:
    """Mean score and share of positives of groups of rows, with the ends of the share's 95 % interval (Wilson 1927)."""

    score: Floats
    share: Floats
    low: Floats
    high: Floats


def posterior(data: Sample, groups: int = 10) -> Posterior:
    """Return the empirical posterior in groups of about equally many rows, sorted by score.

    >>> posterior(sample([1, 2, 3, 4], [0, 0, 1, 0]), 2).share
    array([0. , 0.5])
    """
    order = np.argsort(data.score, kind="stable")
    parts = np.array_split(order, groups)
    size = np.array([len(part) for part in parts], float)
    share = np.array([np.mean(data.label[part]) for part in parts])
    z = float(special.ndtri(0.975))
    middle = (share + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * np.sqrt(share * (1 - share) / size + z * z / (4 * size * size))
    return Posterior(np.array([np.mean(data.score[part]) for part in parts]), share, middle - half, middle + half)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many negatives and positives score between each two edges."""

    edges: Floats
    negative: Floats
    positive: Floats


def histogram(data: Sample, cells: int = 30) -> Histogram:
    """Count the rows of each class in cells of equal width."""
    score, positive, negative = data.arrays()
    edges = np.histogram_bin_edges(score, cells)
    return Histogram(edges, *(np.histogram(score, edges, weights=weight)[0] for weight in (negative, positive)))
