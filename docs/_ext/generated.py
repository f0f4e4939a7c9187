"""Tables that are read from the code, see `tables.py`.

```{generated} methods
```
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from tables import TABLES


class Generated(Directive):
    """A table of `TABLES`, by its name."""

    required_arguments = 1

    def run(self) -> list[Any]:
        header, rows = TABLES[self.arguments[0]]()
        table = nodes.table(classes=["generated"])
        group = nodes.tgroup(cols=len(header))
        table += group
        group += [nodes.colspec(colwidth=1) for _ in header]
        head, body = nodes.thead(), nodes.tbody()
        group += [head, body]
        for part, content in ((head, [header]), (body, rows)):
            for cells in content:
                line = nodes.row()
                part += line
                for cell in cells:
                    entry = nodes.entry()
                    line += entry
                    self.state.nested_parse(StringList([_escape(cell)]), 0, entry)
        return [table]


def _escape(cell: str) -> str:
    """Return a cell's text with stars and underscores as themselves, and code as code."""
    if cell == "```":
        return "`` ` ``"
    parts = re.split("(`[^`]*`)", cell)
    for i in range(0, len(parts), 2):
        for mark in "\\*_<":
            parts[i] = parts[i].replace(mark, "\\" + mark)
    return "".join(parts)


def setup(app: Any) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("generated", Generated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
