"""The command line: reads what was asked, calls the library, prints what came of it.

A command refuses with one sentence on stderr and exit code 2, and then has written nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

import calibrant
from calibrant.maps import METHODS, Map, check_method, fit_map, probabilities
from calibrant.metrics import brier, log_loss
from calibrant.multiclass import ClassMap, MatrixMap
from calibrant.samples import KINDS, Sample, binary, finite, sample, weighed
from calibrant.store import save, to_dict, write_whole

if TYPE_CHECKING:
    from calibrant.demo import Demo, Trial

ABSENT: str | None = None
try:
    import typer
    from rich import box
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Table
    from rich.text import Text
except ModuleNotFoundError as error:  # told by `main`, so that importing this file never fails
    ABSENT = error.name

__all__ = ["application", "main"]

# Which extra brings a package.
EXTRAS = {"typer": "cli", "rich": "cli", "pyarrow": "cli", "matplotlib": "plot"}

INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    if ABSENT:
        sys.exit(refuse(absent(ABSENT)))
    for name in ("SIGTERM", "SIGHUP"):  # end as by Ctrl-C, with temporary files removed
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    application()()


def application() -> typer.Typer:
    """Return the commands as an application of typer."""
    app = typer.Typer(
        name="calibrant",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=EPILOG,
    )
    app.callback()(about)
    for command in (demo, methods, fit, apply):
        app.command()(refusing(command))
    return app


EPILOG = """\
[bold]Examples[/bold]

  calibrant demo
  calibrant fit scores.parquet --score f --label y -o map.json
  calibrant apply map.json new.parquet --score f -o out.parquet

[bold]Tables[/bold] are CSV or Parquet files, told apart by the ending of the name.
Every command that prints numbers prints them as JSON with --json.

[bold]Exit status[/bold]: 0 done; 2 refused, with one sentence that says why;
130 interrupted. Unless it is 0, no file has been written or changed.
"""


def version(*, asked: bool) -> None:
    """Print the version and stop, if asked."""
    if asked:
        print(f"calibrant {calibrant.__version__}")
        raise typer.Exit


def about(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=version, is_eager=True)
    ] = False,
) -> None:
    """Turn what a classifier says into a probability you can act on, and see the evidence.

    A classifier's score says which rows are more likely to be positive. A map,
    fitted to scores of rows that the classifier was not trained on, says how
    likely: fit writes one, apply uses it.
    """


# The commands ---------------------------------------------------------------------------------------------------------


def methods(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the methods that fit a map.

    The column "map" names the formula that the method fits. "scores" says where
    it is defined: real, on decision values and logits (a probability is sent
    through the logit first); unit, on probabilities; any, wherever the scores
    are. Options are given to fit as --option name=value.
    """
    if as_json:
        print_json([described(name) for name in METHODS])
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in ("method", "map", "scores", "monotone"):
        table.add_column(heading, no_wrap=True)
    table.add_column("source and options")
    for row in map(described, METHODS):
        options = f"\noptions: {', '.join(row['options'])}" if row["options"] else ""
        last = Text.assemble(row["source"], (options, "green"))
        name, monotone = Text(row["name"], style="bold cyan"), "yes" if row["monotone"] else "no"
        table.add_row(name, row["record"], row["domain"], monotone, last)
    Console(highlight=False).print(table)


def described(name: str) -> dict[str, Any]:
    """Return a row of the table of methods as JSON values."""
    method = METHODS[name]
    defaults = signature(method.fit).parameters
    return {
        "name": name,
        "record": method.record.__name__,
        "domain": method.domain,
        "monotone": method.monotone,
        "options": {option: defaults[option].default for option in method.options()},
        "source": method.source,
    }


def fit(  # noqa: PLR0913, a command has as many parameters as options
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A CSV or Parquet file.")],
    *,
    score: Annotated[str, typer.Option(help="The column of scores, larger = more positive.")],
    label: Annotated[str, typer.Option(help="The column of labels: two values, or probabilities.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write the map to, as JSON.")],
    weight: Annotated[str | None, typer.Option(help="The column of weights; weight k is the row k times.")] = None,
    method: Annotated[str, typer.Option(help="A method that `calibrant methods` lists.")] = "platt",
    kind: Annotated[str, typer.Option(help=f"What the scores are: {', '.join(KINDS)}.")] = "margin",
    pos_label: Annotated[
        str | None, typer.Option(help="The positive label.", show_default="the last in sorted order")
    ] = None,
    option: Annotated[list[str], typer.Option(help="name=value of the method; may be repeated.")] = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Fit a map from scores to probabilities and write it to a file.

    Fit it to scores of rows that the classifier was not trained on, held out or
    out of fold: on its training rows a classifier looks surer than it is.

    [bold]Examples[/bold]

      calibrant fit scores.csv --score f --label churned -o map.json
      calibrant fit scores.parquet --score p --label y --kind probability \
          --method bins --option k=20 --option smoothing=raw -o map.json
    """
    require_one_of("--method", method, METHODS)
    require_one_of("--kind", kind, KINDS)
    require_place(output, table)
    options = parse_options(option)
    check_method(method, options)
    data, positive = read_sample(table, score, label, weight, kind=kind, pos_label=pos_label)
    with working(f"fitting {method}"):
        mapping, notes = fitted(method, data, kind, options)
        summary = {
            "method": method,
            "kind": kind,
            "options": options,
            "rows": len(data),
            "positives": data.totals()[0],
            "positive_label": positive,
            "map": to_dict(mapping),
            "on_fitting_rows": losses(mapping, data),
            "warnings": notes,
            "output": str(output),
        }
        save(mapping, output)
    for note in notes:
        tell("warning", note, "yellow")
    if as_json:
        print_json(summary)
    else:
        print_fit(mapping, summary, weighted=weight is not None)


def print_fit(mapping: Map, summary: dict[str, Any], *, weighted: bool) -> None:
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
    table.add_row("map", Text(abridged(mapping)))
    table.add_row("log loss", f"{number(scores['log_loss'])} on the fitting rows")
    table.add_row("Brier score", f"{number(scores['brier'])} on the fitting rows")
    table.add_row("written to", Text(summary["output"]))
    Console().print(table)


def apply(  # noqa: PLR0913, a command has as many parameters as options
    map_file: Annotated[Path, typer.Argument(metavar="MAP", help="A map that `calibrant fit` wrote.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A CSV or Parquet file.")],
    *,
    score: Annotated[str, typer.Option(help="The column of scores, of the kind the map was fitted to.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The CSV or Parquet file to write.")],
    name: Annotated[str, typer.Option(help="The name of the new column.")] = "probability",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a column of that name.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add a column of probabilities to a copy of a table.

    All other columns stay as they are, but for types when CSV becomes Parquet, which
    are read off the whole file. A missing score has a missing probability,
    an infinite one the map's limit.

    [bold]Example[/bold]

      calibrant apply map.json new.parquet --score f -o out.parquet
    """
    from calibrant import tables

    require_place(output, table, map_file)
    tables.ending(output)
    mapping = load_map(map_file)
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
        Console(highlight=False, soft_wrap=True).print(Text(f"{output}: {rows:,} rows with {name!r}{gaps}"))


def demo(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture to write.")] = Path("calibrant-demo.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare every method on real data.

    The data are 442 diabetes patients that come with scikit-learn, whose disease
    progressed more or less than the median. A machine with an RBF kernel is trained
    on 70 % of them; the maps are fitted to its pooled 3-fold out-of-fold scores, and
    judged on the other 30 %, which neither has seen.
    """
    from calibrant import demo as demonstration
    from calibrant import plots

    require_place(output)
    plots.require_format(output)
    with working("training a support vector machine") as step:

        def track(names: Iterable[str]) -> Iterator[str]:
            for done, name in enumerate(names):
                step(description=f"fitting {name}", completed=done, total=len(METHODS))
                yield name
            step(description="drawing", total=None)

        result = demonstration.run(track)
        write_whole(output, plots.render(plots.draw_demo(result), output))
    if as_json:
        print_json(demo_summary(result, output))
    else:
        print_demo(result, output)


def demo_summary(result: Demo, output: Path) -> dict[str, Any]:
    """Return the demo as JSON values."""
    return {
        "data": result.data,
        "question": result.question,
        "model": result.model,
        "seed": result.seed,
        "fitting_rows": len(result.fitting),
        "held_out_rows": len(result.held_out),
        "methods": [trial_summary(trial) for trial in result.trials],
        "base_rate": trial_summary(result.base_rate),
        "verdict": result.verdict(),
        "output": str(output),
    }


def trial_summary(trial: Trial) -> dict[str, Any]:
    """Return one method's result as JSON values."""
    return {
        "method": trial.method,
        "log_loss": trial.log_loss,
        "brier": trial.brier,
        "error_rate": trial.error_rate,
        "note": trial.note,
        "map": None if trial.mapping is None else to_dict(trial.mapping),
    }


def print_demo(result: Demo, output: Path) -> None:
    """Print the comparison as a table, and the verdict."""
    console = Console(highlight=False)
    positives = result.fitting.totals()[0] + result.held_out.totals()[0]
    console.print(Text(f"{result.data}: {result.question}", style="bold"))
    fitting, held_out = len(result.fitting), len(result.held_out)
    console.print(f"{result.model}; {positives:.0f} of {fitting + held_out} positive.")
    console.print(f"Maps fitted to {fitting} pooled out-of-fold scores, judged on {held_out} held-out rows.")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("method", style="bold cyan", no_wrap=True)
    for heading in ("log loss", "Brier", "error rate"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("note")
    order = sorted([*result.trials, result.base_rate], key=lambda t: (np.isnan(t.log_loss), t.log_loss))
    for trial in order:
        style = "dim" if trial is result.base_rate else ""
        numbers = number(trial.log_loss), number(trial.brier), number(trial.error_rate)
        table.add_row(trial.method, *numbers, Text(trial.note), style=style)
    console.print(table)
    console.print(Text(result.verdict()))
    console.print(Text(f"Picture: {output}"))


# What goes in ---------------------------------------------------------------------------------------------------------


def read_sample(
    table: Path, score: str, label: str, weight: str | None, *, kind: str, pos_label: str | None
) -> tuple[Sample, Any]:
    """Read a table's columns as a sample, with the label that counts as positive, None where labels are soft."""
    from calibrant import tables

    with working(f"reading {table}"):
        names = [score] if weight is None else [score, weight]
        numbers, column = tables.read_columns(table, names, label)
        values = tables.labels(column, label)
        scores = finite(f"column {score!r}", numbers[0])
        weights = None if weight is None else weighed(f"column {weight!r}", numbers[1], scores)
        positive = None if pos_label is None else tables.parse_label(pos_label, values)
        y = binary(f"column {label!r}", values, positive)
        return sample(scores, y, weights, kind=kind), positive_label(values, y)


def positive_label(values: Any, y: Any) -> Any:
    """Return the label that counts as positive, None where there is none or labels are soft."""
    hard = np.isin(y, (0, 1)).all()
    return values[np.argmax(y)].item() if hard and y.any() and hasattr(values[0], "item") else None


def parse_options(given: list[str]) -> dict[str, Any]:
    """Return name=value pairs as a dictionary of numbers, truth values, None and text.

    >>> parse_options(["k=20", "strength=1.5", "smoothing=raw", "clip=true", "penalty=none"])
    {'k': 20, 'strength': 1.5, 'smoothing': 'raw', 'clip': True, 'penalty': None}
    """
    options: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals) or name in options:
            msg = f"--option must be name=value, each name once; got {pair!r}"
            raise ValueError(msg)
        options[name] = parse_value(value)
    return options


WORDS = {"none": None, "true": True, "false": False}


def parse_value(text: str) -> Any:
    """Return a text as None, a truth value, a whole number or a number, if it reads as one."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            pass
    return text


def load_map(path: Path) -> Map:
    """Read a map, with one sentence if the file is none."""
    if not path.is_file():
        msg = f"{path} does not exist or is not a file"
        raise ValueError(msg)
    mapping = calibrant.load(path)
    if isinstance(mapping, (ClassMap, MatrixMap)):
        msg = f"{path} is a map of several columns of scores; the command line applies maps of one"
        raise ValueError(msg)
    return mapping


def require_one_of(name: str, value: str, known: Iterable[str]) -> None:
    """Raise unless an argument is one of the words that there are."""
    if value not in known:
        msg = f"{name} must be one of {', '.join(known)}; got {value!r}"
        raise ValueError(msg)


def require_place(output: Path, *inputs: Path) -> None:
    """Raise unless a file can be written there without losing an input."""
    if output.exists() and not output.is_file():
        msg = f"--output must be a file; {str(output)!r} is a folder or a device"
        raise ValueError(msg)
    if not output.parent.is_dir():
        msg = f"--output must be in a folder that exists; {str(output.parent)!r} does not"
        raise ValueError(msg)
    if not os.access(output.parent, os.W_OK):
        msg = f"--output must be in a folder one may write to; {str(output.parent)!r} is not"
        raise ValueError(msg)
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            msg = f"--output must not be an input; got {str(output)!r} for both"
            raise ValueError(msg)


# What comes of it -----------------------------------------------------------------------------------------------------


def fitted(method: str, data: Sample, kind: str, options: dict[str, Any]) -> tuple[Map, list[str]]:
    """Fit a map and return it with what the fit warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            mapping = fit_map(method, data, kind, **options)
        except (TypeError, RuntimeError) as error:  # an option of the wrong type, or no convergence
            msg = f"method {method!r} failed: {error}"
            raise ValueError(msg) from None
    return mapping, [str(warning.message) for warning in caught]


def losses(mapping: Map, data: Sample) -> dict[str, float]:
    """Return log loss and Brier score of a map on a sample."""
    label, weight = np.asarray(data.label), data.weight
    p = probabilities(mapping, data.arrays()[0])
    if np.isin(label, (0, 1)).all():  # both columns, for 1 - p is 0 where p rounds to 1
        entropy = log_loss(label.astype(int), p, sample_weight=weight, labels=[0, 1])
    else:
        entropy = log_loss(label, p[:, 1], sample_weight=weight)
    return {"log_loss": entropy, "brier": brier(label, p[:, 1], sample_weight=weight)}


def abridged(value: Any) -> str:
    """Return a record as text with six digits and the ends of long tuples.

    >>> abridged(calibrant.maps.Steps(tuple(range(9)), tuple(n / 9 for n in range(10))))
    'Steps(edges=(0, 1, ... 8; 9 numbers), values=(0, 0.111111, ... 1; 10 numbers))'
    """
    if is_dataclass(value):
        shown = ((f.name, getattr(value, f.name)) for f in fields(value) if f.repr)
        return f"{type(value).__name__}({', '.join(f'{name}={abridged(item)}' for name, item in shown)})"
    if isinstance(value, tuple):
        items = [abridged(item) for item in value]
        if len(items) <= 4:
            return f"({', '.join(items)})"
        return f"({items[0]}, {items[1]}, ... {items[-1]}; {len(items)} numbers)"
    return f"{value:.6g}" if isinstance(value, float | int) and not isinstance(value, bool) else repr(value)


def number(value: float) -> str:
    """Return a number with four decimals, or what stands for none."""
    return f"{value:.4f}" if np.isfinite(value) else "infinite" if value == np.inf else "-"


def print_json(value: Any) -> None:
    """Print JSON: an infinite number is the text "inf", as in a stored map, and one that is not there null."""
    print(json.dumps(plain(value), allow_nan=False, indent=2))


def plain(value: Any) -> Any:
    """Return a value made of what JSON has."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


@contextmanager
def working(what: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """Show on a terminal what is being done, and yield what updates it; elsewhere show nothing."""
    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield partial(progress.update, progress.add_task(what, total=total))


def refusing(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command end with one sentence and an exit code where it cannot go on."""

    @wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except BrokenPipeError:  # typer ends quietly, as in `calibrant methods | head`
            raise
        except ModuleNotFoundError as error:
            raise typer.Exit(refuse(absent(error.name or ""))) from None
        except (ValueError, OSError) as error:
            raise typer.Exit(refuse(sentence(error))) from None
        except KeyboardInterrupt:
            tell("interrupted", "nothing was written", "yellow")
            raise typer.Exit(INTERRUPTED) from None

    return wrapped


def sentence(error: Exception) -> str:
    """Return what an error says, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())


def absent(package: str) -> str:
    """Return how to install a package that is not there."""
    top = package.partition(".")[0]
    extra = f"calibrant[{EXTRAS[top]}]" if top in EXTRAS else top
    return f'this command needs {top}, which is not installed: pip install "{extra}"'


def refuse(message: str) -> int:
    """Print why a command cannot go on and return its exit code."""
    tell("error", message, "bold red")
    return 2


def tell(what: str, message: str, style: str) -> None:
    """Print a line on stderr."""
    if ABSENT:
        print(f"{what}: {message}", file=sys.stderr)
    else:
        Console(stderr=True, soft_wrap=True, highlight=False).print(Text.assemble((f"{what}: ", style), message))
