"""What tells a thing from others, today and tomorrow: its values, and what its functions and classes do."""

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

# What an estimator or a method may raise without ending the comparison.
FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

_INSTALLED = {"site-packages", "dist-packages"}  # folders of packages that have versions
_DEEPEST = 20  # parts within parts of what is named that are read at once, far from the limit of recursion
_MOST = 10_000  # things to read later, after which no more are put off: some have parts without end
_METHODS = (FunctionType, property, staticmethod, classmethod, type)  # what a class does
_ATOMS = {bool, int, float, complex, str, bytes, type(None)}  # values without parts, whose text says all


@dataclass(frozen=True, slots=True)
class _Named:
    """Things that code names, by their names: read after the thing itself, and left out where they cannot be read."""

    things: list[Any]


def content_of(name: str, thing: Any) -> str:
    """Return what tells a thing from others: a hash of its values, and of the code of its functions and classes.

    A thing that cannot be pickled is refused. What its code names is followed afterwards, one by one, so that a chain
    of functions needs no deep recursion; parts of it that cannot be pickled, such as locks and files, are left out.
    """
    hasher = NumpyHasher(hash_name="md5")
    named: list[Any] = []  # grows while it is read; what the hasher has met already is saved as a number
    strict, depth = True, 0

    def save(part: Any) -> None:
        """Save a part now; later what it names, and what stands too deep inside what was named."""
        if isinstance(part, _Named):
            named.extend(part.things)
        elif strict or type(part) in _ATOMS or id(part) in hasher.memo:
            NumpyHasher.save(hasher, part)
        elif depth < _DEEPEST:
            save_or_leave_out(part)
        elif len(named) < _MOST:
            named.append([part])
            NumpyHasher.save(hasher, "later")
        else:
            NumpyHasher.save(hasher, "left out: too deep")

    def save_or_leave_out(part: Any) -> None:
        """Save a part, or in its place that it cannot be saved."""
        nonlocal depth
        place, met, known, arrays = hasher.stream.tell(), len(hasher.memo), len(named), hasher._hash.copy()
        depth += 1
        try:
            NumpyHasher.save(hasher, part)
        except Exception:  # noqa: BLE001 (whatever a stranger's way of pickling may raise)
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
        Pickler._batch_setitems(hasher, iter(sorted(items, key=lambda item: str(_constant(item[0])))), *rest)

    # joblib's hasher is a pickler, which knows functions and classes by name only, and sorts some keys by their hash.
    hasher.save, hasher.reducer_override, hasher._batch_setitems = save, _reduced, save_items
    try:
        hasher.dump(thing)
    except (*FAILURES, PicklingError) as error:
        msg = f"{name} cannot be recognised in a folder, which needs what can be pickled; got {error}"
        raise ValueError(msg) from error
    strict = False
    for each in named:
        save_or_leave_out(each)
    hasher._hash.update(hasher.stream.getvalue())
    return str(hasher._hash.hexdigest())


def _reduced(thing: Any) -> Any:
    """Return what a pickler is to save of code and of collections without order; of all else, what it saves anyway."""
    found: Any = None
    if isinstance(thing, FunctionType):
        found = _described_function(thing)
    elif isinstance(thing, type):
        found = _described_class(thing)
    elif isinstance(thing, property):
        found = ["property", thing.fget, thing.fset, thing.fdel]
    elif isinstance(thing, staticmethod | classmethod):
        found = [type(thing).__name__, thing.__func__]
    elif _is_wrapper(thing):
        found = ["wrapper", type(thing), thing.__wrapped__]
    elif isinstance(thing, set | frozenset):
        found = [type(thing), getattr(thing, "__dict__", None), sorted(thing, key=lambda item: str(_constant(item)))]
    elif isinstance(thing, MappingProxyType):
        found = ["mappingproxy", dict(thing)]
    elif thing is os.environ:
        found = ["environ"]  # which differs from terminal to terminal
    # As a state, which is saved after the thing itself has got its number: what refers to itself comes to an end.
    return NotImplemented if found is None else (list, (), found)


def _is_wrapper(thing: Any) -> bool:
    """Return whether a thing of an installed package stands for a function, which says what it does: a cache, say."""
    wrapped = getattr(thing, "__dict__", {}).get("__wrapped__")
    return isinstance(wrapped, FunctionType) and not _is_own(type(thing).__module__)


def _described_function(function: FunctionType) -> list[Any]:
    """Return what a function does: its code, its defaults, what it closes over, and what it names if it is your own."""
    closed = [_contents(cell) for cell in function.__closure__ or ()]
    own = _is_own(function.__module__)
    named = _Named([*_named_by(function), *map(list, sorted(vars(function).items()))] if own else [])
    code = _instructions(function.__code__)
    return ["function", code, function.__defaults__, function.__kwdefaults__, closed, len(named.things), named]


def _contents(cell: Any) -> Any:
    """Return what is in a cell of a closure, which may be empty as yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _named_by(function: FunctionType) -> Iterator[list[Any]]:
    """Yield what a function's code names, with its name: global things, and those in modules of your own.

    A module has a name for each of its parts, and code names `package.module.thing` part by part; so in each module
    that is reached all names of the code are looked up.
    """
    names = _names_in(function.__code__)
    spaces = [function.__globals__, *map(vars, _imported_by(function.__code__, function.__globals__))]
    for space in spaces:  # which grows while it is read
        for name in names:
            found = space.get(name)
            if not isinstance(found, ModuleType):
                yield from [] if found is None else [[name, found]]
            elif _is_own(found.__name__) and not any(vars(found) is each for each in spaces):
                spaces.append(vars(found))


def _imported_by(code: CodeType, space: dict[str, Any]) -> Iterator[ModuleType]:
    """Yield the modules of your own that code imports when it runs, found as it would find them."""
    level, names = 0, None  # what was loaded by the two steps before: how far up to look, and what to take
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME" and (level or _is_own(step.argval)):
            with contextlib.suppress(Exception):  # a module that cannot be imported tells nothing
                yield __import__(step.argval, space, None, names or (), level)
        if step.opname != "EXTENDED_ARG":
            level, names = (names if isinstance(names, int) else 0), step.argval
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _imported_by(each, space)


def _described_class(kind: type) -> list[Any] | None:
    """Return the content of a class of your own, the version of one of a package, and nothing of Python's own."""
    if not _is_own(kind.__module__):
        package = sys.modules.get(kind.__module__.partition(".")[0])
        version = getattr(package, "__version__", None)
        return None if version is None else ["class", kind.__module__, kind.__qualname__, str(version)]
    members = {name: each for name, each in vars(kind).items() if isinstance(each, _METHODS)}
    given = [[name, each] for name, each in sorted(vars(kind).items()) if name not in members and not _is_dunder(name)]
    return ["class", kind.__qualname__, type(kind), kind.__bases__, members, len(given), _Named(given)]


def _is_dunder(name: str) -> bool:
    """Return whether a name is one of Python's own, such as `__doc__`."""
    return name.startswith("__") and name.endswith("__")


@functools.cache
def _is_own(module: str | None) -> bool:
    """Return whether a module is neither of Python, nor of an installed package, nor of calibrant."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names or top == "calibrant":
        return False
    if top == "__main__":  # the caller's script, although the main module of a worker is joblib's
        return True
    found = (sys.modules.get(top) or find_spec(top)) if top else None
    places = [getattr(found, name, None) or "" for name in ("__file__", "origin")]
    places += [*getattr(found, "__path__", []), *(getattr(found, "submodule_search_locations", None) or [])]
    return not any(_INSTALLED & set(Path(place).parts) for place in places)


def _names_in(code: CodeType) -> list[str]:
    """Return the global names that compiled code may look up, that of functions inside it too, in order."""
    inside = [each for each in code.co_consts if isinstance(each, CodeType)]
    return list(dict.fromkeys([*code.co_names, *(name for each in inside for name in _names_in(each))]))


def _instructions(code: CodeType) -> list[Any]:
    """Return the content of compiled code, without the places of its lines."""
    constants = [_instructions(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    steps = [code.co_code.hex(), code.co_exceptiontable.hex()]
    return [steps, list(code.co_names), list(arguments), code.co_flags, constants]


def _constant(value: Any) -> Any:
    """Return a constant as text: which of equal ones are one object, and where, may differ from run to run."""
    if isinstance(value, tuple | frozenset):
        items = [_constant(each) for each in value]
        return [type(value).__name__, *(sorted(map(str, items)) if isinstance(value, frozenset) else items)]
    if isinstance(value, FunctionType | type):
        return f"{value.__module__} {value.__qualname__}"
    if getattr(type(value), "__repr__", None) is object.__repr__:  # its text would be its place
        inside = sorted(getattr(value, "__dict__", {}).items())
        return [type(value).__name__, *(f"{name} {each!r}" for name, each in inside if type(each) in _ATOMS)]
    return f"{type(value).__name__} {value!r}"
