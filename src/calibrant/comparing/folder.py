"""The folder of finished cells: files of JSON named by the content of everything they depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray

import calibrant
from calibrant.checks import KINDS, distributions, one_of
from calibrant.comparing.content import FAILURES, content_of
from calibrant.comparing.tasks import Part, Scores, Task, Trial
from calibrant.evidence.words import plain
from calibrant.files import write_whole
from calibrant.maps.classes import SCHEMES

__all__ = [
    "Document",
    "Outcome",
    "digest",
    "judged_from",
    "key_of",
    "outcomes_from",
    "prepare_folder",
    "recalled",
    "remember",
    "scores_from",
]

_FORMAT = 2

Document = dict[str, Any]
_T = TypeVar("_T")
Outcome = tuple[int, float]  # rows decided rightly, and the log loss of machines with probabilities


def prepare_folder(folder: str | PathLike[str] | None) -> Path | None:
    """Return the folder, made if it is not there."""
    if folder is None:
        return None
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        msg = f"folder must be a directory; got the file {str(path)!r}"
        raise ValueError(msg) from None
    return path


def digest(*things: Any) -> str:
    """Return a name for a content, given as JSON values."""
    return hashlib.sha256(json.dumps(things, sort_keys=True).encode()).hexdigest()[:40]


def key_of(work: Task | Trial) -> str:
    """Return a name for everything on which a task's scores, or a trial's outcomes, depend."""
    trainer = work.trainer
    machine = content_of(f"machine {trainer.machine!r}", trainer.estimator)
    rows = [content_of("cv", work.train), content_of("cv", work.test)]
    versions = [each.__version__ for each in (calibrant, sklearn, np, scipy)]
    common = [_FORMAT, versions, work.data.content, trainer.trained, machine, rows]
    if isinstance(work, Trial):
        return digest(common, content_of("grid", trainer.paths), trainer.warm)
    asked = work.asked
    chosen = content_of("grid", trainer.paths if asked.choose == "nested" else dict(work.parameters))
    return digest(
        common, chosen, asked.choose, asked.protocol, content_of("inner_cv", asked.inner_cv), asked.seed, asked.kind
    )


def recalled(folder: Path | None, key: str | None, read: Callable[[Any], _T]) -> _T | None:
    """Return what the folder knows under a key, as `read` understands it; what it does not is computed anew."""
    if folder is None:
        return None
    try:
        return read(json.loads((folder / f"{key}.json").read_bytes()))
    except (FileNotFoundError, *FAILURES):
        return None


def remember(folder: Path | None, key: str | None, document: Document) -> None:
    """Keep a document in the folder; it is there whole or not at all."""
    if folder is not None:
        write_whole(folder / f"{key}.json", (json.dumps(plain(document), allow_nan=False) + "\n").encode())


def outcomes_from(document: Any, trial: Trial) -> list[Outcome]:
    """Return how each point of a trial did, or raise if a document does not say it."""
    found = [(int(hits), float(loss)) for hits, loss in document["outcomes"]]
    _agree("outcomes", len(found), len(trial.trainer.points))
    return found


def judged_from(document: Any, task: Task) -> Document:
    """Return what a method said of a task's test rows, or raise if a document does not say it."""
    _agree("rows", document["rows"], task.test.tolist())
    p = distributions("p", document["p"])
    _agree("the shape of p", p.shape, (len(task.test), len(task.data.classes)))
    said: Document = {"rows": document["rows"], "p": p.tolist(), **_common_from(document)}
    said["note"], said["training_seconds"] = _text(document["note"]), float(document["training_seconds"])
    return said


def scores_from(document: Any, task: Task) -> Scores:
    """Return the scores that methods share, or raise if a document does not hold those of a task."""
    k = len(task.data.classes)
    parts = tuple(_part_from(each, task) for each in document["parts"])
    own = None if document["own"] is None else _array(document["own"], (len(task.test), k))
    notes, failure = tuple(map(_text, document["notes"])), _text(document["failure"])
    if not failure and not parts and own is None:
        msg = "scores must be there, or the reason why not"
        raise ValueError(msg)
    return Scores(parts, own, notes=notes, failure=failure, **_common_from(document))


def _part_from(document: Any, task: Task) -> Part:
    """Return calibration scores and the test scores of the same machine, or raise if a document does not hold them."""
    one_of("kind", document["kind"], KINDS)
    one_of("scheme", document["scheme"], SCHEMES)
    present, index = (np.asarray(document[name], np.intp) for name in ("present", "index"))
    _agree("classes", bool(np.isin(present, np.arange(len(task.data.classes))).all()), expected=True)
    _agree("classes", bool(((index >= 0) & (index < len(present))).all()), expected=True)
    columns = SCHEMES[document["scheme"]].columns(len(present))
    scores = _array(document["scores"], (len(index), columns))
    test = _array(document["test"], (len(task.test), columns))
    weight = None if document["weight"] is None else _array(document["weight"], (len(index),))
    return Part(present, index, scores, document["kind"], document["scheme"], test, weight)


def _common_from(document: Any) -> dict[str, Any]:
    """Return the time, the hyper-parameters and their accuracy, which all documents of a task have."""
    parameters, accuracy = document["parameters"], document["accuracy"]
    _agree("parameters", isinstance(parameters, Mapping), expected=True)
    return {
        "seconds": float(document["seconds"]),
        "parameters": parameters,
        "accuracy": None if accuracy is None else float(accuracy),
    }


def _array(values: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return an array of numbers of the shape that it must have."""
    found = np.asarray(values, np.float64)
    _agree("a shape", found.shape, shape)
    return found


def _text(value: Any) -> str:
    """Return a text, and nothing else as if it were one."""
    _agree("a text", isinstance(value, str), expected=True)
    return str(value)


def _agree(name: str, found: Any, expected: Any) -> None:
    """Raise unless a part of a document is what it must be."""
    if found != expected:
        msg = f"{name} must be {expected!r}; got {found!r}"
        raise ValueError(msg)
