"""Repeat experiments and write their results: `python -m calibrant.experiments lin2007 --into experiments`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from calibrant.experiments import EXPERIMENTS, judge_again, reproduce
from calibrant.experiments.agreement import agreement
from calibrant.experiments.records import Result
from calibrant.experiments.writing import document_of, write_summary


def main(arguments: list[str] | None = None) -> None:
    """Read what is asked for, repeat it, print the verdicts."""
    parser = ArgumentParser(prog="python -m calibrant.experiments", description="Repeat published experiments.")
    parser.add_argument("names", nargs="*", metavar="PAPER", help=f"of {', '.join(EXPERIMENTS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="only a part, to see that it works")
    parser.add_argument("--into", type=Path, help="write <paper>/result.json and its pages, and the summary, here")
    parser.add_argument("--judge-again", action="store_true", help="compute nothing, judge the results in --into anew")
    parser.add_argument("--against", type=Path, help="say how far the numbers agree with the results in this folder")
    parser.add_argument("--jobs", type=int, default=2, help="how many cells are computed side by side")
    asked = parser.parse_args(arguments)
    if asked.quick and (asked.into or asked.against):
        parser.error("--into and --against take full runs only; leave out --quick")
    if asked.judge_again and not asked.into:
        parser.error("--judge-again needs --into, the folder of the results")
    unknown = [name for name in asked.names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"PAPER must be one of {', '.join(EXPERIMENTS)}; got {unknown[0]!r}")
    for name in asked.names or EXPERIMENTS:
        repeat(name, asked)
    if asked.into:
        write_summary(asked.into)


def repeat(name: str, asked: Namespace) -> None:
    """Repeat one experiment as asked."""
    known = document_of(asked.against / name / "result.json") if asked.against else None
    place = asked.into / name if asked.into else None
    again = asked.judge_again and place
    result = judge_again(again) if again else reproduce(name, quick=asked.quick, into=place, n_jobs=asked.jobs)
    tell(result)
    if known is not None:
        print(agreement(known, result.as_dict()))


def tell(result: Result) -> None:
    """Print the verdicts."""
    for claim, verdict in result.verdicts.items():
        print(f"{claim} {verdict.outcome}: {verdict.evidence}")
    print(f"{result.folder / 'page.html'}: {result.seconds['wall']:.0f} s")


if __name__ == "__main__":
    main()
