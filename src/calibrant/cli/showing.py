"""Commands that demonstrate the library: demo, reproduce."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calibrant.checks import check_one_of
from calibrant.cli.console import make_table, print_json, print_line, print_message, print_next, print_text
from calibrant.cli.evidence import (
    explain_interruption,
    require_report,
    summarise_comparison,
    write_page,
)
from calibrant.cli.reading import AsJson, require_place

if TYPE_CHECKING:
    from calibrant.papers import Result
    from calibrant.papers import Table as Published

__all__ = ["demo", "reproduce"]


def demo(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")] = Path(
        "calibrant-report.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Repair a model that is too sure, on real data, and write a report.

    The data are 569 tumours that come with scikit-learn; the question is
    whether a tumour is malignant. Naive Bayes is far too sure of its answers.
    The demo shows how far, compares methods that repair its probabilities on
    patients that neither the model nor the method has seen, and counts the
    decisions that change where a missed cancer costs 20 needless biopsies.

    [bold]Example[/bold]

      calibrant demo
    """
    from calibrant.cli import demo as demonstration

    require_place(output)
    require_report("--output", output)
    found = demonstration.run()
    write_page(found.comparison, output, title=demonstration.TITLE, about=demonstration.ABOUT)
    if as_json:
        print_json({"about": demonstration.ABOUT, **summarise_comparison(found.comparison), "report": str(output)})
    else:
        demonstration.print_demo(found)
        print_line(f"Report, for your browser: {output}")
        print_next("compare", "TABLE.csv", "--score", "f", "--label", "y", "--report", "report.html")


def reproduce(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help="The name of the paper, such as lin2007; a wrong name lists all.")
    ],
    *,
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="Run only a small part, to see that it works.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="The folder for finished cells and results.", show_default="calibrant-experiments/PAPER"),
    ] = None,
    jobs: Annotated[int, typer.Option(help="The number of parallel processes; -1 is one per core.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Repeat a published experiment, and check each claim of the paper.

    Finished cells are kept: an interrupted run continues from them, unless the
    library has changed. The result is also written as result.json and page.html.
    If cells could not be computed, for example without the data, the exit code
    is 1.

    [bold]Example[/bold]

      calibrant reproduce lin2007 --quick
    """
    from calibrant.papers import EXPERIMENTS, require_jobs
    from calibrant.papers import reproduce as repeat
    from calibrant.papers.running import explain_failures

    check_one_of("PAPER", paper, EXPERIMENTS)
    require_jobs("--jobs", jobs)
    with explain_interruption(folder or Path("calibrant-experiments") / paper), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* cells could not be computed")  # told below, as an error
        result = repeat(paper, quick=quick, folder=folder, n_jobs=jobs)
    if as_json:
        print_json({**result.as_dict(), "folder": str(result.folder)})
    else:
        _print_result(result)
        print_next(*(("reproduce", paper) if quick else ("methods",)))
    reasons = explain_failures(result.cells)
    for reason in reasons:
        print_message("error", reason, "bold red")
    if reasons:
        raise typer.Exit(1)


def _print_result(result: Result) -> None:
    """Print a note if the run was quick, the numbers of the paper next to ours, and the verdict on each claim."""
    from calibrant.papers.writing import QUICK_NOTE

    experiment = result.experiment
    if result.quick:
        print_text(Text(QUICK_NOTE, style="bold yellow"))
    print_text(Text(experiment.title, style="bold"), experiment.paper)
    for table in result.tables:
        print_text(table.title)
        _print_wide(table)
        print_text(*([table.note] if table.note else []))
    claims = make_table("claim", last="result")
    for claim in experiment.claims:
        verdict = result.verdicts[claim.id]
        words = Text.assemble(f"{claim.text} ", (f"{verdict.outcome}: ", "bold"), verdict.evidence)
        claims.add_row(claim.id, words)
    print_text(claims)
    print_line(f"Page: {result.folder / 'page.html'}")


def _print_wide(published: Published) -> None:
    """Print a table in full width, even if the terminal is narrower, so that no digits are cut off."""
    rows = [[_format_cell(value) for value in row] for row in published.rows]
    headings = published.columns
    columns = zip(headings, zip(*rows, strict=True), strict=True)
    widths = [max(map(len, [*entries, *heading.split()])) for heading, entries in columns]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading, width in zip(headings, widths, strict=True):
        table.add_column(heading, width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    full_width = sum(widths) + 2 * len(widths)
    Console(highlight=False, width=max(Console().width, full_width)).print(table)


def _format_cell(value: Any) -> str:
    """Return an entry of a table of numbers and words as text."""
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
