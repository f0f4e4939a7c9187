"""Repeat experiments and write their results: `python -m calibrant.papers lin2007 --into experiments`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from calibrant.checks import check_one_of
from calibrant.papers import EXPERIMENTS, judge_again, reproduce, require_jobs
from calibrant.papers.agreement import describe_agreement
from calibrant.papers.datasets.carriers import given_folder
from calibrant.papers.writing import QUICK_NOTE, read_document, rewrite_pages, write_summary

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Repeat the papers that the command line names, and print the verdicts; exit with 1 if cells are missing."""
    parser = ArgumentParser(prog="python -m calibrant.papers", description="Repeat published experiments.")
    parser.add_argument("names", nargs="*", metavar="PAPER", help=f"of {', '.join(EXPERIMENTS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="run only a part, to see that it works")
    parser.add_argument("--into", type=Path, help="write <paper>/result.json and its pages, and the summary, here")
    parser.add_argument("--judge-again", action="store_true", help="judge the results in --into again, without a run")
    parser.add_argument("--pages", action="store_true", help="write the pages in --into again from result.json alone")
    parser.add_argument("--against", type=Path, help="compare the numbers with the results in this folder")
    parser.add_argument("--jobs", type=int, default=2, help="how many cells are computed in parallel")
    asked = parser.parse_args(arguments)
    asked.names = asked.names or list(EXPERIMENTS)
    try:
        _require_coherent(asked)
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    if asked.pages:
        for name in asked.names:
            rewrite_pages(asked.into / name)
        write_summary(asked.into)
        return
    complete = [_repeat(name, asked) for name in asked.names]
    if asked.into:
        write_summary(asked.into)
    if not all(complete):
        sys.exit(1)


def _require_coherent(asked: Namespace) -> None:
    """Raise, before anything is computed, if options exclude each other or name something that is not there."""
    for name in asked.names:
        check_one_of("PAPER", name, EXPERIMENTS)
    if asked.quick and (asked.into or asked.against):
        msg = "--into and --against take full runs only; leave out --quick"
        raise ValueError(msg)
    if (asked.judge_again or asked.pages) and not asked.into:
        msg = f"{'--pages' if asked.pages else '--judge-again'} needs --into, the folder of the results"
        raise ValueError(msg)
    if asked.judge_again and asked.pages:
        msg = "--judge-again writes the pages too; leave out --pages"
        raise ValueError(msg)
    require_jobs("--jobs", asked.jobs)
    given_folder()
    for place in filter(None, [asked.into if asked.judge_again or asked.pages else None, asked.against]):
        for name in asked.names:
            read_document(place / name / "result.json")


def _repeat(name: str, asked: Namespace) -> bool:
    """Repeat one experiment and print its verdicts; return whether no cell is missing."""
    known = read_document(asked.against / name / "result.json") if asked.against else None
    place = asked.into / name if asked.into else None
    again = asked.judge_again and place
    result = judge_again(again) if again else reproduce(name, quick=asked.quick, into=place, n_jobs=asked.jobs)
    if result.quick:
        print(QUICK_NOTE)
    for claim, verdict in result.verdicts.items():
        print(f"{claim} {verdict.outcome}: {verdict.evidence}")
    print(f"{result.folder / 'page.html'}: {result.seconds['wall']:.0f} s")
    if known is not None:
        print(describe_agreement(known, result.as_dict()))
    return bool(again) or all(cell.values is not None for cell in result.cells)


if __name__ == "__main__":
    main()
