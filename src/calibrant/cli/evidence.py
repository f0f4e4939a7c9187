"""Commands that show how good probabilities are: assess, compare, report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.text import Text

from calibrant.checks import KINDS, binary, one_of, within_unit
from calibrant.cli.console import number, print_json, print_line, print_text, ruled, working
from calibrant.cli.reading import (
    AsJson,
    Classes,
    Kind,
    Label,
    PosLabel,
    Source,
    TableFile,
    Weight,
    classes_of,
    columns_of,
    parse_options,
    read_labels,
    read_rows,
    require_one_naming,
    require_place,
    split,
    two_classes,
)
from calibrant.files import write_whole
from calibrant.maps.methods import list_methods

if TYPE_CHECKING:
    from rich.table import Table

    from calibrant.comparing import Comparison
    from calibrant.evidence.assessing import Assessment

__all__ = [
    "assess",
    "compare",
    "print_comparison",
    "report",
    "require_report",
    "resumable",
    "scalings",
    "summary",
    "write_page",
]

_Probability = Annotated[
    list[str], typer.Option(help="The column of probabilities of the positive class, or one column a class.")
]
_Scores = Annotated[list[str], typer.Option(help="The column of scores, or one column a class where there are more.")]
_Methods = Annotated[
    str | None,
    typer.Option(help='Methods with their options, "platt,bins k=20", or all.', show_default="those of Rüping 2004"),
]
_Metrics = Annotated[list[str], typer.Option(help="Metrics; the first is the one to rank by.")]
_Folds = Annotated[int, typer.Option(min=2, help="The number of folds.")]
_Folder = Annotated[
    Path | None, typer.Option(help="Where finished parts are kept: the same command goes on from there.")
]
_Seed = Annotated[int, typer.Option(help="Shuffles the folds.")]


# assess ---------------------------------------------------------------------------------------------------------------


def assess(
    table: TableFile,
    *,
    probability: _Probability,
    label: Label,
    weight: Weight = None,
    pos_label: PosLabel = None,
    classes: Classes = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file to write everything to, with the curves, as JSON.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how good probabilities are: metrics, decompositions, tests, a verdict.

    The rows must have taken no part in training or calibrating. Intervals are
    from 1000 bootstrap draws. A test's p is the probability of a deviation as
    large if the probabilities were calibrated. A score is taken apart into
    miscalibration, which a monotone map could remove, discrimination, and the
    uncertainty of the classes themselves. Formulas and sources are in the JSON.

    With more than two classes --probability names one column a class; which
    class, --classes says, or the end of the column's name, as in p_cat, p_dog.

    [bold]Examples[/bold]

      calibrant assess out.parquet --probability p --label churned
      calibrant assess pets.csv --probability p_cat,p_dog,p_hare --label pet
    """
    if output is not None:
        require_place(output, table)
    found = _assessment(Source(table, label, weight, pos_label, classes), probability)
    if not found.measures:
        unnamed = f"all rows of column {label!r} are of one class; say by --pos-label which the probabilities are of"
        raise ValueError(unnamed if found.rows else found.verdict)
    document = {"table": str(table), **found.as_dict()}
    if output is not None:
        write_whole(output, (json.dumps(document, allow_nan=False, indent=1) + "\n").encode())
    if as_json:
        print_json(document)
    else:
        _print_assessment(table, found)


def _assessment(source: Source, probability: Sequence[str]) -> Assessment:
    """Return what there is to say of a table's columns of probabilities."""
    from calibrant.evidence.assessing import assess as assessed

    columns = columns_of(source.table, probability)
    require_one_naming(source, columns)
    rows = read_rows(source.table, columns, source.label, source.weight)
    for column, values in zip(columns, rows.numbers.T, strict=True):
        within_unit(f"column {column!r}", values)
    if len(columns) == 1:
        if len(np.unique(rows.y)) > 2:
            binary(f"column {source.label!r}", rows.y)
        labels, p = two_classes(source.label, rows.y, source.pos_label), rows.numbers[:, 0]
    else:
        labels, p = classes_of(columns, rows.y, source.classes), rows.numbers
    with working(f"assessing {', '.join(columns)}"):
        return assessed(rows.y, p, sample_weight=rows.weight, labels=labels)


def _print_assessment(table: Path, found: Assessment) -> None:
    """Print the assessment as tables, and the verdict."""
    shares = ", ".join(f"{each.name} {each.rows:,.10g} ({each.share:.1%})" for each in found.classes)
    print_text(
        Text(f"{table}: {found.rows:,.10g} rows; {shares}", style="bold"),
        _measures(found),
        _decompositions(found),
        *([_tests(found)] if found.tests else []),
        found.verdict,
        *(f"Note: {note}" for note in found.notes),
    )


def _measures(found: Assessment) -> Table:
    """Return the table of metrics; the parts of scores have their own."""
    from calibrant.evidence.assessing import PARTS

    table = ruled("metric", "value", f"{found.confidence:.0%} interval", last="better")
    for each in found.measures:
        if each.name not in PARTS:
            interval = "" if each.low is None or each.high is None else f"{number(each.low)} to {number(each.high)}"
            table.add_row(each.name, number(each.value), interval, each.better)
    return table


def _decompositions(found: Assessment) -> Table:
    """Return the table of decomposed scores."""
    table = ruled("score", "value =", "miscalibration -", "discrimination +", "uncertainty")
    for name, part in found.decompositions.items():
        parts = part.score, part.miscalibration, part.discrimination, part.uncertainty
        table.add_row(name, *map(number, parts))
    return table


def _tests(found: Assessment) -> Table:
    """Return the table of tests of calibration."""
    table = ruled("test of calibration", "p", last="what it says")
    for each in found.tests:
        table.add_row(each.name, f"{each.pvalue:.3g}", Text(each.sentence))
    return table


# compare --------------------------------------------------------------------------------------------------------------


def compare(
    context: typer.Context,
    table: TableFile,
    *,
    label: Label,
    score: _Scores = [],  # noqa: B006
    features: Annotated[
        list[str], typer.Option(help="Columns to train machines on.", show_default="all others, without --score")
    ] = [],  # noqa: B006
    kernels: Annotated[
        str | None, typer.Option(help="Of the machines to train: linear, rbf, poly.", show_default="linear,rbf")
    ] = None,
    choose: Annotated[
        str | None,
        typer.Option(
            help="The machines' parameters: prior, once on all rows, or nested, in each training part.",
            show_default="prior",
        ),
    ] = None,
    methods: _Methods = None,
    metric: _Metrics = ["log_loss", "brier"],  # noqa: B006
    folds: _Folds = 10,
    kind: Kind = "margin",
    weight: Weight = None,
    group: Annotated[str | None, typer.Option(help="The column of groups, whose rows stay in one fold.")] = None,
    pos_label: PosLabel = None,
    classes: Classes = None,
    seed: _Seed = 0,
    jobs: Annotated[int, typer.Option(help="How many processes compute; -1 for all cores.")] = 1,
    folder: _Folder = None,
    report: Annotated[Path | None, typer.Option(help="A page of HTML to write.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the best method for your data: methods x folds, ranks, paired tests.

    The experiment of Rüping (2004). With --score: each fold is judged by maps
    fitted to the scores of the other folds; the scores must be of rows that
    their classifier was not trained on. Without: support vector machines are
    trained on the features, beside kernel logistic regression (klr), and each
    map is fitted to out-of-fold scores within the training part. All methods
    see the same folds.

    "worse than" names the methods that Rüping's paired one-sided t-test over
    folds, at 0.05, finds significantly better. Folds share training rows, so
    this test finds too much; p is that of the test against the best method
    corrected for this (Nadeau & Bengio 2003) and for many methods (Holm 1979).

    [bold]Examples[/bold]

      calibrant compare scores.csv --score f --label y --report report.html
      calibrant compare scores.csv --score f --label y --methods "platt,bins k=20"
      calibrant compare patients.csv --label ill --kernels rbf --folder unfinished
    """
    source = Source(table, label, weight, pos_label, classes)
    asked = {
        "metrics": _named(metric),
        "cv": folds,
        "random_state": seed,
        "n_jobs": jobs,
        "folder": folder,
    }
    if report is not None:
        require_report()
        require_place(report, table, name="--report")
    if score:
        _refuse(context, ["features", "kernels", "choose"], "trains machines, --score compares methods on scores")
    else:
        _refuse(context, ["kind"], "needs --score: machines that are trained here have scores of their own kind")
        _refuse(context, ["weight"], "needs --score: machines are trained without weights")
    _require_other_columns(label, [*_named(score), *_named(features)])
    with resumable(folder):
        if score:
            found = _of_scores(source, score, group, {**asked, "kind": kind, "methods": scalings(methods, kind)})
        else:
            machines = {"kernels": split("linear,rbf" if kernels is None else kernels), "choose": choose or "prior"}
            found = _of_features(source, features, group, asked | machines | {"methods": scalings(methods, None)})
    _require_success(found)
    if report is not None:
        write_page(found, report, about=f"Table {table.name}, label {label}.")
    if as_json:
        print_json({"table": str(table), **summary(found), "report": report})
    else:
        print_comparison(found, f"{table}: {_rows_of(found):,} rows")
        if report is not None:
            print_line(f"Report: {report}")


def _refuse(context: typer.Context, names: Sequence[str], reason: str) -> None:
    """Raise where an option was given that would have no say."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            msg = f"--{name} {reason}; got --{name} {_shown(context.params[name])}"
            raise ValueError(msg)


def _shown(value: Any) -> str:
    """Return an option's value as it was given.

    >>> _shown(["brier", "ece"]), _shown(10)
    ('brier ece', '10')
    """
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _require_other_columns(label: str, columns: list[str]) -> None:
    """Raise where the label is also what it is to be found from."""
    if label in columns:
        msg = f"--label must be another column than those it is found from; got {label!r} as both"
        raise ValueError(msg)


def _require_success(found: Any) -> None:
    """Raise where no method gave a probability."""
    failed = [cell.note for cell in found.cells if all(value != value for value in cell.values.values())]
    if len(failed) == len(found.cells):
        msg = f"no method could be judged: {failed[0]}"
        raise ValueError(msg)


def scalings(methods: str | None, kind: str | None) -> Any:
    """Return methods as `calibrant.compare` takes them; `kind` is that of scores, None where machines are trained.

    >>> scalings("platt,bins k=20", "margin")
    {'platt': ('platt', {}), 'bins k=20': ('bins', {'k': 20})}
    """
    if methods is None:
        return None
    if methods == "all":
        return [*_OWN[kind], *list_methods("column", "matrix")]
    found = {}
    for text in split(methods):
        name, *options = text.split()
        found[text] = name, parse_options(options, f"--methods: an option of {name}")
    return found


# What a machine says itself, to be compared with the methods: kernel logistic regression, or scores as they are.
_OWN = {None: ["klr"], "margin": [], "probability": ["raw"], "logit": ["raw"]}


def _of_scores(source: Source, score: Sequence[str], group: str | None, asked: Mapping[str, Any]) -> Comparison:
    """Compare methods on columns of scores."""
    from calibrant.comparing import compare_scores

    one_of("--kind", asked["kind"], KINDS)
    columns = columns_of(source.table, score)
    require_one_naming(source, columns)
    rows = read_rows(source.table, columns, source.label, source.weight)
    scores, y = rows.numbers[:, 0], _happened(source, rows.y)
    if len(columns) > 1:
        order = np.argsort(np.asarray(classes_of(columns, rows.y, source.classes)))
        scores, y = rows.numbers[:, order], rows.y
    return compare_scores(scores, y, groups=_groups_of(source, group), sample_weight=rows.weight, **asked)


def _of_features(source: Source, features: Sequence[str], group: str | None, asked: Mapping[str, Any]) -> Comparison:
    """Compare methods on machines trained on columns of numbers, by default all but the label and the group."""
    from calibrant.cli import tables
    from calibrant.comparing import compare

    given = columns_of(source.table, features)
    others = [name for name in tables.column_names(source.table) if name not in (source.label, group)]
    rows = read_rows(source.table, given or others, source.label)
    return compare((rows.numbers, _happened(source, rows.y), _groups_of(source, group)), **asked)


def _happened(source: Source, y: NDArray[Any]) -> NDArray[Any]:
    """Return labels that can be compared on, as whether they are the positive one where that was said."""
    _require_folds(source.label, y)
    found = two_classes(source.label, y, source.pos_label)
    return y if found is None else np.asarray(y == found[1])


def _require_folds(label: str, y: NDArray[Any]) -> None:
    """Raise unless there are two classes, of at least two rows each: one to fit on, one to judge."""
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2 or counts.min() < 2:
        rows = ", ".join(f"{count} of {name}" for name, count in list(zip(classes, counts, strict=True))[:5])
        msg = f"column {label!r} must hold at least two classes with two rows each; got {rows or 'no rows'}"
        raise ValueError(msg)


def _groups_of(source: Source, group: str | None) -> NDArray[Any] | None:
    """Return the column of groups, if there is one."""
    return None if group is None else read_labels(source.table, group)


@contextmanager
def resumable(folder: Path | None) -> Iterator[None]:
    """Say, if interrupted, where the finished parts are."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"finished parts are kept in {folder}: the same command goes on from there" if folder else ""
        raise KeyboardInterrupt(kept) from None


def _named(given: Sequence[str]) -> list[str]:
    """Return names given one by one or with commas between them."""
    return [name for text in given for name in split(text)]


def _rows_of(found: Comparison) -> int:
    """Return the number of rows of a comparison on one data set."""
    return max(len(each.rows) for each in found.predictions.values())


def summary(found: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values: what it says, and every number behind it."""
    from calibrant.comparing.verdicts import notes, standings_of, verdict

    standings = standings_of(found)
    return {
        "verdict": verdict(found, standings),
        "notes": notes(found),
        "standings": [{name: value for name, value in each.items() if name != "folds"} for each in standings],
        **json.loads(found.to_json()),
    }


def print_comparison(found: Comparison, heading: str) -> None:
    """Print a comparison as one table a machine, and the verdict."""
    from calibrant.comparing.verdicts import notes, standings_of, verdict

    standings, folds = standings_of(found), len({cell.fold for cell in found.cells})
    print_text(
        Text(heading, style="bold"),
        f"Means over {folds} folds, the same for all methods; p against the best method by the "
        "corrected t-test, worse than others by the plain one.",
    )
    for machine in found.machines:
        mine = [each for each in standings if each["machine"] == machine]
        print_text(*_chosen(found, machine), _method_table(mine))
    print_text(verdict(found, standings), *(f"Note: {note}" for note in notes(found)))


def _chosen(found: Comparison, machine: str) -> Iterator[str]:
    """Yield what machines were trained, with which parameters where they are the same for all folds."""
    for choice in found.choices:
        if choice.machine == machine and choice.fold is None:
            parameters = ", ".join(f"{name} = {value:g}" for name, value in choice.parameters.items())
            yield f"{machine} {choice.trained}: {parameters}; accuracy {choice.accuracy:.3f}"


def _method_table(standings: Sequence[Mapping[str, Any]]) -> Table:
    """Return the methods on one machine, best first, with the means of all metrics."""
    first = standings[0]
    methods, names = first["methods"], [each["metric"] for each in standings]
    means = {
        each["metric"]: dict(zip(each["methods"], next(iter(each["means"].values())), strict=True))
        for each in standings
    }
    pvalues = ["", *(f"{p:.2g}" for p in first["against_best"].get("pvalues", np.ones(len(methods)))[1:])]
    table = ruled("method", *names, "rank", "p", last="worse than")
    for place, method in enumerate(methods):
        better = [other for other, worse in zip(methods, first["rejections"][place], strict=True) if worse]
        values = [number(means[name][method]) for name in names]
        table.add_row(method, *values, f"{first['ranks']['min'][place]:g}", pvalues[place], _some(better, len(methods)))
    return table


def _some(names: Sequence[str], total: int) -> str:
    """Return a few of the names of methods, or how many of the others they are.

    >>> _some(["platt", "pp"], 9), _some(list("abcdefgh"), 9), _some(list("abcde"), 9), _some([], 9)
    ('platt, pp', 'all others', '5 of the 8 others', '')
    """
    if len(names) == total - 1 > 1:
        return "all others"
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} of the {total - 1} others"


# report ---------------------------------------------------------------------------------------------------------------


def report(
    context: typer.Context,
    table: TableFile,
    *,
    label: Label,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page of HTML to write.")],
    probability: _Probability = [],  # noqa: B006
    score: _Scores = [],  # noqa: B006
    title: Annotated[str | None, typer.Option(help="The heading.")] = None,
    methods: _Methods = None,
    metric: _Metrics = ["log_loss", "brier"],  # noqa: B006
    folds: _Folds = 10,
    kind: Kind = "margin",
    weight: Weight = None,
    pos_label: PosLabel = None,
    classes: Classes = None,
    seed: _Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write the evidence as one page of HTML that needs no network.

    With --probability: how good these probabilities are, as assess says it,
    with reliability diagrams. With --score: which method makes the best
    probabilities of these scores, as compare says it. Either with a panel that
    shows what costs of errors and of rejections do to decisions.

    [bold]Examples[/bold]

      calibrant report out.parquet --probability p --label churned -o report.html
      calibrant report scores.csv --score f --label y --methods all -o report.html
    """
    if bool(probability) == bool(score):
        msg = "--probability shows probabilities as they are, --score compares methods; give one of them"
        raise ValueError(msg)
    require_report()
    require_place(output, table)
    source = Source(table, label, weight, pos_label, classes)
    found: Assessment | Comparison
    if probability:
        _refuse(
            context, ["methods", "metric", "folds", "kind", "seed"], "is for comparing methods, so it needs --score"
        )
        found = _assessment(source, probability)
        words = found.verdict
    else:
        from calibrant.comparing.verdicts import standings_of, verdict

        asked = {"metrics": _named(metric), "cv": folds, "random_state": seed, "kind": kind}
        found = _of_scores(source, score, None, {**asked, "methods": scalings(methods, kind)})
        words = verdict(found, standings_of(found))
    write_page(found, output, title=title, about=f"Table {table.name}, label {label}.")
    if as_json:
        print_json({"report": str(output), "verdict": words})
    else:
        print_text(words)
        print_line(f"Report: {output}")


def require_report() -> None:
    """Raise now, and not when all has been computed, if a package is missing that makes pages."""
    import_module("calibrant.report")


def write_page(found: Assessment | Comparison, output: Path, **words: Any) -> None:
    """Write the report."""
    from calibrant.report import write_report

    with working(f"writing {output}"):
        write_report(found, output, **words)
