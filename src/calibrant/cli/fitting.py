"""Commands that fit maps and apply them: fit, apply, sql, methods."""

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
from calibrant.arrays import Floats
from calibrant.checks import check_labels, check_one_of, match_names
from calibrant.cli.console import (
    format_number,
    make_table,
    name_options,
    print_json,
    print_line,
    print_message,
    print_next,
    repeat_options,
    show_activity,
)
from calibrant.cli.reading import (
    AsJson,
    Classes,
    Kind,
    KindOfMap,
    PosLabel,
    Scores,
    Source,
    TableFile,
    Weight,
    classes_of,
    columns_of,
    parse_options,
    read_rows,
    require_one_naming,
    require_place,
    split_list,
)
from calibrant.files import write_whole
from calibrant.maps import METHODS, Map, check_method, fit_map, probabilities
from calibrant.maps.lifting import fit_class_map
from calibrant.maps.methods import ALIASES, NEEDS, list_methods
from calibrant.maps.store import save, to_dict
from calibrant.metrics import brier, log_loss
from calibrant.ops.sql import DIALECTS, quote_name
from calibrant.samples import ClassSample, Sample, ask_for_kind, class_sample, read_kind, sample
from calibrant.warning import warn

__all__ = ["apply", "fit", "methods", "sql"]

_MapFile = Annotated[Path, typer.Argument(metavar="MAP", help="A map written by `calibrant fit`.")]
_ScoresOfMap = Annotated[
    list[str],
    typer.Option(help="The column of scores, or one column per class, as in p_a,p_b or p_*, of the kind of the fit."),
]
_ColumnsOfMap = Annotated[
    list[str],
    typer.Option(
        "--score", "--column", help="The column of scores, or one column per class, as in p_a,p_b or p_*, of the map."
    ),
]
_DIALECTS = ", ".join(DIALECTS)
_Name = Annotated[str, typer.Option(help="The name of the new column; with several classes, NAME_CLASS for each.")]


def methods(*, as_json: AsJson = False) -> None:
    """List the methods that fit a map.

    The column "map" names the formula that the method fits. "scores" says which
    scores it takes: real, decision values and logits (a probability is turned
    into its logit first); unit, probabilities; any, all of them. "classes" says
    how several classes are fitted: each against the rest, or all at once. Give
    options to fit as --option name=value. A second table lists methods that need
    the support vectors of an SVC: they work with CalibratedClassifier in Python.
    """
    if as_json:
        print_json([_describe_method(name) for name in METHODS])
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in ("method", "map", "scores", "monotone", "classes"):
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
            table.add_row(name, row["record"], row["domain"], monotone, row["classes"], last)
    Console(highlight=False).print(table, of_machines)
    print_next("compare", "TABLE.csv", "--score", "f", "--label", "y", "--methods", "all")


def _describe_method(name: str) -> dict[str, Any]:
    """Return a row of the table of methods as JSON values."""
    method = METHODS[name]
    rows = [method] if method.joint is None else [method, method.joint]
    defaults = {option: signature(row.fit).parameters[option].default for row in rows for option in row.options()}
    return {
        "name": name,
        "needs": method.needs,
        "record": method.record.__name__,
        "domain": method.domain,
        "monotone": method.monotone,
        "classes": "all" if rows[-1].needs == "matrix" else "each",
        "options": defaults,
        "source": method.source,
    }


def fit(
    table: TableFile,
    *,
    score: Scores,
    label: Annotated[str, typer.Option(help="The column of labels: classes; of one column of scores also shares.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The JSON file to write the map to.")],
    weight: Weight = None,
    method: Annotated[
        str, typer.Option(help="A method listed by `calibrant methods`; platt is Platt's sigmoid.")
    ] = "auto",
    kind: Kind = None,
    pos_label: PosLabel = None,
    classes: Classes = None,
    option: Annotated[list[str], typer.Option(help="An option of the method as name=value; may be repeated.")] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    r"""Fit a map from scores to probabilities and write it to a file.

    Use scores of rows that the classifier was not trained on, held out or out of
    fold: on its training rows a classifier is overconfident.

    One column of scores is that of the positive class; larger scores mean more
    positive. With one column per class, the classes are given by --classes, or
    by the names of the columns, as in p_cat, p_dog; they are never taken from
    the order of the columns.

    [bold]Examples[/bold]

      calibrant fit scores.csv --score f --label churned -o map.json
      calibrant fit scores.parquet --score p --label y --kind probability \
          --method bins --option k=20 --option smoothing=raw -o map.json
      calibrant fit pets.csv --score p_cat,p_dog,p_hare --label pet \
          --kind probability -o map.json
    """
    if method in list_methods("machine"):
        msg = f"--method must be one that needs scores alone; {method!r} needs {NEEDS['machine']}: use "
        msg += "CalibratedClassifier in Python"
        raise ValueError(msg)
    check_one_of("--method", ALIASES.get(method, method), list_methods("column", "matrix"))
    chosen = read_kind(kind)
    require_place(output, table)
    options = parse_options(option)
    columns = columns_of(table, score)
    source = Source(table, label, weight, pos_label, classes)
    require_one_naming(source, columns)
    check_method(method, options, ("column", "matrix") if len(columns) > 1 else ("column",))
    data: Sample | ClassSample
    about: dict[str, Any]
    if len(columns) > 1:
        data = _read_class_sample(source, columns, chosen)
        counts = np.bincount(data.index, data.weight, data.classes).tolist()
        about = {"rows": len(data.index), "classes": dict(zip(map(str, data.names or ()), counts, strict=True))}
    else:
        data, positive = _read_sample(source, columns[0], chosen)
        about = {"rows": len(data), "positives": data.totals()[0], "positive_label": positive}
    with show_activity(f"fitting {method}"):
        mapping, notes = _fit_and_catch_warnings(method, data, kind, options)
        summary = {
            "method": method,
            "kind": chosen,
            "options": options,
            **about,
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
        print_next("apply", output, "NEW.csv", *repeat_options(score=score), "-o", "OUT.csv")


def _print_fit(mapping: Map, summary: dict[str, Any], *, weighted: bool) -> None:
    """Print a summary of the fit."""
    scores = summary["on_fitting_rows"]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    table.add_row("method", summary["method"])
    table.add_row("rows", f"{summary['rows']:,}")
    if "classes" in summary:
        counts = [f"{name} {count:,.10g}" for name, count in summary["classes"].items()]
        shown = ", ".join(counts[:_SHOWN]) + (f", ... ({len(counts)} classes)" if len(counts) > _SHOWN else "")
        table.add_row("weight of classes" if weighted else "classes", Text(shown))
    else:
        which = "" if summary["positive_label"] is None else f" (label {summary['positive_label']})"
        positives = Text(f"{summary['positives']:,.10g}{which}")
        table.add_row("weight of positives" if weighted else "positives", positives)
    why = getattr(mapping, "why", None)
    table.add_row("map", Text(_format_record(mapping)))
    if why is not None:
        table.add_row("why", Text(why))
    table.add_row("log loss", f"{format_number(scores['log_loss'])} on the fitting rows")
    table.add_row("Brier score", f"{format_number(scores['brier'])} on the fitting rows")
    table.add_row("written to", Text(summary["output"]))
    Console().print(table)


_SHOWN = 8  # classes with their counts


def apply(
    map_file: _MapFile,
    table: TableFile,
    *,
    score: _ScoresOfMap,
    output: Annotated[Path, typer.Option("--output", "-o", help="The CSV or Parquet file to write.")],
    name: _Name = "probability",
    kind: KindOfMap = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing columns of these names.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a column of probabilities, or one per class, to a copy of a table.

    All other columns stay as they are; when CSV becomes Parquet, their types are
    found from the whole file. A missing score gets a missing probability, an
    infinite score the limit of the map. Columns whose names say their classes,
    as p_cat, p_dog, may be given in any order, others in that of the fit.

    [bold]Examples[/bold]

      calibrant apply map.json new.parquet --score f -o out.parquet
      calibrant apply map.json new.csv --score p_cat,p_dog,p_hare -o out.csv
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
    columns, names = _match_columns(map_file, mapping, columns_of(table, score), name)
    tables.require_columns(table, columns)
    present = [each for each in names if each in tables.column_names(table)]
    if present and not overwrite:
        msg = f"{table} already has a column {present[0]!r}; choose another --name, or replace it with --overwrite"
        raise ValueError(msg)
    rows = missing = 0
    with (
        show_activity(f"applying {map_file}", tables.count_rows(table)) as step,
        closing(tables.add_columns(table, output, columns, names, _as_formula(mapping))) as batches,
    ):
        for batch in batches:
            rows, missing = rows + batch.num_rows, missing + batch.column(names[0]).null_count
            step(completed=rows)
    if as_json:
        added = {"column": names[0]} if len(names) == 1 else {"columns": names}
        print_json({"rows": rows, "missing": missing, **added, "output": str(output)})
    else:
        gaps = f", {missing:,} of them missing" if missing else ""
        shown = ", ".join(repr(each) for each in names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        print_line(f"{output}: {rows:,} rows with {shown}{gaps}")
        print_next("assess", output, *repeat_options(probability=_list_names(names, name)), "--label", "LABEL")


def sql(
    map_file: _MapFile,
    *,
    score: _ColumnsOfMap,
    dialect: Annotated[str, typer.Option(help=f"The engine: {_DIALECTS}.")] = "duckdb",
    table: Annotated[
        str | None, typer.Option(help="A table as it stands after FROM: print a whole query of it instead.")
    ] = None,
    name: _Name = "probability",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file to write the SQL to instead.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print a map as SQL, to run where the scores are.

    Each line is an expression of the columns of scores with the name of its
    probability, to stand in a SELECT: one line, or one per class. A missing score
    gives NULL. Select the key of your rows too: an engine may return the rows of
    long expressions in another order. With --table it is a query of all columns
    of the table and the new ones, short also for many classes. Names are quoted:
    in Snowflake write those in upper case that were made without quotes.

    [bold]Examples[/bold]

      calibrant sql map.json --column f --dialect postgres
      calibrant sql map.json --column F --dialect snowflake --table scores
      calibrant sql map.json --score "p_*" -o columns.sql
    """
    mapping = _load_map(map_file)
    given = split_list(",".join(score))
    origin = getattr(mapping, "origin", None)
    if len(given) == 1 and "*" in given[0] and origin is not None and origin.classes is not None:
        given = [given[0].replace("*", str(each)) for each in origin.classes]
    columns, names = _match_columns(map_file, mapping, given, name)
    if output is not None:
        require_place(output, map_file)
    check_one_of("--dialect", dialect, DIALECTS)
    given_columns: Any = columns if hasattr(mapping, "scheme") else columns[0]
    if table is not None:
        text = calibrant.sql(mapping, given_columns, dialect, table=table, into=names)
        what: dict[str, Any] = {"query": text}
    else:
        found = calibrant.sql(mapping, given_columns, dialect)
        what = {"expressions": dict(zip(names, [found] if isinstance(found, str) else found, strict=True))}
        text = ",\n".join(f"{each} AS {quote_name(name, dialect)}" for name, each in what["expressions"].items())
    if output is not None:
        write_whole(output, f"{text}\n".encode())
    if as_json:
        print_json({"dialect": dialect} | what)
    elif output is None:
        print_line(text)
    else:
        kind = f"a query of {table}" if table is not None else f"{len(names)} expression(s)"
        print_line(f"{output}: {kind} of {', '.join(columns[:_SHOWN])} for {dialect}")
        print_next("assess", "OUT.csv", *repeat_options(probability=_list_names(names, name)), "--label", "LABEL")


def _list_names(names: list[str], name: str) -> list[str]:
    """Return the names of results, or a pattern of them if they are many."""
    return names if len(names) <= _SHOWN else [f"{name}_*"]


def _read_sample(source: Source, score: str, kind: str) -> tuple[Sample, Any]:
    """Return columns of a table as a sample, and the positive label, or None if labels are probabilities."""
    from calibrant.cli import tables

    rows = read_rows(source.table, [score], source.label, source.weight)
    positive = None if source.pos_label is None else tables.parse_label(source.pos_label, rows.y)
    y, classes = check_labels(f"column {source.label!r}", rows.y, positive)
    data = replace(sample(rows.numbers[:, 0], y, rows.weight, kind=kind), classes=classes)
    are_classes = np.isin(y, (0, 1)).all() and y.any() and hasattr(rows.y[0], "item")
    return data, rows.y[np.argmax(y)].item() if are_classes else None


def _read_class_sample(source: Source, columns: list[str], kind: str) -> ClassSample:
    """Return columns of a table, one per class, as a sample."""
    rows = read_rows(source.table, columns, source.label, source.weight)
    classes = classes_of(columns, rows.y, source.classes)
    return class_sample(rows.numbers, rows.y, rows.weight, kind=kind, classes=classes)


def _load_map(path: Path) -> Map:
    """Read a map, or raise."""
    if not path.is_file():
        msg = f"{path} does not exist or is not a file"
        raise ValueError(msg)
    return calibrant.load(path)


def _match_columns(path: Path, mapping: Any, columns: list[str], name: str) -> tuple[list[str], list[str]]:
    """Return the columns of scores in the order of a map, and the names of its results: one, or one per class."""
    if not hasattr(mapping, "scheme"):
        if len(columns) != 1:
            msg = f"--score must name one column for {path}; got {len(columns)}: {', '.join(columns)}"
            raise ValueError(msg)
        return columns, [name]
    known = None if mapping.origin is None else mapping.origin.classes
    try:
        count = mapping(np.full((1, len(columns)), np.nan)).shape[1]
    except ValueError:
        of = "" if known is None else f" of the classes {', '.join(map(str, known[:_SHOWN]))}"
        msg = f"--score must name the columns that {path} takes, scores{of}; got {len(columns)}: {', '.join(columns)}"
        raise ValueError(msg) from None
    if known is not None and len(known) != count:
        msg = f"{path} must name one class per probability of its map, {count}; it names {', '.join(map(str, known))}"
        raise ValueError(msg)
    classes = [str(each) for each in known or range(count)]
    named = match_names(columns, classes) if len(columns) == count else None
    ordered = columns if named is None else [columns[named.index(each)] for each in classes]
    return ordered, [f"{name}_{each}" for each in classes]


def _as_formula(mapping: Any) -> Any:
    """Return a map as a function from an array of columns to an array of columns."""
    if hasattr(mapping, "scheme"):
        return mapping

    def of_one_column(values: Floats) -> Floats:
        return np.asarray(mapping(values[:, 0]))[:, None]

    return of_one_column


def _fit_and_catch_warnings(
    method: str, data: Sample | ClassSample, kind: str | None, options: dict[str, Any]
) -> tuple[Map, list[str]]:
    """Fit a map and return it with the warnings of the fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if isinstance(data, ClassSample):
                mapping: Map = fit_class_map(method, data, **options)
                given = data.scores
            else:
                mapping, given = fit_map(method, data, read_kind(kind), **options), data.score
            if kind is None:
                ask_for_kind(given)
        except (TypeError, RuntimeError) as error:  # an option of the wrong type, or no convergence
            msg = f"method {method!r} failed: {error}"
            raise ValueError(msg) from None
    return mapping, [name_options(str(warning.message)) for warning in caught]


def _compute_losses(mapping: Map, data: Sample | ClassSample) -> dict[str, float]:
    """Return log loss and Brier score of a map on a sample."""
    if isinstance(data, ClassSample):
        p, labels = mapping(data.scores), np.arange(data.classes)
        return {
            name: metric(data.index, p, sample_weight=data.weight, labels=labels)
            for name, metric in (("log_loss", log_loss), ("brier", brier))
        }
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
    if is_dataclass(value) and hasattr(value, "why"):  # which is long, and says itself what it is
        return repr(value)
    if is_dataclass(value):
        items = [f"{f.name}={_format_record(getattr(value, f.name))}" for f in fields(value) if f.repr]
        return f"{type(value).__name__}({', '.join(items)})"
    if isinstance(value, tuple):
        items = [_format_record(item) for item in value]
        if len(items) <= 4:
            return f"({', '.join(items)})"
        return (
            f"({items[0]}, {items[1]}, ... {items[-1]}; {len(items)} {'maps' if is_dataclass(value[0]) else 'numbers'})"
        )
    return f"{value:.6g}" if isinstance(value, float | int) and not isinstance(value, bool) else repr(value)
