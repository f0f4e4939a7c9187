"""The demo: a model that is too sure, its repair, the choice of the repair, and the decisions that it changes.

The data are the 569 tumours of Street, Wolberg & Mangasarian (1993), which come with scikit-learn. Naive Bayes takes
the ten measurements of the cell nuclei for independent, which they are not, counts the same evidence several times, and
is far too sure. Its order of the patients is good: a map of one number repairs the probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB

from calibrant.comparing import Comparison, compare_scores
from calibrant.comparing.rankings import Ranking, rank_methods
from calibrant.comparing.records import Predictions
from calibrant.decisions import Confusion, confusion
from calibrant.evidence.assessing import Assessment, assess
from calibrant.evidence.words import format_number, format_percent, name_method
from calibrant.showing import capitalise

__all__ = ["ABOUT", "CLASSES", "COST", "TITLE", "Demonstration", "count_parts", "forecast", "print_demo", "run"]

TITLE = "569 tumours: benign or malignant?"
ABOUT = (
    "The data come with scikit-learn (load_breast_cancer; Street, Wolberg & Mangasarian 1993). Naive Bayes is trained "
    "on nine tenths of the patients, on the means of ten measurements of the cell nuclei, and asked about the other "
    "tenth; ten times. Each method is fitted to nine tenths of these probabilities and evaluated on the other tenth."
)
CLASSES = ("benign", "malignant")
COST = 20.0  # of a missed malignant tumour, in biopsies that were not needed
_MEASUREMENTS = 10  # the means; the other columns are their errors and extremes
_PARTS = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)  # of the forecasts that are counted
_BAR = 24  # characters of 100 %
_DISTANCE = 10  # characters of the largest distance from the best
_WIDEST = 100
_SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class Demonstration:
    """What the demo found: the assessment before and after, the comparison, and the decisions by three rules."""

    before: Assessment
    comparison: Comparison
    ranking: Ranking
    after: Assessment
    parts: tuple[tuple[tuple[float, float, float, float, int], ...], ...]
    decisions: tuple[tuple[str, Confusion], ...]


def forecast() -> tuple[NDArray[np.str_], NDArray[np.float64]]:
    """Return what each tumour was, and what naive Bayes said before it had seen it: the probability of malignant."""
    features, benign = load_breast_cancer(return_X_y=True)
    y = np.array(CLASSES)[1 - benign]
    folds = StratifiedKFold(10, shuffle=True, random_state=_SEED)
    P = cross_val_predict(GaussianNB(), features[:, :_MEASUREMENTS], y, cv=folds, method="predict_proba")
    return y, P[:, 1]


def run() -> Demonstration:
    """Assess the forecasts, compare the repairs, and count the decisions before and after."""
    y, p = forecast()
    metrics = ("log_loss", "brier", "error_rate")
    comparison = compare_scores(p, y, kind="probability", metrics=metrics, random_state=_SEED)
    cell = comparison.cells[0]
    ranking = rank_methods(comparison, cell.dataset, cell.machine)
    assert ranking.recommended is not None
    raw, repaired = (comparison.predictions[cell.dataset, cell.machine, each] for each in ("raw", ranking.recommended))
    costs = np.array([[0.0, 1.0], [COST, 0.0]])
    return Demonstration(
        before=assess(y, p, labels=CLASSES, costs=costs),
        comparison=comparison,
        ranking=ranking,
        after=assess(repaired.y, repaired.p, labels=CLASSES, costs=costs),
        parts=tuple(count_parts(each) for each in (raw, repaired)),
        decisions=(
            ("more probable than not", confusion(raw.y, raw.p, labels=CLASSES)),
            (f"cost 1:{COST:.0f}, as naive Bayes says", confusion(raw.y, raw.p, costs, labels=CLASSES)),
            (f"cost 1:{COST:.0f}, repaired", confusion(repaired.y, repaired.p, costs, labels=CLASSES)),
        ),
    )


def count_parts(kept: Predictions) -> tuple[tuple[float, float, float, float, int], ...]:
    """Return for each part of the forecasts its ends, what was said and what happened on average, and its rows."""
    p, happened = kept.p[:, 1], kept.y == CLASSES[1]
    place = np.clip(np.searchsorted(_PARTS, p, side="right") - 1, 0, len(_PARTS) - 2)
    found = []
    for part, ends in enumerate(pairwise(_PARTS)):
        inside = place == part
        if inside.any():
            found.append((*ends, float(p[inside].mean()), float(happened[inside].mean()), int(inside.sum())))
    return tuple(found)


# On the terminal ------------------------------------------------------------------------------------------------------


def print_demo(found: Demonstration) -> None:
    """Print the model, the choice, the repair and the decision, on a terminal of 80 columns or more."""
    console = Console(highlight=False)
    console.width = min(console.width, _WIDEST)
    raw, chosen = found.ranking["raw"], found.ranking[found.ranking.recommended or found.ranking.best]
    gain = 1.0 - chosen.means["log_loss"] / raw.means["log_loss"]
    missed = [each.table[1, 0] for _, each in found.decisions]
    steps: list[tuple[str, str, RenderableType, str]] = [
        (
            "The model",
            "Naive Bayes on ten measurements of the cell nuclei. What it said of patients it had not seen, and what "
            "happened:",
            _chart_parts(found.parts[0]),
            _say(found.before),
        ),
        (
            "The choice",
            "Each method was fitted to nine tenths of the probabilities and judged on the rest:",
            _tabulate_methods(found.ranking),
            f"{name_method(chosen.label, first=True)} takes {gain:.0%} off the log loss, keeps the order of the "
            "patients, and fits the fewest numbers of those within noise of the best.",
        ),
        (
            "The repair",
            f"The same patients after {name_method(chosen.label)}, each map fitted to other patients:",
            _chart_parts(found.parts[1]),
            _say(found.after),
        ),
        (
            "The decision",
            f"A missed cancer costs as much as {COST:.0f} biopsies that were not needed. Who gets a biopsy?",
            _tabulate_decisions(found.decisions),
            f"Of {found.decisions[0][1].table[1].sum():.0f} cancers the rule of least cost misses {missed[1]:.0f} with "
            f"the probabilities as they were, and {missed[2]:.0f} with repaired ones.",
        ),
    ]
    console.print(Text(TITLE, style="bold"))
    for place, (title, opening, picture, closing) in enumerate(steps, start=1):
        console.print()
        console.print(Text.assemble((f" {place} ", "bold reverse"), (f" {title}", "bold")))
        parts: tuple[RenderableType, ...] = (Text(opening, "dim"), picture, Text(closing, "bold"))
        for part in parts:
            console.print(Padding(part, (0, 0, 0, 4), expand=False))
    console.print()


def _say(found: Assessment) -> str:
    """Return the first two answers in short."""
    answers = found.answers
    return " ".join(filter(None, [answers.good.word, answers.good.claim, answers.wrong.claim]))


def _chart_parts(parts: tuple[tuple[float, float, float, float, int], ...]) -> Group:
    """Return a bar of what happened for each part of the forecasts, with a mark at what was said."""
    lines = [Text(f"\n{'said':>12}{'patients':>11}   {'happened (bar), said on average (mark)':<{_BAR}}", style="dim")]
    for low, high, said, happened, rows in parts:
        off = abs(said - happened) > 0.05
        bar = Text(("█" * round(happened * _BAR)).ljust(_BAR + 1, "·"), style="yellow" if off else "green")
        mark = min(round(said * _BAR), _BAR)
        bar = bar[:mark] + Text("◆", style="bold") + bar[mark + 1 :]
        ends = f"{100 * low:g} to {100 * high:g}%"
        lines.append(Text.assemble(f"{ends:>12}{rows:>11,}   ", bar, f"{format_percent(happened):>8}"))
    return Group(*lines, "")


def _tabulate_methods(ranking: Ranking) -> Table:
    """Return a row per method with a bar for its distance from the best."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", no_wrap=True)
    table.add_column("log loss", justify="right", no_wrap=True)
    table.add_column("above the best", no_wrap=True)
    best = ranking[ranking.best].means["log_loss"]
    finite = [row.means["log_loss"] for row in ranking.rows if np.isfinite(row.means["log_loss"])]
    widest = max(finite) - best
    for row in ranking.rows:
        loss, chosen = row.means["log_loss"], row.label == ranking.recommended
        far = round(_DISTANCE * (loss - best) / widest) if np.isfinite(loss) and widest > 0.0 else 0
        bar = f"{'█' * far}{' ' if far else ''}{loss - best:.4f}" if loss > best else "best"
        words = f"{row.impossible:.0f} called impossible" if not np.isfinite(loss) else bar
        style = "bold green" if chosen else "yellow" if row.label == ranking.raw else ""
        name = f"{'→ ' if chosen else '  '}{capitalise(row.title)} ({row.label})"
        table.add_row(name, f"{loss:.4f}" if np.isfinite(loss) else format_number(loss), words, style=style)
    return table


def _tabulate_decisions(decisions: tuple[tuple[str, Confusion], ...]) -> Table:
    """Return a row per rule: cancers missed, biopsies that were not needed, and what both cost."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("biopsy where malignant is", no_wrap=True)
    for heading in ("cancers missed", "needless biopsies", "cost"):
        table.add_column(heading, justify="right")
    for place, (rule, found) in enumerate(decisions):
        missed, needless = found.table[1, 0], found.table[0, 1]
        style = "bold green" if place == len(decisions) - 1 else ""
        table.add_row(rule, f"{missed:.0f}", f"{needless:.0f}", f"{missed * COST + needless:.0f}", style=style)
    return table
