"""The computation of a comparison: choose hyper-parameters, train machines, and evaluate methods on shared scores."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit, softmax
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import calibrant
from calibrant.arrays import Floats, Index
from calibrant.checks import check_distributions, check_several_classes
from calibrant.comparing.content import FAILURES
from calibrant.comparing.folder import (
    Document,
    Outcome,
    digest,
    key_of,
    read_evaluation,
    read_outcomes,
    read_scores,
    recall,
    remember,
)
from calibrant.comparing.records import Cell, Choice, Comparison, Predictions, unique
from calibrant.comparing.tasks import (
    SEARCH_FOLDS,
    FoldTask,
    MachineScores,
    NamedMethod,
    SearchTask,
    SharedScores,
    make_job,
    split_rows,
)
from calibrant.estimators.protocols import (
    choose_scheme,
    collect_scores,
    group_params,
    prepare_machine,
    score_columns,
    select_rows,
    train,
)
from calibrant.maps.classes import Plan
from calibrant.maps.lifting import fit_class_map, fit_classes
from calibrant.metrics import METRICS
from calibrant.progress import Progress, show_progress
from calibrant.samples import ClassSample
from calibrant.warning import warn

__all__ = ["AS_PROBABILITIES", "quiet_single_thread", "run_tasks", "score_by_training", "use_given_scores"]

# For two classes these metrics need both columns: 1 - p has lost the digits of a small probability.
_BOTH_COLUMNS = ("log_loss", "mcre", "total_log_loss")

# About how long a task takes, in squared numbers of rows, because training takes time ~ n^2.
_TASK_OVERHEAD = 500.0**2
_TRAINING_COSTS = {"holdout": 1.5, "cv": 2.3, "ensemble": 1.3, "given": 0.0}  # of each protocol; of others it is 1


def run_tasks(
    tasks: Sequence[FoldTask], folder: Path | None, n_jobs: int | None, progress: Progress, *, keep: bool
) -> Comparison:
    """Choose hyper-parameters, compute what is not in the folder, and collect the results."""
    searches = [
        search
        for task in tasks
        if task.fold == 0 and task.settings.choose == "prior"
        for search in _search_tasks(task, np.arange(len(task.data.y)))
    ]
    total = sum(map(_cost, searches)) + sum(map(_cost, tasks))
    with show_progress("comparing", total, progress) as advance:

        def run(function: Callable[..., Any], work: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
            """Yield each piece of work with the function's result, in order, computed by `n_jobs` workers."""
            calls = (delayed(function)(each, folder) for each in work)
            for each, result in zip(work, Parallel(n_jobs=n_jobs, return_as="generator")(calls), strict=True):
                advance(_cost(each))
                yield each, result

        outcomes: dict[tuple[int, int], list[list[Outcome]]] = {}
        for search, found in run(_try_grid, searches):
            outcomes.setdefault((id(search.data), id(search.trainer)), []).append(found)
        tasks = [_set_best_point(task, outcomes.get((id(task.data), id(task.trainer)), [])) for task in tasks]
        done = list(run(_evaluate, tasks))
    evaluations = [(task, documents) for task, (documents, _) in done]
    machines = unique((each.trainer.machine, each.trainer.trained, repr(each.trainer.estimator)) for each in tasks)
    pooled = {task.data.name: task.data.cells for task in tasks if task.data.cells is not None}
    settings = {
        "version": calibrant.__version__,
        **({"cells": pooled} if pooled else {}),
        "machines": {f"{machine} {trained}": " ".join(text.split()) for machine, trained, text in machines},
        **tasks[0].settings.summary(),
    }
    return Comparison(
        _make_cells(evaluations),
        _list_choices(evaluations),
        _join_predictions(evaluations) if keep else {},
        settings,
        computed=sum(count for _, (_, count) in done),
    )


def _cost(task: FoldTask | SearchTask) -> float:
    """Return about how long a task takes, in squared rows."""
    rows, points = float(len(task.train)) ** 2, len(task.trainer.points)
    if isinstance(task, SearchTask):
        return _TASK_OVERHEAD + rows * points
    own = all(method.own for method in task.trainer.methods)
    nested = SEARCH_FOLDS["nested"] * points if task.settings.choose == "nested" else 0
    return _TASK_OVERHEAD + rows * (nested + (1.0 if own else _TRAINING_COSTS.get(task.settings.protocol, 1.0)))


@contextmanager
def quiet_single_thread() -> Iterator[None]:
    """Compute on one thread, so that no digit depends on the number of parallel tasks, and show no warnings."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# Hyper-parameters -----------------------------------------------------------------------------------------------------


def _search_tasks(task: FoldTask, rows: Index) -> list[SearchTask]:
    """Return the folds of a grid search on some rows; none if there is nothing to choose."""
    if len(task.trainer.points) < 2:
        return []
    groups = rows if task.data.groups is None else np.unique(task.data.groups[rows])
    number, seed = min(SEARCH_FOLDS[task.settings.choose], len(groups)), task.settings.seed + 1
    # Another seed than that of the folds on which the methods are compared, so that the folds differ.
    return [SearchTask(task.data, task.trainer, *fold) for fold in split_rows(task.data, rows, number, seed)]


def _try_grid(search: SearchTask, folder: Path | None) -> list[Outcome]:
    """Return the outcome of each grid point on one fold of a search, read from the folder if it is there."""
    key = None if folder is None else key_of(search)
    known = recall(folder, key, partial(read_outcomes, search=search))
    if known is not None:
        return known
    data, trainer, outcomes = search.data, search.trainer, []
    with quiet_single_thread():
        inside = select_rows(trainer.estimator, data.X, search.train, search.train)
        outside = select_rows(trainer.estimator, data.X, search.test, search.train)
        params = group_params(trainer.estimator, None if data.groups is None else data.groups[search.train])
        for path in trainer.paths:
            machine = trainer.at(path[0], warm_start=True) if trainer.warm else None
            for point in path:
                machine = trainer.move(machine, point) if trainer.warm else trainer.at(point)
                try:
                    machine.fit(inside, data.y[search.train], **params)
                    outcomes.append(_test_machine(machine, outside, search))
                except FAILURES:
                    outcomes.append((-1, np.inf))
    remember(folder, key, {"outcomes": outcomes})
    return outcomes


def _test_machine(machine: Any, X: Any, search: SearchTask) -> Outcome:
    """Return how many test rows a machine decides correctly, and its total log loss, 0 without probabilities."""
    data = search.data
    if not hasattr(machine, "predict_proba"):
        return int(np.sum(machine.predict(X) == data.y[search.test])), 0.0
    p, observed = _probabilities(machine, X, data.classes), data.index[search.test]
    losses = -np.log(np.maximum(p[np.arange(len(p)), observed], np.finfo(float).tiny))
    return int(np.sum(p.argmax(axis=1) == observed)), float(losses.sum())


def _set_best_point(task: FoldTask, outcomes: Sequence[list[Outcome]]) -> FoldTask:
    """Return the task with the most accurate grid point; of equal ones the smallest log loss, and then the first."""
    points = task.trainer.points
    if len(points) == 1:
        return replace(task, parameters=points[0])
    if not points or not outcomes:
        return task
    hits = [sum(fold[i][0] for fold in outcomes) for i in range(len(points))]
    loss = [sum(fold[i][1] for fold in outcomes) for i in range(len(points))]
    best = min(range(len(points)), key=lambda i: (-hits[i], loss[i]))
    rows = len(task.train) if task.settings.choose == "nested" else len(task.data.y)
    return replace(task, parameters=points[best], accuracy=hits[best] / rows)


# One fold -------------------------------------------------------------------------------------------------------------


def _evaluate(task: FoldTask, folder: Path | None) -> tuple[list[Document], int]:
    """Return the evaluation of each method of a task, and the number of those that were not in the folder."""
    methods = task.trainer.methods
    keys = [None if folder is None else digest(key_of(task), method.content) for method in methods]
    found = [recall(folder, key, partial(read_evaluation, task=task)) for key in keys]
    if all(found):
        return [each for each in found if each], 0
    evaluations, computed = [], 0
    with quiet_single_thread():
        scores = _shared_scores(task, folder)
        for method, key, known in zip(methods, keys, found, strict=True):
            evaluation = known or _apply_method(method, scores, task)
            if not known and evaluation["p"] is not None:  # one that failed is tried again by the next run
                remember(folder, key, evaluation)
            computed += not known
            evaluations.append(evaluation)
    return evaluations, computed


def _shared_scores(task: FoldTask, folder: Path | None) -> SharedScores:
    """Return the scores that the methods of a task share, read from the folder if they are there."""
    # Files kept for methods that use scores do not hold the machine's own probabilities, and vice versa.
    needed = sorted({method.own for method in task.trainer.methods})
    key = None if folder is None else digest(key_of(task), "scores", needed)
    known = recall(folder, key, partial(read_scores, task=task))
    if known is not None:
        return known
    if task.settings.choose == "nested":
        task = _set_best_point(task, [_try_grid(search, folder) for search in _search_tasks(task, task.train)])
    start = time.perf_counter()
    with _record_warnings() as notes:
        try:
            found = task.trainer.make_scores(task)
        except FAILURES as error:
            found = SharedScores((), None, failure=f"{type(error).__name__}: {error}")
    found = replace(
        found,
        notes=tuple(notes),
        seconds=time.perf_counter() - start,
        parameters=task.parameters,
        accuracy=task.accuracy,
    )
    remember(folder, key, asdict(found))
    return found


def score_by_training(task: FoldTask) -> SharedScores:
    """Train the machine by the protocol and on all training rows; score the test rows."""
    data, settings, methods = task.data, task.settings, task.trainer.methods
    estimator = task.trainer.at(task.parameters)
    present = np.unique(data.index[task.train])
    scheme = choose_scheme("auto", estimator, len(present))
    machine = prepare_machine(estimator, scheme, "auto", fitted=False)
    job = make_job(data, task.train, machine, scheme=scheme, cv=settings.inner_cv, random_state=settings.seed)
    check_several_classes(job.classes)
    outside = select_rows(estimator, data.X, task.test, task.train)
    if all(method.own for method in methods):
        return SharedScores((), _probabilities(train(job), outside, data.classes))
    found = collect_scores(settings.protocol, job)
    machines = [train(job) if each.machine is None else each.machine for each in found]
    parts = []
    for each, one in zip(found, machines, strict=True):
        test = score_columns(one, outside, job.classes, scheme, "auto")[0]
        parts.append(MachineScores(present, job.index[each.rows], each.scores, each.kind, scheme, test))
    if not any(method.own for method in methods):
        return SharedScores(tuple(parts), None)
    # Each machine of an ensemble was trained on some of the rows only.
    whole = train(job) if settings.protocol == "ensemble" else machines[0]
    return SharedScores(tuple(parts), _probabilities(whole, outside, data.classes))


def _probabilities(machine: Any, X: Any, classes: NDArray[Any]) -> Floats:
    """Return a machine's own probabilities, one column per class, 0 for classes that it does not know."""
    p = np.zeros((X.shape[0] if hasattr(X, "shape") else len(X), len(classes)))
    p[:, np.searchsorted(classes, machine.classes_)] = machine.predict_proba(X)
    return p


def use_given_scores(task: FoldTask) -> SharedScores:
    """Return the scores of a table, which need no training."""
    data, train, test, kind = task.data, task.train, task.test, task.settings.kind
    weight = None if data.weight is None else data.weight[train]
    scheme = "binary" if data.X.shape[1] == 1 else "matrix"
    every = np.arange(len(data.classes))
    given = MachineScores(every, data.index[train], data.X[train], kind, scheme, data.X[test], weight)
    convert = AS_PROBABILITIES[kind]
    return SharedScores((given,), None if convert is None else convert(data.X[test]))


def _from_logits(scores: Floats) -> Floats:
    """Return probabilities, from one column of logits for two classes, from one column per class for more."""
    return np.column_stack([expit(-scores), expit(scores)]) if scores.shape[1] == 1 else softmax(scores, axis=1)


# How scores of each kind become probabilities without a map.
AS_PROBABILITIES: dict[str, Callable[[Floats], Floats] | None] = {
    "margin": None,
    "logit": _from_logits,
    "probability": lambda scores: np.column_stack([1 - scores, scores]) if scores.shape[1] == 1 else scores,
}


def _apply_method(method: NamedMethod, scores: SharedScores, task: FoldTask) -> Document:
    """Fit a method to the calibration scores and apply it to the test rows; if it fails, say why in the note."""
    start, p, failure = time.perf_counter(), None, scores.failure
    with _record_warnings() as notes:
        try:
            p = None if failure else check_distributions("p", _predict(method, scores, len(task.data.classes)))
        except FAILURES as error:
            failure = f"{type(error).__name__}: {error}"
    return {
        "rows": task.test,
        "p": p,
        "note": "; ".join(unique([*([failure] if failure else []), *scores.notes, *notes])),
        "seconds": time.perf_counter() - start,
        "training_seconds": scores.seconds,
        "parameters": dict(scores.parameters),
        "accuracy": scores.accuracy,
    }


def _predict(method: NamedMethod, scores: SharedScores, classes: int) -> Floats:
    """Return a method's probabilities of the test rows, averaged over machines if there are several."""
    if method.own:
        own: Floats = method.row.fit(scores.own, **method.options)
        return own
    found = []
    fitted: Any
    for each in scores.parts:
        known = ClassSample(each.scores, each.index, len(each.present), each.kind, each.weight)
        p = np.zeros((len(each.test), classes))
        if each.scheme in ("ovr", "matrix"):  # one column per class: the method says how it is fitted
            fitted = fit_class_map(method.method, known, **method.options)
        else:
            fitted = fit_classes(Plan(method.method, method.options), each.scheme, known)
        p[:, each.present] = fitted(each.test)
        found.append(p)
    return np.asarray(np.mean(found, axis=0))


@contextmanager
def _record_warnings() -> Iterator[list[str]]:
    """Yield a list that holds the warnings of the block after its end."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes += unique(str(warning.message) for warning in caught)


# Results --------------------------------------------------------------------------------------------------------------

_Evaluations = Sequence[tuple[FoldTask, Sequence[Document]]]  # of each task, one document per method


def _make_cells(evaluations: _Evaluations) -> tuple[Cell, ...]:
    """Return the cells by data set, machine, method in the user's order, and fold; warn of those without a value."""
    cells = [
        _make_cell(task, method, document)
        for task, documents in evaluations
        for method, document in zip(task.trainer.methods, documents, strict=True)
    ]
    machines = unique((cell.dataset, cell.machine) for cell in cells)
    place = {name: i for i, name in enumerate([*machines, *evaluations[0][0].settings.methods])}
    cells.sort(key=lambda cell: (place[cell.dataset, cell.machine], place[cell.method], cell.fold))
    failed = [cell for cell in cells if np.isnan(list(cell.values.values())).any()]
    if failed:
        first = failed[0]
        where = f"{first.dataset}, {first.machine}, {first.method}, fold {first.fold}"
        warn(f"{len(failed)} of {len(cells)} cells have no value; the first ({where}): {first.note}")
    return tuple(cells)


def _make_cell(task: FoldTask, method: NamedMethod, document: Document) -> Cell:
    """Compute the metrics of a method on a fold; one that cannot be computed is NaN, with a note."""
    data, metrics = task.data, task.settings.metrics
    observed, classes = data.index[task.test], len(data.classes)
    weight = None if data.weight is None else data.weight[task.test]
    values, notes = dict.fromkeys(metrics, np.nan), [document["note"]] if document["note"] else []
    p = np.asarray(document["p"])
    for metric in () if document["p"] is None else metrics:
        compute = METRICS[metric].function
        try:
            if classes == 2 and metric not in _BOTH_COLUMNS:
                values[metric] = float(compute(observed, p[:, 1], sample_weight=weight))
            else:
                values[metric] = float(compute(observed, p, sample_weight=weight, labels=np.arange(classes)))
        except ValueError as error:
            notes.append(f"{metric}: {error}")
    return Cell(
        data.name,
        task.trainer.machine,
        method.label,
        task.fold,
        values,
        document["seconds"],
        document["training_seconds"],
        "; ".join(notes),
        data.size(task.train),
        data.size(task.test),
    )


def _list_choices(evaluations: _Evaluations) -> tuple[Choice, ...]:
    """Return the chosen hyper-parameters: one choice per fold if the search was nested, else one for all folds."""
    found: dict[Any, Choice] = {}
    for task, documents in evaluations:
        fold, parameters, accuracy = None, task.parameters, task.accuracy
        if task.settings.choose == "nested":
            fold, parameters, accuracy = task.fold, documents[0]["parameters"], documents[0]["accuracy"]
        name = (task.data.name, task.trainer.machine, task.trainer.trained, fold)
        if parameters:
            found.setdefault(name, Choice(*name, parameters, np.nan if accuracy is None else accuracy))
    return tuple(found.values())


def _join_predictions(evaluations: _Evaluations) -> dict[tuple[str, str, str], Predictions]:
    """Return the out-of-fold probabilities of each method; folds on which it failed are left out."""
    folds: dict[tuple[str, str, str], list[tuple[FoldTask, Floats]]] = {}
    for task, documents in evaluations:
        for method, document in zip(task.trainer.methods, documents, strict=True):
            if document["p"] is not None:
                name = (task.data.name, task.trainer.machine, method.label)
                folds.setdefault(name, []).append((task, np.asarray(document["p"], np.float64)))
    found = {}
    for name, parts in folds.items():
        data = parts[0][0].data
        rows = np.concatenate([task.test for task, _ in parts])
        fold = np.concatenate([np.full(len(task.test), task.fold, np.intp) for task, _ in parts])
        weight = None if data.weight is None else data.weight[rows]
        found[name] = Predictions(rows, fold, data.y[rows], np.concatenate([p for _, p in parts]), data.classes, weight)
    return found
