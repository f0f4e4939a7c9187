"""Fitted estimators in a notebook: what was fitted, below the diagram of scikit-learn."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np

from calibrant.evidence.words import list_names
from calibrant.showing import Card, Grid, describe_record, find_card, write_html

__all__ = ["FittedCardMixin", "describe_fitted"]


class FittedCardMixin:
    """Adds the card of what was fitted to the HTML of scikit-learn, which stays as it is; before a fit nothing."""

    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{self._write_card()}"  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = f"{bundle['text/html']}{self._write_card()}"
        return bundle

    def _write_card(self) -> str:
        card = describe_fitted(self)
        return "" if card is None else write_html(card)


def describe_fitted(estimator: Any) -> Card | None:
    """Return the card of a fitted estimator, None before the fit: its classes, maps, and numbers of its fit."""
    own = vars(estimator)
    if "classes_" not in own:
        return None
    classes = np.asarray(own["classes_"]).tolist()
    numbers = [("classes", list_names([str(each) for each in classes], 8))]
    numbers += [(words, _show(own[name])) for name, words in _NUMBERS.items() if name in own]
    maps = [own["map_"]] if "map_" in own else [fitted for _, fitted in own.get("calibrated_", [])]
    parts = [_describe_part(each, classes) for each in maps[:_MOST_PARTS]]
    parts += [find_card(own[name]) for name in _RECORDS if is_dataclass(own.get(name))]
    title = f"{type(estimator).__name__}, fitted"
    if len(parts) != 1:
        more = estimator._more_cards() if hasattr(estimator, "_more_cards") else ()
        return Card(title, numbers=(*numbers,), grid=_list_tried(own), folded=(*parts, *more))
    only = parts[0]
    return replace(
        only, title=f"{title}: {only.title}", numbers=(*numbers, *only.numbers), grid=_list_tried(own) or only.grid
    )


_MOST_PARTS = 6  # of the maps of an ensemble that are listed
_RECORDS = ("model_", "threshold_", "rule_", "recalibration_")

_NUMBERS = {
    "disagreement_": "machine and probability disagree on (share of rows)",
    "consistency_cost_": "accuracy lost by following the probability",
    "C_": "C",
    "kernel_": "kernel",
    "objective_": "objective",
    "duality_gap_": "duality gap, relative",
    "n_iter_": "steps",
    "converged_": "converged",
    "import_": "import vectors",
    "support_": "rows with coefficients",
    "reject_label_": "label of rejected rows",
    "costs_": "costs",
}


def _show(value: Any) -> str:
    """Return an attribute of a fit: of rows their number."""
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind == "i" and value.size > 1:
        return f"{len(value):,}"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if is_dataclass(value):
        return ", ".join(text for name, text in describe_record(value).numbers if text not in ("None", ""))
    return str(value)[:100]


def _describe_part(fitted: Any, classes: list[Any]) -> Card:
    """Return the card of a map that an estimator fitted; of two classes that of the one map inside."""
    maps: Any = getattr(fitted, "maps", ())
    return find_card(maps[0] if len(classes) == 2 and len(maps) == 1 else fitted)


def _list_tried(own: dict[str, Any]) -> Grid | None:
    """Return the candidates of a search, the best marked."""
    tried = own.get("search_results_")
    if not tried:
        return None
    rows = tuple(
        (
            f"{each['estimator']!r}"[:80] + (", chosen" if place == own["best_index_"] else ""),
            f"{each['log_loss']:.4f}",
            f"{each['accuracy']:.4f}",
        )
        for place, each in enumerate(tried)
    )
    return Grid(("candidate", "log loss", "accuracy"), rows)
