"""Commands that fit maps and apply them: fit, apply, methods."""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
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
from calibrant.checks import check_labels, check_one_of
from calibrant.cli.console import (
    format_number,
    make_table,
    name_options,
    print_json,
    print_line,
    print_message,
    show_activity,
)
from calibrant.cli.reading import (
    AsJson,
    Kind,
    KindOfMap,
    PosLabel,
    TableFile,
    Weight,
    parse_options,
    read_rows,
    require_place,
)
from calibrant.maps import METHODS, Map, check_method, fit_map, probabilities
from calibrant.maps.classes import ClassMap, MatrixMap
from calibrant.maps.methods import ALIASES, NEEDS, list_methods
from calibrant.maps.store import save, to_dict
from calibrant.metrics import brier, log_loss
from calibrant.samples import Sample, ask_for_kind, read_kind, sample
from calibrant.warning import warn

__all__ = ["apply", "fit", "methods"]


def methods(*, as_json: AsJson = False) -> None:
    """List the methods that fit a map.

    The column "map" names the formula that the method fits. "scores" says which
    scores it takes: real, decision values and logits (a probability is turned
    into its logit first); unit, probabilities; any, all of them. Give options to
    fit as --option name=value. A second table lists methods that need the
    support vectors of an SVC: they work with CalibratedClassifier in Python.
    """
    if as_json:
        print_json([_describe_method(name) for name in METHODS])
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in ("method", "map", "scores", "monotone"):
        table.add_column(heading, no_wrap=True)
    table.add_column("source and options")
    of_machines = make_table("method for an SVC", last="source and options")
    for row in map(_describe_method, METHODS):
        options = f"\noptions: {', '.join(row['options'])}" if row["options"] else ""
        last = Text.assemble(row["source"], (options, "green"))
        if row["needs"] == "machine":
            of_machines.add_row(row["name"], last)
        else:
            name, monotone = Text(row["name"], style="bold cyan"), "yes" if row["monotone"] else "no"
            table.add_row(name, row["record"], row["domain"], monotone, last)
    Console(highlight=False).print(table, of_machines)


def _describe_method(name: str) -> dict[str, Any]:
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
    score: Annotated[str, typer.Option(help="The column of scores; larger scores mean more positive.")],
    label: Annotated[str, typer.Option(help="The column of labels: two values, or probabilities.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The JSON file to write the map to.")],
    weight: Weight = None,
    method: Annotated[str, typer.Option(help="A method listed by `calibrant methods`.")] = "platt",
    kind: Kind = None,
    pos_label: PosLabel = None,
    option: Annotated[list[str], typer.Option(help="An option of the method as name=value; may be repeated.")] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    r"""Fit a map from scores to probabilities and write it to a file.

    Use scores of rows that the classifier was not trained on, held out or out of
    fold: on its training rows a classifier is overconfident.

    [bold]Examples[/bold]

      calibrant fit scores.csv --score f --label churned -o map.json
      calibrant fit scores.parquet --score p --label y --kind probability \
          --method bins --option k=20 --option smoothing=raw -o map.json
    """
    if method in list_methods("machine"):
        msg = f"--method must be one that needs scores alone; {method!r} needs {NEEDS['machine']}: use "
        msg += "CalibratedClassifier in Python"
        raise ValueError(msg)
    check_one_of("--method", ALIASES.get(method, method), list_methods("column"))
    chosen = read_kind(kind)
    require_place(output, table)
    options = parse_options(option)
    check_method(method, options)
    data, positive = _read_sample(table, score, label, weight, kind=kind, pos_label=pos_label)
    with show_activity(f"fitting {method}"):
        mapping, notes = _fit_and_catch_warnings(method, data, kind, options)
        summary = {
            "method": method,
            "kind": chosen,
            "options": options,
            "rows": len(data),
            "positives": data.totals()[0],
            "positive_label": positive,
            "map": to_dict(mapping),
            "on_fitting_rows": _compute_losses(mapping, data),
            "warnings": notes,
            "output": str(output),
        }
        save(mapping, output)
    for note in notes:
        print_message("warning", note, "yellow")
    if as_json:
        print_json(summary)
    else:
        _print_fit(mapping, summary, weighted=weight is not None)


def _print_fit(mapping: Map, summary: dict[str, Any], *, weighted: bool) -> None:
    """Print a summary of the fit."""
    positives = f"{summary['positives']:,.10g}"
    which = "" if summary["positive_label"] is None else f" (label {summary['positive_label']})"
    scores = summary["on_fitting_rows"]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    table.add_row("method", summary["method"])
    table.add_row("rows", f"{summary['rows']:,}")
    table.add_row("weight of positives" if weighted else "positives", Text(f"{positives}{which}"))
    why = getattr(mapping, "why", None)
    table.add_row("map", Text(_format_record(mapping) if why is None else repr(mapping)))
    if why is not None:
        table.add_row("why", Text(why))
    table.add_row("log loss", f"{format_number(scores['log_loss'])} on the fitting rows")
    table.add_row("Brier score", f"{format_number(scores['brier'])} on the fitting rows")
    table.add_row("written to", Text(summary["output"]))
    Console().print(table)


def apply(
    map_file: Annotated[Path, typer.Argument(metavar="MAP", help="A map written by `calibrant fit`.")],
    table: TableFile,
    *,
    score: Annotated[str, typer.Option(help="The column of scores, of the same kind as the map was fitted to.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The CSV or Parquet file to write.")],
    name: Annotated[str, typer.Option(help="The name of the new column.")] = "probability",
    kind: KindOfMap = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing column of that name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a column of probabilities to a copy of a table.

    All other columns stay as they are; when CSV becomes Parquet, their types are
    found from the whole file. A missing score gets a missing probability, an
    infinite score the limit of the map.

    [bold]Example[/bold]

      calibrant apply map.json new.parquet --score f -o out.parquet
    """
    from calibrant.cli import tables

    require_place(output, table, map_file)
    tables.file_ending(output)
    mapping = _load_map(map_file)
    if kind is not None:
        read_kind(kind)
        origin = getattr(mapping, "origin", None)
        if origin is None:
            warn(f"{map_file} does not say which scores it was fitted on: --kind cannot be checked")
        else:
            origin.require_kind(kind)
    tables.require_columns(table, [score])
    if name in tables.column_names(table) and not overwrite:
        msg = f"{table} already has a column {name!r}; choose another --name, or replace it with --overwrite"
        raise ValueError(msg)
    rows = missing = 0
    with (
        show_activity(f"applying {map_file}", tables.count_rows(table)) as step,
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
    table: Path, score: str, label: str, weight: str | None, *, kind: str | None, pos_label: str | None
) -> tuple[Sample, Any]:
    """Return columns of a table as a sample, and the positive label, or None if labels are probabilities."""
    from calibrant.cli import tables

    rows = read_rows(table, [score], label, weight)
    positive = None if pos_label is None else tables.parse_label(pos_label, rows.y)
    y, classes = check_labels(f"column {label!r}", rows.y, positive)
    data = replace(sample(rows.numbers[:, 0], y, rows.weight, kind=read_kind(kind)), classes=classes)
    are_classes = np.isin(y, (0, 1)).all() and y.any() and hasattr(rows.y[0], "item")
    return data, rows.y[np.argmax(y)].item() if are_classes else None


def _load_map(path: Path) -> Map:
    """Read a map of one column of scores, or raise."""
    if not path.is_file():
        msg = f"{path} does not exist or is not a file"
        raise ValueError(msg)
    mapping = calibrant.load(path)
    if isinstance(mapping, (ClassMap, MatrixMap)):
        msg = f"{path} is a map of several columns of scores; the command line applies only maps of one column"
        raise ValueError(msg)
    return mapping


def _fit_and_catch_warnings(
    method: str, data: Sample, kind: str | None, options: dict[str, Any]
) -> tuple[Map, list[str]]:
    """Fit a map and return it with the warnings of the fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            mapping = fit_map(method, data, read_kind(kind), **options)
            if kind is None:
                ask_for_kind(data.score)
        except (TypeError, RuntimeError) as error:  # an option of the wrong type, or no convergence
            msg = f"method {method!r} failed: {error}"
            raise ValueError(msg) from None
    return mapping, [name_options(str(warning.message)) for warning in caught]


def _compute_losses(mapping: Map, data: Sample) -> dict[str, float]:
    """Return log loss and Brier score of a map on a sample."""
    label, weight = np.asarray(data.label), data.weight
    p = probabilities(mapping, data.arrays()[0])
    if np.isin(label, (0, 1)).all():  # both columns, because 1 - p is 0 where p rounds to 1
        entropy = log_loss(label.astype(int), p, sample_weight=weight, labels=[0, 1])
    else:
        entropy = log_loss(label, p[:, 1], sample_weight=weight)
    return {"log_loss": entropy, "brier": brier(label, p[:, 1], sample_weight=weight)}


def _format_record(value: Any) -> str:
    """Return a record as text with six digits, and long tuples shortened.

    >>> _format_record(calibrant.maps.Steps(tuple(range(9)), tuple(n / 9 for n in range(10))))
    'Steps(edges=(0, 1, ... 8; 9 numbers), values=(0, 0.111111, ... 1; 10 numbers))'
    """
    if is_dataclass(value):
        items = [f"{f.name}={_format_record(getattr(value, f.name))}" for f in fields(value) if f.repr]
        return f"{type(value).__name__}({', '.join(items)})"
    if isinstance(value, tuple):
        items = [_format_record(item) for item in value]
        if len(items) <= 4:
            return f"({', '.join(items)})"
        return f"({items[0]}, {items[1]}, ... {items[-1]}; {len(items)} numbers)"
    return f"{value:.6g}" if isinstance(value, float | int) and not isinstance(value, bool) else repr(value)
