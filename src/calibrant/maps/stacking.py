"""`auto` for several classes: nested maps, averaged with weights that their leave-one-out probabilities decide.

    raw     the scores as they are
    base    a temperature with a floor and a mixture, 3 numbers
    thin    base, then a bias, a slope and an exponent per class, and a slope that changes with confidence
    full    thin, then a matrix between classes and a common curve
    rich    full, then a curve per class

p = sum_m a_m p_m. Each map's probabilities of the rows are those of a fit without the row (infinitesimal jackknife).
The weights maximise sum_i w_i log sum_m a_m p_m,i + sum_m g_m log a_m: concave, by Newton's method. The g_m are the
counts of a Dirichlet prior that leans towards few parameters. It fades: the counts do not grow with the rows, and
shrink beyond 70 of them. That of the raw scores grows with the rows instead, and is multiplied by their likelihood
over that of the base, where it is smaller: scores that are right as they are stay as they are, and of others nothing is
left. With nothing wrong, 50 to 1,000 rows of 3, 10 and 26 classes, the divergence is .70 of a temperature's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Floats
from calibrant.maps.class_records import AutoClasses, ClassMember, GivenClasses
from calibrant.maps.structured import SHAPES, choose_base, fit_structured
from calibrant.maps.temperatures import fit_bases, read_labels
from calibrant.progress import show_progress
from calibrant.samples import ClassSample

__all__ = ["fit_auto_classes", "stack_weights"]


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants."""

    wide: int = 200  # classes up to which a matrix is tried
    splined: int = 30  # classes up to which each class gets its own curve
    kept: float = 2e-3  # weights below which a member is dropped
    certain: float = 1e-15  # the least probability that counts in the weights
    fading: float = 70.0  # rows beyond which the counts of the prior shrink; 400 cost 0.3 % of log loss at 400 rows,
    # 100 cost 0.3 % at 100 rows, and with 35 twice as many tasks of 200 rows were worse than with a temperature
    given: float = 400.0  # rows beyond which the count of the scores as they are grows
    unlikely: float = 0.02  # the least count of the scores as they are
    decrement: float = 1e-10  # per row
    bend: float = 0.01  # per least count: what a step may leave where the logarithms of the weights bend sharply
    steps: int = 200
    first_count: float = 1e-4  # counts below this share of the total weight are begun with so much ...
    count_step: float = 0.01  # ... then with this part of it, ...
    least_count: float = 1e-11  # ... and not with less than this share
    slow: float = 2e6  # numbers from which a bar is shown


_TUNING = _Tuning()
# The counts of the Dirichlet prior, chosen on 599 tasks of 50 to 400 rows of thirteen data sets. At 50 rows 5 % of them
# were more than 1 % worse than with a temperature, at 100 rows 3 %, at 400 none; with equal counts of 0.2 it was 18 %,
# 13 % and 3 %. Half or twice as many of the base: +0.1 or -0.3 % of log loss on average, 8 or 6 % at 50 rows.
_COUNTS = {"raw": 1.0, "base": 3.2, "bent": 0.24, "thin": 0.24, "full": 0.12, "rich": 0.08}


def fit_auto_classes(data: ClassSample, *, keep_order: bool = False) -> AutoClasses:
    """Fit an average of nested maps of all classes, weighed by leave-one-out; the docstring of the module has them.

    `keep_order=True` averages only maps that leave the order of all classes in every row as it is, so that the class of
    the largest probability stays the same: raw, a base that pulls all classes alike, and one whose slope changes with
    confidence. The time grows with n k^2 (n k above 200 classes, where there is no matrix, and no curve per class above
    30); strengths are learned on at most 4,000 rows.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), 300)
    >>> y = np.where(rng.random(300) < 0.2, 0, p.argmax(axis=1))
    >>> fitted = fit_auto_classes(ClassSample(p, y, 3, "probability"))
    >>> fitted.matrix(np.array([[0.2, 0.3, 0.5]])).round(2)
    array([[0.23, 0.01, 0.76]])
    """
    n, k = data.scores.shape
    missing = int((read_labels(data).counts(k) == 0.0).sum())
    names = (
        ["bent"]
        if keep_order
        else [
            name
            for name in ("thin", "full", "rich")
            if not (SHAPES[name].mixed and k > _TUNING.wide) and not (SHAPES[name].spline and k > _TUNING.splined)
        ]
    )
    with show_progress("averaging maps", 1 + len(names), progress=n * k > _TUNING.slow) as advance:
        data, bases = fit_bases(data, even=keep_order)
        labels = read_labels(data)
        row, which, weight = labels.cases()
        maps = {"raw": GivenClasses(), "base": bases[0].map}
        seen = {"raw": data.scores[row, which], "base": bases[0].leave_out(data, labels)}
        base = bases[0] if keep_order else choose_base(bases, data)
        advance(1)
        fitted = None
        for name in names:
            fitted = fit_structured(data, SHAPES[name], base.map, fitted)
            if not (keep_order and min(fitted.map.slope) < 0.0):
                maps[name], seen[name] = fitted.map, fitted.leave_out()
            advance(1)
    seen = {name: np.clip(p, _TUNING.certain, 1.0) for name, p in seen.items()}
    logs = {name: float(weight @ np.log(p)) for name, p in seen.items()}
    counts = np.array([_COUNTS[name] for name in seen])
    counts[0] *= max(1.0, labels.total / _TUNING.given)
    counts[1:] /= max(1.0, labels.total / _TUNING.fading)
    # Scores that are right as they are cost nothing, and others a lot, however few rows: they count if they are likely.
    counts[0] = max(counts[0] * np.exp(min(0.0, logs["raw"] - logs["base"])), _TUNING.unlikely)
    found = stack_weights(np.column_stack(list(seen.values())), weight, counts)
    share = dict(zip(seen, np.where(found >= _TUNING.kept, found, 0.0).tolist(), strict=True))
    total = sum(share.values())
    members = [
        ClassMember(name, share[name] / total, -logs[name] / labels.total, maps[name])
        for name in sorted(seen, key=lambda each: -share[each])
        if share[name] > 0.0
    ]
    return AutoClasses(tuple(members), labels.total, -logs["raw"] / labels.total, missing, keep_order)


def stack_weights(p: Floats, weight: Floats, counts: Floats) -> Floats:
    """Return the a on the simplex that maximise sum_i w_i log(p a)_i + sum_m g_m log a_m, by Newton's method.

    Where a count g is tiny beside the total weight, a step could end beside a wrong corner and stay there, because near
    it the logarithm of a bends too sharply. So such counts begin at a larger share of the total, which shrinks to the
    count itself, but not below 1e-11 of the total: that costs the rows less than 1e-11 nats each per map.

    >>> stack_weights(np.array([[0.9, 0.5], [0.8, 0.5], [0.2, 0.5]]), np.ones(3), np.array([0.5, 0.5])).round(3)
    array([0.533, 0.467])
    """
    total = float(weight.sum())
    last = max(float(counts.min()), _TUNING.least_count * total)
    least = max(_TUNING.first_count * total, last)
    a = _climb(p, weight, np.maximum(counts, least), counts / counts.sum())
    while least > last:
        least = max(_TUNING.count_step * least, last)
        a = _climb(p, weight, np.maximum(counts, least), a)
    return a


def _climb(p: Floats, weight: Floats, counts: Floats, a: Floats) -> Floats:
    """Return the maximum from a start on.

    The step keeps the sum and is cut to stay inside; the result has passed the Newton decrement.
    """
    enough = min(_TUNING.decrement * (1.0 + float(weight.sum())), _TUNING.bend * float(counts.min()))

    def value(a: Floats) -> float:
        return float(weight @ np.log(p @ a) + counts @ np.log(a))

    now = value(a)
    for _ in range(_TUNING.steps):
        ratio = p / (p @ a)[:, None]
        gradient = weight @ ratio + counts / a
        hessian = (ratio * weight[:, None]).T @ ratio + np.diag(counts / a**2)
        solved = np.linalg.solve(hessian, np.column_stack([gradient, np.ones(len(a))]))
        step = solved[:, 0] - solved[:, 1] * (solved[:, 0].sum() / solved[:, 1].sum())
        decrement = float(gradient @ step)
        if decrement <= enough:
            return np.asarray(a / a.sum())
        length = min(1.0, 0.95 / max(1e-300, float((-step / a).max())))
        while (new := value(a + length * step)) < now + 1e-4 * length * decrement - 1e-14 * abs(now):
            length *= 0.5
        a, now = a + length * step, new
    msg = f"the weights of an average of maps did not converge in {_TUNING.steps} steps"
    raise RuntimeError(msg)
