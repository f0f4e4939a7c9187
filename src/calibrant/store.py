"""Maps as JSON: a record's kind and its numbers, read without executing anything."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from calibrant.maps import records
from calibrant.maps.records import Map
from calibrant.samples import one_of

__all__ = ["from_dict", "load", "save", "to_dict", "whole", "write_whole"]

FORMAT = 1


@cache
def kinds() -> dict[str, type]:
    """Return what a file may name. A kind is never removed, so that old files load for ever."""
    from calibrant import multiclass  # neither fitting nor applying a map needs it

    known = (
        records.Sigmoid,
        records.QuadraticLogit,
        records.Clip,
        records.Ends,
        records.Steps,
        records.Lines,
        records.BetaCdf,
        records.BetaPiece,
        records.BetaClasses,
        records.Cosines,
        records.Parzen,
        records.Linked,
        multiclass.ClassMap,
        multiclass.MatrixMap,
    )
    return {kind.__name__: kind for kind in known}


def save(mapping: Map, path: str | os.PathLike[str]) -> None:
    """Write a map as JSON; the file is there whole or not at all.

    >>> import calibrant, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "map.json"
    >>> calibrant.save(calibrant.maps.Clip(0.1, 0.9), path)
    >>> calibrant.load(path)
    Clip(low=0.1, high=0.9)
    """
    text = json.dumps(to_dict(mapping), allow_nan=False, indent=1) + "\n"
    write_whole(Path(path), text.encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader never sees half of it."""
    with whole(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path` that becomes `path` at the end, or disappears if there is none."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        yield Path(temporary)
        os.chmod(temporary, 0o666 & ~current_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def current_umask() -> int:
    """Return the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def load(path: str | os.PathLike[str]) -> Map:
    """Read a map that `save` wrote."""
    text = Path(path).read_bytes()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{path} is not a calibrant map: not valid JSON ({error})"
        raise ValueError(msg) from None
    try:
        return from_dict(document)
    except (ValueError, TypeError, OverflowError) as error:
        msg = f"{path} is not a calibrant map: {error}"
        raise ValueError(msg) from None


def to_dict(mapping: Map) -> dict[str, Any]:
    """Return a map as a dictionary of JSON values."""
    return {"format": FORMAT, **encode(mapping)}


def encode(value: Any) -> Any:
    """Return a record, tuple or number as JSON values; infinities as the strings "inf" and "-inf"."""
    if is_dataclass(value) and type(value).__name__ in kinds():
        return {"kind": type(value).__name__} | {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and not math.isnan(value):
        return float(value) if math.isfinite(value) else str(float(value))
    msg = f"only the maps of calibrant can be stored; got {type(value).__name__} {value!r}"
    raise ValueError(msg)


def from_dict(document: Any) -> Map:
    """Return the map a dictionary describes."""
    if not isinstance(document, dict) or "kind" not in document:
        msg = "it must be an object with a 'kind'"
        raise ValueError(msg)
    version = document.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= FORMAT:
        msg = f"format must be a number from 1 to {FORMAT}; got {version!r}"
        raise ValueError(msg)
    decoded = decode({name: value for name, value in document.items() if name != "format"})
    if not isinstance(decoded, Map):
        msg = f"kind {document['kind']!r} is a part of a map, not a map"
        raise ValueError(msg)
    return decoded


def decode(value: Any) -> Any:
    """Return the record, tuple or number that `encode` made a JSON value of."""
    if isinstance(value, dict):
        return decode_record(value)
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        msg = f"numbers must be finite; got {value}"
        raise ValueError(msg)
    return value


def decode_record(value: dict[str, Any]) -> Any:
    """Build a record after checking its kind, its fields and their types."""
    named = value.get("kind")
    one_of("kind", named, kinds())
    kind = kinds()[str(named)]
    given = {name: decode(item) for name, item in value.items() if name != "kind"}
    expected = {f.name: str(f.type) for f in fields(kind)}
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    if not needed <= given.keys() <= expected.keys():
        msg = f"{kind.__name__} has the fields {', '.join(expected)}; got {', '.join(given) or 'none'}"
        raise ValueError(msg)
    return kind(**{name: conform(f"{kind.__name__}.{name}", item, expected[name]) for name, item in given.items()})


def conform(name: str, value: Any, annotation: str) -> Any:
    """Return a decoded value if it is what the record's annotation asks for."""
    options = [option.strip() for option in annotation.split("|")]
    if value is None and "None" in options:
        return None
    wanted = options[0]
    if wanted == "float" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if wanted.startswith("tuple") and isinstance(value, tuple):
        return conform_tuple(name, value, wanted)
    if (wanted == "bool" and isinstance(value, bool)) or (wanted == "str" and isinstance(value, str)):
        return value
    if is_dataclass(value) and wanted in ("Any", type(value).__name__):
        return value
    msg = f"{name} must be {annotation}; got {value!r}"
    raise ValueError(msg)


def conform_tuple(name: str, value: tuple[Any, ...], wanted: str) -> tuple[Any, ...]:
    """Check the items of a tuple, and their number where the annotation fixes it."""
    items = [item.strip() for item in wanted.removeprefix("tuple[").removesuffix("]").split(",")]
    if items[-1] == "...":
        items = [items[0]] * len(value)
    if len(items) != len(value):
        msg = f"{name} must hold {len(items)} values; got {len(value)}"
        raise ValueError(msg)
    return tuple(conform(f"{name}[{i}]", item, kind) for i, (item, kind) in enumerate(zip(value, items, strict=True)))
