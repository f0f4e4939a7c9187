"""Commands that show the library at work: demo, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calibrant.checks import one_of
from calibrant.cli.console import print_json, print_line, print_text, ruled, tell
from calibrant.cli.evidence import print_comparison, require_report, resumable, summary, write_page
from calibrant.cli.reading import AsJson, require_place

if TYPE_CHECKING:
    from calibrant.papers import Result
    from calibrant.papers import Table as Published

__all__ = ["demo", "reproduce"]


def demo(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page of HTML to write.")] = Path(
        "calibrant-report.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Compare every method on real data, and write the report.

    The data are 442 diabetes patients that come with scikit-learn, whose disease
    progressed more or less than the median. A support vector machine and kernel
    logistic regression, each with an RBF kernel, are trained under 10-fold
    cross-validation, their parameters chosen within each training part; every
    method turns the machine's scores into probabilities, judged on rows that
    neither has seen.

    [bold]Example[/bold]

      calibrant demo
    """
    from calibrant.cli import demo as demonstration

    require_report()
    require_place(output)
    found = demonstration.run()
    write_page(found, output, title=demonstration.TITLE, about=demonstration.ABOUT)
    if as_json:
        print_json({"about": demonstration.ABOUT, **summary(found), "report": str(output)})
    else:
        print_comparison(found, demonstration.TITLE)
        print_line(f"Report, for your browser: {output}")


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Its name, as in lin2007; a wrong one lists all.")],
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Only a part, to see that it works.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where cells and results are kept.", show_default="calibrant-experiments/PAPER"),
    ] = None,
    jobs: Annotated[int, typer.Option(help="How many processes compute; -1 for all cores.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Repeat a published experiment: the paper's numbers, ours, and each claim judged.

    Finished cells are kept: an interrupted run goes on where it was, unless the
    library has changed. The result is also written as result.json and page.html.
    Where cells could not be computed, as without the data, the exit code is 1.

    [bold]Example[/bold]

      calibrant reproduce lin2007 --quick
    """
    from calibrant.papers import EXPERIMENTS, require_jobs
    from calibrant.papers import reproduce as repeat

    one_of("PAPER", paper, EXPERIMENTS)
    require_jobs("--jobs", jobs)
    with resumable(folder or Path("calibrant-experiments") / paper):
        result = repeat(paper, quick=quick, folder=folder, n_jobs=jobs)
    if as_json:
        print_json({**result.as_dict(), "folder": str(result.folder)})
    else:
        _print_result(result)
    _require_complete(result)


def _require_complete(result: Result) -> None:
    """Say which cells could not be computed, one line a reason, and exit with 1 if there are any."""
    from calibrant.papers.running import unfinished

    reasons = unfinished(result.cells)
    for reason in reasons:
        tell("error", " ".join(reason.split()), "bold red")
    if reasons:
        raise typer.Exit(1)


def _print_result(result: Result) -> None:
    """Print the paper's numbers beside ours, and the verdict on each claim; of a quick run first that it is one."""
    from calibrant.papers.writing import QUICK

    experiment = result.experiment
    if result.quick:
        print_text(Text(QUICK, style="bold yellow"))
    print_text(Text(experiment.title, style="bold"), experiment.paper)
    for table in result.tables:
        print_text(table.title)
        _print_wide(table)
        print_text(*([table.note] if table.note else []))
    claims = ruled("claim", last="what we found")
    for claim in experiment.claims:
        verdict = result.verdicts[claim.id]
        words = Text.assemble(f"{claim.text} ", (f"{verdict.outcome}: ", "bold"), verdict.evidence)
        claims.add_row(claim.id, words)
    print_text(claims)
    print_line(f"Page: {result.folder / 'page.html'}")


def _print_wide(published: Published) -> None:
    """Print the numbers of a paper beside ours whole, also where the terminal is narrower: no digit is cut off."""
    rows = [[_cell(value) for value in row] for row in published.rows]
    headings = published.columns
    columns = zip(headings, zip(*rows, strict=True), strict=True)
    widths = [max(map(len, [*entries, *heading.split()])) for heading, entries in columns]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading, width in zip(headings, widths, strict=True):
        table.add_column(heading, width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    whole = sum(widths) + 2 * len(widths)
    Console(highlight=False, width=max(Console().width, whole)).print(table)


def _cell(value: Any) -> str:
    """Return an entry of a table of numbers and words."""
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
