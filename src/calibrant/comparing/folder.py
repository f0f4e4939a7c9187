"""The folder of finished work: JSON files, each named by a hash of everything that its content depends on."""

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

import calibrant
from calibrant.arrays import Floats
from calibrant.checks import KINDS, check_distributions, check_one_of
from calibrant.comparing.content import FAILURES, content_of
from calibrant.comparing.tasks import FoldTask, MachineScores, SearchTask, SharedScores
from calibrant.evidence.words import to_json
from calibrant.files import write_whole
from calibrant.maps.classes import SCHEMES

__all__ = [
    "Document",
    "Outcome",
    "digest",
    "key_of",
    "prepare_folder",
    "read_evaluation",
    "read_outcomes",
    "read_scores",
    "recall",
    "remember",
]

_FOLDER_FORMAT = 2  # changes whenever files of older versions must not be read

Document = dict[str, Any]  # the content of a file
Outcome = tuple[int, float]  # of a grid point: rows decided correctly, and the log loss of machines with probabilities
_T = TypeVar("_T")


def prepare_folder(folder: str | PathLike[str] | None) -> Path | None:
    """Return the folder, which is created if it does not exist."""
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
    """Return a hash of JSON values."""
    return hashlib.sha256(json.dumps(things, sort_keys=True).encode()).hexdigest()[:40]


def key_of(work: FoldTask | SearchTask) -> str:
    """Return a hash of everything that the scores of a fold, or the outcomes of a search, depend on."""
    trainer = work.trainer
    machine = content_of(f"machine {trainer.machine!r}", trainer.estimator)
    rows = [content_of("cv", work.train), content_of("cv", work.test)]
    versions = [each.__version__ for each in (calibrant, sklearn, np, scipy)]
    common = [_FOLDER_FORMAT, versions, work.data.content, trainer.trained, machine, rows]
    if isinstance(work, SearchTask):
        return digest(common, content_of("grid", trainer.paths), trainer.warm)
    given = work.settings
    chosen = content_of("grid", trainer.paths if given.choose == "nested" else dict(work.parameters))
    return digest(
        common, chosen, given.choose, given.protocol, content_of("inner_cv", given.inner_cv), given.seed, given.kind
    )


def recall(folder: Path | None, key: str | None, read: Callable[[Any], _T]) -> _T | None:
    """Return the document under a key, as `read` returns it; None if it is not there or `read` refuses it."""
    if folder is None:
        return None
    try:
        return read(json.loads((folder / f"{key}.json").read_bytes()))
    except (FileNotFoundError, *FAILURES):
        return None


def remember(folder: Path | None, key: str | None, document: Document) -> None:
    """Write a document to the folder, completely or not at all; do nothing without a folder."""
    if folder is not None:
        write_whole(folder / f"{key}.json", (json.dumps(to_json(document), allow_nan=False) + "\n").encode())


def read_outcomes(document: Any, search: SearchTask) -> list[Outcome]:
    """Return the outcome of each grid point of a search; raise if the document does not hold them."""
    found = [(int(hits), float(loss)) for hits, loss in document["outcomes"]]
    _require_equal("outcomes", len(found), len(search.trainer.points))
    return found


def read_evaluation(document: Any, task: FoldTask) -> Document:
    """Return a method's probabilities of a task's test rows; raise if the document does not hold them."""
    _require_equal("rows", document["rows"], task.test.tolist())
    p = check_distributions("p", document["p"])
    _require_equal("the shape of p", p.shape, (len(task.test), len(task.data.classes)))
    return {
        "rows": document["rows"],
        "p": p,
        "note": _read_text(document["note"]),
        "training_seconds": float(document["training_seconds"]),
        **_read_common(document),
    }


def read_scores(document: Any, task: FoldTask) -> SharedScores:
    """Return the scores that the methods of a task share; raise if the document does not hold all of them."""
    rows, classes = len(task.test), len(task.data.classes)
    parts = []
    for each in document["parts"]:
        check_one_of("kind", each["kind"], KINDS)
        check_one_of("scheme", each["scheme"], SCHEMES)
        present, index = (np.asarray(each[name], np.intp) for name in ("present", "index"))
        _require_equal("classes", bool(np.isin(present, np.arange(classes)).all()), expected=True)
        _require_equal("classes", bool(((index >= 0) & (index < len(present))).all()), expected=True)
        columns = SCHEMES[each["scheme"]].columns(len(present))
        scores, test = _read_array(each["scores"], (len(index), columns)), _read_array(each["test"], (rows, columns))
        weight = None if each["weight"] is None else _read_array(each["weight"], (len(index),))
        parts.append(MachineScores(present, index, scores, each["kind"], each["scheme"], test, weight))
    own = None if document["own"] is None else _read_array(document["own"], (rows, classes))
    notes, failure = tuple(map(_read_text, document["notes"])), _read_text(document["failure"])
    if not failure and any(own is None if method.own else not parts for method in task.trainer.methods):
        msg = "scores must hold what the methods use, or the reason why they could not be made"
        raise ValueError(msg)
    return SharedScores(tuple(parts), own, notes=notes, failure=failure, **_read_common(document))


def _read_common(document: Any) -> dict[str, Any]:
    """Return the time, the hyper-parameters and their accuracy, which all documents of a task have."""
    parameters, accuracy = document["parameters"], document["accuracy"]
    _require_equal("parameters", isinstance(parameters, Mapping), expected=True)
    return {
        "seconds": float(document["seconds"]),
        "parameters": parameters,
        "accuracy": None if accuracy is None else float(accuracy),
    }


def _read_array(values: Any, shape: tuple[int, ...]) -> Floats:
    """Return an array of numbers, which must have this shape."""
    found = np.asarray(values, np.float64)
    _require_equal("a shape", found.shape, shape)
    return found


def _read_text(value: Any) -> str:
    """Return a text; raise for anything else."""
    _require_equal("a text", isinstance(value, str), expected=True)
    return str(value)


def _require_equal(name: str, found: Any, expected: Any) -> None:
    """Raise unless a part of a document is what it must be."""
    if found != expected:
        msg = f"{name} must be {expected!r}; got {found!r}"
        raise ValueError(msg)
