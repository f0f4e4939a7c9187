"""Numbers and names as people read them, and records as JSON values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from calibrant.maps.methods import ALIASES, METHODS
from calibrant.showing import capitalise

__all__ = [
    "NOT_FINITE",
    "describe_pvalue",
    "format_count",
    "format_forecast",
    "format_name",
    "format_number",
    "format_percent",
    "format_points",
    "format_pvalue",
    "format_range",
    "format_rate",
    "list_names",
    "name_method",
    "round_percent",
    "round_pvalue",
    "to_json",
]

_TOLD = 0.0001  # nearer to 0 or 1 than this, digits of a forecast mean something only if there are rows to see it
NOT_FINITE = 'numbers that are not finite are the strings "inf", "-inf" and "nan"'


def format_count(n: int, noun: str) -> str:
    """Return a number with its noun: "1 group", "3 groups"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def describe_pvalue(pvalue: float) -> str:
    """Return a p-value of a test of calibration, and what it means."""
    return f"{format_pvalue(pvalue)}, the chance of as large a deviation were the forecast calibrated"


def format_pvalue(pvalue: float) -> str:
    """Return a p-value in a sentence: "p = 0.012"."""
    rounded = round_pvalue(pvalue)
    return f"p {rounded}" if rounded.startswith("<") else f"p = {rounded}"


def round_pvalue(pvalue: float | None) -> str:
    """Return a p-value with three decimals, a dash if there is none.

    >>> round_pvalue(0.0123), round_pvalue(1e-9), round_pvalue(None)
    ('0.012', '< 0.0005', '–')
    """
    if pvalue is None or np.isnan(pvalue):
        return "–"
    return f"{pvalue:.3f}" if pvalue >= 0.0005 else "< 0.0005"


def format_percent(share: float) -> str:
    """Return a share in percent; near 0 or 1, with two significant digits of the distance to it.

    >>> format_percent(0.475), format_percent(0.00123), format_percent(0.99987), format_percent(0.0)
    ('47.5%', '0.12%', '99.987%', '0.0%')
    """
    share = round(share, 12)  # means of equal numbers may differ by rounding
    rest = min(share, 1.0 - share)
    digits = 1 if rest >= 0.01 or rest <= 0.0 else int(np.ceil(-np.log10(100.0 * rest))) + 1
    return f"{share:.{min(digits, 9)}%}"


def format_forecast(share: float, rows: float) -> str:
    """Return the mean forecast of rows in percent; nearer to 0 or 1 than 0.01%, only what so many rows can tell.

    >>> format_forecast(0.9999993, 52), format_forecast(0.0000021, 52), format_forecast(0.0000021, 3e6)
    ('above 99.99%', 'below 0.01%', '0.00021%')
    """
    rest = min(share, 1.0 - share)
    if not 0.0 < rest < _TOLD or rest * rows >= 1.0:
        return format_percent(share)
    return f"below {_TOLD:.2%}" if share < 0.5 else f"above {1.0 - _TOLD:.2%}"


def format_range(low: float, high: float, rows: float) -> str:
    """Return the range of forecasts of rows in percent.

    >>> format_range(0.2, 0.31, 52), format_range(0.999999, 1.0, 52), format_range(0.0, 0.000001, 52)
    ('20.0% to 31.0%', 'above 99.99%', 'below 0.01%')
    """
    first, last = format_forecast(low, rows), format_forecast(high, rows)
    if first == last or first.startswith("above"):
        return first
    return last if last.startswith("below") else f"{first} to {last}"


def round_percent(share: float) -> str:
    """Return a share in percent: one decimal from 1 on, two significant digits below, no minus zero.

    >>> [round_percent(share) for share in (0.0214, 0.0012, -0.00001, 0.0)]
    ['2.1', '0.12', '-0.001', '0']
    """
    percent = 100.0 * share
    return f"{percent:.1f}" if abs(percent) >= 1.0 else f"{percent:.2g}" if abs(percent) >= 0.01 else f"{percent:.1g}"


def format_number(value: float) -> str:
    """Return a number with about four significant digits.

    >>> [format_number(value) for value in (0.123456, 1234.0, float("inf"), 0.00001234, -0.0)]
    ['0.1235', '1,234', 'infinite', '1.23e-05', '0']
    """
    if not np.isfinite(value):
        return "not defined" if np.isnan(value) else "infinite" if value > 0 else "minus infinite"
    if value == round(value) and abs(value) < 1e15:
        return f"{round(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.1f}"
    return f"{value:.3g}" if abs(value) < 0.001 else f"{value:.4g}"


def format_points(share: float) -> str:
    """Return a difference of probabilities in percentage points, without a sign.

    >>> format_points(0.0514), format_points(-0.00041), format_points(0.01), format_points(1e-16)
    ('5.1 points', '0.041 points', '1 point', '0 points')
    """
    points = abs(round(100.0 * share, 6))
    text = f"{points:.1f}".removesuffix(".0") if points >= 0.995 else f"{points:.2g}"
    return f"{text} point{'' if text == '1' else 's'}"


def format_rate(given: float, share: float, verb: str = "happened", rows: float = np.inf) -> str:
    """Say what happened to rows that were given a probability, of as many rows as make both numbers readable.

    Where that is more than a hundred and more than there are, it is of the `rows` themselves.

    >>> format_rate(0.8, 0.713)
    'of 100 rows given 80%, 71 happened'
    >>> format_rate(0.0012, 0.0031)
    'of 10,000 rows given 0.12%, 31 happened'
    >>> format_rate(0.000001, 1 / 52, rows=52)
    'of 52 rows given below 0.01%, 1 happened'
    >>> format_rate(0.7514, 0.7468, rows=100_000)
    'of 1,000 rows given 75.1%, 747 happened'
    """
    rest = min(each for each in (given, 1.0 - given, share, 1.0 - share) if each > 0.0)
    per = 100
    while (
        rest * per < (0.95 if per == 100 else 9.5) or (given != share and round(per * given) == round(per * share))
    ) and per < 1_000_000:
        per *= 10
    if per > max(100, rows):
        counted = format_count(round(rows), "row")
        return f"of {counted} given {format_forecast(given, rows)}, {round(rows * share):,} {verb}"
    digits = max(0, int(np.log10(per)) - 2)
    said = f"{100.0 * given:.{digits}f}"
    said = said.rstrip("0").rstrip(".") if "." in said else said
    if said in ("0", "100") and 0.0 < given < 1.0:
        said = format_percent(given).rstrip("%")
    return f"of {per:,} rows given {said}%, {round(per * share):,} {verb}"


def list_names(names: Sequence[str], most: int = 3) -> str:
    """Return names as a list in words; of many, the first and how many more.

    >>> list_names(["a", "b"]), list_names(list("abcde"))
    ('a and b', 'a, b, c and 2 more')
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def name_method(name: str, *, first: bool = False) -> str:
    """Return the name of a method for people, with the identifier beside it; `first` if it begins a sentence.

    >>> name_method("platt"), name_method("mine", first=True)
    ("Platt's sigmoid (platt)", 'mine')
    >>> name_method("spline"), name_method("spline", first=True)
    ('smooth rising spline (spline)', 'Smooth rising spline (spline)')
    """
    row = METHODS.get(ALIASES.get(name, name))
    if row is None or not row.title:
        return name
    return f"{capitalise(row.title) if first else row.title} ({name})"


def format_name(name: str) -> str:
    """Return the name of a metric or a test as words."""
    return _NAMES.get(name, name.replace("_", " "))


_NAMES = {
    "auc": "AUC",
    "ece": "ECE",
    "mcre": "MCRE",
    "brier": "Brier score",
    "corp": "CORP",
    "spiegelhalter": "Spiegelhalter",
    "hosmer_lemeshow": "Hosmer-Lemeshow",
    "ece_mass": "ECE, equal mass",
    "ece_debiased": "ECE, debiased",
    "squared_ece": "squared ECE",
    "squared_ece_debiased": "squared ECE, debiased",
    "classwise_ece": "classwise ECE",
    "classwise_log_loss": "log losses of each class against the rest, summed",
    "top_label_ece": "top-label ECE",
    "smooth_ece": "smooth ECE",
    "log_loss": "log loss",
    "canonical_error": "canonical error (SKCE)",
}


def to_json(value: Any) -> Any:
    """Return records, arrays and numbers as JSON values; numbers that are not finite become strings.

    >>> to_json({"a": np.array([0.5, np.inf]), "b": (1, None)})
    {'a': [0.5, 'inf'], 'b': [1, None]}
    """
    for kind, convert in _CONVERT.items():
        if isinstance(value, kind):
            return convert(value)
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    return value if value is None else str(value)


_CONVERT: dict[Any, Callable[[Any], Any]] = {
    bool | int | str: lambda value: value,
    float: lambda value: value if np.isfinite(value) else str(value),
    np.ndarray | np.generic: lambda value: to_json(value.tolist()),
    list | tuple: lambda value: [to_json(each) for each in value],
    Mapping: lambda value: {str(name): to_json(each) for name, each in value.items()},
}
