"""The standing of the methods of a comparison, and tests of whether their differences are real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from calibrant.arrays import Floats
from calibrant.comparing.rankings import (
    ALPHA,
    find_families,
    find_ratio,
)
from calibrant.comparing.records import Comparison, smaller_is_better
from calibrant.inference import corrected_t, critical_difference, friedman, ranks, rejections
from calibrant.metrics import METRICS

__all__ = ["compare_with_best", "holm", "standing_of", "standings_of"]


def standings_of(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the standing of the methods for each metric and machine."""
    return [
        standing_of(comparison, metric, machine) for metric in comparison.metrics for machine in comparison.machines
    ]


def standing_of(comparison: Comparison, metric: str, machine: str) -> dict[str, Any]:
    """Return the values, ranks and tests for one metric and machine, with the best method first."""
    errors = comparison.errors(metric, machine)
    methods = comparison.methods(machine)
    means = np.array([values.mean(axis=1) for values in errors.values()])
    oriented = smaller_is_better(metric, means)
    average = ranks(oriented, ties="average")
    order = np.lexsort(
        [np.arange(len(methods)), np.where(np.isfinite(oriented), oriented, 1e300).mean(axis=0), average]
    )
    ordered = {name: smaller_is_better(metric, values[order]) for name, values in errors.items()}
    rejected = None  # on how many data sets each method is significantly worse than each other one
    if min(values.shape[1] for values in ordered.values()) > 1:  # one fold cannot be tested
        rejected = np.sum([rejections(values[None], alpha=ALPHA) for values in ordered.values()], axis=0)
    families = find_families(comparison, machine)
    ordered_families = [families[methods[k]] for k in order]
    return {
        "metric": metric,
        "machine": machine,
        "better": METRICS[metric].better,
        "methods": [methods[k] for k in order],
        "folds": {name: values[order] for name, values in errors.items()},
        "means": {name: row[order] for name, row in zip(errors, means, strict=True)},
        "ranks": {"average": average[order], "min": ranks(oriented, ties="min")[order]},
        "rejections": rejected,
        "families": ordered_families,
        "against_best": compare_with_best(
            oriented[:, order], ordered, find_ratio(comparison, machine), ordered_families
        ),
    }


def compare_with_best(
    oriented: Floats, errors: Mapping[str, Floats], ratio: float, families: Sequence[str] | None = None
) -> dict[str, Any]:
    """Test whether each other method is worse than the best, which is the first column.

    Several data sets are tested by Friedman's test with Nemenyi's critical difference (Demšar 2006). One data set is
    tested by the t-test over its folds, corrected for overlapping training sets (Nadeau & Bengio 2003); `ratio` is the
    number of rows tested per row trained on. `pvalues` are those of each difference alone, as intervals are, and decide
    which methods are `worse`. `holm` are those corrected for all pairs (Holm 1979), because the same folds decided
    which method is best. There methods of one family, which give nearly the same probabilities, count once: only pairs
    of their first members are tested, and the others share the result, so that near-duplicates do not make the
    correction stricter.
    """
    datasets, methods = oriented.shape
    if methods < 2:
        return {"test": None}
    if datasets > 1:
        average = ranks(oriented, ties="average")
        difference = critical_difference(methods, datasets, ALPHA)
        pvalue = friedman(oriented, alpha=ALPHA).pvalue if methods > 2 else None
        worse = average - average[0] >= difference
        if pvalue is not None and pvalue >= ALPHA:
            worse = np.zeros(methods, bool)
        return {"test": "friedman", "critical_difference": difference, "pvalue": pvalue, "worse": worse}
    (values,) = errors.values()
    if values.shape[1] < 2:
        return {"test": None}
    alone = np.array([1.0, *(corrected_t(other, values[0], ratio=ratio).pvalue for other in values[1:])])
    names = [str(k) for k in range(methods)] if families is None else list(families)
    heads = [names.index(name) for name in dict.fromkeys(names)]  # the first member of each family, the best first
    found = {heads[0]: 1.0}
    if len(heads) > 1:
        pairs = list(combinations(heads, 2))
        pvalues = holm(np.array([corrected_t(values[j], values[i], ratio=ratio).pvalue for i, j in pairs]))
        found |= {j: float(p) for (i, j), p in zip(pairs, pvalues, strict=True) if i == heads[0]}
    adjusted = np.array([found[names.index(name)] for name in names])
    return {"test": "corrected_t", "pvalues": alone, "holm": adjusted, "worse": alone < ALPHA}


def holm(pvalues: Floats) -> Floats:
    """Return p-values corrected for multiple tests (Holm 1979).

    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(pvalues, kind="stable")
    steps = np.maximum.accumulate(pvalues[order] * np.arange(len(pvalues), 0, -1))
    found = np.empty(len(pvalues))
    found[order] = np.minimum(steps, 1.0)
    return found
