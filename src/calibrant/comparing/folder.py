"""The folder of finished cells: files of JSON named by the content of everything they depend on."""

from __future__ import annotations

import hashlib
import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

import calibrant
from calibrant.assessing import plain
from calibrant.comparing.tasks import Part, Scores, Task, Trial, content_of
from calibrant.store import write_whole

FORMAT = 2

Document = dict[str, Any]


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
    common = [FORMAT, calibrant.__version__, sklearn.__version__, work.data.content, trainer.trained, machine, rows]
    if isinstance(work, Trial):
        return digest(common, content_of("grid", trainer.paths), trainer.warm)
    asked = work.asked
    chosen = content_of("grid", trainer.paths if asked.choose == "nested" else dict(work.parameters))
    return digest(
        common, chosen, asked.choose, asked.protocol, content_of("inner_cv", asked.inner_cv), asked.seed, asked.kind
    )


def recalled(folder: Path | None, key: str | None) -> Document | None:
    """Return what the folder knows under a key."""
    if folder is None:
        return None
    try:
        document: Document = json.loads((folder / f"{key}.json").read_bytes())
    except (FileNotFoundError, ValueError):  # a file that cannot be read is computed anew
        return None
    return document


def remember(folder: Path | None, key: str | None, document: Document) -> None:
    """Keep a document in the folder; it is there whole or not at all."""
    if folder is not None:
        write_whole(folder / f"{key}.json", (json.dumps(plain(document), allow_nan=False) + "\n").encode())


def scores_from(document: Document) -> Scores:
    """Return the scores that a document describes."""
    parts = [
        Part(
            np.asarray(each["present"], np.intp),
            np.asarray(each["index"], np.intp),
            np.asarray(each["scores"], np.float64),
            each["kind"],
            each["scheme"],
            np.asarray(each["test"], np.float64),
            None if each["weight"] is None else np.asarray(each["weight"], np.float64),
        )
        for each in document["parts"]
    ]
    own = None if document["own"] is None else np.asarray(document["own"], np.float64)
    return Scores(**{**document, "parts": tuple(parts), "own": own, "notes": tuple(document["notes"])})
