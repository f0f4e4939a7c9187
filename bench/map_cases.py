"""The modern maps next to their peers: temperature, Kull's beta calibration, Venn-Abers, splines, and `auto`.

Peers of the dependency group `peers` take part where they are installed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.calibration import _TemperatureScaling

import calibrant
from bench.cases import MILLION, OURS, SKLEARN, Case, Contest, Cost, Data, Goal

BETACAL = "betacal"
VENN_ABERS = "venn-abers"
SPLINECALIB = "splinecalib"
PLATT = "our Platt fit"


def loss_of(data: Data):
    """Return a function that tells the mean log loss of what a contestant has fitted."""

    def loss(predict: Any) -> float:
        p = np.clip(np.asarray(predict(data), np.float64), 1e-15, 1 - 1e-15)
        return float(-np.mean(np.where(data.label == 1, np.log(p), np.log1p(-p))))

    return loss


def ours(method: str, data: Data):
    fitted = calibrant.fit(method, data.probability, data.label, kind="probability")
    return lambda data: fitted(data.probability)


def temperature(n: int) -> Contest:
    data = Data.draw(n)

    def peer():
        fitted = _TemperatureScaling().fit(data.score, data.label)
        return lambda data: fitted.predict(data.score)[:, 1]

    def fit():
        fitted = calibrant.fit("temperature", data.score, data.label, kind="logit")
        return lambda data: fitted(data.score)

    return Contest({OURS: fit, SKLEARN: peer}, loss_of(data))


def kull_beta(n: int) -> Contest:
    data = Data.draw(n)
    run = {OURS: lambda: ours("kull_beta", data)}
    if find_spec("betacal"):
        from betacal import BetaCalibration

        def peer():
            fitted = BetaCalibration("abm").fit(data.probability[:, None], data.label)
            return lambda data: fitted.predict(data.probability[:, None])

        run[BETACAL] = peer
    return Contest(run, loss_of(data))


def venn_abers(n: int) -> Contest:
    data = Data.draw(n)
    run = {OURS: lambda: ours("venn_abers", data)(data)}
    if find_spec("venn_abers"):
        from venn_abers import VennAbers

        def peer():
            both = np.column_stack([1 - data.probability, data.probability])
            fitted = VennAbers()
            fitted.fit(both, data.label)
            return fitted.predict_proba(both)[0][:, 1]

        run[VENN_ABERS] = peer
    tell = loss_of(data)
    return Contest(run, lambda p: tell(lambda _: p))


def spline(n: int) -> Contest:
    data = Data.draw(n)
    run = {OURS: lambda: ours("spline", data)}
    if find_spec("splinecalib"):
        from splinecalib import SplineCalib

        def peer():
            fitted = SplineCalib()
            fitted.fit(data.probability, data.label, verbose=False)
            return lambda data: fitted.calibrate(data.probability)

        run[SPLINECALIB] = peer
    return Contest(run, loss_of(data))


def auto(n: int) -> Contest:
    data = Data.draw(n)

    def fit(method: str):
        fitted = calibrant.fit(method, data.score, data.label, kind="logit")
        return lambda data: fitted(data.score)

    return Contest({OURS: lambda: fit("auto"), PLATT: lambda: fit("platt")}, loss_of(data))


MAP_CASES = (
    Case(
        "temperature fit",
        temperature,
        (1_000, MILLION),
        checked="log loss",
        goals={(SKLEARN, 1_000): Goal(1), (SKLEARN, MILLION): Goal(20)},
    ),
    Case(
        "Kull beta fit",
        kull_beta,
        (1_000, MILLION),
        checked="log loss",
        goals={(BETACAL, 1_000): Goal(1), (BETACAL, MILLION): Goal(10)},
    ),
    Case(
        "Venn-Abers fit and predict",
        venn_abers,
        (1_000, 10_000),
        checked="log loss",
        goals={(VENN_ABERS, 1_000): Goal(1), (VENN_ABERS, 10_000): Goal(20)},
    ),
    Case("spline fit", spline, (1_000, 20_000), checked="log loss", goals={(SPLINECALIB, 20_000): Goal(5)}),
    Case(
        "auto fit",
        auto,
        (1_000, 100_000, MILLION),
        checked="log loss",
        goals={(PLATT, 100_000): Cost(4), (PLATT, MILLION): Cost(2)},
    ),
)
