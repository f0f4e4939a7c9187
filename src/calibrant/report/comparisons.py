"""A comparison as a report needs it: tables, ranks, tests and curves as plain values, and a verdict in words."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.assessing import decision_counts, number, plain, thinned
from calibrant.curves import ReliabilityCurve, reliability
from calibrant.inference import corrected_t, critical_difference, friedman, ranks, rejections
from calibrant.metrics import METRICS, confidences, error_reject_curve
from calibrant.samples import Sample

if TYPE_CHECKING:
    from calibrant.comparing import Comparison, Predictions

__all__ = ["rounded", "summary", "words"]

Floats = NDArray[np.float64]

ALPHA = 0.05
DRAWS = 200  # for the band of each of many curves
BAND_POINTS = 64
DIGITS = 5  # of numbers that are only drawn


def summary(comparison: Comparison) -> dict[str, Any]:
    """Return everything a report shows of a comparison, in the words of JSON."""
    standings = [
        standing(comparison, metric, machine) for metric in comparison.metrics for machine in comparison.machines
    ]
    forecasts = forecasts_of(comparison)
    return {
        "settings": plain(comparison.settings),
        "datasets": datasets_of(comparison),
        "machines": comparison.machines,
        "methods": list(dict.fromkeys(cell.method for cell in comparison.cells)),
        "metrics": list(comparison.metrics),
        "standings": plain(standings),
        "forecasts": forecasts,
        "parameters": plain(comparison.choices),
        "verdict": verdict(comparison, standings),
        "notes": notes(comparison),
    }


def datasets_of(comparison: Comparison) -> list[str]:
    """Return the names of the data sets, in order."""
    return list(dict.fromkeys(cell.dataset for cell in comparison.cells))


def standing(comparison: Comparison, metric: str, machine: str) -> dict[str, Any]:
    """Return values, ranks and tests of one metric on one machine; methods best first."""
    errors = comparison.errors(metric, machine)
    methods = comparison.methods(machine)
    means = np.array([values.mean(axis=1) for values in errors.values()])
    oriented = smaller_is_better(metric, means)
    average = ranks(oriented, ties="average")
    order = np.lexsort(
        [np.arange(len(methods)), np.where(np.isfinite(oriented), oriented, 1e300).mean(axis=0), average]
    )
    ordered = {name: smaller_is_better(metric, values[order]) for name, values in errors.items()}
    return {
        "metric": metric,
        "machine": machine,
        "better": METRICS[metric].better,
        "methods": [methods[k] for k in order],
        "folds": {name: values[order] for name, values in errors.items()},
        "means": {name: row[order] for name, row in zip(errors, means, strict=True)},
        "ranks": {"average": average[order], "min": ranks(oriented, ties="min")[order]},
        "rejections": rejected(list(ordered.values())),
        "against_best": against_best(oriented[:, order], ordered, overlap(comparison, machine)),
    }


def smaller_is_better(metric: str, values: Floats) -> Floats:
    """Return a metric so that smaller is better, and what is missing as the worst."""
    oriented = -values if METRICS[metric].better == "larger" else values
    return np.where(np.isnan(oriented), np.inf, oriented)


def rejected(errors: list[Floats]) -> Any:
    """Return on how many data sets each method is significantly worse than each other, None of single folds."""
    if min(values.shape[1] for values in errors) < 2:
        return None
    return np.sum([rejections(values[None], alpha=ALPHA) for values in errors], axis=0)


def overlap(comparison: Comparison, machine: str) -> float:
    """Return how many rows were tested for each trained on: 1/9 in ten folds, however often they are repeated."""
    shares = [cell.tested / cell.trained for cell in comparison.cells if cell.machine == machine and cell.trained]
    return float(np.mean(shares)) if shares else 1.0


def against_best(oriented: Floats, errors: Mapping[str, Floats], ratio: float) -> dict[str, Any]:
    """Return what says whether the best differs from each other method.

    Over several data sets Friedman's test with Nemenyi's critical difference (Demšar 2006); on one the t-test over its
    folds, corrected for training sets that overlap (Nadeau & Bengio 2003), with Holm's correction for all pairs.
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
    # All pairs, not only those with the best: which method is best was seen on the same folds.
    pairs = list(combinations(range(methods), 2))
    pvalues = holm(np.array([corrected_t(values[j], values[i], ratio=ratio).pvalue for i, j in pairs]))
    adjusted = np.append(1.0, pvalues[: methods - 1])
    return {"test": "corrected_t", "pvalues": adjusted, "worse": adjusted < ALPHA}


def holm(pvalues: Floats) -> Floats:
    """Return p-values corrected for being the smallest of many (Holm 1979).

    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(pvalues, kind="stable")
    steps = np.maximum.accumulate(pvalues[order] * np.arange(len(pvalues), 0, -1))
    found = np.empty(len(pvalues))
    found[order] = np.minimum(steps, 1.0)
    return found


# Forecasts ------------------------------------------------------------------------------------------------------------


def forecasts_of(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the curves of every method, and what decisions need of the best one, for each data set and machine."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (dataset, machine, method), predictions in comparison.predictions.items():
        if np.isfinite(predictions.p).all():
            found.setdefault((dataset, machine), []).append({"method": method, **drawn(predictions)})
    return [
        {"dataset": dataset, "machine": machine, **with_best(comparison, dataset, machine, curves)}
        for (dataset, machine), curves in found.items()
    ]


def with_best(comparison: Comparison, dataset: str, machine: str, curves: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the curves with the name of the best method by the first metric, and its decisions."""
    metric = comparison.metrics[0]
    values = smaller_is_better(metric, comparison.errors(metric, machine)[dataset].mean(axis=1))
    by_method = dict(zip(comparison.methods(machine), values, strict=True))
    best = min((curve["method"] for curve in curves), key=lambda method: by_method[method])
    return {"best": best, "curves": curves, "panel": panel(comparison.predictions[dataset, machine, best])}


def drawn(predictions: Predictions) -> dict[str, Any]:
    """Return the reliability curve of predictions, rounded for drawing."""
    data = what_happened(predictions)
    curve = reliability(data.label, data.score, sample_weight=data.weight, draws=DRAWS, confidence=1 - ALPHA)
    return {"several": len(predictions.classes) > 2, "curve": rounded(fewer(curve))}


def what_happened(predictions: Predictions) -> Sample:
    """Return the forecasts of the positive class, or of the decision being right of more than two classes."""
    if len(predictions.classes) > 2:
        right, confidence = confidences(predictions.y, predictions.p, predictions.classes)
        return Sample(np.clip(confidence, 0.0, 1.0), right, predictions.weight)
    happened = (predictions.y == predictions.classes[1]).astype(np.float64)
    return Sample(np.clip(predictions.p[:, 1], 0.0, 1.0), happened, predictions.weight)


def fewer(curve: ReliabilityCurve) -> dict[str, Any]:
    """Return a curve as plain values with few points of its band."""
    values: dict[str, Any] = plain(curve)
    if values["band"]:
        n = len(values["band"]["x"])
        kept = np.unique(np.linspace(0, n - 1, min(n, BAND_POINTS)).astype(int))
        for name in ("x", "low", "high"):
            values["band"][name] = [values["band"][name][k] for k in kept]
    return values


def panel(predictions: Predictions) -> dict[str, Any]:
    """Return what decisions need of predictions."""
    data, several = what_happened(predictions), len(predictions.classes) > 2
    if several:
        curve = error_reject_curve(
            predictions.y, predictions.p, sample_weight=predictions.weight, labels=predictions.classes
        )
    else:
        curve = error_reject_curve(data.label, data.score, sample_weight=data.weight)
    names = [str(name) for name in predictions.classes]
    return {"classes": names, **plain({"counts": decision_counts(data, several=several), "curve": thinned(curve)})}


def rounded(value: Any) -> Any:
    """Return plain values with few digits."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


# Words ----------------------------------------------------------------------------------------------------------------


def words(name: str) -> str:
    """Return the name of a metric or a test as words."""
    return NAMES.get(name, name.replace("_", " "))


NAMES = {
    "auc": "AUC",
    "ece": "ECE",
    "mcre": "MCRE",
    "brier": "Brier score",
    "corp": "CORP",
    "spiegelhalter": "Spiegelhalter",
    "hosmer_lemeshow": "Hosmer-Lemeshow",
    "ece_mass": "ECE, equal mass",
    "ece_debiased": "ECE, debiased",
    "squared_ece": "squared ECE",
    "squared_ece_debiased": "squared ECE, debiased",
    "classwise_ece": "classwise ECE",
    "top_label_ece": "top-label ECE",
    "smooth_ece": "smooth ECE",
}


def verdict(comparison: Comparison, standings: list[dict[str, Any]]) -> str:
    """Say which method is best for these data, and whether the difference is real."""
    first = [standing for standing in standings if standing["metric"] == comparison.metrics[0]]
    others = [standing for standing in standings if standing["metric"] != comparison.metrics[0]]
    where = {machine: f"with {machine}" if len(comparison.machines) > 1 else "" for machine in comparison.machines}
    sentences = [best_of(standing, where[standing["machine"]]) for standing in first]
    for standing in others:
        by = f"By the {words(standing['metric'])} {where[standing['machine']]}".strip()
        sentences.append(f"{by} the best is {standing['methods'][0]}.")
    return " ".join(sentences)


def best_of(standing: Mapping[str, Any], where: str) -> str:
    """Say which method is best on a machine, and from which it can be told apart."""
    methods, means = standing["methods"], list(standing["means"].values())
    best = f"is best by the {words(standing['metric'])}"
    start = f"{where[:1].upper()}{where[1:]}, {methods[0]} {best}" if where else f"{methods[0]} {best}"
    if len(means) > 1:
        head = f"{start}: its average rank over {len(means)} data sets is {number(standing['ranks']['average'][0])}."
    else:
        (folds,) = standing["folds"].values()
        head = f"{start}: {number(means[0][0])}, the mean of {folds.shape[1]} folds."
    found = standing["against_best"]
    return f"{head} {REAL[found['test']](methods, found, means)}".strip()


def of_ranks(methods: list[str], found: Mapping[str, Any], means: list[Floats]) -> str:  # noqa: ARG001
    """Say which average ranks differ."""
    if found["pvalue"] is not None and found["pvalue"] >= ALPHA:
        seen = f"Friedman's test sees no difference between methods (p = {found['pvalue']:.2g})"
        return f"That is not shown to be real: {seen}."
    words = f"by Nemenyi's critical difference of {number(found['critical_difference'])} ranks"
    return told_apart(methods, found["worse"], words)


def of_folds(methods: list[str], found: Mapping[str, Any], means: list[Floats]) -> str:
    """Say which means over folds differ."""
    words = told_apart(methods, found["worse"], "by the corrected paired t-test over folds")
    return f"{words} The next is {methods[1]} with {number(means[0][1])} (p = {found['pvalues'][1]:.2g})."


def told_apart(methods: list[str], worse: NDArray[np.bool_], how: str) -> str:
    """Say from which methods the best can be told apart."""
    real = [method for method, differs in zip(methods, worse, strict=True) if differs]
    same = [method for method, differs in zip(methods[1:], worse[1:], strict=True) if not differs]
    if not real:
        return f"That is not shown to be real: it cannot be told apart from any other ({how})."
    rest = f", not from {', '.join(same)}" if same else ""
    return f"The difference is real from {', '.join(real)}{rest} ({how}, at {ALPHA:.0%})."


def untested(methods: list[str], found: Mapping[str, Any], means: list[Floats]) -> str:  # noqa: ARG001
    """Say why there is no test."""
    return "Whether the difference is real cannot be tested on one method, or one fold."


REAL = {"friedman": of_ranks, "corrected_t": of_folds, None: untested}


def notes(comparison: Comparison) -> list[str]:
    """Return what failed, and what was not kept."""
    failed: dict[str, int] = {}
    for cell in comparison.cells:
        if cell.note:
            first = cell.note.strip().splitlines()[0].rstrip(":")  # a solver may have much more to say
            key = f"{cell.method} on {cell.dataset} with {cell.machine}: {first}"
            failed[key] = failed.get(key, 0) + 1
    found = [f"{words} ({count} {'fold' if count == 1 else 'folds'})" for words, count in failed.items()]
    if not comparison.predictions:
        found.append("The probabilities were not kept: no reliability diagrams and no decisions can be shown.")
    return found
