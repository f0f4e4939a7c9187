"""Tables of the site that are read from the code when it is built, so that they cannot be out of date.

```{generated} methods
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

import calibrant

Row = tuple[str, ...]
NEEDS = {"column": "one column", "matrix": "all classes", "machine": "a machine"}
RANGE = {"real": "any score", "unit": "[0, 1]", "any": "any score"}


def list_methods() -> tuple[Row, Iterable[Row]]:
    rows = []
    for name, row in sorted(calibrant.METHODS.items()):
        needs = NEEDS[row.needs] + (", all classes" if row.joint is not None else "")
        keeps = "yes" if row.monotone else "not always"
        rows.append((f"`{name}`", needs, RANGE[row.domain], keeps, row.source))
    return ("method", "takes", "scores", "keeps the order", "source"), rows


def list_metrics() -> tuple[Row, Iterable[Row]]:
    rows = [(f"`{name}`", row.formula, row.better, row.source) for name, row in calibrant.metrics.METRICS.items()]
    return ("metric", "formula", "better", "source"), rows


def list_tests() -> tuple[Row, Iterable[Row]]:
    rows = [(f"`{name}`", row.question, row.null, row.source) for name, row in calibrant.inference.TESTS.items()]
    return ("test", "question", "what it assumes", "source"), rows


TABLES: dict[str, Callable[[], tuple[Row, Iterable[Row]]]] = {
    "methods": list_methods,
    "metrics": list_metrics,
    "tests": list_tests,
}


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
    if cell.startswith("`"):
        return cell
    return cell.replace("\\", "\\\\").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def setup(app: Any) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("generated", Generated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
