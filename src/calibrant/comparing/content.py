"""Hashes of objects that stay the same between runs: of their values, and of the code of functions and classes."""

from __future__ import annotations

import contextlib
import dis
import functools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from pickle import PicklingError
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

from joblib.hashing import NumpyHasher, Pickler

__all__ = ["FAILURES", "content_of"]

# Errors of an estimator or a method that do not end the comparison.
FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

_INSTALLED = {"site-packages", "dist-packages"}  # folders of installed packages, which have versions
_DEEPEST = 20  # depth of nested objects that is hashed at once, far below Python's recursion limit
_MOST_POSTPONED = 10_000  # objects to hash later; more are left out, because some objects make new parts without end
_CODE_MEMBERS = (FunctionType, property, staticmethod, classmethod, type)  # the kinds of class members that are code
_ATOMS = {bool, int, float, complex, str, bytes, type(None)}  # values that have no parts


@dataclass(frozen=True, slots=True)
class _Named:
    """Objects that code refers to by name: hashed after the code itself, and left out if they cannot be pickled."""

    things: list[Any]


def content_of(name: str, thing: Any) -> str:
    """Return a hash of an object's values and of the code of its functions and classes; `name` is for errors.

    An object that cannot be pickled is refused. Objects that its code refers to are hashed afterwards, one by one, so
    that a chain of functions needs no deep recursion. Their parts that cannot be pickled, such as locks and files, are
    left out.
    """
    hasher = NumpyHasher(hash_name="md5")
    named: list[Any] = []  # grows while it is read; an object that the hasher has met before is saved as a number
    strict, depth = True, 0

    def save(part: Any) -> None:
        """Save a part now; postpone what its code refers to, and what is too deep inside a postponed object."""
        if isinstance(part, _Named):
            named.extend(part.things)
        elif strict or type(part) in _ATOMS or id(part) in hasher.memo:
            NumpyHasher.save(hasher, part)
        elif depth < _DEEPEST:
            save_or_leave_out(part)
        elif len(named) < _MOST_POSTPONED:
            named.append([part])
            NumpyHasher.save(hasher, "later")
        else:
            NumpyHasher.save(hasher, "left out: too deep")

    def save_or_leave_out(part: Any) -> None:
        """Save a part; if it cannot be pickled, undo what was saved of it, and save its type."""
        nonlocal depth
        place, met, known, arrays = hasher.stream.tell(), len(hasher.memo), len(named), hasher._hash.copy()
        depth += 1
        try:
            NumpyHasher.save(hasher, part)
        except Exception:  # noqa: BLE001 (`__reduce__` of a user's class may raise anything)
            hasher.stream.seek(place)
            hasher.stream.truncate()
            while len(hasher.memo) > met:
                hasher.memo.popitem()
            del named[known:]
            hasher._hash = arrays
            NumpyHasher.save(hasher, f"left out: {type(part).__qualname__}")
        finally:
            depth -= 1

    def save_items(items: Any, *rest: Any) -> None:
        """Save the items of a dictionary in an order that does not depend on the run."""
        Pickler._batch_setitems(hasher, iter(sorted(items, key=lambda item: str(_describe_constant(item[0])))), *rest)

    # joblib's hasher is a pickler: it saves functions and classes by name only, and sorts some keys by their hash.
    hasher.save, hasher.reducer_override, hasher._batch_setitems = save, _reduce, save_items
    try:
        hasher.dump(thing)
    except (*FAILURES, PicklingError) as error:
        msg = f"{name} cannot be recognised in a folder, because it cannot be pickled ({error}); give folder=None"
        raise ValueError(msg) from error
    strict = False
    for each in named:
        save_or_leave_out(each)
    hasher._hash.update(hasher.stream.getvalue())
    return str(hasher._hash.hexdigest())


def _reduce(thing: Any) -> Any:
    """Return what the pickler saves of code and of unordered collections; other objects are saved as usual."""
    found: Any = None
    if isinstance(thing, FunctionType):
        found = _describe_function(thing)
    elif isinstance(thing, type):
        found = _describe_class(thing)
    elif isinstance(thing, property):
        found = ["property", thing.fget, thing.fset, thing.fdel]
    elif isinstance(thing, staticmethod | classmethod):
        found = [type(thing).__name__, thing.__func__]
    elif _is_wrapper(thing):
        found = ["wrapper", type(thing), thing.__wrapped__]
    elif isinstance(thing, set | frozenset):
        items = sorted(thing, key=lambda item: str(_describe_constant(item)))
        found = [type(thing), getattr(thing, "__dict__", None), items]
    elif isinstance(thing, MappingProxyType):
        found = ["mappingproxy", dict(thing)]
    elif thing is os.environ:
        found = ["environ"]  # which differs from terminal to terminal
    # As a state, which is saved after the object has got its number, so that an object may refer to itself.
    return NotImplemented if found is None else (list, (), found)


def _is_wrapper(thing: Any) -> bool:
    """Return whether an object of an installed package wraps a function, as `functools.cache` does."""
    wrapped = getattr(thing, "__dict__", {}).get("__wrapped__")
    return isinstance(wrapped, FunctionType) and not _is_users_module(type(thing).__module__)


def _describe_function(function: FunctionType) -> list[Any]:
    """Return a function's code, defaults and closure, and the objects it refers to if it is the user's own."""
    closed = [_read_cell(cell) for cell in function.__closure__ or ()]
    own = _is_users_module(function.__module__)
    named = _Named([*_find_named(function), *map(list, sorted(vars(function).items()))] if own else [])
    code = _describe_code(function.__code__)
    return ["function", code, function.__defaults__, function.__kwdefaults__, closed, len(named.things), named]


def _read_cell(cell: Any) -> Any:
    """Return the content of a closure's cell, which may still be empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _find_named(function: FunctionType) -> Iterator[list[Any]]:
    """Yield the objects that a function's code refers to, with their names: globals, and parts of the user's modules.

    Code holds `package.module.thing` as three separate names, so all names of the code are looked up in each module
    that is reached.
    """
    names = _names_in(function.__code__)
    spaces = [function.__globals__, *map(vars, _find_imported(function.__code__, function.__globals__))]
    for space in spaces:  # which grows while it is read
        for name in names:
            found = space.get(name)
            if not isinstance(found, ModuleType):
                yield from [] if found is None else [[name, found]]
            elif _is_users_module(found.__name__) and not any(vars(found) is each for each in spaces):
                spaces.append(vars(found))


def _find_imported(code: CodeType, space: dict[str, Any]) -> Iterator[ModuleType]:
    """Yield the user's modules that code imports when it runs."""
    level, names = 0, None  # the arguments of IMPORT_NAME, which the two steps before it load
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME" and (level or _is_users_module(step.argval)):
            with contextlib.suppress(Exception):  # a module that cannot be imported is left out
                yield __import__(step.argval, space, None, names or (), level)
        if step.opname != "EXTENDED_ARG":
            level, names = (names if isinstance(names, int) else 0), step.argval
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _find_imported(each, space)


def _describe_class(kind: type) -> list[Any] | None:
    """Return the members of a user's class, the version of a package's class, and None for Python's own."""
    if not _is_users_module(kind.__module__):
        package = sys.modules.get(kind.__module__.partition(".")[0])
        version = getattr(package, "__version__", None)
        return None if version is None else ["class", kind.__module__, kind.__qualname__, str(version)]
    members = {name: each for name, each in vars(kind).items() if isinstance(each, _CODE_MEMBERS)}
    special = {name for name in vars(kind) if name.startswith("__") and name.endswith("__")}
    given = [[name, each] for name, each in sorted(vars(kind).items()) if name not in special | members.keys()]
    return ["class", kind.__qualname__, type(kind), kind.__bases__, members, len(given), _Named(given)]


@functools.cache
def _is_users_module(module: str | None) -> bool:
    """Return whether a module is the user's own: not of Python, of an installed package, or of calibrant."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names or top == "calibrant":
        return False
    if top == "__main__":  # the user's script; in a worker process the main module is joblib's
        return True
    found = (sys.modules.get(top) or find_spec(top)) if top else None
    places = [getattr(found, name, None) or "" for name in ("__file__", "origin")]
    places += [*getattr(found, "__path__", []), *(getattr(found, "submodule_search_locations", None) or [])]
    return not any(_INSTALLED & set(Path(place).parts) for place in places)


def _names_in(code: CodeType) -> list[str]:
    """Return the global names that code may look up, in order, also those of functions inside it."""
    inside = [each for each in code.co_consts if isinstance(each, CodeType)]
    return list(dict.fromkeys([*code.co_names, *(name for each in inside for name in _names_in(each))]))


def _describe_code(code: CodeType) -> list[Any]:
    """Return the content of compiled code without line numbers."""
    constants = [
        _describe_code(each) if isinstance(each, CodeType) else _describe_constant(each) for each in code.co_consts
    ]
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    steps = [code.co_code.hex(), code.co_exceptiontable.hex()]
    return [steps, list(code.co_names), list(arguments), code.co_flags, constants]


def _describe_constant(value: Any) -> Any:
    """Return a constant as text, because identity and addresses of equal objects may differ from run to run."""
    if isinstance(value, tuple | frozenset):
        items = [_describe_constant(each) for each in value]
        return [type(value).__name__, *(sorted(map(str, items)) if isinstance(value, frozenset) else items)]
    if isinstance(value, FunctionType | type):
        return f"{value.__module__} {value.__qualname__}"
    if getattr(type(value), "__repr__", None) is object.__repr__:  # it would show the address
        inside = sorted(getattr(value, "__dict__", {}).items())
        return [type(value).__name__, *(f"{name} {each!r}" for name, each in inside if type(each) in _ATOMS)]
    return f"{type(value).__name__} {value!r}"
