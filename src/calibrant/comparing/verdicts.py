"""Which method is best, and whether the difference is real: ranks and tests of a comparison, and a verdict in words."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.comparing.records import Comparison, smaller_is_better
from calibrant.evidence.words import format_name, format_number
from calibrant.inference import corrected_t, critical_difference, friedman, ranks, rejections
from calibrant.metrics import METRICS

__all__ = ["ALPHA", "compare_with_best", "describe_verdict", "holm", "list_notes", "standing_of", "standings_of"]

ALPHA = 0.05  # level of all tests


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
    # Rows tested per row trained on: 1/9 for ten folds, even if they are repeated.
    ratios = [cell.tested / cell.trained for cell in comparison.cells if cell.machine == machine and cell.trained]
    return {
        "metric": metric,
        "machine": machine,
        "better": METRICS[metric].better,
        "methods": [methods[k] for k in order],
        "folds": {name: values[order] for name, values in errors.items()},
        "means": {name: row[order] for name, row in zip(errors, means, strict=True)},
        "ranks": {"average": average[order], "min": ranks(oriented, ties="min")[order]},
        "rejections": rejected,
        "against_best": compare_with_best(oriented[:, order], ordered, float(np.mean(ratios)) if ratios else 1.0),
    }


def compare_with_best(oriented: Floats, errors: Mapping[str, Floats], ratio: float) -> dict[str, Any]:
    """Test whether each other method is worse than the best, which is the first column.

    Several data sets are tested by Friedman's test with Nemenyi's critical difference (Demšar 2006). One data set is
    tested by the t-test over its folds, corrected for overlapping training sets (Nadeau & Bengio 2003), with Holm's
    correction for all pairs; `ratio` is the number of rows tested per row trained on.
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
    # All pairs, not only those with the best method, because the same folds decided which one is best.
    pairs = list(combinations(range(methods), 2))
    pvalues = holm(np.array([corrected_t(values[j], values[i], ratio=ratio).pvalue for i, j in pairs]))
    adjusted = np.append(1.0, pvalues[: methods - 1])
    return {"test": "corrected_t", "pvalues": adjusted, "worse": adjusted < ALPHA}


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


# Words ----------------------------------------------------------------------------------------------------------------


def describe_verdict(comparison: Comparison, standings: list[dict[str, Any]]) -> str:
    """Say which method is best on these data, and whether the difference is real."""
    first = [standing for standing in standings if standing["metric"] == comparison.metrics[0]]
    others = [standing for standing in standings if standing["metric"] != comparison.metrics[0]]
    where = {machine: f"with {machine}" if len(comparison.machines) > 1 else "" for machine in comparison.machines}
    sentences = [_describe_best(standing, where[standing["machine"]]) for standing in first]
    for standing in others:
        by = f"By the {format_name(standing['metric'])} {where[standing['machine']]}".strip()
        sentences.append(f"{by} the best is {standing['methods'][0]}.")
    return " ".join(sentences)


def _describe_best(standing: Mapping[str, Any], where: str) -> str:
    """Say which method is best on a machine, and from which others it differs significantly."""
    methods, means = standing["methods"], list(standing["means"].values())
    best = f"is best by the {format_name(standing['metric'])}"
    start = f"{where[:1].upper()}{where[1:]}, {methods[0]} {best}" if where else f"{methods[0]} {best}"
    if len(means) > 1:
        average = format_number(standing["ranks"]["average"][0])
        head = f"{start}: its average rank over {len(means)} data sets is {average}."
    else:
        (folds,) = standing["folds"].values()
        head = f"{start}: {format_number(means[0][0])}, the mean of {folds.shape[1]} folds."
    found = standing["against_best"]
    return f"{head} {_DESCRIBE_TEST[found['test']](methods, found, means)}".strip()


def _describe_rank_test(methods: list[str], found: Mapping[str, Any], means: list[Floats]) -> str:  # noqa: ARG001
    """Say which average ranks differ from the best."""
    if found["pvalue"] is not None and found["pvalue"] >= ALPHA:
        test = f"Friedman's test sees no difference between methods (p = {found['pvalue']:.2g})"
        return f"That is not shown to be real: {test}."
    how = f"by Nemenyi's critical difference of {format_number(found['critical_difference'])} ranks"
    return _describe_differences(methods, found["worse"], how)


def _describe_fold_test(methods: list[str], found: Mapping[str, Any], means: list[Floats]) -> str:
    """Say which means over folds differ from the best."""
    differences = _describe_differences(methods, found["worse"], "by the corrected paired t-test over folds")
    return f"{differences} The next is {methods[1]} with {format_number(means[0][1])} (p = {found['pvalues'][1]:.2g})."


def _describe_differences(methods: list[str], worse: NDArray[np.bool_], how: str) -> str:
    """Say which methods are significantly worse than the best."""
    real = [method for method, differs in zip(methods, worse, strict=True) if differs]
    same = [method for method, differs in zip(methods[1:], worse[1:], strict=True) if not differs]
    if not real:
        return f"That is not shown to be real: it cannot be told apart from any other ({how})."
    rest = f", not from {', '.join(same)}" if same else ""
    return f"The difference is real from {', '.join(real)}{rest} ({how}, at {ALPHA:.0%})."


def _describe_no_test(methods: list[str], found: Mapping[str, Any], means: list[Floats]) -> str:  # noqa: ARG001
    """Say why there is no test."""
    return "Whether the difference is real cannot be tested on one method, or one fold."


_DESCRIBE_TEST = {"friedman": _describe_rank_test, "corrected_t": _describe_fold_test, None: _describe_no_test}


def list_notes(comparison: Comparison) -> list[str]:
    """Return notes on what failed, and on what was not kept."""
    failed: dict[str, int] = {}
    for cell in comparison.cells:
        if cell.note:
            first = cell.note.strip().splitlines()[0].rstrip(":")  # a solver may write many lines
            key = f"{cell.method} on {cell.dataset} with {cell.machine}: {first}"
            failed[key] = failed.get(key, 0) + 1
    found = [f"{text} ({count} {'fold' if count == 1 else 'folds'})" for text, count in failed.items()]
    for dataset, cells in comparison.settings.get("cells", {}).items():
        rows = max(cell.trained + cell.tested for cell in comparison.cells if cell.dataset == dataset)
        found.append(
            f"{rows:,} rows of {dataset} were pooled into {cells:,} cells of similar scores: proper scores differ from "
            "those of the rows by about 1e-5 of themselves."
        )
    if not comparison.predictions:
        found.append("The probabilities were not kept: no reliability diagrams and no decisions can be shown.")
    return found
