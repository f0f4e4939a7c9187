"""The walk of a public call: how many functions of the package it visits, in how many files, and the changes of file.

    python -m bench.walk               # one line per call
    python -m bench.walk --steps iris  # every step of the calls whose name holds "iris"

A step is a call of a named Python function of the package. A change of file is two steps after each other, each in
another file. Each call has been made once before, so that nothing is imported on the way.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.svm import SVC

import calibrant

_PACKAGE = Path(calibrant.__file__).parent
Step = tuple[str, str]  # a file and a function


def walk(call: Callable[[], Any]) -> list[Step]:
    """Return the steps of a call, in order."""
    steps: list[Step] = []

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(_PACKAGE)) and not code.co_name.startswith("<"):
            steps.append((Path(code.co_filename).relative_to(_PACKAGE).as_posix(), code.co_qualname))

    call()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return steps


def count(steps: list[Step]) -> tuple[int, int, int]:
    """Return the numbers of functions, of files and of changes of file."""
    changes = sum(before[0] != after[0] for before, after in pairwise(steps))
    return len(set(steps)), len({file for file, _ in steps}), changes


def _calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the calls by name."""
    X, y = load_iris(return_X_y=True)
    scores = np.random.default_rng(0).normal(size=300)
    happened = np.random.default_rng(1).random(300) < 1 / (1 + np.exp(-scores))
    p = calibrant.fit("platt", scores, happened)(scores)

    def fit_and_store() -> None:
        fitted = calibrant.fit("platt", scores, happened)
        calibrant.save(fitted, folder / "platt.json")
        calibrant.sql(fitted, "score")

    model = calibrant.CalibratedClassifier(SVC(), "platt").fit(X, y)
    return {
        'CalibratedClassifier(SVC(), "platt").fit on iris': lambda: model.fit(X, y),
        'CalibratedClassifier(SVC(), "platt").predict_proba on iris': lambda: model.predict_proba(X),
        "CalibratedClassifier(SVC()).fit on iris": lambda: calibrant.CalibratedClassifier(SVC()).fit(X, y),
        'fit("platt") to JSON and SQL': fit_and_store,
        'fit("auto")': lambda: calibrant.fit("auto", scores, happened),
        "KernelLogisticRegression(10).fit on 300 rows": lambda: calibrant.KernelLogisticRegression(10.0).fit(
            scores[:, None], happened
        ),
        "KernelLogisticRegression().fit on 300 rows": lambda: calibrant.KernelLogisticRegression().fit(
            scores[:, None], happened
        ),
        "metrics.log_loss": lambda: calibrant.metrics.log_loss(happened, p),
        "metrics.ece": lambda: calibrant.metrics.ece(happened, p),
        "assess": lambda: calibrant.assess(happened, p),
    }


def main() -> None:
    """Print the walks."""
    parser = argparse.ArgumentParser(prog="python -m bench.walk", description=__doc__.split("\n")[0])
    parser.add_argument("--steps", metavar="NAME", help="print every step of the calls whose name holds this")
    wanted = parser.parse_args().steps
    print(f"{'functions':>9} {'files':>6} {'changes of file':>16}  call")
    with tempfile.TemporaryDirectory() as folder:
        for name, call in _calls(Path(folder)).items():
            if wanted is not None and wanted not in name:
                continue
            steps = walk(call)
            functions, files, changes = count(steps)
            print(f"{functions:9} {files:6} {changes:16}  {name}")
            if wanted is not None:
                for file, function in steps:
                    print(f"    {file:28} {function}")


if __name__ == "__main__":
    main()
