"""Commands that evaluate probabilities: assess, compare, report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import typer
from numpy.typing import NDArray
from rich.text import Text

from calibrant.checks import check_page
from calibrant.cli.console import (
    format_number,
    make_table,
    print_answers,
    print_json,
    print_line,
    print_steps,
    print_text,
    repeat_options,
    show_activity,
)
from calibrant.cli.reading import (
    AsJson,
    By,
    Classes,
    Decimal,
    Delimiter,
    Encoding,
    Engine,
    Kind,
    Label,
    Master,
    PosLabel,
    Scores,
    SkipMissing,
    Source,
    TableFiles,
    Weight,
    classes_of,
    columns_of,
    complete_column,
    negative_and_positive,
    parse_options,
    read_labels,
    read_rows,
    require_one_naming,
    require_place,
    split_list,
)
from calibrant.files import hide_address, write_whole
from calibrant.maps.keys import name_group
from calibrant.maps.methods import list_methods
from calibrant.samples import read_kind

if TYPE_CHECKING:
    from rich.table import Table

    from calibrant.comparing import Comparison
    from calibrant.evidence.assessing import Assessment
    from calibrant.evidence.steps import Source as Named

__all__ = [
    "assess",
    "compare",
    "explain_interruption",
    "parse_methods",
    "print_comparison",
    "report",
    "require_report",
    "summarise_comparison",
    "write_page",
]

_FEW_ROWS = 100_000  # up to which methods are compared on the rows themselves, in memory
_MOST_CONFUSED = 12  # so many confusions of several classes are printed
_MOST_GROUPS = 30  # so many groups are printed

_Probability = Annotated[
    list[str],
    typer.Option(
        help="The column of probabilities of the positive class, or one per class, as in p_a,p_b or p_*.",
        autocompletion=complete_column,
    ),
]
_Methods = Annotated[
    str | None,
    typer.Option(
        help='The methods to compare, with options as in "platt,bins k=20"; or all, or rueping2004.',
        show_default="raw, platt, temperature, kull_beta, isotonic, spline, auto, pp",
    ),
]
_Metrics = Annotated[list[str], typer.Option(help="The metrics to compute; methods are ranked by the first.")]
_Folds = Annotated[int, typer.Option(min=2, help="The number of folds.")]
_Folder = Annotated[
    Path | None, typer.Option(help="The folder for finished parts, from which the same command continues.")
]
_Seed = Annotated[int, typer.Option(help="The seed that shuffles the folds.")]


# assess ---------------------------------------------------------------------------------------------------------------


def assess(
    table: TableFiles,
    *,
    probability: _Probability,
    label: Label,
    weight: Weight = None,
    pos_label: PosLabel = None,
    classes: Classes = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A JSON file to write the result to, with the curves.")
    ] = None,
    by: By = [],  # noqa: B006
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    engine: Engine = "duckdb",
    master: Master = None,
    skip_missing: SkipMissing = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate probabilities: metrics, decompositions, tests, a verdict.

    Use rows that were not used for training or calibration. Intervals are from
    1000 bootstrap draws. The p of a test is the probability of a deviation at
    least as large if the probabilities were calibrated. A score is decomposed
    into miscalibration, which a monotone map could remove, discrimination, and
    the uncertainty of the classes themselves. Formulas and sources are in the
    JSON.

    For several classes, --probability names one column per class. Their classes
    are given by --classes, or by the names of the columns, as in p_cat, p_dog.

    [bold]Examples[/bold]

      calibrant assess out.parquet --probability p --label churned
      calibrant assess pets.csv --probability p_cat,p_dog,p_hare --label pet
    """
    from calibrant.cli.formats import open_files
    from calibrant.evidence.answers import answer_assessment
    from calibrant.evidence.steps import write_step
    from calibrant.evidence.words import to_json

    if output is not None:
        require_place(output, *table)
    with open_files(table, delimiter=delimiter, encoding=encoding, decimal=decimal) as files:
        source = Source(
            files, label, weight, pos_label, classes, engine, master, skip_missing, (*columns_of(files, by),)
        )
        found, groups = _assess_groups(source, probability)
    for each in (found, *groups.values()):
        if not each.measures:
            one_class = f"all rows of column {label!r} are of one class; give --pos-label, the class of the "
            raise ValueError(f"{one_class}probabilities" if each.rows else each.notes[0])
    reading = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal, "skip_missing": skip_missing}
    named = _name_source(source, table, probability, "probability", (), **reading)
    answers = answer_assessment(found, named, groups)
    document: dict[str, Any] = {"table": files.name, **found.as_dict()}
    if by:
        document |= {"answers": answers, "verdict": answers.text}
        document["groups"] = [{"group": _plain(group), **each.as_dict()} for group, each in groups.items()]
    if output is not None:
        write_whole(output, (json.dumps(to_json(document), allow_nan=False, indent=1) + "\n").encode())
    if as_json:
        print_json(document)
        return
    print_text(Text(f"{files.name}: {_say_rows(found)}", style="bold"))
    print_text(*(_tabulate_groups(groups) if by else _tabulate_assessment(found)))
    print_answers(answers)
    print_text(*(f"Note: {note}" for note in found.notes))
    print_steps([*answers.next.steps, write_step("", "report", named, "-o", "report.html", python="")])


def _assess_groups(source: Source, probability: Sequence[str]) -> tuple[Assessment, dict[Any, Assessment]]:
    """Evaluate all rows, and the rows of each group where columns of groups are named."""
    found = cast("Assessment", _assess_table(replace(source, by=()), probability))
    groups = _assess_table(source, probability) if source.by else {}
    return found, cast("dict[Any, Assessment]", groups)


def _assess_table(source: Source, probability: Sequence[str]) -> Assessment | dict[Any, Assessment]:
    """Evaluate a column of probabilities of a table, or one per class."""
    columns = columns_of(source.files, probability)
    require_one_naming(source, columns)
    from calibrant import engines

    with source.open(columns) as running, running.show(f"assessing {', '.join(columns)}") as go_on:
        several = len(columns) > 1
        reading = source.reading_classes(running.table, columns) if several else source.reading(running.table)
        grouped: dict[str, Any] = {"by": source.by[0] if len(source.by) == 1 else [*source.by]} if source.by else {}
        grouped |= {"progress": go_on} if source.by else {}
        asked = {"probability": columns if several else columns[0], **grouped, **reading}
        found: Assessment | dict[Any, Assessment] = engines.assess(running.table, **asked)
        return found


def _plain(group: Any) -> Any:
    """Return a group as JSON has it; one of several columns as a list."""
    return list(group) if isinstance(group, tuple) else group


def _say_rows(found: Assessment) -> str:
    """Say how many rows there are, and of each class."""
    from calibrant.evidence.words import format_number, format_percent

    shares = ", ".join(
        f"{each.name} {format_number(each.rows)} ({format_percent(each.share)})" for each in found.classes
    )
    counted = found.effects is None or abs(found.effects.effective / found.rows - 1.0) < 0.001
    rows = f"{format_number(found.rows)} rows" if counted else f"rows of weight {format_number(found.rows)}"
    return f"{rows}; {shares}"


def _tabulate_groups(found: Mapping[Any, Assessment]) -> list[Any]:
    """Return the main numbers of each group as one table, and how to read it."""
    from calibrant.evidence.answers import judge_group, rank_groups
    from calibrant.evidence.words import format_percent, format_points

    groups = make_table("group", "rows", "forecast", "happened", "off by", "chance", last="good enough?")
    groups.columns[0].no_wrap = False  # a long name is wrapped before a number is cut
    ranked = rank_groups(found)
    for group, each in ranked[:_MOST_GROUPS]:
        assert each.effects is not None
        departure, error = each.effects.departure, each.effects.error
        shares = [format_percent(share) for share in (departure.said, departure.happened)]
        sizes = [format_points(size) for size in (error.value, error.chance)]
        word = judge_group(each, len(found)).word.removesuffix(".")
        groups.add_row(Text(name_group(group)), f"{each.rows:,.10g}", *shares, *sizes, word)
    some = (
        f" The {_MOST_GROUPS} of {len(ranked):,} groups with most beyond chance." if len(ranked) > _MOST_GROUPS else ""
    )
    words = (
        "off by: the calibration error. chance: what a calibrated forecast of as many rows rarely exceeds. The word is "
        "by tests of calibration; the more groups there are, the clearer an error has to be."
    )
    return [groups, f"{words}{some} Whole assessments are in --json."]


def _tabulate_assessment(found: Assessment) -> list[Any]:
    """Return the metrics, the decomposed scores and the tests as tables."""
    from calibrant.evidence.assessing import PART_METRICS
    from calibrant.evidence.words import round_pvalue

    metrics = make_table("metric", "value", f"{found.confidence:.0%} interval", last="better")
    for each in found.measures:
        if each.name not in PART_METRICS:  # the parts of decomposed scores have their own table
            limits = [] if each.low is None or each.high is None else [each.low, each.high]
            metrics.add_row(each.name, format_number(each.value), " to ".join(map(format_number, limits)), each.better)
    scores = make_table("score", "value =", "miscalibration -", "discrimination +", "uncertainty")
    for name, part in found.decompositions.items():
        parts = part.score, part.miscalibration, part.discrimination, part.uncertainty
        scores.add_row(name, *map(format_number, parts))
    tests = make_table("test of calibration", "p", last="result")
    for test in found.tests:
        tests.add_row(test.name, round_pvalue(test.pvalue), Text(test.sentence))
    confused = len(found.classes) > 2 and found.confusions[0].wrong
    return [metrics, scores, *([tests] if found.tests else []), *([_tabulate_confusion(found)] if confused else [])]


def _tabulate_confusion(found: Assessment) -> Table:
    """Return the largest confusions of decisions for the most probable class as a table."""
    from calibrant.evidence.words import format_percent

    names, wrong = [share.name for share in found.classes], found.confusions[0].wrong
    confusions = make_table("class", "taken for", "rows", "of the class")
    for column in confusions.columns[:2]:
        column.no_wrap, column.justify = False, "left"  # a long name is wrapped before a number is cut
    for true, decided, rows in wrong[:_MOST_CONFUSED]:
        share = format_percent(rows / found.classes[true].rows)
        confusions.add_row(Text(names[true]), Text(names[decided]), f"{rows:,.10g}", share)
    if len(wrong) > _MOST_CONFUSED:
        confusions.caption = f"the {_MOST_CONFUSED} largest of {len(wrong):,} confusions"
    return confusions


# compare --------------------------------------------------------------------------------------------------------------


def compare(
    context: typer.Context,
    table: TableFiles,
    *,
    label: Label,
    score: Scores = [],  # noqa: B006
    features: Annotated[
        list[str], typer.Option(help="The columns to train machines on.", show_default="all others, without --score")
    ] = [],  # noqa: B006
    kernels: Annotated[
        str | None, typer.Option(help="The kernels of the machines: linear, rbf, poly.", show_default="linear,rbf")
    ] = None,
    choose: Annotated[
        str | None,
        typer.Option(
            help="Where parameters of machines are chosen: prior, once on all rows, or nested, in each training part.",
            show_default="prior",
        ),
    ] = None,
    methods: _Methods = None,
    metric: _Metrics = ["log_loss", "brier"],  # noqa: B006
    folds: _Folds = 10,
    kind: Kind = None,
    weight: Weight = None,
    group: Annotated[str | None, typer.Option(help="The column of groups; rows of a group stay in one fold.")] = None,
    pos_label: PosLabel = None,
    classes: Classes = None,
    seed: _Seed = 0,
    jobs: Annotated[int, typer.Option(help="The number of parallel processes; -1 is one per core.")] = 1,
    folder: _Folder = None,
    report: Annotated[Path | None, typer.Option(help="An HTML page to write.")] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    engine: Engine = "duckdb",
    master: Master = None,
    skip_missing: SkipMissing = False,
    as_json: AsJson = False,
) -> None:
    r"""Find the best method for your data by cross-validation.

    With --score, maps are fitted to the scores of all folds but one and
    evaluated on that one; the scores must be of rows that the classifier was not
    trained on. Without --score, support vector machines and kernel logistic
    regression (klr) are trained on the features, and maps are fitted to
    out-of-fold scores within each training part. All methods use the same folds,
    as in the experiment of Rüping (2004).

    p is for the paired t-test against the best method over folds, corrected for
    the training rows that folds share (Nadeau & Bengio 2003).

    [bold]Examples[/bold]

      calibrant compare scores.csv --score f --label y --report report.html
      calibrant compare scores.csv --score f --label y --methods "platt,bins k=20"
      calibrant compare pets.csv --score p_cat,p_dog,p_hare --label pet \
          --kind probability --methods raw,platt,auto
      calibrant compare patients.csv --label ill --kernels rbf --folder unfinished
    """
    from calibrant.cli.formats import open_files
    from calibrant.comparing.verdicts import answer_comparison

    options = {
        "metrics": _split_names(metric),
        "cv": folds,
        "random_state": seed,
        "n_jobs": jobs,
        "folder": folder,
    }
    if report is not None:
        require_place(report, *table, name="--report")
        require_report("--report", report)
    if score:
        _refuse_options(
            context, ["features", "kernels", "choose"], "trains machines, --score compares methods on scores"
        )
    else:
        _refuse_options(
            context, ["kind"], "needs --score: machines that are trained here have scores of their own kind"
        )
        _refuse_options(context, ["weight"], "needs --score: machines are trained without weights")
    if label in [*_split_names(score), *_split_names(features)]:
        msg = f"--label must not be among the columns of --score or --features; got {label!r} as both"
        raise ValueError(msg)
    with (
        explain_interruption(folder),
        open_files(table, delimiter=delimiter, encoding=encoding, decimal=decimal) as files,
    ):
        source = Source(files, label, weight, pos_label, classes, engine, master, skip_missing)
        if score:
            options |= {"kind": kind, "methods": parse_methods(methods, read_kind(kind))}
            found, names = _compare_on_scores(source, score, group, options)
        else:
            options |= {"kernels": split_list("linear,rbf" if kernels is None else kernels)}
            options |= {"choose": choose or "prior", "methods": parse_methods(methods, None)}
            found = _compare_on_features(source, features, group, options)
    failed = [cell.note for cell in found.cells if all(value != value for value in cell.values.values())]
    if len(failed) == len(found.cells):
        msg = f"no method gave probabilities: {failed[0]}"
        raise ValueError(msg)
    reading = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal, "skip_missing": skip_missing}
    named = _name_source(source, table, score, kind, names, **reading) if score else None
    if report is not None:
        write_page(
            found, report, about=f"Table {files.short_name}, label {label}." if named is None else "", source=named
        )
    if as_json:
        print_json({"table": files.name, **summarise_comparison(found), "report": report})
    else:
        print_comparison(found, f"{files.name}: {_count_rows(found):,.10g} rows")
        if report is not None:
            print_line(f"Report: {report}")
        print_steps(answer_comparison(found, None, named).next.steps)


def _count_rows(found: Comparison) -> float:
    """Return the number of rows that were compared; where they were pooled into cells, their weight."""
    pooled = "cells" in found.settings
    return max(
        float(each.weight.sum()) if pooled and each.weight is not None else len(each.rows)
        for each in found.predictions.values()
    )


def _refuse_options(context: typer.Context, names: Sequence[str], reason: str) -> None:
    """Raise if an option was given that would have no effect."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            value = context.params[name]
            given = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
            msg = f"--{name} {reason}; got --{name} {given}"
            raise ValueError(msg)


def parse_methods(methods: str | None, kind: str | None) -> Any:
    """Return methods as `calibrant.compare` takes them; `kind` is None if machines are trained.

    >>> parse_methods("platt,bins k=20", "margin")
    {'platt': ('platt', {}), 'bins k=20': ('bins', {'k': 20})}
    """
    from calibrant.comparing import METHOD_SETS

    if methods is None:
        return None
    if methods in METHOD_SETS:
        return methods
    if methods == "all":
        return [*_UNCALIBRATED[kind], *list_methods("column", "matrix")]
    found = {}
    for text in split_list(methods):
        name, *options = text.split()
        found[text] = name, parse_options(options, f"--methods: an option of {name}")
    return found


# What else --methods all compares, by the kind of scores: kernel logistic regression, or the scores as they are.
_UNCALIBRATED = {None: ["klr"], "margin": [], "probability": ["raw"], "logit": ["raw"]}


def _compare_on_scores(
    source: Source, score: Sequence[str], group: str | None, options: Mapping[str, Any]
) -> tuple[Comparison, tuple[str, ...]]:
    """Compare methods on columns of scores; return also the names of two classes in the table, where they are known."""
    from calibrant.comparing import compare_scores

    columns = columns_of(source.files, score)
    require_one_naming(source, columns)
    if len(columns) == 1 and group is None:
        from calibrant import engines

        with source.open(columns) as running:
            if running.rows is None or running.rows > _FEW_ROWS:
                reading = source.reading(running.table)
                compared: Comparison = engines.compare(running.table, score=columns[0], **reading, **options)
                positive = source.pos_label
                return compared, () if positive is None else (f"not {positive}", positive)
    rows = read_rows(source, columns)
    y, names = _check_labels(source, rows.y)
    classes = None
    if len(columns) > 1:
        classes = classes_of(columns, rows.y, source.classes)
    scores = rows.numbers if len(columns) > 1 else rows.numbers[:, 0]
    groups = _read_groups(source, group, len(rows.y))
    return compare_scores(scores, y, groups=groups, sample_weight=rows.weight, classes=classes, **options), names


def _compare_on_features(
    source: Source, features: Sequence[str], group: str | None, options: Mapping[str, Any]
) -> Comparison:
    """Compare methods on machines trained on columns of numbers, by default all but the label and the group."""
    from calibrant.cli.formats import column_names
    from calibrant.comparing import compare

    given = columns_of(source.files, features)
    others = [name for name in column_names(source.files) if name not in (source.label, group)]
    rows = read_rows(source, given or others)
    groups = _read_groups(source, group, len(rows.y))
    return compare((rows.numbers, _check_labels(source, rows.y)[0], groups), **options)


def _read_groups(source: Source, group: str | None, rows: int) -> NDArray[Any] | None:
    """Return the groups of rows."""
    if group is None:
        return None
    found = read_labels(source.files, group)
    if len(found) != rows:
        msg = "--skip-missing cannot be used with --group: rows that are left out have groups too"
        raise ValueError(msg)
    return found


def _check_labels(source: Source, y: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return the labels, or with --pos-label whether each is positive; and the names of two classes, negative first.

    Raise unless folds can have all classes.
    """
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2 or counts.min() < 2:  # of each class, one row to fit on and one to evaluate
        rows = ", ".join(f"{count} of {name}" for name, count in list(zip(classes, counts, strict=True))[:5])
        shares = classes.dtype.kind == "f" and bool(((classes > 0) & (classes < 1)).any())
        way = ": these look like probabilities; --label is the column of what happened" if shares else ""
        msg = f"column {source.label!r} must hold at least two classes with two rows each; got {rows or 'no rows'}{way}"
        raise ValueError(msg)
    found = negative_and_positive(source.label, y, source.pos_label)
    if found is None:
        return y, tuple(map(str, classes)) if len(classes) == 2 else ()
    return np.asarray(y == found[1]), tuple(map(str, found))


@contextmanager
def explain_interruption(folder: Path | None) -> Iterator[None]:
    """Add to an interruption where the finished parts are."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"finished parts are kept in {folder}: the same command continues from there" if folder else ""
        raise KeyboardInterrupt(kept) from None


def _split_names(given: Sequence[str]) -> list[str]:
    """Return the names in several texts, each of one name or of several separated by commas."""
    return [name for text in given for name in split_list(text)]


def summarise_comparison(found: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values: its verdict, notes and standings, and all numbers."""
    from calibrant.comparing.standings import standings_of
    from calibrant.comparing.verdicts import describe_verdict, list_notes

    standings = standings_of(found)
    return {
        "verdict": describe_verdict(found, standings),
        "notes": list_notes(found),
        "standings": [{name: value for name, value in each.items() if name != "folds"} for each in standings],
        **json.loads(found.to_json()),
    }


def print_comparison(found: Comparison, heading: str) -> None:
    """Print a comparison as one table per machine, and the verdict."""
    from calibrant.comparing.standings import standings_of
    from calibrant.comparing.verdicts import describe_verdict, list_notes

    standings, folds = standings_of(found), len({cell.fold for cell in found.cells})
    print_text(
        Text(heading, style="bold"),
        f"Means over {folds} folds, the same for all methods. p is against the best method by the corrected t-test.",
    )
    for machine in found.machines:
        mine = [each for each in standings if each["machine"] == machine]
        for choice in found.choices:
            if choice.machine == machine and choice.fold is None:  # the same parameters for all folds
                parameters = ", ".join(f"{name} = {value:g}" for name, value in choice.parameters.items())
                print_text(f"{machine} {choice.trained}: {parameters}; accuracy {choice.accuracy:.3f}")
        print_text(_make_method_table(mine))
    print_text(describe_verdict(found, standings), *(f"Note: {note}" for note in list_notes(found)))


def _make_method_table(standings: Sequence[Mapping[str, Any]]) -> Table:
    """Return the methods on one machine, best first, with the means of all metrics."""
    from calibrant.evidence.words import round_pvalue

    first = standings[0]
    methods, names = first["methods"], [each["metric"] for each in standings]
    means = {
        each["metric"]: dict(zip(each["methods"], next(iter(each["means"].values())), strict=True))
        for each in standings
    }
    tested = first["against_best"].get("pvalues", np.full(len(methods), np.nan))[1:]
    pvalues = ["", *map(round_pvalue, tested)]
    table = make_table("method", *names, "rank", "p")
    for place, method in enumerate(methods):
        values = [format_number(means[name][method]) for name in names]
        rank = f"{first['ranks']['min'][place]:g}"
        table.add_row(method, *values, rank, pvalues[place])
    return table


# report ---------------------------------------------------------------------------------------------------------------


def report(
    context: typer.Context,
    table: TableFiles,
    *,
    label: Label,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")],
    probability: _Probability = [],  # noqa: B006
    score: Scores = [],  # noqa: B006
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    methods: _Methods = None,
    metric: _Metrics = ["log_loss", "brier"],  # noqa: B006
    folds: _Folds = 10,
    kind: Kind = None,
    weight: Weight = None,
    pos_label: PosLabel = None,
    classes: Classes = None,
    seed: _Seed = 0,
    by: By = [],  # noqa: B006
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    engine: Engine = "duckdb",
    master: Master = None,
    skip_missing: SkipMissing = False,
    as_json: AsJson = False,
) -> None:
    """Write an evaluation as one HTML page that needs no network.

    With --probability, the page shows the results of assess, with reliability
    diagrams, and with --by also those of each group. With --score, it shows the
    results of compare. Both have a panel that shows how the costs of errors and
    rejections change decisions.

    [bold]Examples[/bold]

      calibrant report out.parquet --probability p --label churned -o report.html
      calibrant report scores.csv --score f --label y --methods all -o report.html
    """
    from calibrant.cli.formats import open_files
    from calibrant.evidence.answers import answer_assessment

    if bool(probability) == bool(score):
        msg = "--probability evaluates probabilities, --score compares methods on scores; give one of them"
        raise ValueError(msg)
    require_place(output, *table)
    require_report("--output", output)
    found: Assessment | Comparison
    reading = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal, "skip_missing": skip_missing}
    if probability:
        _refuse_options(
            context, ["methods", "metric", "folds", "kind", "seed"], "is for comparing methods, so it needs --score"
        )
    else:
        _refuse_options(context, ["by"], "assesses groups, so it needs --probability")
    with open_files(table, delimiter=delimiter, encoding=encoding, decimal=decimal) as files:
        source = Source(
            files, label, weight, pos_label, classes, engine, master, skip_missing, (*columns_of(files, by),)
        )
        groups: dict[Any, Assessment] = {}
        if probability:
            found, groups = _assess_groups(source, probability)
            named = _name_source(source, table, probability, "probability", (), **reading)
            answers = answer_assessment(found, named, groups)
        else:
            from calibrant.comparing.verdicts import answer_comparison

            options = {"metrics": _split_names(metric), "cv": folds, "random_state": seed, "kind": kind}
            options |= {"methods": parse_methods(methods, read_kind(kind))}
            found, names = _compare_on_scores(source, score, None, options)
            named = _name_source(source, table, score, kind, names, **reading)
            answers = answer_comparison(found, None, named)
    write_page(found, output, groups=groups or None, title=title, source=named)
    if as_json:
        print_json({"report": str(output), "verdict": answers.text})
        return
    print_answers(answers)
    print_line(f"Report: {output}")
    print_steps(step for step in answers.next.steps if step.verb != "report")


def _name_source(
    source: Source,
    table: Sequence[str],
    columns: Sequence[str],
    kind: str | None,
    names: tuple[str, ...],
    **reading: Any,
) -> Named:
    """Return how the rows of a table are named on a page and in commands, as they were given without addresses."""
    from calibrant.evidence.steps import Source as Named

    options = repeat_options(weight=source.weight, pos_label=source.pos_label, classes=source.classes, **reading)
    return Named(
        source.files.name,
        tuple(_split_names(columns)),
        source.label,
        tuple(options),
        kind,
        names,
        source.by,
        tuple(map(hide_address, table)),
    )


def require_report(option: str, output: Path) -> None:
    """Raise before anything is computed if a package for reports is missing, or the file cannot be a page."""
    import_module("calibrant.report")
    check_page(option, output)


def write_page(found: Assessment | Comparison, output: Path, **words: Any) -> None:
    """Write a report as an HTML page."""
    from calibrant.report import write_report

    with show_activity(f"writing {output}"):
        write_report(found, output, **words)
