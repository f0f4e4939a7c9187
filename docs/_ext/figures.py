"""Figures that the site's own code draws when it is built, and displays at the end of a block of the gallery.

```{drawn}
figure, axis = plt.subplots()
axis.plot([0, 1])
```
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive, directives

PREAMBLE = "import matplotlib.pyplot as plt\nimport numpy as np\n\nimport calibrant\n"
STYLE = {
    "figure.figsize": (6.4, 3.8),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "calibrant",
}


class Drawn(Directive):
    """A figure: the code of the block leaves it open, as matplotlib's current figure."""

    has_content = True
    option_spec = {"alt": directives.unchanged}  # noqa: RUF012

    def run(self) -> list[Any]:
        import matplotlib as mpl

        mpl.use("agg")
        import matplotlib.pyplot as plt

        environment = self.state.document.settings.env
        code = "\n".join(self.content)
        name = hashlib.sha256((PREAMBLE + code).encode()).hexdigest()[:16]
        file = Path(environment.srcdir) / "_drawn" / f"{name}.svg"
        file.parent.mkdir(exist_ok=True)
        with mpl.rc_context(STYLE):
            exec(compile(PREAMBLE + code, environment.docname, "exec"), {})
            plt.gcf().savefig(file, bbox_inches="tight", metadata={"Date": None})
            plt.close("all")
        alt = self.options.get("alt", "a figure; the text beside it says what it shows")
        return [nodes.image(uri=f"/_drawn/{name}.svg", alt=alt)]


def save_display(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Save what a block of the gallery ends with where that is a display, as a notebook would show it."""
    from sphinx_gallery.scrapers import figure_rst

    shown = variables["example_globals"].get("___")
    picture = shown._repr_png_() if hasattr(shown, "_repr_png_") else None
    if picture is None:
        return ""
    path = next(variables["image_path_iterator"])
    Path(path).write_bytes(picture)
    return figure_rst([path], settings["src_dir"])


def setup(app: Any) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("drawn", Drawn)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
