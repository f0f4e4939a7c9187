"""The record of the method `auto`: a curve on the logit scale, and the members of the average that it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import check_one_of, check_proportion
from calibrant.maps.records import LogitLines, Origin, formula
from calibrant.maps.showing import describe_map
from calibrant.ops import NUMPY, Ops
from calibrant.showing import shown, shown_as

__all__ = ["DEVIATIONS", "FAMILIES", "Auto", "Member"]

FAMILIES = {
    "zero": "a temperature-like line anchored at 0",
    "asinh": "a line with compressed tails",
    "rank": "a line in the rank of the score",
    "platt": "Platt's sigmoid",
}
DEVIATIONS = {"none": "", "smooth": " with a smooth bend", "rough": " with a free bend"}
_TOLD = 0.1  # weights from which a family is mentioned
_MOST = 0.5  # the weight that is called most
_LEAST = 0.005  # the weight from which the heaviest is mentioned beside Platt's sigmoid
_CLEAR = 0.5  # nats that are worth a sentence
_FALLS = 1e-9  # logits between two knots by which a curve falls


@shown
@dataclass(frozen=True, slots=True)
class Member:
    """One member of the average: a family of lines, its deviation from a line, its weight and log evidence.

    `slope` is the mean rise of its logit per standard deviation of its coordinate. `y` are its logits at the knots, to
    two decimals, for members that weigh a few per cent. Platt's sigmoid is there as insurance, without an evidence.

    >>> Member("zero", "none", weight=0.6, evidence=-40.2, slope=2.1).name
    'a temperature-like line anchored at 0'
    """

    family: str
    deviation: str
    weight: float
    evidence: float | None
    slope: float
    y: tuple[float, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Check the names and that the weight is a share."""
        check_one_of("family", self.family, FAMILIES)
        check_one_of("deviation", self.deviation, DEVIATIONS)
        if not 0.0 <= self.weight <= 1.0 + 1e-9:
            msg = f"weight must lie in [0, 1]; got {self.weight}"
            raise ValueError(msg)

    @property
    def name(self) -> str:
        """What it is, in plain English."""
        return FAMILIES[self.family] + DEVIATIONS[self.deviation]


@shown_as(describe_map)
@dataclass(frozen=True, slots=True, repr=False)
class Auto:
    """An average of curves: logit p is linear between the knots of `line` and constant beyond them.

    `below` and `above` are the standard deviations of the logit on either side at the knots: those of the members
    that bend, and those between them. `members` are what was averaged, heaviest first. `positive` and `negative` are
    the weights of the classes. `bend` is the log Bayes factor of bent against straight curves, in nats; `fall` is the
    log-likelihood that a curve that nowhere falls costs, and `rising` whether it was paid. `backwards` says that the
    scores rank the classes the wrong way round.

    >>> import calibrant
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=300)
    >>> fitted = calibrant.fit("auto", scores, rng.random(300) < 1 / (1 + np.exp(-2 * scores)), kind="margin")
    >>> isinstance(fitted, Auto), float(np.sum([member.weight for member in fitted.members]).round(6))
    (True, 1.0)
    >>> low, high = fitted.band(0.0)
    >>> bool(low < fitted(0.0) < high)
    True
    """

    line: LogitLines
    below: tuple[float, ...]
    above: tuple[float, ...]
    members: tuple[Member, ...]
    positive: float
    negative: float
    bend: float = 0.0
    fall: float = 0.0
    rising: bool = True
    backwards: bool = False
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that there is one deviation of each side, and one logit of each member that has them, per knot."""
        knots = len(self.line.x)
        sizes = {len(self.below), len(self.above)} | {len(each.y) for each in self.members if each.y}
        if sizes != {knots}:
            msg = f"Auto needs as many values below, above and of each member as knots, {knots}; got {sorted(sizes)}"
            raise ValueError(msg)
        if not min(*self.below, *self.above, self.positive, self.negative) >= 0.0:
            msg = "below, above, positive and negative must not be negative; got a value that is"
            raise ValueError(msg)

    def __repr__(self) -> str:
        """Return the range of the knots and what was averaged most, on one line."""
        most = ", ".join(f"{each.name} {each.weight:.0%}" for each in self.members[:2])
        return (
            f"Auto({len(self.line.x)} knots from {self.line.x[0]:.4g} to {self.line.x[-1]:.4g}: {most or 'constant'})"
        )

    def logit(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return log(p/(1 - p))."""
        return self.line.logit(score, ops)

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return ops.expit(self.logit(score, ops))

    def band(self, score: Any, confidence: float = 0.95) -> tuple[Any, Any]:
        """Return the lower and upper end of the band of p at each score.

        At 95 % the ends are quantiles of the mixture of the posteriors of the members that bend, by Laplace's
        approximation: it speaks of sampling error and of which member is right. At other levels they are moved as those
        of a normal distribution. It holds point by point, for curves without jumps; docs/arena.md has its coverage.
        """
        check_proportion("confidence", confidence)
        width = special.ndtri(0.5 + confidence / 2)
        scores = np.asarray(score, np.float64)
        low, high = (NUMPY.lines(scores, self.line.x, each) * width for each in (self.below, self.above))
        middle = self.logit(scores)
        return NUMPY.expit(middle - low)[()], NUMPY.expit(middle + high)[()]

    def curves(self) -> list[tuple[Member, Floats]]:
        """Return the members that weigh a few per cent, heaviest first, each with its probabilities at the knots."""
        return [(each, NUMPY.expit(np.asarray(each.y))) for each in self.members if each.y]

    def share_of(self, family: str) -> float:
        """Return the weight of all members of a family."""
        return float(sum(each.weight for each in self.members if each.family == family))

    @property
    def why(self) -> str:
        """What the curve is made of, in a few sentences."""
        if not self.members:
            p, rows = float(special.expit(self.line.y[0])), self.positive + self.negative
            found = "one row shows" if rows == 1.0 else f"{rows:.4g} rows of one class or of one score show"
            return f"The constant {p:.4g}: {found} no curve."
        said = self._tell_shares()
        if self.backwards:
            found = (
                "no rising curve beats a constant" if self.rising and self.fall > 0 else "the curve follows them down"
            )
            said.append(f"The scores rank the classes the wrong way round: {found}.")
        elif not self.rising and min(np.diff(self.line.y)) < -_FALLS:
            cost = f"{self.fall:.1f}" if self.fall >= 0.05 else "less than 0.1"
            said.append(f"The curve falls in places: one that does not would cost {cost} nats.")
        elif self.rising and self.fall > _CLEAR:
            said.append(f"The curve was kept from falling, which cost {self.fall:.1f} nats.")
        return " ".join(said)

    def _tell_shares(self) -> list[str]:
        """Return the sentences about what was averaged."""
        shares = sorted(((self.share_of(family), family) for family in FAMILIES if family != "platt"), reverse=True)
        told = [
            f"{FAMILIES[family]} ({share:.0%})" for share, family in shares if share >= _TOLD or share == shares[0][0]
        ]
        bent, insured = sum(each.weight for each in self.members if each.deviation != "none"), self.share_of("platt")
        evidence = f"Evidence {'for' if self.bend > 0 else 'against'} a bend of {abs(self.bend):.1f} nats"
        rarer = min(self.positive, self.negative)
        few = f"{rarer:,.0f}" if rarer >= 10 else f"{rarer:.3g}"
        rows = f"for {few} {'row' if few == '1' else 'rows'} of the rarer class"
        if insured >= _MOST:
            said = f"Mostly Platt's sigmoid ({insured:.0%}), as insurance {rows}."
            rest = [f"Beside it {', '.join(told)}."] if shares[0][0] >= _LEAST else []
            return [said, *rest, f"{evidence}: {bent:.0%} are curves that bend."]
        mostly = "Mostly" if shares[0][0] >= _MOST else "A mix of" if len(told) > 1 else "A mix, above all of"
        said = f"{mostly} {', '.join(told)}."
        return [
            said,
            f"{evidence}, so {bent:.0%} are curves that bend.",
            f"{insured:.0%} of Platt's sigmoid as insurance {rows}.",
        ]
