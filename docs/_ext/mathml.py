"""Formulas as MathML: browsers draw it without a script, a font or a picture."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def write_inline(self: Any, node: nodes.math) -> None:
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def write_block(self: Any, node: nodes.math_block) -> None:
    text = node.astext()
    formula = convert(text, display="block")
    self.body.append(f'<div class="formula" tabindex="0" title="{escape(text)}">{formula}</div>')  # the keys scroll it
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Say to Sphinx that this draws formulas."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
