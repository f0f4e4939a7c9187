"""What is measured: one entry of `CASES` is one line of the table for each size and peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

import calibrant
from bench.libsvm import sigmoid_newton
from bench.measuring import Contestants, Measured, best_time, import_time, peak_memory

OURS = "calibrant"
SKLEARN = "scikit-learn"
LIBSVM = "LIBSVM's C"


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio peer/calibrant to reach."""

    ratio: float

    def reached(self, ours: float, theirs: float) -> bool:
        return theirs / ours >= self.ratio

    def __str__(self) -> str:
        return f">= {self.ratio:g}x"


@dataclass(frozen=True, slots=True)
class Cost:
    """A ratio calibrant/peer not to exceed."""

    ratio: float

    def reached(self, ours: float, theirs: float) -> bool:
        return ours / theirs <= self.ratio

    def __str__(self) -> str:
        return f"<= {self.ratio:g}x the cost"


@dataclass(frozen=True, slots=True)
class Within:
    """What calibrant may take, whatever the peer does, in the unit of the case."""

    cost: float

    def reached(self, ours: float, _theirs: float) -> bool:
        return ours <= self.cost

    def __str__(self) -> str:
        return f"<= {self.cost:,g}"


@dataclass(frozen=True, slots=True)
class Contest:
    """The contestants on one set of data, and a number that shows how right a result is."""

    run: Contestants
    check: Callable[[Any], float] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: the contest at each size, how it is measured, and the ratios to reach by (peer, size)."""

    name: str
    contest: Callable[[int], Contest]
    sizes: tuple[int, ...]
    measure: Callable[[Contestants], Measured] = best_time
    unit: str = "ms"
    checked: str = ""
    goals: dict[tuple[str, int], Goal | Cost | Within] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Data:
    """Scores with labels drawn from p = expit(1.3 z - 0.5), z normal with deviation 2, and weights."""

    score: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    probability: np.ndarray

    @classmethod
    def draw(cls, n: int) -> Data:
        rng = np.random.default_rng(0)
        z = rng.normal(0.0, 2.0, n)
        label = (rng.random(n) < expit(1.3 * z - 0.5)).astype(np.int64)
        return cls(z, label, rng.exponential(size=n), expit(z))


def relative_gradient(data: Data, line: tuple[float, float], weight: np.ndarray | None = None) -> float:
    """Return max |sum r x| / sum |r x| over x = 1 and x = score, r = w (t - p), p = 1/(1 + exp(a f + b))."""
    w = np.ones(len(data.score)) if weight is None else weight
    positive, negative = w @ data.label, w @ (1 - data.label)
    target = np.where(data.label == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))
    residual = w * (target - expit(-(line[0] * data.score + line[1])))
    along = residual * data.score
    return float(max(abs(r.sum()) / np.abs(r).sum() for r in (residual, along)))


def line(fitted: Any) -> tuple[float, float]:
    """Return a and b of p = 1/(1 + exp(a f + b)) as any of the contestants gives them."""
    if isinstance(fitted, tuple):
        return fitted
    return (fitted.a_, fitted.b_) if hasattr(fitted, "a_") else (fitted.a, fitted.b)


def platt(n: int) -> Contest:
    data = Data.draw(n)
    run = {
        OURS: lambda: calibrant.fit("platt", data.score, data.label),
        SKLEARN: lambda: _SigmoidCalibration().fit(data.score, data.label),
    }
    compiled = sigmoid_newton()
    if compiled is not None:
        signs = np.where(data.label == 1, 1.0, -1.0)
        run[LIBSVM] = lambda: compiled(data.score, signs)
    return Contest(run, lambda fitted: relative_gradient(data, line(fitted)))


def platt_against_sklearn(n: int) -> Contest:
    contest = platt(n)
    return Contest({name: contest.run[name] for name in (OURS, SKLEARN)}, contest.check)


def platt_weighted(n: int) -> Contest:
    data = Data.draw(n)
    run = {
        OURS: lambda: calibrant.fit("platt", data.score, data.label, sample_weight=data.weight),
        SKLEARN: lambda: _SigmoidCalibration().fit(data.score, data.label, data.weight),
    }
    return Contest(run, lambda fitted: relative_gradient(data, line(fitted), data.weight))


def platt_predict(n: int) -> Contest:
    data, few = Data.draw(n), Data.draw(1_000)
    ours = calibrant.fit("platt", few.score, few.label)
    peer = _SigmoidCalibration().fit(few.score, few.label)
    run = {OURS: lambda: ours(data.score), SKLEARN: lambda: peer.predict(data.score)}
    return Contest(run, lambda p: float(np.mean(p)))


def isotonic(n: int) -> Contest:
    data = Data.draw(n)
    run = {
        OURS: lambda: calibrant.fit("isotonic", data.score, data.label),
        SKLEARN: lambda: IsotonicRegression(out_of_bounds="clip").fit(data.score, data.label),
    }

    def squared_error(fitted: Any) -> float:
        p = fitted.predict(data.score) if hasattr(fitted, "predict") else fitted(data.score)
        return float(np.mean((data.label - p) ** 2))

    return Contest(run, squared_error)


def brier(n: int) -> Contest:
    data = Data.draw(n)
    run = {
        OURS: lambda: calibrant.metrics.brier(data.label, data.probability),
        SKLEARN: lambda: brier_score_loss(data.label, data.probability),
    }
    return Contest(run, float)


def log_loss(n: int) -> Contest:
    data = Data.draw(n)
    run = {
        OURS: lambda: calibrant.metrics.log_loss(data.label, data.probability),
        SKLEARN: lambda: sklearn_log_loss(data.label, data.probability),
    }
    return Contest(run, float)


def imports(_: int) -> Contest:
    return Contest({OURS: lambda: "import calibrant", NEEDED: lambda: "import numpy, scipy.special"})


NEEDED = "numpy, scipy.special"
MILLION = 10**6

CASES = (
    Case(
        "Platt fit",
        platt,
        (1_000, MILLION, 10 * MILLION),
        checked="relative gradient",
        goals={
            (SKLEARN, 1_000): Goal(1),
            (SKLEARN, MILLION): Goal(25),
            (SKLEARN, 10 * MILLION): Goal(25),
            (LIBSVM, MILLION): Goal(12),
        },
    ),
    Case("Platt fit, weighted", platt_weighted, (MILLION,), checked="relative gradient"),
    Case("Platt predict", platt_predict, (MILLION,), checked="mean p"),
    Case("isotonic fit", isotonic, (MILLION,), checked="squared error", goals={(SKLEARN, MILLION): Goal(6)}),
    Case("Brier score", brier, (MILLION,), checked="value", goals={(SKLEARN, MILLION): Goal(5)}),
    Case("log loss", log_loss, (MILLION,), checked="value", goals={(SKLEARN, MILLION): Goal(5)}),
    Case("import", imports, (0,), measure=import_time, goals={(NEEDED, 0): Cost(1.3)}),
    Case("Platt fit, memory", platt_against_sklearn, (10 * MILLION,), measure=peak_memory, unit="MB"),
)
