"""Docstrings are plain text with `code` in single backticks: what Sphinx would read as markup stays itself."""

from __future__ import annotations

import re
from typing import Any

_CODE = re.compile(r"(`+[^`]*`+)")


def escape(line: str) -> str:
    """Return a line with stars, bars and trailing underscores as themselves, and code as code.

    >>> print(escape("a * b, `objective_`, gap_ and |x|"))
    a \\* b, ``objective_``, gap\\_ and \\|x\\|
    """
    parts = _CODE.split(line)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = f"``{part.strip('`')}``"
        else:
            part = re.sub(r"([*|])", r"\\\1", part)
            parts[i] = re.sub(r"_(?!\w)", r"\\_", part)
    return "".join(parts)


def escape_lines(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape every line but examples and indented formulas."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            lines[i] = escape(line)


def setup(app: Any) -> dict[str, Any]:
    """Run before the sections of docstrings are read."""
    app.connect("autodoc-process-docstring", escape_lines, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
