"""Write a report: records in, one HTML file out.

Everything that the page shows is in one document of JSON values, which is also embedded in the page.

The charts are SVG drawn by `templates/charts.js` at the width of their place, not by a charting library. The page has
one design: colours are classes of its style sheet, so that light, dark and print need no second drawing; labels are
measured and kept inside their chart; and arrow keys read a diagram part by part. A library would add most of a
megabyte to a page of a few hundred kilobytes, and compiles expressions, for which the security policy of the page would
have to allow any script.
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
import numpy as np
from markupsafe import Markup

import calibrant
from calibrant.checks import check_page
from calibrant.evidence.assessing import Assessment
from calibrant.evidence.steps import Source
from calibrant.evidence.thresholds import COSTS, REJECTIONS, count_decisions
from calibrant.evidence.words import NOT_FINITE
from calibrant.files import write_whole
from calibrant.report.figures import Page
from calibrant.report.summaries import summarise_assessment, summarise_groups
from calibrant.samples import Sample

if TYPE_CHECKING:
    from calibrant.comparing import Comparison

__all__ = ["render_report", "write_report"]

_REPORT_FORMAT = 2


def write_report(
    found: Assessment | Comparison,
    path: str | PathLike[str],
    *,
    assessment: Assessment | None = None,
    groups: Mapping[Any, Assessment] | None = None,
    source: Source | None = None,
    title: str | None = None,
    about: str = "",
) -> None:
    """Write a report as one HTML file, completely or not at all.

    Parameters
    ----------
    found : the result of `calibrant.assess`, `calibrant.compare` or `calibrant.compare_scores`.
    path : the file to write.
    assessment : the assessment of one forecast, to be shown together with a comparison.
    groups : assessments by group, as `calibrant.engines.assess(..., by=...)` returns them, shown as a table.
    source : the table and the columns that the rows came from, for the commands that the page suggests.
    title, about : the heading, and some sentences about the data, as plain text.

    Returns
    -------
    None

    Raises
    ------
    OSError : if the file cannot be written.
    ValueError : if its ending says that it is no page of HTML.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(calibrant.assess([0, 1, 0, 1], [0.1, 0.6, 0.4, 0.8], draws=50), path, title="Four rows")
    >>> "<h1>Four rows</h1>" in path.read_text(encoding="utf-8")
    True
    """
    check_page("path", path)
    page = render_report(found, assessment=assessment, groups=groups, source=source, title=title, about=about)
    write_whole(Path(path), page.encode())


def render_report(
    found: Assessment | Comparison,
    *,
    assessment: Assessment | None = None,
    groups: Mapping[Any, Assessment] | None = None,
    source: Source | None = None,
    title: str | None = None,
    about: str = "",
) -> str:
    """Return a report as the text of an HTML page; see `write_report`.

    Parameters
    ----------
    found : an assessment or a comparison.
    assessment : an assessment to show beside a comparison.
    groups : one assessment per group.
    source : where the data came from.
    title : the title of the page.
    about : a paragraph below it.

    Returns
    -------
    str

    Raises
    ------
    ImportError : if the extra `report` is not installed.

    >>> import calibrant
    >>> page = render_report(calibrant.assess([0, 1] * 20, [0.2, 0.7] * 20, draws=20), title="A model")
    >>> "<title>A model" in page
    True
    """
    if isinstance(found, Assessment):
        assessed, comparison = found, None
    else:
        summarise = import_module("calibrant.report.comparisons").summarise_comparison
        assessed, comparison = assessment, summarise(found, source)  # type: ignore[assignment]
    page = None if assessed is None else summarise_assessment(assessed, source, groups)
    document: Page = {
        "format": _REPORT_FORMAT,
        "calibrant": calibrant.__version__,
        "title": title or _TITLES[comparison is None],
        "about": about,
        "assessment": None if assessed is None else assessed.as_dict(),
        "comparison": _strip(comparison),
    }
    grouped = None if groups is None else summarise_groups(groups)
    charts = {
        "figures": {
            name: figure
            for part in (page, comparison, grouped)
            if part is not None
            for name, figure in part["figures"].items()
        },
        "panels": [panel for part in (comparison, page) if part is not None for panel in part["panels"]],
        "thresholds": {
            name: count_decisions(Sample(np.array([0.5]), np.array([1.0])), several=several).threshold.tolist()
            for name, several in (("two", False), ("several", True))
        },
        "costs": list(COSTS),
        "rejections": list(REJECTIONS),
    }
    return _render_page(document, charts, page, comparison, grouped)


_TITLES = {True: "Can you act on these probabilities?", False: "Which map from score to probability?"}


def _strip(comparison: Page | None) -> Page | None:
    """Return the numbers of a comparison without what the page is made of."""
    if comparison is None:
        return None
    drawn = {"figures", "panels", "tiles", "views", "details"}
    return {name: value for name, value in comparison.items() if name not in drawn}


def _render_page(document: Page, charts: Page, page: Page | None, comparison: Page | None, groups: Page | None) -> str:
    """Return the HTML page of a document and its figures."""
    templates = files("calibrant.report").joinpath("templates")
    names = ("charts.js", "page.js", "style.css")
    script, pages, style = (templates.joinpath(name).read_text("utf-8") for name in names)
    scripts = [f"{script}\n{pages}"]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("calibrant.report"),
        autoescape=True,  # of everything that is not marked as safe
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        **document | {"assessment": page, "comparison": comparison, "groups": groups},
        not_finite=NOT_FINITE,
        charts=charts,
        style=Markup(style),
        scripts=[Markup(text) for text in scripts],
        policy=_content_policy(scripts),
        data=_embed_json({**document, "not_finite": NOT_FINITE}),
        drawn=_embed_json(charts),
    )


def _embed_json(value: Any) -> Markup:
    """Return strict JSON without characters that an HTML parser could read as markup."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _content_policy(scripts: list[str]) -> str:
    """Return a content security policy that allows these scripts only, and loads nothing from the network."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
