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
    allowed = {"Protocol", "NamedTuple"}
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.ClassDef) and room_of(SOURCE / module) not in SHELLS:
            assert {ast.unparse(base) for base in node.bases} <= allowed, f"{module}: {node.name}"


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_strings_that_exist(module):
    tree = MODULES[module]
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    names |= {
        t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)
    }
    names |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    names |= {
        a.asname or a.name for n in ast.walk(tree) if isinstance(n, (ast.ImportFrom, ast.Import)) for a in n.names
    }
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            exported = ast.literal_eval(node.value)
            assert all(isinstance(name, str) for name in exported)
            assert set(exported) <= names


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
