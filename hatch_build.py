"""What a package index shows of the project: an index has no files beside README.md, to which its links could lead."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*"
_LINK = r"\[([^\]]*)\]\((?!https?:)[^)]*\)"


def drop_links(text: str) -> str:
    r"""Return a page in Markdown without pictures from files, and with links to files as plain words.

    >>> drop_links("![a page](docs/page.png)\n\nSee [the arena](docs/arena.md) and [ONNX](https://onnx.ai).")
    'See the arena and [ONNX](https://onnx.ai).'
    """
    return re.sub(_LINK, r"\1", re.sub(_PICTURE, "", text))


class Readme(MetadataHookInterface):
    """Sets the description of the package, called by hatchling when it builds one."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme`, which pyproject.toml declares as dynamic."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": drop_links(text)}
