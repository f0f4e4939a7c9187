"""The reference: one page per public module, of every name in its `__all__`, written before Sphinx reads the site."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import calibrant

ROOMS = "rooms"  # the folder beside the pages written by hand
_LONGEST = 300  # characters of a constant's value that are shown


def list_modules() -> dict[str, ModuleType]:
    """Return the public modules by their public names, the package itself first."""
    names = [name for name in calibrant.__all__ if inspect.ismodule(getattr(calibrant, name))]
    return {"calibrant": calibrant} | {f"calibrant.{name}": import_module(f"calibrant.{name}") for name in names}


def list_names(modules: Mapping[str, ModuleType]) -> dict[str, str]:
    """Return for every public class and function the name of its page: that of the first module that lists it."""
    first: dict[int, str] = {}
    pages = {}
    for name, module in modules.items():
        for each in module.__all__:
            value = getattr(module, each)
            if inspect.isclass(value) or inspect.isroutine(value):
                pages[f"{name}.{each}"] = first.setdefault(id(value), f"{name}.{each}")
    return pages


def write_page(name: str, module: ModuleType, pages: Mapping[str, str]) -> str:
    """Return the page of a module: its classes and functions, each with a page of its own, and its constants."""
    public = {each: getattr(module, each) for each in module.__all__ if not inspect.ismodule(getattr(module, each))}
    own = {each: value for each, value in public.items() if pages.get(f"{name}.{each}") == f"{name}.{each}"}
    parts = {
        "Functions": [each for each, value in own.items() if inspect.isroutine(value)],
        "Classes": [each for each, value in own.items() if inspect.isclass(value)],
    }
    lines = [name, "=" * len(name), "", _escape((module.__doc__ or "").partition("\n")[0]), ""]
    for title, entries in parts.items():
        if entries:
            lines += [title, "-" * len(title), "", ".. autosummary::", "   :toctree: ../generated", ""]
            lines += [f"   ~{name}.{each}" for each in entries] + [""]
    elsewhere = [each for each in public if each not in own and f"{name}.{each}" in pages]
    if elsewhere:
        lines += ["Also", "----", ""]
        lines += [f"* ``{name}.{each}`` is :obj:`{pages[f'{name}.{each}']}`" for each in elsewhere] + [""]
    constants = {each: value for each, value in public.items() if f"{name}.{each}" not in pages}
    if constants:
        lines += ["Constants", "---------", ""]
        for each, value in constants.items():
            lines += [f"``{name}.{each}``", f"    {_describe(value)}", ""]
    return "\n".join(lines)


def _describe(value: Any) -> str:
    """Return what a constant holds: the names of a table's rows, or its value."""
    if isinstance(value, Mapping):
        return f"A table of {len(value)}: " + ", ".join(f"``{key}``" for key in value) + "."
    text = repr(value)
    return f"``{text}``" if len(text) <= _LONGEST and " at 0x" not in text else _escape(str(type(value).__doc__))


def _escape(text: str) -> str:
    """Return text with code as code, and stars as themselves."""
    return re.sub("`([^`]*)`", r"``\1``", text.replace("*", "\\*"))


def name_files(names: Iterable[str]) -> dict[str, str]:
    """Return the files of classes whose names a function has in lower case, as `Watch`: some disks mix them up.

    >>> name_files(["calibrant.Watch", "calibrant.watch", "calibrant.Map"])
    {'calibrant.Watch': 'calibrant.Watch-class'}
    """
    names = list(names)
    often = Counter(name.lower() for name in names)
    return {name: f"{name}-class" for name in names if often[name.lower()] > 1 and name.rpartition(".")[2][0].isupper()}


def write_pages(folder: Path) -> list[Path]:
    """Write the page of every module, leave those alone that are as they should be, and return all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    modules = list_modules()
    names = list_names(modules)
    pages = {folder / f"{name}.rst": write_page(name, module, names) for name, module in modules.items()}
    for file, text in pages.items():
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    return list(pages)


def prepare(app: Any, config: Any) -> None:
    """Write the pages before Sphinx looks for files, and remove those of names that are gone."""
    folder = Path(app.srcdir) / "reference"
    pages = write_pages(folder / ROOMS)
    names = set(list_names(list_modules()).values())
    config.autosummary_filename_map = name_files(names)
    config.autosummary_generate = [str(page.relative_to(app.srcdir)) for page in pages]
    expected = {config.autosummary_filename_map.get(name, name) for name in names}
    for file in (folder / "generated").glob("*.rst"):
        if file.stem not in expected:
            file.unlink()


def setup(app: Any) -> dict[str, Any]:
    """Run when the settings have been read; say which abbreviations of the docstrings end no sentence."""
    from sphinx.ext import autosummary

    autosummary.WELL_KNOWN_ABBREVIATIONS += ("sec.", "secs.", "eq.", "eqs.", "ch.", "p.", "pp.", "fig.", "ex.")
    app.connect("config-inited", prepare)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
