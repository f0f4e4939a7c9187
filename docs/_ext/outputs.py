"""What the Python of a page prints, shown below each block when the site is built, as a notebook does."""

from __future__ import annotations

import io
import os
import re
import tempfile
import warnings
from contextlib import chdir, redirect_stdout
from typing import Any

from docutils import nodes


def show_outputs(app: Any, document: nodes.document) -> None:
    """Run the blocks of a page in their order, if any of them prints, and put what is printed behind its block."""
    blocks = [each for each in document.findall(nodes.literal_block) if each.get("language") == "python"]
    if not any("print(" in block.astext() for block in blocks):
        return
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder), warnings.catch_warnings():
        for block in blocks:
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile(block.astext(), app.env.docname, "exec"), names)
            lines = [line for line in _unwrap(printed.getvalue()) if not _is_temporary(line)]
            if lines:
                output = nodes.literal_block("\n".join(lines), "\n".join(lines), language="none", classes=["output"])
                block.parent.insert(block.parent.index(block) + 1, output)


def _unwrap(text: str) -> list[str]:
    """Return lines, those of a paragraph that was wrapped for a terminal as one: the browser wraps it anew."""
    lines: list[str] = []
    for line in text.splitlines():
        if re.match(r" {2}\S", line) and lines and not lines[-1].startswith("    "):  # which is a line to type
            lines[-1] += line[1:]
        else:
            lines.append(line)
    return lines


def _is_temporary(line: str) -> bool:
    """Return whether a line is the path of a folder that exists only while the site is built."""
    return line.startswith(tempfile.gettempdir() + os.sep)


def setup(app: Any) -> dict[str, Any]:
    """Run pages after they have been read."""
    app.connect("doctree-read", show_outputs)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
