"""Maps as JSON: a record's kind and its numbers, read without executing anything."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from calibrant.checks import KINDS, check_one_of
from calibrant.files import read_limited, write_whole
from calibrant.maps.keys import decode_keys, encode_keys
from calibrant.maps.records import Map, Origin, with_origin

__all__ = ["DEEPEST", "LARGEST", "RECORDS", "from_dict", "load", "save", "to_dict"]

_FORMAT = 2  # 1 had no origins
_TAGS = ("format", "kind", "fitted_on")  # keys of a file that are no fields of a record
_OF_GROUPS = ("SeparateMaps",)  # records whose `maps` have been fitted to rows of their own
LARGEST = 2**28  # bytes of a file; a map of a million steps has about a fifth of them
DEEPEST = 32  # records and lists inside each other

# The records a file may name, by the module that has them. None is ever removed, so that old files load for ever.
_MODULES = {
    "records": (
        "Sigmoid",
        "QuadraticLogit",
        "Clip",
        "Ends",
        "Steps",
        "Lines",
        "BetaCdf",
        "BetaPiece",
        "BetaClasses",
        "BetaLogit",
        "Cosines",
        "Parzen",
        "Linked",
        "VennAbers",
        "LogitLines",
        "Information",
    ),
    "averages": ("Auto", "Member"),
    "groups": ("Adjusted", "PooledMaps", "SeparateMaps"),
    "classes": ("ClassMap", "MatrixMap", "TwoClassMap"),
    "class_records": (
        "GivenClasses",
        "TemperatureClasses",
        "VectorClasses",
        "LinearClasses",
        "RobustTemperature",
        "StructuredClasses",
        "ClassMember",
        "AutoClasses",
    ),
}
RECORDS = {name: module for module, names in _MODULES.items() for name in names}


def save(mapping: Map, path: str | os.PathLike[str]) -> None:
    """Write a map as JSON; the file is there whole or not at all.

    Parameters
    ----------
    mapping : a fitted map.
    path : the file.

    Returns
    -------
    None

    Raises
    ------
    OSError : if the file cannot be written.

    >>> import calibrant, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "map.json"
    >>> calibrant.save(calibrant.maps.Clip(0.1, 0.9), path)
    >>> calibrant.load(path)
    Clip(low=0.1, high=0.9)
    """
    content = (json.dumps(to_dict(mapping), allow_nan=False, indent=1) + "\n").encode()
    if len(content) > LARGEST:
        msg = f"a map must have at most {LARGEST:,} bytes as JSON, for `load` reads no more; got {len(content):,}"
        raise ValueError(msg)
    write_whole(Path(path), content)


def load(path: str | os.PathLike[str]) -> Map:
    """Read a map that `save` wrote.

    Parameters
    ----------
    path : a file that `save` wrote.

    Returns
    -------
    Map

    Raises
    ------
    ValueError : if the file is not a map, or was written by a newer format.
    OSError : if the file cannot be read.

    >>> import tempfile
    >>> from calibrant.maps import Clip
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Clip(0.1, 0.9), f"{folder}/map.json")
    ...     load(f"{folder}/map.json")
    Clip(low=0.1, high=0.9)
    """
    text = read_limited(path, LARGEST)
    try:
        document = json.loads(text, object_pairs_hook=_once_each)
    except RecursionError:
        msg = f"{path} is not a calibrant map: its objects and lists are nested too deep"
        raise ValueError(msg) from None
    except ValueError as error:
        msg = f"{path} is not a calibrant map: not valid JSON ({error})"
        raise ValueError(msg) from None
    try:
        return from_dict(document)
    except (ValueError, TypeError, OverflowError) as error:
        msg = f"{path} is not a calibrant map: {error}"
        raise ValueError(msg) from None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the names and values of an object as a dictionary; a name must not stand there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, times)] = Counter(name for name, _ in pairs).most_common(1)
        msg = f"an object must have each name once; got {name!r} {times} times"
        raise ValueError(msg)
    return found


def to_dict(mapping: Map) -> dict[str, Any]:
    """Return a map as a dictionary of JSON values: its formula, and under "fitted_on" what it was fitted on."""
    return {"format": _FORMAT, **_encode(mapping), **_encode_origin(mapping)}


def _encode_origin(mapping: Any) -> dict[str, Any]:
    """Return what a map was fitted on, if it is known, under its name."""
    origin = getattr(mapping, "origin", None)
    return {} if origin is None else {"fitted_on": {f.name: _encode(getattr(origin, f.name)) for f in fields(origin)}}


def _encode(value: Any, depth: int = 0) -> Any:
    """Return a record, tuple or number as JSON values; infinities as the strings "inf" and "-inf"."""
    if is_dataclass(value) and type(value).__name__ in RECORDS:
        _within_depth(depth)
        given = {
            _key_of(f.name): encode_keys(getattr(value, f.name))
            if f.type == "Keys"
            else _encode(getattr(value, f.name), depth + 1)
            for f in _stored_fields(value)
        }
        if type(value).__name__ in _OF_GROUPS:
            maps: Any = getattr(value, "maps")  # noqa: B009
            given["maps"] = [own | _encode_origin(each) for own, each in zip(given["maps"], maps, strict=True)]
        return {"kind": type(value).__name__} | given
    if isinstance(value, tuple):
        _within_depth(depth)
        return [_encode(item, depth + 1) for item in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and not math.isnan(value):
        return float(value) if math.isfinite(value) else str(float(value))
    msg = (
        "only the maps of calibrant can be stored, and no NaN; "
        f"got {type(value).__name__} {shortened(value)}: pickle it, or fit a method of calibrant.METHODS instead"
    )
    raise ValueError(msg)


def _stored_fields(record: Any) -> list[Field[Any]]:
    """Return the fields of a record that are its formula."""
    return [f for f in fields(record) if f.name != "origin"]


def _key_of(field: str) -> str:
    """Return the key of a record's field in a file: its name, and one underscore more where that is one of the tags.

    >>> _key_of("inner"), _key_of("kind"), _key_of("kind_")
    ('inner', 'kind_', 'kind__')
    """
    return f"{field}_" if field.rstrip("_") in _TAGS else field


def _within_depth(depth: int) -> None:
    """Raise where records and lists are nested too deep."""
    if depth > DEEPEST:
        msg = f"records and lists must be nested at most {DEEPEST} deep; got more"
        raise ValueError(msg)


def from_dict(document: Any) -> Map:
    """Return the map a dictionary describes."""
    if not isinstance(document, dict) or "kind" not in document:
        msg = "it must be an object with a 'kind'"
        raise ValueError(msg)
    version = document.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= _FORMAT:
        msg = f"format must be a number from 1 to {_FORMAT}; got {shortened(version)}"
        raise ValueError(msg)
    if version == 1 and "fitted_on" in document:
        msg = "a file of format 1 has no 'fitted_on'"
        raise ValueError(msg)
    decoded = _decode({name: value for name, value in document.items() if name not in ("format", "fitted_on")})
    if not isinstance(decoded, Map):
        msg = f"kind {document['kind']!r} is a part of a map, not a map"
        raise ValueError(msg)
    known: Map = _with_origin_of(document, decoded)
    return known


def _with_origin_of(document: dict[str, Any], decoded: Any) -> Any:
    """Return a map that knows what a document says it was fitted on."""
    return with_origin(decoded, _read_origin(document["fitted_on"])) if "fitted_on" in document else decoded


def _read_origin(told: Any) -> Origin:
    """Return what a file says its map was fitted on."""
    expected = {f.name: f for f in fields(Origin)}
    needed = expected.keys() - {"information"}  # which early files do not have
    if not isinstance(told, dict) or not needed <= told.keys() <= expected.keys():
        msg = f"fitted_on has the fields {', '.join(expected)}; got {shortened(told)}"
        raise ValueError(msg)
    classes = told["classes"]
    labels = [told["positive"], *(classes if isinstance(classes, list) else [])]
    if not (classes is None or isinstance(classes, list)) or any(isinstance(each, (list, dict)) for each in labels):
        msg = f"fitted_on.classes must be a list of labels or null, fitted_on.positive a label; got {shortened(told)}"
        raise ValueError(msg)
    plain = {name: _decode(value) for name, value in told.items() if name not in ("classes", "positive")}
    checked = {name: _conform(f"fitted_on.{name}", value, str(expected[name].type)) for name, value in plain.items()}
    try:
        return Origin(**checked, classes=None if classes is None else tuple(classes), positive=told["positive"])
    except ValueError as error:
        msg = f"fitted_on.{error}"
        raise ValueError(msg) from None


def _decode(value: Any, depth: int = 0) -> Any:
    """Return the record, tuple or number that `_encode` made a JSON value of."""
    if isinstance(value, dict):
        _within_depth(depth)
        return _decode_record(value, depth)
    if isinstance(value, list):
        _within_depth(depth)
        return tuple(_decode(item, depth + 1) for item in value)
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        msg = f"numbers must be finite; got {value}"
        raise ValueError(msg)
    return value


def _decode_record(value: dict[str, Any], depth: int) -> Any:
    """Build a record after checking its kind, its fields and their types."""
    if value.keys() == {"kind", "inner", "scheme"} and value["kind"] in KINDS:
        # Early files have the field `kind` of a MatrixMap in the place of the record's own name.
        value = {**value, "kind": "MatrixMap", "kind_": value["kind"]}
    named = value.get("kind")
    check_one_of("kind", named, RECORDS)
    kind: Any = getattr(import_module(f"calibrant.maps.{RECORDS[str(named)]}"), str(named))
    expected = {_key_of(f.name): f for f in _stored_fields(kind)}
    keys = {key for key, f in expected.items() if f.type == "Keys"}  # texts of people, which may be "inf"
    own = value.get("maps") if kind.__name__ in _OF_GROUPS else None
    known = [each if isinstance(each, dict) else {} for each in own] if isinstance(own, list) else []
    if known:
        plain = [{name: item for name, item in each.items() if name != "fitted_on"} for each in known]
        value = {**value, "maps": plain}
    given = {
        name: decode_keys(f"{kind.__name__}.{name}", item) if name in keys else _decode(item, depth + 1)
        for name, item in value.items()
        if name != "kind"
    }
    needed = {key for key, f in expected.items() if f.default is MISSING and f.default_factory is MISSING}
    if not needed <= given.keys() <= expected.keys():
        got = shortened(list(given)) if given else "none"
        msg = f"{kind.__name__} has the fields {', '.join(expected)}; got {got}"
        raise ValueError(msg)
    checked = {
        expected[key].name: _conform(f"{kind.__name__}.{key}", item, str(expected[key].type))
        for key, item in given.items()
    }
    if known:
        checked["maps"] = tuple(map(_with_origin_of, known, checked["maps"]))
    return kind(**checked)


def _conform(name: str, value: Any, annotation: str) -> Any:
    """Return a decoded value if it is what the record's annotation asks for."""
    if annotation == "Keys":  # which the record checks
        return value
    options = [option.strip() for option in annotation.split("|")]
    if value is None and "None" in options:
        return None
    wanted = options[0]
    if wanted == "float" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return _as_float(name, value)
    if wanted.startswith("tuple") and isinstance(value, tuple):
        return _conform_tuple(name, value, wanted)
    if any(wanted == kind.__name__ and type(value) is kind for kind in (bool, str, int)):
        return value
    if is_dataclass(value) and wanted in ("Any", type(value).__name__):
        return value
    msg = f"{name} must be {annotation}; got {shortened(value)}"
    raise ValueError(msg)


def _as_float(name: str, value: float) -> float:
    """Return a number as a double, if it is not too large for one."""
    try:
        return float(value)
    except OverflowError:
        msg = f"{name} must be a number of at most 1.8e308; got a larger one"
        raise ValueError(msg) from None


def _conform_tuple(name: str, value: tuple[Any, ...], wanted: str) -> tuple[Any, ...]:
    """Check the items of a tuple, and their number where the annotation fixes it."""
    items = [item.strip() for item in wanted.removeprefix("tuple[").removesuffix("]").split(",")]
    if items[-1] == "...":
        items = [items[0]] * len(value)
    if len(items) != len(value):
        msg = f"{name} must hold {len(items)} values; got {len(value)}"
        raise ValueError(msg)
    return tuple(_conform(f"{name}[{i}]", item, kind) for i, (item, kind) in enumerate(zip(value, items, strict=True)))
