"""Choosing hyper-parameters, training, and judging every method on the scores they share."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
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
from calibrant.checks import at_least_two, distributions
from calibrant.comparing.content import FAILURES
from calibrant.comparing.costs import cost
from calibrant.comparing.folder import (
    Document,
    Outcome,
    digest,
    judged_from,
    key_of,
    outcomes_from,
    recalled,
    remember,
    scores_from,
)
from calibrant.comparing.records import Cell, Choice, Comparison, Predictions, unique
from calibrant.comparing.tasks import CHOICES, Data, Part, Recipe, Run, Scores, Task, Trial, job_on, splits
from calibrant.estimators.protocols import choose_scheme, collect, group_params, part, prepare, score_columns, train
from calibrant.maps.classes import Plan
from calibrant.maps.fitting import fit_classes
from calibrant.metrics import METRICS
from calibrant.progress import shown
from calibrant.samples import ClassSample
from calibrant.warning import warn

__all__ = ["AS_PROBABILITIES", "as_given", "by_training", "compared", "undisturbed"]

_BOTH_COLUMNS = ("log_loss", "mcre", "total_log_loss")


def compared(tasks: Sequence[Task], run: Run, *, keep: bool) -> Comparison:
    """Choose hyper-parameters, compute what is not in the folder, and put everything together."""
    trials = _trials_of(tasks)
    total = sum(map(cost, trials)) + sum(map(cost, tasks))
    with shown("comparing", total, run.progress) as advance:
        tasks = _settled(tasks, trials, _all_of(_try_out, trials, run, advance))
        found = _all_of(_evaluate, tasks, run, advance)
    done = list(zip(tasks, [documents for documents, _ in found], strict=True))
    computed = sum(count for _, count in found)
    cells = _in_order(
        (cell for task, documents in done for cell in _cells_of(task, documents)), [*tasks[0].asked.methods]
    )
    _warn_of_failures(cells)
    settings = {"version": calibrant.__version__, "machines": _machines_of(tasks), **tasks[0].asked.summary()}
    return Comparison(cells, _choices_of(done), _predictions_of(done) if keep else {}, settings, computed)


def _all_of(
    function: Callable[..., Any], tasks: Sequence[Any], run: Run, advance: Callable[[float], None]
) -> list[Any]:
    """Return the function of every task, side by side where asked."""
    found = []
    calls = (delayed(function)(task, run.folder) for task in tasks)
    for task, result in zip(tasks, Parallel(n_jobs=run.n_jobs, return_as="generator")(calls), strict=True):
        found.append(result)
        advance(cost(task))
    return found


def _trials_of(tasks: Sequence[Task]) -> list[Trial]:
    """Return the folds on which hyper-parameters are chosen for whole data sets."""
    firsts = [task for task in tasks if task.fold == 0 and task.asked.choose == "prior"]
    return [trial for task in firsts for trial in _folds_of_choice(task, np.arange(len(task.data.y)))]


def _folds_of_choice(task: Task, rows: Index) -> list[Trial]:
    """Return the folds of some rows, where there is something to choose."""
    if len(task.trainer.points) < 2:
        return []
    groups = rows if task.data.groups is None else np.unique(task.data.groups[rows])
    # Not the folds on which the methods are compared.
    parts = splits(task.data, rows, min(CHOICES[task.asked.choose], len(groups)), task.asked.seed + 1)
    return [Trial(task.data, task.trainer, *part) for part in parts]


def _try_out(trial: Trial, folder: Path | None) -> list[Outcome]:
    """Return how each point did on a fold, from the folder if it is there."""
    key = None if folder is None else key_of(trial)
    known = recalled(folder, key, partial(outcomes_from, trial=trial))
    if known is not None:
        return known
    with undisturbed():
        found = [outcome for path in trial.trainer.paths for outcome in _along(trial, path)]
    remember(folder, key, {"outcomes": found})
    return found


def _along(trial: Trial, path: Sequence[Mapping[str, Any]]) -> Iterator[Outcome]:
    """Yield how each point of a path did, from one machine's solution to the next where it is warm."""
    data, trainer = trial.data, trial.trainer
    inside = part(trainer.estimator, data.X, trial.train, trial.train)
    outside = part(trainer.estimator, data.X, trial.test, trial.train)
    params = group_params(trainer.estimator, None if data.groups is None else data.groups[trial.train])
    machine = trainer.at(path[0])
    if trainer.warm:
        machine.set_params(**{trainer.prefix + "warm_start": True})
    for point in path:
        settings = {trainer.prefix + name: value for name, value in point.items()}
        machine = machine.set_params(**settings) if trainer.warm else trainer.at(point)
        try:
            machine.fit(inside, data.y[trial.train], **params)
            yield _outcome(machine, outside, data, trial.test)
        except FAILURES:
            yield -1, np.inf


def _outcome(machine: Any, X: Any, data: Data, rows: Index) -> Outcome:
    """Return how many rows a machine decides rightly, and its log loss where it has one."""
    if not hasattr(machine, "predict_proba"):
        return int(np.sum(machine.predict(X) == data.y[rows])), 0.0
    p, happened = _spread(machine, X, data.classes), data.index[rows]
    losses = -np.log(np.maximum(p[np.arange(len(rows)), happened], np.finfo(float).tiny))
    return int(np.sum(p.argmax(axis=1) == happened)), float(losses.sum())


def _settled(tasks: Sequence[Task], trials: Sequence[Trial], outcomes: Sequence[list[Outcome]]) -> list[Task]:
    """Give each task the best hyper-parameters of its machine and data set."""
    by_trainer: dict[tuple[int, int], list[list[Outcome]]] = {}
    for trial, found in zip(trials, outcomes, strict=True):
        by_trainer.setdefault((id(trial.data), id(trial.trainer)), []).append(found)
    return [_with_best(task, by_trainer.get((id(task.data), id(task.trainer)), [])) for task in tasks]


def _with_best(task: Task, outcomes: Sequence[list[Outcome]]) -> Task:
    """Return the task with the most accurate point, of equals that of the least log loss, of these the first."""
    points = task.trainer.points
    if not points or (len(points) > 1 and not outcomes):
        return task
    if len(points) == 1:
        return replace(task, parameters=points[0])
    hits = [sum(fold[i][0] for fold in outcomes) for i in range(len(points))]
    loss = [sum(fold[i][1] for fold in outcomes) for i in range(len(points))]
    best = min(range(len(points)), key=lambda i: (-hits[i], loss[i]))
    n = len(task.train) if task.asked.choose == "nested" else len(task.data.y)
    return replace(task, parameters=points[best], accuracy=hits[best] / n)


def _evaluate(task: Task, folder: Path | None) -> tuple[list[Document], int]:
    """Return what each method of a task says of the test rows, and how many methods were not in the folder."""
    recipes = task.trainer.recipes
    keys = [None if folder is None else digest(key_of(task), recipe.content) for recipe in recipes]
    found = {i: recalled(folder, key, partial(judged_from, task=task)) for i, key in enumerate(keys)}
    known = {i: document for i, document in found.items() if document is not None}
    missing = [i for i in range(len(recipes)) if i not in known]
    if missing:
        with undisturbed():
            scores = _shared_scores(task, folder)
            for i in missing:
                known[i] = _judged(scores, recipes[i], task.data, task.test)
                if known[i]["p"] is not None:  # what failed may do better another time
                    remember(folder, keys[i], known[i])
    return [known[i] for i in range(len(recipes))], len(missing)


def _shared_scores(task: Task, folder: Path | None) -> Scores:
    """Return the scores of a task, from the folder if they are there."""
    # What was kept for methods that take scores does not hold the machine's own probabilities, nor the other way round.
    needed = sorted({recipe.own for recipe in task.trainer.recipes})
    key = None if folder is None else digest(key_of(task), "scores", needed)
    known = recalled(folder, key, partial(scores_from, task=task))
    if known is not None:
        return known
    task = _nested(task, folder)
    start = time.perf_counter()
    with _noted() as notes:
        try:
            found = task.trainer.make(task)
        except FAILURES as error:
            found = Scores((), None, failure=_said(error))
    found = replace(
        found,
        notes=tuple(notes),
        seconds=time.perf_counter() - start,
        parameters=task.parameters,
        accuracy=task.accuracy,
    )
    remember(folder, key, asdict(found))
    return found


def _nested(task: Task, folder: Path | None) -> Task:
    """Return the task with hyper-parameters chosen within its training rows, where that is asked for."""
    if task.asked.choose != "nested":
        return task
    return _with_best(task, [_try_out(trial, folder) for trial in _folds_of_choice(task, task.train)])


def by_training(task: Task) -> Scores:
    """Train the machine by the protocol, and on all training rows, and score the test rows."""
    data, asked, recipes = task.data, task.asked, task.trainer.recipes
    given = task.trainer.at(task.parameters)
    present = np.unique(data.index[task.train])
    scheme = choose_scheme("auto", given, len(present))
    machine = prepare(given, scheme, "auto", fitted=False)
    job = job_on(data, task.train, machine, scheme=scheme, cv=asked.inner_cv, random_state=asked.seed)
    at_least_two(job.classes)
    outside = part(given, data.X, task.test, task.train)
    if all(recipe.own for recipe in recipes):
        return Scores((), _spread(train(job), outside, data.classes))
    found = collect(asked.protocol, job)
    machines = [train(job) if each.machine is None else each.machine for each in found]
    parts = [
        Part(
            present,
            job.index[each.rows],
            each.scores,
            each.kind,
            scheme,
            score_columns(one, outside, job.classes, scheme, "auto")[0],
        )
        for each, one in zip(found, machines, strict=True)
    ]
    if not any(recipe.own for recipe in recipes):
        return Scores(tuple(parts), None)
    whole = train(job) if asked.protocol == "ensemble" else machines[0]  # its machines know a part of the rows each
    return Scores(tuple(parts), _spread(whole, outside, data.classes))


def _spread(machine: Any, X: Any, classes: NDArray[Any]) -> Floats:
    """Return a machine's probabilities, one column for each of all classes."""
    p = np.zeros((X.shape[0] if hasattr(X, "shape") else len(X), len(classes)))
    p[:, np.searchsorted(classes, machine.classes_)] = machine.predict_proba(X)
    return p


def as_given(task: Task) -> Scores:
    """Return the scores of a table, which need no training."""
    data, train, test = task.data, task.train, task.test
    weight = None if data.weight is None else data.weight[train]
    scheme = "binary" if len(data.classes) == 2 else "ovr"
    every = np.arange(len(data.classes))
    given = Part(every, data.index[train], data.X[train], task.asked.kind, scheme, data.X[test], weight)
    own = AS_PROBABILITIES[task.asked.kind]
    return Scores((given,), None if own is None else own(data.X[test]))


def _from_logits(scores: Floats) -> Floats:
    """Return probabilities of two classes from one column of logits, of more from a column a class."""
    return np.column_stack([expit(-scores), expit(scores)]) if scores.shape[1] == 1 else softmax(scores, axis=1)


# What scores say as they are.
AS_PROBABILITIES: dict[str, Callable[[Floats], Floats] | None] = {
    "margin": None,
    "logit": _from_logits,
    "probability": lambda scores: np.column_stack([1 - scores, scores]) if scores.shape[1] == 1 else scores,
}


def _judged(scores: Scores, recipe: Recipe, data: Data, rows: Index) -> Document:
    """Fit a method to the calibration scores and apply it to the test rows; where it fails, say why."""
    start, p, failure = time.perf_counter(), None, scores.failure
    with _noted() as notes:
        try:
            p = None if failure else distributions("p", _probabilities_by(recipe, scores, data)).tolist()
        except FAILURES as error:
            failure = _said(error)
    return {
        "rows": rows.tolist(),
        "p": p,
        "note": "; ".join(unique([*([failure] if failure else []), *scores.notes, *notes])),
        "seconds": time.perf_counter() - start,
        "training_seconds": scores.seconds,
        "parameters": dict(scores.parameters),
        "accuracy": scores.accuracy,
    }


def _probabilities_by(recipe: Recipe, scores: Scores, data: Data) -> Floats:
    """Return a method's probabilities of the test rows, averaged over machines where there are several."""
    if recipe.own and scores.own is not None:
        own: Floats = recipe.row.fit(scores.own)
        return own
    plan, found = Plan(recipe.method, recipe.options), []
    for each in scores.parts:
        known = ClassSample(each.scores, each.index, len(each.present), each.kind, each.weight)
        found.append(np.zeros((len(each.test), len(data.classes))))
        found[-1][:, each.present] = fit_classes(plan, each.scheme, known)(each.test)
    return np.asarray(np.mean(found, axis=0))


@contextmanager
def undisturbed() -> Iterator[None]:
    """Compute on one thread, so that no last digit depends on how many tasks run, and keep warnings for the notes."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Yield a list that will hold what was warned of."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes += unique(str(warning.message) for warning in caught)


def _said(error: Exception) -> str:
    """Return an error as a note."""
    return f"{type(error).__name__}: {error}"


def _cells_of(task: Task, documents: Sequence[Document]) -> Iterator[Cell]:
    """Yield the cells of a task, the metrics computed from the probabilities."""
    for recipe, document in zip(task.trainer.recipes, documents, strict=True):
        values, note = dict.fromkeys(task.asked.metrics, np.nan), [document["note"]] if document["note"] else []
        for metric in task.asked.metrics if document["p"] is not None else ():
            try:
                values[metric] = _value_of(metric, task, np.asarray(document["p"]))
            except ValueError as error:
                note.append(f"{metric}: {error}")
        yield Cell(
            task.data.name,
            task.trainer.machine,
            recipe.label,
            task.fold,
            values,
            document["seconds"],
            document["training_seconds"],
            "; ".join(note),
            len(task.train),
            len(task.test),
        )


def _value_of(metric: str, task: Task, p: Floats) -> float:
    """Return a metric of probabilities of the test rows."""
    index, k = task.data.index[task.test], len(task.data.classes)
    weight = None if task.data.weight is None else task.data.weight[task.test]
    # Of two classes the log loss needs both columns: 1 - p has lost the digits of a small probability.
    if k == 2 and metric not in _BOTH_COLUMNS:
        return float(METRICS[metric].function(index, p[:, 1], sample_weight=weight))
    return float(METRICS[metric].function(index, p, sample_weight=weight, labels=np.arange(k)))


def _machines_of(tasks: Iterable[Task]) -> dict[str, str]:
    """Return what the machines are, for people to read."""
    trainers = unique((task.trainer.machine, task.trainer.trained, repr(task.trainer.estimator)) for task in tasks)
    return {f"{machine} {trained}": " ".join(shown.split()) for machine, trained, shown in trainers}


def _in_order(cells: Iterable[Cell], labels: Sequence[str]) -> tuple[Cell, ...]:
    """Return the cells by data set, machine, method in the order asked for, and fold."""
    found = list(cells)
    machines = unique((cell.dataset, cell.machine) for cell in found)
    place = {name: i for i, name in enumerate([*machines, *labels])}
    return tuple(sorted(found, key=lambda c: (place[c.dataset, c.machine], place[c.method], c.fold)))


def _warn_of_failures(cells: Iterable[Cell]) -> None:
    """Say how many cells have no value, and why the first has none."""
    every = list(cells)
    failed = [cell for cell in every if np.isnan(list(cell.values.values())).any()]
    if failed:
        first = failed[0]
        where = f"{first.dataset}, {first.machine}, {first.method}, fold {first.fold}"
        message = f"{len(failed)} of {len(every)} cells have no value; the first ({where}): {first.note}"
        warn(message)


def _choices_of(done: Iterable[tuple[Task, Sequence[Document]]]) -> tuple[Choice, ...]:
    """Return the hyper-parameters, once for all folds where they were chosen before."""
    found: dict[Hashable, Choice] = {}
    for task, documents in done:
        fold = task.fold if task.asked.choose == "nested" else None
        name = (task.data.name, task.trainer.machine, task.trainer.trained, fold)
        parameters, accuracy = task.parameters, task.accuracy
        if fold is not None:
            parameters, accuracy = documents[0]["parameters"], documents[0]["accuracy"]
        if parameters:
            found.setdefault(name, Choice(*name, parameters, np.nan if accuracy is None else accuracy))
    return tuple(found.values())


def _predictions_of(
    done: Iterable[tuple[Task, Sequence[Document]]],
) -> dict[tuple[str, str, str], Predictions]:
    """Return the probabilities out of fold; folds on which a method failed are left out."""
    found: dict[tuple[str, str, str], list[tuple[Task, Floats]]] = {}
    for task, documents in done:
        for recipe, document in zip(task.trainer.recipes, documents, strict=True):
            if document["p"] is not None:
                name = (task.data.name, task.trainer.machine, recipe.label)
                found.setdefault(name, []).append((task, np.asarray(document["p"], np.float64)))
    return {name: _joined(parts) for name, parts in found.items()}


def _joined(parts: Sequence[tuple[Task, Floats]]) -> Predictions:
    """Return the folds of a method as one record."""
    data = parts[0][0].data
    rows = np.concatenate([task.test for task, _ in parts])
    fold = np.concatenate([np.full(len(task.test), task.fold, np.intp) for task, _ in parts])
    weight = None if data.weight is None else data.weight[rows]
    return Predictions(rows, fold, data.y[rows], np.concatenate([p for _, p in parts]), data.classes, weight)
