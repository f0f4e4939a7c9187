"""A pytest plugin that does what a recipe of CONTRIBUTING.md says, before tests are collected.

Each block of Python in a recipe starts with a comment that names a file. The block is run as if it stood at the end of
that file; of a file that does not exist, a module is made. `CALIBRANT_RECIPE` names the recipe by its heading.
"""

import importlib
import os
import re
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def read_recipe(title):
    """Return the blocks of a recipe as pairs of file and code."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (section,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE)
    return re.findall(r"```python\n# ([\w/.]+)\n(.*?)```", section, re.DOTALL)


def module_of(file):
    """Return the module of a file, a new one if there is no such file."""
    name = file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if (ROOT / file).exists():
        return importlib.import_module(name)
    module = sys.modules[name] = ModuleType(name)
    package, _, own = name.rpartition(".")
    setattr(importlib.import_module(package), own, module)
    return module


def follow(title):
    """Run every block of a recipe in its file's module, and return the modules."""
    modules = []
    for file, code in read_recipe(title):
        modules.append(module_of(file))
        exec(compile(code, file, "exec"), vars(modules[-1]))
    return modules


def pytest_configure(config):
    if title := os.environ.get("CALIBRANT_RECIPE"):
        follow(title)
