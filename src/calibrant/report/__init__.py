"""The report: one HTML file that needs no network, with a verdict, tables, charts and a panel of decisions."""

from __future__ import annotations

from calibrant.extras import require_extra

with require_extra("calibrant.report", "report"):
    from calibrant.report.writing import render_report, write_report

__all__ = ["render_report", "write_report"]
