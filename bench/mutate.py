"""Would a test notice? Signs, comparisons and numbers of a file are changed, one at a time, and its tests run.

    make mutate FILE=src/calibrant/metrics/scores.py

What no test notices is printed: a test is missing, or the change means the same. The changes are drawn at random, the
same ones each time; `--count` says how many, `--seed` draws others, `--tests` names other tests than those of the room.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

__all__ = ["list_changes"]

ROOT = Path(__file__).parents[1]
INSTEAD = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.USub: ast.UAdd,
}


def _change(node, number):
    """Make the change of a node that has this number, and return whether there is one."""
    if isinstance(node, ast.Compare) and number < len(node.ops) and type(node.ops[number]) in INSTEAD:
        node.ops[number] = INSTEAD[type(node.ops[number])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp) and number == 0 and type(node.op) in INSTEAD:
        node.op = INSTEAD[type(node.op)]()
    elif isinstance(node, ast.Constant) and number == 0 and isinstance(node.value, int | float):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    else:
        return False
    return True


def list_changes(source):
    """Return of each change its line, the code before and after, and the whole source after it.

    >>> [(before, after) for _, before, after, _ in list_changes("near = a < 1")]
    [('a < 1', 'a <= 1'), ('1', '2')]
    """
    found = []
    for place, original in enumerate(ast.walk(ast.parse(source))):
        number = 0
        while True:
            tree = ast.parse(source)
            node = list(ast.walk(tree))[place]
            if not _change(node, number):
                break
            found.append((node.lineno, ast.unparse(original), ast.unparse(node), ast.unparse(tree)))
            number += 1
    return found


def _passes(folder, file, tests, limit):
    """Return whether the tests pass with the package in a folder; a run that takes too long does not."""
    settings = ["-x", "-q", "-p", "no:cacheprovider", "--rootdir", ROOT, "-c", ROOT / "pyproject.toml"]
    command = [sys.executable, "-m", "pytest", *settings, *tests, folder / file]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return not subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        return False


def _main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", type=Path, nargs="+")
    asked = parser.parse_args()
    file = asked.file.resolve().relative_to(ROOT)
    room = file.relative_to("src/calibrant").parts[0].removesuffix(".py")
    of_room = [path for path in (ROOT / "tests" / room, ROOT / "tests" / f"test_{room}.py") if path.exists()]
    changes = list_changes(file.read_text())
    drawn = np.random.default_rng(asked.seed).permutation(len(changes))[: asked.count]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "src", folder / "src")
        began = time.monotonic()
        if not _passes(folder, file, asked.tests or of_room, None):
            parser.error("the tests fail without any change")
        limit = 10.0 * (time.monotonic() - began) + 30.0
        noticed = 0
        for line, before, after, source in (changes[place] for place in sorted(drawn)):
            (folder / file).write_text(source)
            alive = _passes(folder, file, asked.tests or of_room, limit)
            noticed += not alive
            if alive:
                print(f"{file}:{line}: not noticed: {before}  ->  {after}", flush=True)
    print(f"{noticed} of {len(drawn)} changes noticed, of {len(changes)} possible ones")


if __name__ == "__main__":
    _main()
