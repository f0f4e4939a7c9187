"""What tells a thing from others, today and tomorrow: its values, and what its functions and classes do."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from pickle import PicklingError
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from joblib.hashing import NumpyHasher

__all__ = ["FAILURES", "content_of"]

# What an estimator or a method may raise without ending the comparison.
FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

PLAIN = bool | int | float | complex | str | bytes | np.ndarray | np.generic
INSTALLED = {"site-packages", "dist-packages"}  # folders of packages that have versions


def content_of(name: str, thing: Any) -> str:
    """Return what tells a thing from others: a hash of its values, and of the code of its functions and classes."""
    hasher = NumpyHasher(hash_name="md5")
    hasher.reducer_override = reduced  # joblib's hasher is a pickler, which knows functions and classes by name only

    def save(part: Any) -> None:
        """Save a part; to joblib a TypeError of what cannot be pickled would be one of keys that cannot be sorted."""
        try:
            NumpyHasher.save(hasher, part)
        except TypeError as error:
            raise PicklingError(*error.args) from error

    hasher.save = save
    try:
        return str(hasher.hash(thing))
    except (*FAILURES, PicklingError) as error:
        msg = f"{name} cannot be recognised in a folder, which needs what can be pickled; got {error}"
        raise ValueError(msg) from error


def reduced(thing: Any) -> Any:
    """Return what a pickler is to save of a function or a class; of all else, what it saves anyway."""
    found: Any = None
    if isinstance(thing, FunctionType):
        found = described_function(thing)
    elif isinstance(thing, functools._lru_cache_wrapper):
        found = ["cached", thing.__wrapped__]
    elif isinstance(thing, property | staticmethod | classmethod):
        found = [type(thing).__name__, thing.fget, thing.fset] if isinstance(thing, property) else thing.__func__
    elif isinstance(thing, type):
        found = described_class(thing)
    # As a state, which is saved after the thing itself has got its number: what refers to itself comes to an end.
    return NotImplemented if found is None else (list, (), found)


def described_function(function: FunctionType) -> list[Any]:
    """Return what a function does: its code, its defaults, what it closes over, and what it names if it is your own."""
    closed = [contents(cell) for cell in function.__closure__ or ()]
    named = [*named_by(function)] if is_own(function.__module__) else []
    return ["function", instructions(function.__code__), function.__defaults__, function.__kwdefaults__, closed, named]


def contents(cell: Any) -> Any:
    """Return what is in a cell of a closure, which may be empty as yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def named_by(function: FunctionType) -> Iterator[Any]:
    """Yield the functions and classes of your own, and the numbers and texts, that a function's code names."""
    names = names_in(function.__code__)
    for name in names:
        found = function.__globals__.get(name)
        members = [vars(found).get(each) for each in names] if isinstance(found, ModuleType) else [found]
        if not isinstance(found, ModuleType) or is_own(found.__name__):
            yield from ([name, each] for each in members if is_telling(each))


def is_telling(thing: Any) -> bool:
    """Return whether a global thing is part of what a function does: no list or dictionary, which may be a memory."""
    if isinstance(thing, tuple | frozenset):
        return all(map(is_telling, thing))
    if isinstance(thing, FunctionType | type | functools._lru_cache_wrapper):
        return is_own(thing.__module__)
    return isinstance(thing, PLAIN)


def described_class(kind: type) -> list[Any] | None:
    """Return the content of a class of your own, the version of one of a package, and nothing of Python's own."""
    if not is_own(kind.__module__):
        package = sys.modules.get(kind.__module__.partition(".")[0])
        version = getattr(package, "__version__", None)
        return None if version is None else ["class", kind.__module__, kind.__qualname__, str(version)]
    members = {name: each for name, each in vars(kind).items() if is_member(name, each)}
    return ["class", kind.__qualname__, kind.__bases__, members]


def is_member(name: str, thing: Any) -> bool:
    """Return whether an attribute of a class is something it does: a method, or a value that its author gave it."""
    if isinstance(thing, FunctionType | property | staticmethod | classmethod | functools._lru_cache_wrapper | type):
        return True
    return is_telling(thing) and not (name.startswith("__") and name.endswith("__"))


@functools.cache
def is_own(module: str | None) -> bool:
    """Return whether a module is neither of Python, nor of an installed package, nor of calibrant."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names or top == "calibrant":
        return False
    found = sys.modules.get(top)
    places = [getattr(found, "__file__", None) or "", *getattr(found, "__path__", [])]
    return not any(INSTALLED & set(Path(place).parts) for place in places)


def names_in(code: CodeType) -> list[str]:
    """Return the global names that compiled code may look up, that of functions inside it too, in order."""
    inside = [each for each in code.co_consts if isinstance(each, CodeType)]
    return list(dict.fromkeys([*code.co_names, *(name for each in inside for name in names_in(each))]))


def instructions(code: CodeType) -> list[Any]:
    """Return the content of compiled code, without the places of its lines."""
    constants = [instructions(each) if isinstance(each, CodeType) else constant(each) for each in code.co_consts]
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [code.co_code.hex(), list(code.co_names), list(arguments), code.co_flags, constants]


def constant(value: Any) -> Any:
    """Return a constant as text: which of equal ones are one object may differ from run to run."""
    if isinstance(value, tuple | frozenset):
        items = [constant(each) for each in value]
        return [type(value).__name__, *(sorted(map(str, items)) if isinstance(value, frozenset) else items)]
    return f"{type(value).__name__} {value!r}"
