"""Commands that fit maps and apply them: fit, apply, sql, methods."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import calibrant
from calibrant.checks import check_one_of, match_names
from calibrant.cli.console import (
    format_number,
    make_table,
    name_options,
    print_aside,
    print_json,
    print_line,
    print_message,
    print_next,
    repeat_options,
    show_activity,
)
from calibrant.cli.reading import (
    ENGINES,
    ROWS,
    AsJson,
    By,
    Classes,
    Decimal,
    Delimiter,
    Encoding,
    Engine,
    Kind,
    KindOfMap,
    Master,
    PosLabel,
    Scores,
    SkipMissing,
    Source,
    TableFiles,
    Weight,
    columns_of,
    complete_column,
    complete_method,
    parse_options,
    refuse_json_beside,
    require_one_naming,
    require_place,
    split_list,
)
from calibrant.files import UnreadableTable, write_whole
from calibrant.maps import METHODS, Map, check_method
from calibrant.maps.keys import name_group
from calibrant.maps.methods import ALIASES, NEEDS, list_methods
from calibrant.maps.store import save, to_dict
from calibrant.ops.sql import DIALECTS, quote_name
from calibrant.samples import read_kind
from calibrant.warning import warn

if TYPE_CHECKING:
    from calibrant.cli.formats import Files

__all__ = ["apply", "fit", "methods", "sql"]

_MapFile = Annotated[Path, typer.Argument(metavar="MAP", help="A map written by `calibrant fit`.")]
_ScoresOfMap = Annotated[
    list[str],
    typer.Option(
        help="The column of scores, or one column per class, as in p_a,p_b or p_*, of the kind of the fit.",
        autocompletion=complete_column,
    ),
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
    how several classes are fitted: each against the rest, or all at once. A
    second table has sources and options; give options to fit as --option
    name=value. A third lists methods that need the support vectors of an SVC:
    they work with CalibratedClassifier in Python.

    [bold]Example[/bold]

      calibrant methods
    """
    if as_json:
        print_json([_describe_method(name) for name in METHODS])
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in ("method", "map", "scores", "monotone", "classes"):
        table.add_column(heading, no_wrap=True)
    sources = make_table("method", last="source and options")
    of_machines = make_table("method for an SVC", last="source and options")
    for row in map(_describe_method, METHODS):
        options = f"\noptions: {', '.join(row['options'])}" if row["options"] else ""
        last = Text.assemble(row["source"], (options, "green"))
        if row["needs"] == "machine":
            of_machines.add_row(row["name"], last)
        else:
            name, monotone = Text(row["name"], style="bold cyan"), "yes" if row["monotone"] else "no"
            table.add_row(name, row["record"], row["domain"], monotone, row["classes"])
            sources.add_row(row["name"], last)
    Console(highlight=False).print(table, sources, of_machines)
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
    table: TableFiles,
    *,
    score: Scores,
    label: Annotated[
        str,
        typer.Option(
            help="The column of what happened: the class of each row, or the share that was positive.",
            autocompletion=complete_column,
        ),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="The JSON file to write the map to; - prints it.")],
    weight: Weight = None,
    method: Annotated[
        str,
        typer.Option(
            help="A method listed by `calibrant methods`; platt is Platt's sigmoid.", autocompletion=complete_method
        ),
    ] = "auto",
    kind: Kind = None,
    pos_label: PosLabel = None,
    classes: Classes = None,
    option: Annotated[list[str], typer.Option(help="An option of the method as name=value; may be repeated.")] = [],  # noqa: B006
    update: Annotated[
        Path | None,
        typer.Option(help="A summary of earlier tables, .json or .parquet: this one is added, and all are fitted."),
    ] = None,
    by: By = [],  # noqa: B006
    pool: Annotated[
        bool | None,
        typer.Option(
            "--pool/--no-pool",
            metavar="",
            help="Whether groups are drawn towards each other, as far as they agree.",
            show_default="pool, if there are several",
            rich_help_panel=ROWS,
        ),
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    engine: Engine = "duckdb",
    master: Master = None,
    skip_missing: SkipMissing = False,
    as_json: AsJson = False,
) -> None:
    r"""Fit a map from scores to probabilities and write it to a file.

    Use scores of rows that the classifier was not trained on, held out or out of
    fold: on its training rows a classifier is overconfident.

    One column of scores is that of the positive class; larger scores mean more
    positive. With one column per class, the classes are given by --classes, or
    by the names of the columns, as in p_cat, p_dog; they are never taken from
    the order of the columns. The engine sums over the table, whatever its size;
    rows do not have to fit into memory.

    With --by, each group gets a map of its own in the same file, drawn towards
    that of all rows where its own rows are few; unknown groups get the map of all.

    With --update, a summary file of some thousand numbers is read if there is
    one, the table is added to it, and it is written again: each table once.

    [bold]Examples[/bold]

      calibrant fit scores.csv --score f --label churned -o map.json
      calibrant fit "scores/*.parquet" --score p --label y --kind probability \
          --method bins --option k=20 --option smoothing=raw -o map.json
      calibrant fit scores.parquet --score f --label y --by country -o maps.json
      calibrant fit today.parquet --score f --label y --method platt \
          --update summary.json -o map.json
      calibrant fit pets.csv --score p_cat,p_dog,p_hare --label pet \
          --kind probability -o map.json
    """
    from calibrant.cli.formats import open_files

    if method in list_methods("machine"):
        msg = f"--method must be one that needs scores alone; {method!r} needs {NEEDS['machine']}: use "
        msg += "CalibratedClassifier in Python"
        raise ValueError(msg)
    check_one_of("--method", ALIASES.get(method, method), list_methods("column", "matrix"))
    read_kind(kind)
    require_place(output, *table)
    refuse_json_beside(output, as_json=as_json)
    options = parse_options(option)
    with open_files(table, delimiter=delimiter, encoding=encoding, decimal=decimal) as files:
        columns = columns_of(files, score)
        groups = (*columns_of(files, by),)
        source = Source(files, label, weight, pos_label, classes, engine, master, skip_missing, groups)
        require_one_naming(source, columns)
        check_method(method, options, ("column", "matrix") if len(columns) > 1 else ("column",))
        wanted = _Wanted(method, kind, options)
        _refuse_together(update, pool, groups, columns)
        if len(columns) > 1:
            fitted = _fit_classes(source, columns, wanted)
        else:
            fitted = _fit_in_engine(source, columns[0], wanted, update, pool)
    summary = {
        "method": method,
        "kind": read_kind(kind),
        "options": options,
        **fitted.about,
        "map": to_dict(fitted.mapping),
        "warnings": fitted.notes,
        "output": output,
    }
    if output == "-":
        print(json.dumps(to_dict(fitted.mapping), indent=2))
    else:
        save(fitted.mapping, Path(output))
    if update is not None and fitted.summary is not None:
        fitted.summary.save(update)  # after the map: a failure before it leaves the summary as it was
    for note in fitted.notes:
        print_message("warning", note, "yellow")
    if as_json:
        print_json(summary)
        return
    with print_aside(output):
        _print_fit(fitted.mapping, summary, weighted=weight is not None)
        if output != "-":
            print_next("apply", output, "NEW.csv", *repeat_options(score=score), "-o", "OUT.csv")


def _refuse_together(update: Path | None, pool: bool | None, groups: Sequence[str], columns: Sequence[str]) -> None:
    """Raise if options were given that do not go together."""
    several = f"got {len(columns)}: {', '.join(columns)}"
    rules = {
        f"--update is for one column of scores; {several}": update is not None and len(columns) > 1,
        f"--by is for one column of scores; {several}": bool(groups) and len(columns) > 1,
        "--update is for one map; leave out --by, or fit the groups to all rows": update is not None and bool(groups),
        "--pool and --no-pool are for groups; give --by, the column of groups": pool is not None and not groups,
    }
    for rule, broken in rules.items():
        if broken:
            raise ValueError(rule)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What to fit."""

    method: str
    kind: str | None
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A map, what is told about its fit, the warnings, and a summary that was updated."""

    mapping: Map
    about: dict[str, Any]
    notes: list[str]
    summary: Any = None


def _fit_in_engine(source: Source, column: str, wanted: _Wanted, update: Path | None, pool: bool | None) -> _Fitted:
    """Fit a map to one column of scores, by sums of an engine."""
    from calibrant import engines
    from calibrant.engines.measuring import measure

    with source.open([column]) as running:
        reading = {"score": column, **source.reading(running.table)}
        summary = None
        with running.show(f"fitting {wanted.method}"), _catch_warnings(wanted.method) as notes:
            if update is None:
                grouped: dict[str, Any] = {"by": list(source.by), "pool": pool} if source.by else {}
                given = {"kind": wanted.kind, **grouped, **reading, **wanted.options}
                mapping = engines.fit(wanted.method, running.table, **given)
            else:
                summary = _add_to_summary(update, running.table, wanted.kind, reading)
                mapping = engines.fit(wanted.method, summary, **wanted.options)
        with running.show("measuring the fit"), _catch_warnings(wanted.method):
            measured = measure(mapping, running.table, **reading)
    origin: Any = getattr(mapping, "origin", None)
    losses = {"log_loss": measured.log_loss, "brier": measured.brier}
    about: dict[str, Any] = {"rows": origin.rows}
    if summary is None:
        about |= {"positives": measured.positives, "positive_label": origin.positive if measured.are_classes else None}
        about["on_fitting_rows"] = losses
        if source.by:
            backwards = [name_group(group) for group in getattr(mapping, "reversed", ())]
            about |= {"by": list(source.by), "groups": len(mapping.groups), "reversed": backwards}
    else:
        about |= {
            "positives": float(summary.moments.positive[0].sum()),
            "positive_label": origin.positive,
            "on_new_rows": losses,
        }
    return _Fitted(mapping, about, notes, summary)


def _add_to_summary(path: Path, table: Any, kind: str | None, reading: dict[str, Any]) -> Any:
    """Return the summary of a file, if there is one, with a table added."""
    from calibrant import engines

    require_place(path, name="--update")
    before = None
    if path.exists():
        try:
            before = engines.Summary.load(path)
        except ValueError as error:
            msg = f"{path} is not a summary that `calibrant fit --update` wrote: {error}"
            raise ValueError(msg) from None
    chosen = before.kind if before is not None and kind is None else read_kind(kind)
    today = engines.summarise(table, kind=chosen, like=before, **reading)
    return today if before is None else before + today


def _fit_classes(source: Source, columns: list[str], wanted: _Wanted) -> _Fitted:
    """Fit a map to one column of scores per class."""
    from calibrant import engines
    from calibrant.engines.measuring import measure_classes

    with source.open(columns) as running:
        reading = {"score": columns, **source.reading_classes(running.table, columns)}
        with running.show(f"fitting {wanted.method}"), _catch_warnings(wanted.method) as notes:
            mapping: Any = engines.fit(wanted.method, running.table, kind=wanted.kind, **reading, **wanted.options)
        with running.show("measuring the fit"), _catch_warnings(wanted.method):
            measured = measure_classes(mapping, running.table, **reading)
    weights = {str(name): weight for name, weight in measured.weights.items()}
    losses = {"log_loss": measured.log_loss, "brier": measured.brier}
    return _Fitted(mapping, {"rows": mapping.origin.rows, "classes": weights, "on_fitting_rows": losses}, notes)


def _print_fit(mapping: Map, summary: dict[str, Any], *, weighted: bool) -> None:
    """Print a summary of the fit."""
    scores, rows = summary.get("on_fitting_rows"), "on the fitting rows"
    if scores is None:
        scores, rows = summary["on_new_rows"], "on the rows of this table"
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
    if "groups" in summary:
        table.add_row("groups", Text(f"{summary['groups']:,} of {', '.join(summary['by'])}"))
    why = getattr(mapping, "why", None)
    table.add_row("map", Text(_format_record(mapping)))
    if why is not None:
        table.add_row("why", Text(why))
    table.add_row("log loss", f"{format_number(scores['log_loss'])} {rows}")
    table.add_row("Brier score", f"{format_number(scores['brier'])} {rows}")
    table.add_row("written to", Text(summary["output"]))
    Console(highlight=False).print(table)


_SHOWN = 8  # classes with their counts


def apply(
    map_file: _MapFile,
    table: TableFiles,
    *,
    score: _ScoresOfMap,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The CSV, Parquet or Arrow file to write; - prints CSV.")
    ],
    name: _Name = "probability",
    kind: KindOfMap = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", metavar="", help="Replace existing columns of these names.")
    ] = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    engine: Engine = "duckdb",
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Add a column of probabilities, or one per class, to a copy of a table.

    All other columns stay as they are: Parquet keeps their bytes and its row
    groups, CSV the text of its values, its delimiter and its encoding. When
    CSV becomes Parquet, types are found from the whole file. The copy appears
    when it is complete, and several files become one. A missing score gets a
    missing probability, an infinite score the limit of the map. Columns whose
    names say their classes, as p_cat, p_dog, may be given in any order, others
    in that of the fit.

    Rows are copied batch by batch on this machine. With --engine spark, Spark
    writes a new folder of Parquet files.

    [bold]Examples[/bold]

      calibrant apply map.json new.parquet --score f -o out.parquet
      calibrant apply map.json new.csv --score p_cat,p_dog,p_hare -o out.csv
      zcat new.csv.gz | calibrant apply map.json - --score f -o - | head
    """
    from calibrant.cli import copying
    from calibrant.cli.formats import column_names, count_rows, format_of, open_files, require_columns

    check_one_of("--engine", engine, ENGINES)
    require_place(output, *table, map_file, folder=engine == "spark")
    refuse_json_beside(output, as_json=as_json)
    if output != "-":
        format_of(output)
    mapping = _load_map(map_file)
    if kind is not None:
        read_kind(kind)
        origin = getattr(mapping, "origin", None)
        if origin is None:
            warn(f"{map_file} does not say which scores it was fitted on: --kind cannot be checked")
        else:
            origin.require_kind(kind)
    with open_files(table, delimiter=delimiter, encoding=encoding, decimal=decimal) as files:
        columns, names = _match_columns(map_file, mapping, columns_of(files, score), name)
        if engine == "spark":
            rows, missing = _apply_on_spark(mapping, files, columns, name, output, master), None
        else:
            known = column_names(files)
            groups = getattr(mapping, "by", ())
            require_columns(files.name, known, [*columns, *groups])
            present = [each for each in names if each in known]
            if present and not overwrite:
                msg = f"{files.name} already has a column {present[0]!r}; choose another --name, or replace it with "
                raise ValueError(msg + "--overwrite")
            rows = missing = 0
            with (
                show_activity(f"applying {map_file}", count_rows(files), unit="rows") as step,
                closing(copying.add_columns(files, output, columns, names, _as_formula(mapping), groups)) as batches,
            ):
                for batch in batches:
                    rows, missing = rows + batch.num_rows, missing + batch.column(names[0]).null_count
                    step(completed=rows)
    if as_json:
        added = {"column": names[0]} if len(names) == 1 else {"columns": names}
        print_json({"rows": rows, "missing": missing, **added, "output": output})
        return
    with print_aside(output):
        gaps = f", {missing:,} of them missing" if missing else ""
        shown = ", ".join(repr(each) for each in names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        print_line(f"{'standard output' if output == '-' else output}: {rows:,} rows with {shown}{gaps}")
        if output != "-":
            print_next("assess", output, *_repeat_judging(mapping, names, name))


def _apply_on_spark(mapping: Any, files: Files, columns: list[str], name: str, output: str, master: str | None) -> int:
    """Let Spark write a folder of Parquet files with probabilities; return the number of rows."""
    from calibrant import engines
    from calibrant.cli.running import open_in_engine

    if not output.endswith(".parquet"):
        msg = f"--output must end in .parquet with --engine spark, which writes a folder of Parquet files; got {output}"
        raise ValueError(msg)
    with open_in_engine(files, columns, [], engine="spark", master=master) as running:
        score = columns if hasattr(mapping, "scheme") else columns[0]
        found = engines.apply(mapping, running.table, score=score, into=name)
        found.write.mode("errorifexists").parquet(output)
        return int(found.count())


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
    mapping = _load_map(map_file, table=False)
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
        print_next("assess", "OUT.csv", *_repeat_judging(mapping, names, name))


def _repeat_judging(mapping: Any, names: list[str], name: str) -> list[str]:
    """Return the options by which `assess` judges the probabilities of a map: of their class, if not the last one."""
    from calibrant.evidence.steps import name_order

    origin: Any = getattr(mapping, "origin", None)
    known = origin is not None and origin.positive is not None
    positive = str(origin.positive) if known and name_order(origin.classes) else None
    return repeat_options(probability=_list_names(names, name), label="LABEL", pos_label=positive)


def _list_names(names: list[str], name: str) -> list[str]:
    """Return the names of results, or a pattern of them if they are many."""
    return names if len(names) <= _SHOWN else [f"{name}_*"]


def _load_map(path: Path, *, table: bool = True) -> Map:
    """Read a map, or raise; `table`: whether a table is given behind it."""
    if not path.is_file():
        msg = f"{path} does not exist or is not a file"
        raise ValueError(msg)
    try:
        return calibrant.load(path)
    except ValueError as error:
        if path.suffix == ".json":
            raise
        way = "the map comes first, then the table" if table else "give a file that `calibrant fit` has written"
        msg = f"{error}: {way}"
        raise ValueError(msg) from None


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
    """Return a map as a function from an array of columns, and the batch they are of, to an array of columns."""
    if hasattr(mapping, "scheme"):
        return lambda values, batch: mapping(values)
    if hasattr(mapping, "groups"):
        from calibrant.cli.copying import read_groups

        return lambda values, batch: np.asarray(mapping(values[:, 0], read_groups(mapping, batch)))[:, None]
    return lambda values, batch: np.asarray(mapping(values[:, 0]))[:, None]


@contextmanager
def _catch_warnings(method: str) -> Iterator[list[str]]:
    """Yield a list of the warnings of a fit, in words of the command line; what fails is an error of the method."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            yield notes
        except (TypeError, RuntimeError) as error:  # an option of the wrong type, or no convergence
            if isinstance(error, UnreadableTable) or "interrupted" in str(error):
                raise
            msg = f"method {method!r} failed: {error}"
            raise ValueError(msg) from None
        finally:
            notes += dict.fromkeys(name_options(str(warning.message)) for warning in caught)


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
