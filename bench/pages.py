"""Tables of measurements inside pages of the documentation."""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def publish(table, page, module):
    """Print a Markdown table and, with `--write`, put it below the mark that names its module in a page."""
    print(table)
    if "--write" in sys.argv[1:]:
        replace_table(table, DOCS / page, f"python -m {module}")


def replace_table(table, path, command):
    """Put a Markdown table below the mark that names its command in a page."""
    mark = f"<!-- table: {command} -->"
    pattern = rf"{re.escape(mark)}\n(\n?\|.*\n)*"
    path.write_text(re.sub(pattern, lambda _: f"{mark}\n\n{table}\n", path.read_text()))
