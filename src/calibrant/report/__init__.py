"""The report: one HTML file that needs no network, with the verdict, tables, charts and a panel to decide with."""

from __future__ import annotations

from calibrant.extras import needing

with needing("calibrant.report", "report"):
    from calibrant.report.writing import render_report, write_report

__all__ = ["render_report", "write_report"]
