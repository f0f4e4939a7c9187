"""Maps of several classes next to their peers: temperature, the structured matrix, and `auto`.

Structured matrix scaling (SMS) of the package probmetrics takes part where that is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.calibration import _TemperatureScaling

import calibrant
from bench.cases import MILLION, OURS, SKLEARN, Case, Contest, Cost, Goal, Within
from bench.measuring import peak_memory

SMS = "probmetrics SMS"
MATRIX = "our matrix fit"
INPUT = "the input"


@dataclass(frozen=True, slots=True)
class ClassData:
    """Probabilities of k classes, p = softmax(z) with normal z of deviation 2, and labels of softmax(0.7 z + b)."""

    probability: np.ndarray
    label: np.ndarray

    @classmethod
    def draw(cls, n: int, k: int) -> ClassData:
        rng = np.random.default_rng(0)
        z, b = rng.normal(0.0, 2.0, (n, k)), rng.normal(0.0, 0.3, k)
        label = (0.7 * z + b + rng.gumbel(size=(n, k))).argmax(axis=1)  # the largest after Gumbel noise is a draw
        return cls(softmax(z, axis=1), label)


def loss_of(data: ClassData) -> Callable[[Any], float]:
    """Return a function that tells the mean log loss of what a contestant has fitted."""

    def loss(predict: Any) -> float:
        p = np.asarray(predict(data.probability), np.float64)
        said = p[np.arange(len(p)), data.label] / p.sum(axis=1)
        return float(-np.mean(np.log(np.clip(said, 1e-15, 1.0))))

    return loss


def fit_ours(method: str, data: ClassData) -> Any:
    classes = range(data.probability.shape[1])
    return calibrant.fit(method, data.probability, data.label, kind="probability", classes=classes)


def temperature(k: int, n: int) -> Contest:
    data = ClassData.draw(n, k)
    run = {
        OURS: lambda: fit_ours("temperature", data),
        SKLEARN: lambda: _TemperatureScaling().fit(data.probability, data.label).predict,
    }
    return Contest(run, loss_of(data))


def matrix(k: int, n: int) -> Contest:
    data = ClassData.draw(n, k)
    run = {OURS: lambda: fit_ours("matrix", data)}
    if find_spec("probmetrics"):
        from probmetrics.calibrators import get_calibrator

        def peer():
            fitted = get_calibrator("sms", sms_print_init_info=False)
            fitted.fit(data.probability, data.label)
            return fitted.predict_proba

        run[SMS] = peer
    return Contest(run, loss_of(data))


def auto(k: int, n: int) -> Contest:
    data = ClassData.draw(n, k)
    return Contest({OURS: lambda: fit_ours("auto", data), MATRIX: lambda: fit_ours("matrix", data)}, loss_of(data))


def memory(method: str, k: int, n: int) -> Contest:
    data = ClassData.draw(n, k)
    return Contest({OURS: lambda: fit_ours(method, data), INPUT: data.probability.copy})


CLASS_CASES = (
    Case(
        "temperature fit, 10 classes",
        partial(temperature, 10),
        (1_000, MILLION),
        checked="log loss",
        goals={(SKLEARN, 1_000): Goal(1), (SKLEARN, MILLION): Goal(20)},
    ),
    Case("matrix fit, 10 classes", partial(matrix, 10), (10_000,), checked="log loss", goals={(SMS, 10_000): Goal(1)}),
    Case(
        "matrix fit, 100 classes", partial(matrix, 100), (50_000,), checked="log loss", goals={(SMS, 50_000): Goal(1)}
    ),
    Case("auto fit, 10 classes", partial(auto, 10), (10_000,), checked="log loss", goals={(MATRIX, 10_000): Cost(3)}),
    Case("auto fit, 100 classes", partial(auto, 100), (50_000,), checked="log loss", goals={(MATRIX, 50_000): Cost(3)}),
    Case(
        "auto fit, 1,000 classes",
        partial(auto, 1_000),
        (10_000,),
        checked="log loss",
        goals={(MATRIX, 10_000): Within(10_000)},
    ),
    *(
        Case(
            f"{method} fit, 100 classes, memory",
            partial(memory, method, 100),
            (50_000,),
            measure=peak_memory,
            unit="MB",
            goals={(INPUT, 50_000): Cost(3)},
        )
        for method in ("temperature", "matrix", "auto")
    ),
)
