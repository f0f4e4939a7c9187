"""House style that a linter does not know."""

import ast
from pathlib import Path

import pytest

from tests.test_rooms import SHELLS, room_of

SOURCE = Path(__file__).parents[1] / "src" / "calibrant"
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in FILES}


@pytest.mark.parametrize("module", MODULES)
def test_no_inheritance_in_the_core(module):
    allowed = {"Protocol", "NamedTuple", "RuntimeError"}
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.ClassDef) and room_of(SOURCE / module) not in SHELLS:
            assert {ast.unparse(base) for base in node.bases} <= allowed, f"{module}: {node.name}"


def names_defined(tree):
    """Return what a module defines itself, at its top level."""
    names = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return {name for name in names if not name.startswith("__")}


def names_imported(tree):
    found = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {alias.asname or alias.name for node in found for alias in node.names}


def names_listed(tree):
    """Return what `__all__` lists, which must be written out."""
    lists = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return set(ast.literal_eval(lists[0])) if lists else set()


@pytest.mark.parametrize("module", MODULES)
def test_all_lists_names_that_exist_and_every_other_name_is_private(module):
    tree = MODULES[module]
    listed, defined = names_listed(tree), names_defined(tree)
    assert listed <= defined | names_imported(tree)
    assert {name for name in defined - listed if not name.startswith("_")} == set()
    assert {name for name in listed if name.startswith("_")} == set()


def file_of(module):
    path = module.removeprefix("calibrant").removeprefix(".").replace(".", "/")
    return next((name for name in (f"{path}.py", f"{path}/__init__.py".lstrip("/")) if name in MODULES), None)


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_what_others_list(module):
    for node in ast.walk(MODULES[module]):
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "calibrant"):
            continue
        listed = names_listed(MODULES[file_of(node.module)])
        for alias in node.names:
            is_module = file_of(f"{node.module}.{alias.name}") is not None
            assert is_module or alias.name in listed | {"__version__"}, f"{node.module} does not list {alias.name}"


def test_docstrings_end_in_examples_that_run_somewhere():
    with_examples = [name for name in MODULES if ">>>" in (SOURCE / name).read_text()]
    assert len(with_examples) >= 6


RULES = {  # with the places that say them in another way: as a KeyError, by argparse
    "must be one of {', '.join(": {"evidence/assessing.py", "papers/__main__.py"},
    "must be a whole number": set(),
    "must be a positive whole number": set(),
    "must not be masked": set(),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_for_arguments_stands_in_one_place(rule):
    places = {
        name for name in MODULES if rule in (SOURCE / name).read_text() and not name.startswith(("kernels/", "svm/"))
    }
    assert places <= {"checks.py"} | RULES[rule]
