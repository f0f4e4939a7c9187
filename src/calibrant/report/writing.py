"""Write a report: records in, one HTML file out.

All that is shown is in one document of plain values, which the page also carries as JSON.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import import_module
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

import calibrant
from calibrant.evidence.assessing import COSTS, REJECTIONS, Assessment
from calibrant.evidence.words import NOT_FINITE, number, words
from calibrant.files import write_whole
from calibrant.report import charts
from calibrant.report.figures import MOST_CLASSES, Figures, assessment_figures, comparison_figures, panel_figures

if TYPE_CHECKING:
    from calibrant.comparing import Comparison

__all__ = ["render_report", "write_report"]

_FORMAT = 1


def write_report(
    found: Assessment | Comparison,
    path: str | PathLike[str],
    *,
    assessment: Assessment | None = None,
    title: str | None = None,
    about: str = "",
) -> None:
    """Write a report as one HTML file, whole or not at all.

    Parameters
    ----------
    found : what `calibrant.assess`, `calibrant.compare` or `calibrant.compare_scores` returned.
    assessment : with a comparison, also how good one forecast is.
    title, about : the heading, and a sentence or more on the data, as plain text.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(calibrant.assess([0, 1, 0, 1], [0.1, 0.6, 0.4, 0.8], draws=50), path, title="Four rows")
    >>> "<h1>Four rows</h1>" in path.read_text(encoding="utf-8")
    True
    """
    write_whole(Path(path), render_report(found, assessment=assessment, title=title, about=about).encode())


def render_report(
    found: Assessment | Comparison,
    *,
    assessment: Assessment | None = None,
    title: str | None = None,
    about: str = "",
) -> str:
    """Return a report as the text of an HTML page; see `write_report`."""
    if isinstance(found, Assessment):
        document = _document_of(found, None)
    else:
        document = _document_of(assessment, import_module("calibrant.report.comparisons").summary(found))
    document |= {"title": title or _default_title(document), "about": about}
    figures: Figures = {
        **assessment_figures(document["assessment"]),
        **comparison_figures(document["comparison"]),
        **panel_figures(document["panels"]),
    }
    return _page(document, figures)


def _default_title(document: Mapping[str, Any]) -> str:
    """Return a heading that says what is in the report."""
    return "How good are these probabilities?" if document["comparison"] is None else "Which probabilities are best?"


def _document_of(assessment: Assessment | None, comparison: dict[str, Any] | None) -> dict[str, Any]:
    """Return all that a report shows, in the words of JSON."""
    panels = []
    if assessment is not None and assessment.decisions is not None:
        shown = assessment.as_dict()
        names = [share["name"] for share in shown["classes"]]
        panels.append(
            {"name": "the forecast", "classes": names, "counts": shown["decisions"], "curve": shown["error_reject"]}
        )
    for each in () if comparison is None else comparison["forecasts"]:
        name = f"{each['dataset']}, {each['machine']}: {each['best']}"
        panels.append({"name": name, **each.pop("panel")})
    return {
        "format": _FORMAT,
        "calibrant": calibrant.__version__,
        "not_finite": NOT_FINITE,
        "assessment": None if assessment is None else assessment.as_dict(),
        "comparison": comparison,
        "panels": panels,
        "costs": list(COSTS),
        "rejections": list(REJECTIONS),
    }


def _page(document: Mapping[str, Any], figures: Figures) -> str:
    """Return the page of a document and its figures."""
    script, style = (files("calibrant.report").joinpath("templates", name).read_text("utf-8") for name in _STATIC)
    scripts = [charts.bundle(), script]
    return (
        _environment()
        .get_template("page.html")
        .render(
            **document,
            figures=figures,
            style=Markup(style),
            scripts=[Markup(text) for text in scripts],
            policy=_policy(scripts),
            most_classes=MOST_CLASSES,
            start_rejection=REJECTIONS.index(_START_REJECTION),
            **_tables(document),
            data=_embedded(document),
            specifications=_embedded({name: figure.specification for name, figure in figures.items()}),
        )
    )


_STATIC = ("page.js", "style.css")
_START_REJECTION = 0.25  # where the slider begins, with errors that cost 1


def _tables(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of tables, and what the template computes with."""
    assessment, comparison = document["assessment"] or {}, document["comparison"] or {}
    return {
        "class_rows": [tuple(share.values()) for share in assessment.get("classes", ())],
        "parts_rows": [
            (words(score), *(parts[part] for part in _PARTS))
            for score, parts in assessment.get("decompositions", {}).items()
        ],
        "parameter_rows": [_parameter_row(choice) for choice in comparison.get("parameters", ())],
        "rejection_rows": lambda standing: [
            (method, *counts) for method, counts in zip(standing["methods"], standing["rejections"], strict=True)
        ],
        "best": _best,
    }


_PARTS = ("score", "miscalibration", "discrimination", "uncertainty")


def _parameter_row(choice: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the row of a machine's hyper-parameters."""
    parameters = ", ".join(f"{name} = {_shown(value)}" for name, value in choice["parameters"].items())
    fold = "all" if choice["fold"] is None else choice["fold"]
    return choice["trained"], choice["dataset"], fold, parameters, choice["accuracy"]


def _best(values: list[Any], better: str) -> Any:
    """Return the best of values, of which those that are not finite are strings; None if there is none."""
    finite = [value for value in values if not isinstance(value, str)]
    return (max if better == "larger" else min)(finite, default=None)


def _environment() -> jinja2.Environment:
    """Return the templates, in which everything is escaped that is not marked as safe."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("calibrant.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"number": _shown, "words": words, "probability": _probability}
    return found


def _shown(value: Any) -> str:
    """Return a value as people write it, also the strings that stand for numbers that are not finite."""
    if value is None:
        return "–"
    if value in ("inf", "-inf", "nan"):
        return number(float(value))
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _probability(value: float) -> str:
    """Return a p-value with as many digits as mean something."""
    return f"{value:.3f}" if value >= 0.0005 else "< 0.0005"


def _embedded(value: Any) -> Markup:
    """Return strict JSON that no HTML parser can mistake for markup."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _policy(scripts: list[str]) -> str:
    """Return a content security policy: these scripts and no others, and nothing from anywhere.

    Vega compiles expressions, hence 'unsafe-eval'; what it compiles is in the page.
    """
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
