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
        mark = f"<!-- table: python -m {module} -->"
        path = DOCS / page
        path.write_text(re.sub(rf"{re.escape(mark)}\n(\n?\|.*\n)*", f"{mark}\n\n{table}\n", path.read_text()))
