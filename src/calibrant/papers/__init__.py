"""The published experiments, repeated: each claim of a paper is judged from numbers computed here.

>>> EXPERIMENTS["lin2007"].title
"Lin, Lin & Weng 2007: fitting Platt's sigmoid without numerical difficulties"

How to add a paper
------------------
1. Write `<paper>.py` beside this file. It holds the published numbers as a table (None where they are lost), a stage
   `stage(*, quick, done) -> list of settings` (flat dictionaries of JSON values, each a few seconds to a few minutes of
   work), `compute(settings) -> values` (JSON values; it calls public functions of the library, loads data through a
   cached function and takes all randomness from fixed seeds), and `cost(settings)`, roughly the seconds a cell takes,
   for the progress bar.
2. Write `tables(cells)`, `figure(cells)` and one check per claim, all functions of the cells alone.
   `select_cells(cells, name=value)` selects cells; if it finds none, the claim is not testable. A check returns a
   `Verdict` whose evidence is a sentence with the numbers. The rule, with its tolerance, is fixed before the run.
3. Put the `Experiment` into `EXPERIMENTS`. Later stages get the cells of earlier ones in `done`, so hyper-parameters
   chosen in one stage can be settings of the next. `quick=True` returns a part of the full list that takes less than a
   minute; the full run reuses its cells.
4. `make reproduce-<paper>` runs it and writes experiments/<paper>/ and the summary experiments/README.md. After a
   change of texts or checks no new run is needed: `python -m calibrant.papers <paper> --into experiments
   --judge-again`. `--against experiments` compares a run elsewhere with the committed results. Finished cells are found
   again by their settings, constants, data, versions and the library's own source (without report/, cli/ and plots/).
   After any change of that source all cells are computed anew, so cells of different code are never mixed.
5. tests/papers/test_experiments.py tests every row of `EXPERIMENTS`; add a file beside it with a cell recomputed by
   other means.
"""

from __future__ import annotations

import time
from os import PathLike
from pathlib import Path
from typing import Any

from joblib import effective_n_jobs

from calibrant.checks import check_one_of
from calibrant.comparing.folder import prepare_folder
from calibrant.papers import duin1998, lin2007, platt1999, rueping2004
from calibrant.papers.cells import Cell
from calibrant.papers.records import Claim, Experiment, Result, Table, Verdict
from calibrant.papers.running import list_versions, run_experiment
from calibrant.papers.writing import cells_of, read_document, require_packages, write_result
from calibrant.progress import Progress

__all__ = [
    "EXPERIMENTS",
    "Cell",
    "Claim",
    "Experiment",
    "Result",
    "Table",
    "Verdict",
    "judge_again",
    "reproduce",
    "require_jobs",
]

EXPERIMENTS: dict[str, Experiment] = {
    "duin1998": duin1998.EXPERIMENT,
    "lin2007": lin2007.EXPERIMENT,
    "platt1999": platt1999.EXPERIMENT,
    "rueping2004": rueping2004.EXPERIMENT,
}

_HOME = Path("calibrant-experiments")


def reproduce(
    name: str,
    *,
    quick: bool = False,
    folder: str | PathLike[str] | None = None,
    into: str | PathLike[str] | None = None,
    n_jobs: int | None = 2,
    progress: Progress = True,
) -> Result:
    """Repeat a published experiment, and write what was found.

    Parameters
    ----------
    name : one of `EXPERIMENTS`.
    quick : run only a part, to see that it works.
    folder : where finished cells are kept, by default calibrant-experiments/<name>; after an interruption the same call
        computes only what is missing.
    into : where result.json, README.md, figure.svg and page.html are written, by default the folder, or its
        sub-folder "quick".
    n_jobs : how many cells are computed in parallel, -1 for one per core; the numbers do not depend on it.
    progress : True for a bar with the time left (on a terminal), or a function that is called with the share done.

    Returns
    -------
    Result

    Raises
    ------
    ValueError : if the name is unknown.

    Examples
    --------
    >>> reproduce("nobody1900")
    Traceback (most recent call last):
        ...
    ValueError: name must be one of ...; got 'nobody1900'
    """
    check_one_of("name", name, EXPERIMENTS)
    require_jobs("n_jobs", n_jobs)
    require_packages()
    start = time.perf_counter()
    home = _HOME / name if folder is None else Path(folder)
    for place in (home, home / "cells"):
        prepare_folder(place)
    cells, computed = run_experiment(
        name, EXPERIMENTS[name], home / "cells", quick=quick, n_jobs=n_jobs, progress=progress
    )
    seconds = {
        "computing": sum(cell.seconds for cell in cells),
        "wall": time.perf_counter() - start,
        "n_jobs": effective_n_jobs(n_jobs),
        "computed": computed,
    }
    target = Path(into) if into is not None else home / "quick" if quick else home
    return _judge_and_write(name, cells, quick=quick, seconds=seconds, versions=list_versions(), folder=target)


def judge_again(folder: str | PathLike[str]) -> Result:
    """Judge the cells of a result.json again, and rewrite it and its pages, after a claim or a text has changed.

    Parameters
    ----------
    folder : where result.json is.

    Returns
    -------
    Result

    Raises
    ------
    FileNotFoundError : if there is no result.json.

    >>> judge_again("no-such-folder")
    Traceback (most recent call last):
    FileNotFoundError: a folder of results must hold no-such-folder/result.json; ...
    """
    document = read_document(Path(folder) / "result.json")
    check_one_of("name", document["name"], EXPERIMENTS)
    about = {name: document[name] for name in ("quick", "seconds", "versions")}
    return _judge_and_write(document["name"], cells_of(document), folder=Path(folder), **about)


def _judge_and_write(name: str, cells: tuple[Cell, ...], **about: Any) -> Result:
    """Judge the cells and write the result."""
    experiment = EXPERIMENTS[name]
    tables = tuple(experiment.tables(cells))
    result = Result(name, cells=cells, tables=tables, verdicts=experiment.judge(cells), experiment=experiment, **about)
    write_result(result)
    return result


def require_jobs(name: str, value: int | None) -> None:
    """Raise unless a number of processes is one that joblib accepts.

    Parameters
    ----------
    name : the name of the argument.
    value : the number of processes.

    Returns
    -------
    None

    Raises
    ------
    ValueError : if the number is 0 or not whole.

    >>> require_jobs("n_jobs", 0)
    Traceback (most recent call last):
    ValueError: n_jobs must be a number of processes other than 0 (-1 for all cores); got 0
    """
    if value == 0:
        msg = f"{name} must be a number of processes other than 0 (-1 for all cores); got {value}"
        raise ValueError(msg)
