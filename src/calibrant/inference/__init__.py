"""Tests of differences between methods and of calibration, and bootstrap intervals of metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calibrant.inference.calibration import (
    Canonical,
    Corp,
    HosmerLemeshow,
    Spiegelhalter,
    canonical,
    corp,
    hosmer_lemeshow,
    spiegelhalter,
)
from calibrant.inference.paired import (
    McNemar,
    PairedT,
    Wilcoxon,
    corrected_t,
    mcnemar,
    mcnemar_from_counts,
    paired_t,
    wilcoxon,
)
from calibrant.inference.ranking import Friedman, critical_difference, friedman, ranks, rejections, underline
from calibrant.inference.resampling import Interval, bootstrap, bootstrap_difference

__all__ = [
    "TESTS",
    "Canonical",
    "Corp",
    "Friedman",
    "HosmerLemeshow",
    "Interval",
    "McNemar",
    "PairedT",
    "Spiegelhalter",
    "Test",
    "Wilcoxon",
    "bootstrap",
    "bootstrap_difference",
    "canonical",
    "corp",
    "corrected_t",
    "critical_difference",
    "friedman",
    "hosmer_lemeshow",
    "mcnemar",
    "mcnemar_from_counts",
    "paired_t",
    "ranks",
    "rejections",
    "spiegelhalter",
    "underline",
    "wilcoxon",
]


@dataclass(frozen=True, slots=True)
class Test:
    """A test: the function, the question it answers, the null hypothesis, and the source.

    The function returns a frozen record with at least a `statistic` and a `pvalue`.

    >>> TESTS["corp"].question
    'Would monotone recalibration gain more than it does by chance?'
    """

    function: Callable[..., Any]
    question: str
    null: str
    source: str


TESTS: dict[str, Test] = {
    "paired_t": Test(
        paired_t,
        "Do two methods have different mean errors over folds?",
        "the differences of folds are independent and normal with mean 0",
        "Rüping 2004, sec. 4; Student 1908",
    ),
    "corrected_t": Test(
        corrected_t,
        "Do two methods have different mean errors over folds whose training sets overlap?",
        "the differences of folds have mean 0 and correlation test/(train + test)",
        "Nadeau & Bengio 2003, sec. 5",
    ),
    "mcnemar": Test(
        mcnemar,
        "Is one of two methods wrong more often on the same rows?",
        "on a row where only one method is wrong, either is equally likely to be the wrong one",
        "McNemar 1947; Platt 2000, sec. 3",
    ),
    "wilcoxon": Test(
        wilcoxon,
        "Are the losses of one method larger on the same rows, or its errors on the same data sets?",
        "the differences are symmetric about 0",
        "Wilcoxon 1945; Platt 2000, sec. 3",
    ),
    "friedman": Test(
        friedman,
        "Do three or more methods differ over data sets, and which ones?",
        "on every data set all rankings of the methods are equally likely",
        "Friedman 1937; Nemenyi 1963; Demšar 2006, sec. 3.2",
    ),
    "spiegelhalter": Test(
        spiegelhalter,
        "Does the score equal its expectation under the forecast?",
        "every outcome has its forecast probability",
        "Spiegelhalter 1986",
    ),
    "hosmer_lemeshow": Test(
        hosmer_lemeshow,
        "Are there as many positives as the forecast expects, in groups of similar probabilities?",
        "every outcome has its forecast probability",
        "Hosmer & Lemeshow 1980",
    ),
    "corp": Test(
        corp,
        "Would monotone recalibration gain more than it does by chance?",
        "every outcome has its forecast probability",
        "Dimitriadis, Gneiting & Jordan 2021",
    ),
    "canonical": Test(
        canonical,
        "Is the whole vector of probabilities right, given that vector?",
        "every outcome has its forecast probability",
        "Widmann, Lindsten & Zachariah 2019",
    ),
}
