"""The card of a comparison: the three answers, and a row per method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.comparing.rankings import rank_methods
from calibrant.evidence.showing import answer_paragraphs, list_steps
from calibrant.evidence.words import format_count, format_name, format_number, name_method
from calibrant.showing import Card, Grid

if TYPE_CHECKING:
    from calibrant.comparing.rankings import Distance, Ranking
    from calibrant.comparing.records import Comparison

__all__ = ["describe_comparison", "describe_ranking"]

_MOST_TABLES = 4  # of data sets and machines that are shown, folded


def describe_comparison(comparison: Comparison) -> Card:
    """Return the card of a comparison: of several data sets or machines, a table for each, folded."""
    answers = comparison.answers
    datasets = list(dict.fromkeys(cell.dataset for cell in comparison.cells))
    pairs = [(each, machine) for each in datasets for machine in comparison.machines]
    cards = [describe_ranking(rank_methods(comparison, *pair)) for pair in pairs[:_MOST_TABLES]]
    methods = len({cell.method for cell in comparison.cells})
    return Card(
        f"Comparison of {format_count(methods, 'method')} on {format_count(len(datasets), 'data set')}",
        answer_paragraphs(answers),
        grid=cards[0].grid if len(pairs) == 1 else None,
        code=list_steps(answers),
        folded=tuple(cards) if len(pairs) > 1 else (),
    )


def describe_ranking(ranking: Ranking) -> Card:
    """Return the card of a ranking: a row per method, its means, and how far it is from the best."""
    metric = ranking.metrics[0]
    rows = tuple(
        (
            f"{name_method(row.label, first=True)}{', recommended' if row.label == ranking.recommended else ''}",
            *(format_number(row.means[each]) for each in ranking.metrics),
            _say_distance(row.distances[metric], is_best=row.label == ranking.best),
        )
        for row in ranking.rows
    )
    headings = ("method", *(format_name(each) for each in ranking.metrics), f"{format_name(metric)} above the best")
    return Card(f"{ranking.dataset}, {ranking.machine}", grid=Grid(headings, rows))


def _say_distance(distance: Distance | None, *, is_best: bool) -> str:
    if is_best:
        return "best"
    if distance is None:
        return ""
    return f"{format_number(distance.value)} ({format_number(distance.low)} to {format_number(distance.high)})"
