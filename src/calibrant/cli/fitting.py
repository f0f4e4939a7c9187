"""Commands that fit maps and apply them: fit, apply, methods."""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import fields, is_dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import calibrant
from calibrant.checks import KINDS, binary, one_of
from calibrant.cli.console import number, print_json, print_line, ruled, tell, working
from calibrant.cli.reading import AsJson, Kind, PosLabel, TableFile, Weight, parse_options, read_rows, require_place
from calibrant.maps import METHODS, Map, check_method, fit_map, probabilities
from calibrant.maps.classes import ClassMap, MatrixMap
from calibrant.maps.methods import list_methods
from calibrant.maps.store import save, to_dict
from calibrant.metrics import brier, log_loss
from calibrant.samples import Sample, sample

__all__ = ["apply", "fit", "methods"]


def methods(*, as_json: AsJson = False) -> None:
    """List the methods that fit a map.

    The column "map" names the formula that the method fits. "scores" says where
    it is defined: real, on decision values and logits (a probability is sent
    through the logit first); unit, on probabilities; any, wherever the scores
    are. Options are given to fit as --option name=value. A second table lists
    the methods that need more than a score, the support vectors of an SVC: they
    are for CalibratedClassifier in Python.
    """
    if as_json:
        print_json([_described(name) for name in METHODS])
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in ("method", "map", "scores", "monotone"):
        table.add_column(heading, no_wrap=True)
    table.add_column("source and options")
    for row in map(_described, list_methods("column", "matrix")):
        options = f"\noptions: {', '.join(row['options'])}" if row["options"] else ""
        last = Text.assemble(row["source"], (options, "green"))
        name, monotone = Text(row["name"], style="bold cyan"), "yes" if row["monotone"] else "no"
        table.add_row(name, row["record"], row["domain"], monotone, last)
    Console(highlight=False).print(table, _machine_methods())


def _machine_methods() -> Table:
    """Return the table of methods that look at the machine."""
    table = ruled("method of a machine", last="source and options")
    for name in list_methods("machine"):
        row = METHODS[name]
        last = Text.assemble(row.source, (f"\noptions: {', '.join(row.options())}", "green"))
        table.add_row(name, last)
    return table


def _described(name: str) -> dict[str, Any]:
    """Return a row of the table of methods as JSON values."""
    method = METHODS[name]
    defaults = signature(method.fit).parameters
    return {
        "name": name,
        "needs": method.needs,
        "record": method.record.__name__,
        "domain": method.domain,
        "monotone": method.monotone,
        "options": {option: defaults[option].default for option in method.options()},
        "source": method.source,
    }


def fit(
    table: TableFile,
    *,
    score: Annotated[str, typer.Option(help="The column of scores, larger = more positive.")],
    label: Annotated[str, typer.Option(help="The column of labels: two values, or probabilities.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write the map to, as JSON.")],
    weight: Weight = None,
    method: Annotated[str, typer.Option(help="A method that `calibrant methods` lists.")] = "platt",
    kind: Kind = "margin",
    pos_label: PosLabel = None,
    option: Annotated[list[str], typer.Option(help="name=value of the method; may be repeated.")] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    r"""Fit a map from scores to probabilities and write it to a file.

    Fit it to scores of rows that the classifier was not trained on, held out or
    out of fold: on its training rows a classifier looks surer than it is.

    [bold]Examples[/bold]

      calibrant fit scores.csv --score f --label churned -o map.json
      calibrant fit scores.parquet --score p --label y --kind probability \
          --method bins --option k=20 --option smoothing=raw -o map.json
    """
    one_of("--method", method, list_methods("column"))
    one_of("--kind", kind, KINDS)
    require_place(output, table)
    options = parse_options(option)
    check_method(method, options)
    data, positive = _read_sample(table, score, label, weight, kind=kind, pos_label=pos_label)
    with working(f"fitting {method}"):
        mapping, notes = _fitted(method, data, kind, options)
        summary = {
            "method": method,
            "kind": kind,
            "options": options,
            "rows": len(data),
            "positives": data.totals()[0],
            "positive_label": positive,
            "map": to_dict(mapping),
            "on_fitting_rows": _losses(mapping, data),
            "warnings": notes,
            "output": str(output),
        }
        save(mapping, output)
    for note in notes:
        tell("warning", note, "yellow")
    if as_json:
        print_json(summary)
    else:
        _print_fit(mapping, summary, weighted=weight is not None)


def _print_fit(mapping: Map, summary: dict[str, Any], *, weighted: bool) -> None:
    """Print what was fitted."""
    positives = f"{summary['positives']:,.10g}"
    which = "" if summary["positive_label"] is None else f" (label {summary['positive_label']})"
    scores = summary["on_fitting_rows"]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    table.add_row("method", summary["method"])
    table.add_row("rows", f"{summary['rows']:,}")
    table.add_row("weight of positives" if weighted else "positives", Text(f"{positives}{which}"))
    table.add_row("map", Text(_abridged(mapping)))
    table.add_row("log loss", f"{number(scores['log_loss'])} on the fitting rows")
    table.add_row("Brier score", f"{number(scores['brier'])} on the fitting rows")
    table.add_row("written to", Text(summary["output"]))
    Console().print(table)


def apply(
    map_file: Annotated[Path, typer.Argument(metavar="MAP", help="A map that `calibrant fit` wrote.")],
    table: TableFile,
    *,
    score: Annotated[str, typer.Option(help="The column of scores, of the kind the map was fitted to.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The CSV or Parquet file to write.")],
    name: Annotated[str, typer.Option(help="The name of the new column.")] = "probability",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a column of that name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a column of probabilities to a copy of a table.

    All other columns stay as they are, but for types when CSV becomes Parquet,
    which are read off the whole file. A missing score has a missing
    probability, an infinite one the map's limit.

    [bold]Example[/bold]

      calibrant apply map.json new.parquet --score f -o out.parquet
    """
    from calibrant.cli import tables

    require_place(output, table, map_file)
    tables.ending(output)
    mapping = _load_map(map_file)
    tables.require_columns(table, [score])
    if name in tables.column_names(table) and not overwrite:
        msg = f"{table} already has a column {name!r}; choose another --name, or replace it by --overwrite"
        raise ValueError(msg)
    rows = missing = 0
    with (
        working(f"applying {map_file}", tables.count_rows(table)) as step,
        closing(tables.add_column(table, output, score, name, mapping)) as batches,
    ):
        for batch in batches:
            rows, missing = rows + batch.num_rows, missing + batch.column(name).null_count
            step(completed=rows)
    if as_json:
        print_json({"rows": rows, "missing": missing, "column": name, "output": str(output)})
    else:
        gaps = f", {missing:,} of them missing" if missing else ""
        print_line(f"{output}: {rows:,} rows with {name!r}{gaps}")


def _read_sample(
    table: Path, score: str, label: str, weight: str | None, *, kind: str, pos_label: str | None
) -> tuple[Sample, Any]:
    """Read a table's columns as a sample, with the label that counts as positive, None where labels are soft."""
    from calibrant.cli import tables

    rows = read_rows(table, [score], label, weight)
    positive = None if pos_label is None else tables.parse_label(pos_label, rows.y)
    y = binary(f"column {label!r}", rows.y, positive)
    return sample(rows.numbers[:, 0], y, rows.weight, kind=kind), _positive_label(rows.y, y)


def _positive_label(values: Any, y: Any) -> Any:
    """Return the label that counts as positive, None where there is none or labels are soft."""
    hard = np.isin(y, (0, 1)).all()
    return values[np.argmax(y)].item() if hard and y.any() and hasattr(values[0], "item") else None


def _load_map(path: Path) -> Map:
    """Read a map, with one sentence if the file is none."""
    if not path.is_file():
        msg = f"{path} does not exist or is not a file"
        raise ValueError(msg)
    mapping = calibrant.load(path)
    if isinstance(mapping, (ClassMap, MatrixMap)):
        msg = f"{path} is a map of several columns of scores; the command line applies maps of one"
        raise ValueError(msg)
    return mapping


def _fitted(method: str, data: Sample, kind: str, options: dict[str, Any]) -> tuple[Map, list[str]]:
    """Fit a map and return it with what the fit warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            mapping = fit_map(method, data, kind, **options)
        except (TypeError, RuntimeError) as error:  # an option of the wrong type, or no convergence
            msg = f"method {method!r} failed: {error}"
            raise ValueError(msg) from None
    return mapping, [str(warning.message) for warning in caught]


def _losses(mapping: Map, data: Sample) -> dict[str, float]:
    """Return log loss and Brier score of a map on a sample."""
    label, weight = np.asarray(data.label), data.weight
    p = probabilities(mapping, data.arrays()[0])
    if np.isin(label, (0, 1)).all():  # both columns, for 1 - p is 0 where p rounds to 1
        entropy = log_loss(label.astype(int), p, sample_weight=weight, labels=[0, 1])
    else:
        entropy = log_loss(label, p[:, 1], sample_weight=weight)
    return {"log_loss": entropy, "brier": brier(label, p[:, 1], sample_weight=weight)}


def _abridged(value: Any) -> str:
    """Return a record as text with six digits and the ends of long tuples.

    >>> _abridged(calibrant.maps.Steps(tuple(range(9)), tuple(n / 9 for n in range(10))))
    'Steps(edges=(0, 1, ... 8; 9 numbers), values=(0, 0.111111, ... 1; 10 numbers))'
    """
    if is_dataclass(value):
        shown = ((f.name, getattr(value, f.name)) for f in fields(value) if f.repr)
        return f"{type(value).__name__}({', '.join(f'{name}={_abridged(item)}' for name, item in shown)})"
    if isinstance(value, tuple):
        items = [_abridged(item) for item in value]
        if len(items) <= 4:
            return f"({', '.join(items)})"
        return f"({items[0]}, {items[1]}, ... {items[-1]}; {len(items)} numbers)"
    return f"{value:.6g}" if isinstance(value, float | int) and not isinstance(value, bool) else repr(value)
