"""Write a report: records in, one HTML file out.

Everything that the page shows is in one document of JSON values, which is also embedded in the page.
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
from calibrant.evidence.words import NOT_FINITE, format_name, format_number, format_percent
from calibrant.files import write_whole
from calibrant.report import charts
from calibrant.report.figures import (
    Figures,
    make_assessment_figures,
    make_comparison_figures,
    make_panel_figures,
)

if TYPE_CHECKING:
    from calibrant.comparing import Comparison

__all__ = ["render_report", "write_report"]

_REPORT_FORMAT = 1
_START_REJECTION = 0.25  # where the slider of the cost of a rejection starts; errors cost 1
_MOST_CONFUSED = 12  # up to so many classes the whole confusion is shown, of more as many of its largest errors
_PARTS = ("score", "miscalibration", "discrimination", "uncertainty")  # the columns of the table of decompositions


def write_report(
    found: Assessment | Comparison,
    path: str | PathLike[str],
    *,
    assessment: Assessment | None = None,
    title: str | None = None,
    about: str = "",
) -> None:
    """Write a report as one HTML file, completely or not at all.

    Parameters
    ----------
    found : the result of `calibrant.assess`, `calibrant.compare` or `calibrant.compare_scores`.
    assessment : the assessment of one forecast, to be shown together with a comparison.
    title, about : the heading, and some sentences about the data, as plain text.

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
        document = _make_document(found, None)
    else:
        summarise = import_module("calibrant.report.comparisons").summarise_comparison
        document = _make_document(assessment, summarise(found))
    default = "How good are these probabilities?" if document["comparison"] is None else "Which probabilities are best?"
    document |= {"title": title or default, "about": about}
    figures: Figures = {
        **make_assessment_figures(document["assessment"]),
        **make_comparison_figures(document["comparison"]),
        **make_panel_figures(document["panels"]),
    }
    return _render_page(document, figures)


def _make_document(assessment: Assessment | None, comparison: dict[str, Any] | None) -> dict[str, Any]:
    """Return everything that a report shows, as JSON values."""
    assessed, panels = None if assessment is None else assessment.as_dict(), []
    if assessed is not None and assessed["decisions"] is not None:
        names = [share["name"] for share in assessed["classes"]]
        panel = {"counts": assessed["decisions"], "curve": assessed["error_reject"]}
        panels.append({"name": "the forecast", "classes": names, **panel})
    for each in () if comparison is None else comparison["forecasts"]:
        name = f"{each['dataset']}, {each['machine']}: {each['best']}"
        panels.append({"name": name, **each.pop("panel")})
    return {
        "format": _REPORT_FORMAT,
        "calibrant": calibrant.__version__,
        "not_finite": NOT_FINITE,
        "assessment": assessed,
        "comparison": comparison,
        "panels": panels,
        "costs": list(COSTS),
        "rejections": list(REJECTIONS),
    }


def _render_page(document: Mapping[str, Any], figures: Figures) -> str:
    """Return the HTML page of a document and its figures."""
    templates = files("calibrant.report").joinpath("templates")
    script, style = (templates.joinpath(name).read_text("utf-8") for name in ("page.js", "style.css"))
    scripts = [charts.vega_script(), script]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("calibrant.report"),
        autoescape=True,  # of everything that is not marked as safe
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _format_value, "words": format_name, "probability": _format_pvalue}
    return environment.get_template("page.html").render(
        **document,
        figures=figures,
        style=Markup(style),
        scripts=[Markup(text) for text in scripts],
        policy=_content_policy(scripts),
        start_rejection=REJECTIONS.index(_START_REJECTION),
        **_make_tables(document),
        data=_embed_json(document),
        specifications=_embed_json({name: figure.specification for name, figure in figures.items()}),
    )


def _make_tables(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of the page's tables, and the functions that its template calls."""
    assessment, comparison = document["assessment"] or {}, document["comparison"] or {}
    return {
        "class_rows": [_class_row(share) for share in assessment.get("classes", ())],
        "confusion_tables": [
            {**_confusion_table(each, [share["name"] for share in assessment["classes"]]), "cost": each["cost"]}
            for each in assessment.get("confusions", ())
        ],
        "parts_rows": [
            (format_name(score), *(parts[part] for part in _PARTS))
            for score, parts in assessment.get("decompositions", {}).items()
        ],
        "parameter_rows": [_parameter_row(choice) for choice in comparison.get("parameters", ())],
        "rejection_rows": lambda standing: [
            (method, *counts) for method, counts in zip(standing["methods"], standing["rejections"], strict=True)
        ],
        "best": _best_value,
    }


def _class_row(share: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the table row of a class."""
    pvalue = None if share["pvalue"] is None else _format_pvalue(share["pvalue"])
    return share["name"], share["rows"], share["share"], share["forecast"], pvalue


def _confusion_table(confusion: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """Return heads and rows of a confusion: every class by every decision, or of many classes the largest errors."""
    cells = list(zip(confusion["true"], confusion["decided"], confusion["rows"], strict=True))
    size = [sum(rows for true, _, rows in cells if true == place) for place in range(len(names))]
    if len(names) > _MOST_CONFUSED:
        wrong = [cell for cell in cells if cell[0] != cell[1] and cell[1] >= 0]
        rows = [
            (names[true], names[decided], number, format_percent(number / size[true]))
            for true, decided, number in wrong[:_MOST_CONFUSED]
        ]
        title = f"The {len(rows)} largest of {len(wrong):,} confusions"
        return {"title": title, "heads": ("class", "taken for", "rows", "of the class"), "rows": rows}
    found = {(true, decided): number for true, decided, number in cells}
    columns = [*range(len(names)), *([-1] if any(decided < 0 for _, decided, _ in cells) else [])]
    return {
        "title": "Rows: class. Columns: decision",
        "heads": ("class", *(names[k] if k >= 0 else "rejected" for k in columns)),
        "rows": [(name, *(found.get((true, k), 0.0) for k in columns)) for true, name in enumerate(names)],
    }


def _parameter_row(choice: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the table row of a machine's hyper-parameters."""
    parameters = ", ".join(f"{name} = {_format_value(value)}" for name, value in choice["parameters"].items())
    fold = "all" if choice["fold"] is None else choice["fold"]
    return choice["trained"], choice["dataset"], fold, parameters, choice["accuracy"]


def _best_value(values: list[Any], better: str) -> Any:
    """Return the best of the finite values, None if there is none; values that are not finite are strings."""
    finite = [value for value in values if not isinstance(value, str)]
    return (max if better == "larger" else min)(finite, default=None)


def _format_value(value: Any) -> str:
    """Return a value as text for people; the strings "inf", "-inf" and "nan" stand for numbers."""
    if value is None:
        return "–"
    if value in ("inf", "-inf", "nan"):
        return format_number(float(value))
    return format_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _format_pvalue(value: float) -> str:
    """Return a p-value with three decimals."""
    return f"{value:.3f}" if value >= 0.0005 else "< 0.0005"


def _embed_json(value: Any) -> Markup:
    """Return strict JSON without characters that an HTML parser could read as markup."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _content_policy(scripts: list[str]) -> str:
    """Return a content security policy that allows these scripts only, and loads nothing from the network.

    'unsafe-eval' is there because Vega compiles expressions; all of them are in the page.
    """
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
