"""Every rule about an argument, once: check it and return the canonical form, or say which rule it breaks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import isfinite
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Floats
from calibrant.threads import each_block

__all__ = [
    "BLOCK",
    "KINDS",
    "LARGEST",
    "LIGHTER",
    "ROUNDING",
    "advise_range",
    "check_binary",
    "check_class_names",
    "check_distributions",
    "check_finite",
    "check_known_labels",
    "check_labels",
    "check_length",
    "check_matrix",
    "check_number",
    "check_one_of",
    "check_page",
    "check_proportion",
    "check_several_classes",
    "check_unit",
    "check_vector",
    "check_weights",
    "check_whole",
    "count_weights",
    "extremes",
    "find_classes",
    "has_columns",
    "is_missing",
    "match_names",
    "refuse_masked",
    "refuse_missing",
    "refuse_other_names",
    "refuse_other_order",
    "require_real",
    "split_classes",
    "suggest",
    "survey_matrix",
    "to_array",
    "to_numbers",
    "too_many_labels",
]


BLOCK = 32_768  # rows; a few float64 blocks of this length fit into the second-level cache


_DECIMALS = range(2, 7)  # to which probabilities in files are rounded
_NEAR = 0.01  # units of the last decimal by which float32 may miss it
_MOST_OFF = 0.05  # a row that sums to less than 0.95 may lack a class
ROUNDING = 1e-5  # how far from 1 a row of posteriors may sum, or from [0, 1] a probability be: float32, many classes


LIGHTER = 2.0**-64  # of weights whose sum is too large for a double: so are at most 2^64 of them


KINDS = ("margin", "probability", "logit")


def check_vector(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return `values` as a one-dimensional array with at least one element."""
    if hasattr(values, "toarray"):
        msg = f"{name} must be a dense array; got a sparse one of shape {np.shape(values)}"
        raise ValueError(msg)
    refuse_masked(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        msg = f"{name} must be one-dimensional; got rows of different lengths"
        raise ValueError(msg) from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        msg = f"{name} must be one-dimensional; got an array of shape {array.shape}"
        raise ValueError(msg)
    if len(array) == 0:
        msg = f"{name} must hold at least one value (0 sample(s) given); got an empty array"
        raise ValueError(msg)
    return array


def refuse_masked(name: str, values: Any) -> None:
    """Raise if a NumPy masked array hides a value: the number under the mask would be used."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        msg = f"{name} must not be masked; got {int(np.sum(np.ma.getmask(values)))} masked value(s)"
        raise ValueError(msg)


def require_real(name: str, array: NDArray[Any]) -> None:
    """Raise unless an array is of real numbers."""
    if array.dtype.kind not in "fiub":
        hint = "Complex data not supported, " if array.dtype.kind == "c" else ""
        msg = f"{name} must be real numbers; {hint}got dtype {array.dtype}"
        raise ValueError(msg)


def check_finite(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return `values` as a vector of finite real numbers, float32 or float64."""
    array = check_vector(name, values)
    if array.dtype == object:
        array = to_numbers(name, array)
    require_real(name, array)
    if array.dtype not in (np.float64, np.float32):
        array = array.astype(np.float64)
    if not np.isfinite(extremes(array)).all():
        wrong = np.flatnonzero(~np.isfinite(array))
        msg = (
            f"{name} must be finite; got {len(wrong)} NaN or infinite value(s), "
            f"the first at position {wrong[0]} ({array[wrong[0]]})"
        )
        raise ValueError(msg)
    return array


def extremes(array: NDArray[Any]) -> tuple[Any, Any]:
    """Return the smallest and the largest value in one pass over memory; NaN where there is one."""
    if array.size <= BLOCK:
        return array.min(), array.max()
    size = max(BLOCK * len(array) // max(array.size, 1), 1)
    found = each_block(lambda rows: (array[rows].min(), array[rows].max()), len(array), size)
    return np.min([low for low, _ in found]), np.max([high for _, high in found])


def to_numbers(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an object array of real numbers as float64."""
    for position, value in enumerate(array):
        if isinstance(value, (str, bytes, complex)) or (is_missing(value) and not isinstance(value, Real)):
            msg = f"{name} must be real numbers; got {value!r} at position {position}"
            raise ValueError(msg)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        msg = f"{name} must be real numbers; argument must be a string or a number: {error}"
        raise kind(msg) from None


def check_page(name: str, path: str | PathLike[str]) -> None:
    """Raise if the ending of a file says that it is something else than a page of HTML.

    >>> check_page("path", "report.pdf")
    Traceback (most recent call last):
    ValueError: path must end in .html, as it is a page; got 'report.pdf': print the page to PDF in a browser
    """
    ending = PurePath(path).suffix.lower()
    if ending not in ("", ".html", ".htm"):
        way = ": print the page to PDF in a browser" if ending == ".pdf" else ""
        msg = f"{name} must end in .html, as it is a page; got {fspath(path)!r}{way}"
        raise ValueError(msg)


def advise_range(low: float, high: float) -> str:
    """Return what to do about probabilities in a range: if it is that of percentages, or of scores; else nothing.

    >>> advise_range(0.0, 99.0), advise_range(-4.2, 3.1)
    (': divide by 100 if they are percentages', ": if they are scores, fit a map to them first, with kind='margin'")
    """
    if low >= 0 and 2 < high <= 100:
        return ": divide by 100 if they are percentages"
    return ": if they are scores, fit a map to them first, with kind='margin'" if low < -0.5 or high > 1.5 else ""


def check_unit(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return values in [0, 1]: those outside by no more than rounding, such as a float32 sum of 1.0000001, are cut.

    >>> check_unit("p", np.array([0.5, 1.0000001]))
    array([0.5, 1. ])
    """
    low, high = extremes(array) if len(array) else (0, 1)
    if low < -ROUNDING or high > 1 + ROUNDING:
        wrong = np.flatnonzero((array < -ROUNDING) | (array > 1 + ROUNDING))
        msg = (
            f"{name} declared as probabilities must lie in [0, 1]; got {len(wrong)} outside, "
            f"the first at position {wrong[0]} ({array[wrong[0]]})"
        )
        raise ValueError(msg + advise_range(low, high))
    return array if low >= 0 and high <= 1 else np.clip(array, 0, 1)


def check_binary(name: str, values: ArrayLike, pos_label: Any = None) -> NDArray[Any]:
    """Return two-valued labels as {0, 1}, and floating labels in [0, 1] as they are."""
    return check_labels(name, values, pos_label)[0]


def check_labels(name: str, values: ArrayLike, pos_label: Any = None) -> tuple[NDArray[Any], tuple[Any, Any]]:
    """Return labels as numbers in [0, 1], and the negative and the positive class that 0 and 1 stand for.

    >>> check_labels("y", ["spam", "ham", "spam"])
    (array([ True, False,  True]), (np.str_('ham'), np.str_('spam')))
    """
    array = check_vector(name, values)
    if array.dtype.kind == "c":
        msg = f"{name} must hold labels, not complex numbers; got dtype {array.dtype}"
        raise ValueError(msg)
    if pos_label is None and array.dtype.kind == "O" and all(map(_is_share, array)):
        array = array.astype(np.float64)
    if pos_label is None and array.dtype.kind in "fiub":
        return _numeric_labels(name, array)
    negative, positive = split_classes(name, array, pos_label)
    return np.asarray(array == positive), (negative, positive)


def _is_share(value: Any) -> bool:
    """Return whether a value is a number in [0, 1]; True and False are classes."""
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return False
    number = float(value)
    return 0 <= number <= 1


def _numeric_labels(name: str, array: NDArray[Any]) -> tuple[NDArray[Any], tuple[Any, Any]]:
    """Read numbers as labels without sorting them: the larger of two values is the positive one."""
    if array.dtype.kind in "iu" and np.bitwise_or.reduce(array) in (0, 1):  # in one pass: all are 0 or 1
        return array, (0, 1)
    if array.dtype.kind == "f":
        array = check_finite(name, array)
    low, high = extremes(array)
    if array.dtype.kind == "b":
        return array, (False, True)
    if low >= 0 and high <= 1:
        return array, (0, 1)
    if low == high:
        if low != -1:
            msg = f"{name} holds one value only, {low}, neither 0, 1 nor -1; say which class is positive by pos_label"
            raise ValueError(msg)
        return np.zeros(len(array), bool), (-1, 1)
    for start in range(0, len(array), BLOCK):
        block = array[start : start + BLOCK]
        if not ((block == low) | (block == high)).all():
            raise too_many_labels(name, array)
    return np.asarray(array == high), (low, high)


def too_many_labels(name: str, array: NDArray[Any]) -> ValueError:
    """Return the error for labels of more than two classes."""
    values = np.unique(array)
    shown = ", ".join(str(value) for value in values[:5]) + (", ..." if len(values) > 5 else "")
    return ValueError(
        f"{name} must hold two classes, or numbers in [0, 1]; got {len(values)} values: {shown}; for "
        "several classes give one column per class"
    )


def check_known_labels(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return labels of any type as a vector, none of them missing."""
    array = check_vector(name, values)
    refuse_missing(name, array)
    return array


def refuse_missing(name: str, array: NDArray[Any]) -> None:
    """Raise if a label is missing."""
    if array.dtype.kind not in "OfmM":  # whole numbers and texts cannot be missing
        return
    missing = np.array([is_missing(value) for value in array.ravel()]) if array.dtype.kind == "O" else array != array
    if missing.any():
        found = f"{missing.sum()} (None, NaN or NA), the first at position {missing.argmax()}"
        msg = f"{name} must hold no missing label; got {found}"
        raise ValueError(msg)


def is_missing(value: Any) -> bool:
    """Return whether a value stands for none: None, NaN, or pandas' NaT and NA.

    >>> is_missing(float("nan")), is_missing("")
    (True, False)
    """
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA does not compare with itself
        return True
    except ValueError:  # an array, which another check refuses
        return False


def split_classes(name: str, array: NDArray[Any], pos_label: Any = None) -> tuple[Any, Any]:
    """Return the negative and the positive class of labels of any type."""
    refuse_missing(name, array)
    try:
        values = list(np.unique(array))
    except TypeError:
        msg = f"{name} must hold labels of one type; got {sorted({type(v).__name__ for v in array})}"
        raise ValueError(msg) from None
    if len(values) > 2:
        raise too_many_labels(name, array)
    if pos_label is None:
        if len(values) < 2:
            msg = f"{name} holds one class only, {_quote(values[0])}; say which class is positive by pos_label"
            raise ValueError(msg)
        return values[0], values[1]
    if np.ndim(pos_label) > 0:
        msg = f"pos_label must be one label; got {pos_label!r}"
        raise ValueError(msg)
    known = [value for value in values if value == pos_label]
    if len(values) == 2 and not known:
        msg = f"pos_label must be one of the labels {_quote(values[0])} and {_quote(values[1])}; got {pos_label!r}"
        raise ValueError(msg)
    others = [value for value in values if value != pos_label]
    return (others[0] if others else None), (known[0] if known else pos_label)


def _quote(label: Any) -> str:
    """Return a label as it is written in Python.

    >>> _quote(np.int64(1)), _quote(np.str_("1")), _quote(np.datetime64("2026-01-01"))
    ('1', "'1'", "'2026-01-01'")
    """
    if isinstance(label, np.generic):
        return repr(str(label) if label.dtype.kind in "mM" else label.item())
    return repr(label)


def check_several_classes(classes: NDArray[Any]) -> NDArray[Any]:
    """Return the classes, or raise if there is only one."""
    if len(classes) < 2:
        msg = f"y must hold at least two classes; got one class only, {classes.tolist()[0]!r}"
        raise ValueError(msg)
    return classes


def check_weights(name: str, values: ArrayLike, like: NDArray[Any]) -> NDArray[Any]:
    """Return finite weights, none negative and not all zero."""
    array = check_finite(name, values)
    check_length(name, array, like)
    if array.min() < 0:
        wrong = np.flatnonzero(array < 0)
        msg = f"{name} must not be negative; got {len(wrong)}, the first at position {wrong[0]} ({array[wrong[0]]})"
        raise ValueError(msg)
    if not array.any():
        msg = f"{name} must not all be zero; got {len(array)} zeros"
        raise ValueError(msg)
    return array


def check_number(name: str, value: Any, *, low: float = 0.0, inclusive: bool = False) -> float:
    """Return an option as a finite number above `low`, or not below it."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if isinstance(value, (str, bytes)) or not np.isfinite(found) or found < low or (found == low and not inclusive):
        msg = f"{name} must be a finite number {'not below' if inclusive else 'above'} {low:g}; got {value!r}"
        raise ValueError(msg)
    return found


def check_whole(name: str, value: Any, *, low: int = 1, high: int | None = None, kind: type = Real) -> int:
    """Return an option as a whole number from `low` to `high`; 3.0 counts as one unless `kind` is Integral.

    >>> check_whole("bins", 3.0)
    3
    >>> check_whole("bins", 0, high=100)
    Traceback (most recent call last):
    ValueError: bins must be a whole number from 1 to 100; got 0
    """
    fits = isinstance(value, kind) and not isinstance(value, bool)
    is_whole = fits and (isinstance(value, Integral) or float(value).is_integer())
    if not is_whole or value < low or (high is not None and value > high):
        bounds = f", at least {low}" if high is None else f" from {low} to {high}"
        msg = f"{name} must be a whole number{bounds}; got {value!r}"
        raise ValueError(msg)
    return int(value)


def check_proportion(name: str, value: Any, *, low: bool = False, high: bool = False) -> float:
    """Return an option as a number between 0 and 1; `low` and `high` say whether 0 and 1 themselves are allowed.

    >>> check_proportion("coverage", 1.0, high=True)
    1.0
    """
    given = float(value) if isinstance(value, Real) else float("nan")
    if not (0.0 < given < 1.0 or (low and given == 0) or (high and given == 1)):
        msg = f"{name} must lie in {'[' if low else '('}0, 1{']' if high else ')'}; got {value!r}"
        raise ValueError(msg)
    return given


def check_one_of(name: str, value: Any, choices: Iterable[str | None], *, beside: str = "", hint: str = "") -> None:
    """Raise unless a value is one of the names; None counts if it is listed.

    `beside` says what else is allowed, `hint` what is wrong with the value.

    >>> check_one_of("solver", "magic", ["newton", "smo"])
    Traceback (most recent call last):
    ValueError: solver must be one of newton, smo; got 'magic'
    """
    known = list(choices)
    if not isinstance(value, str | None) or value not in known:
        likely = hint or suggest(value, known)
        msg = f"{name} must be one of {', '.join(map(str, known))}{beside}; got {value!r}{likely}"
        raise ValueError(msg)


def suggest(given: Any, known: Iterable[Any]) -> str:
    """Return a question that names the known word most like a wrong one; nothing where none is like it.

    >>> suggest("Plat", ["isotonic", "platt"]), suggest("magic", ["isotonic", "platt"])
    ("; did you mean 'platt'?", '')
    """
    from difflib import get_close_matches

    words = {str(each).casefold(): str(each) for each in known}
    close = get_close_matches(str(given).casefold(), words, n=1)
    return f"; did you mean {words[close[0]]!r}?" if close else ""


def count_weights(sample_weight: ArrayLike | None, rows: NDArray[Any]) -> Floats:
    """Return how many times each row counts."""
    if sample_weight is None:
        return np.ones(len(rows))
    return np.asarray(check_weights("sample_weight", sample_weight, rows), np.float64)


def check_length(name: str, array: NDArray[Any], rows: Any) -> None:
    """Raise unless `array` has one value for each of the rows of an array, which may be sparse."""
    if len(array) != rows.shape[0]:
        numbers = f"{len(array)} for {rows.shape[0]} rows"
        msg = f"{name} must have one value per row; got inconsistent numbers of samples, {numbers}"
        raise ValueError(msg)


def check_distributions(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return posteriors, one column per class, after checking that each row is a distribution up to rounding.

    >>> check_distributions("P", [[0.2, 0.8], [0.5, 0.6]])
    Traceback (most recent call last):
    ValueError: P must hold rows of non-negative numbers that sum to 1; row 1 is [0.5, 0.6]
    """
    refuse_masked(name, values)
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] < 2 or len(array) == 0:
        msg = f"{name} must have one row per object and one column per class; got an array of shape {array.shape}"
        if array.ndim == 1 and len(array):
            msg += f": for two classes give np.column_stack([1 - {name}, {name}])"
        raise ValueError(msg)
    require_real(name, array)
    wrong = _find_no_distribution(array, ROUNDING)
    if wrong is None:
        return array
    slack = _read_decimals(array)
    if slack > ROUNDING and (wrong := _find_no_distribution(array, slack)) is None:
        return _divide_by_sums(array)
    msg = f"{name} must hold rows of non-negative numbers that sum to 1; row {wrong} is {_show_row(array[wrong])}"
    raise ValueError(msg)


def _find_no_distribution(array: NDArray[Any], slack: float) -> int | None:
    """Return the first row that holds a negative number, or whose sum is further from 1; None if there is none."""
    for start in range(0, len(array), BLOCK):
        block = np.asarray(array[start : start + BLOCK], np.float64)
        with np.errstate(all="ignore"):
            off = np.abs(np.einsum("ij->i", block) - 1.0)
        if not (block.min() >= 0 and off.max() <= slack):
            return start + int(np.flatnonzero(~((block >= 0).all(axis=1) & (off <= slack)))[0])
    return None


def _show_row(row: NDArray[Any]) -> str:
    """Return the first numbers of a row for an error."""
    return "[" + ", ".join(f"{value:g}" for value in row[:5]) + (", ...]" if len(row) > 5 else "]")


def _read_decimals(array: NDArray[Any]) -> float:
    """Return how far from 1 rows may sum because their numbers were rounded to two decimals or more.

    It is half a unit of the last decimal per class, at most 0.05; `ROUNDING` where there are more than six decimals.

    >>> round(_read_decimals(np.array([[0.33, 0.33, 0.33]])), 6), _read_decimals(np.array([[0.5, 0.1 * 2**0.5]]))
    (0.01501, 1e-05)
    """
    for decimals in _DECIMALS:
        unit, step = 10.0**-decimals, max(BLOCK // array.shape[1], 1)
        blocks = (np.asarray(array[start : start + step], np.float64) / unit for start in range(0, len(array), step))
        with np.errstate(all="ignore"):
            if all((np.abs(block - np.rint(block)) < _NEAR).all() for block in blocks):
                return float(min(0.5 * unit * array.shape[1] + ROUNDING, _MOST_OFF))
    return ROUNDING


def _divide_by_sums(array: NDArray[Any]) -> Floats:
    """Return rows divided by their sums."""
    rows = np.array(array, np.float64)
    rows /= np.einsum("ij->i", rows)[:, None]
    return rows


def to_array(name: str, values: Any) -> NDArray[Any]:
    """Return an array, a table or a tensor as a NumPy array, without a copy where its memory can be shared."""
    if hasattr(values, "toarray"):
        msg = f"{name} must be a dense array; got a sparse one of shape {np.shape(values)}"
        raise ValueError(msg)
    refuse_masked(name, values)
    try:
        by_dlpack = hasattr(values, "__dlpack__") and not hasattr(values, "__array__")
        return np.from_dlpack(values) if by_dlpack else np.asarray(values)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:  # of a GPU, or that takes part in gradients
        msg = f"{name} must convert to a NumPy array; got {type(values).__name__}: {error}"
        if "BFloat16" in str(error):  # which autocast gives, and NumPy does not know
            msg += f": give {name}.float()"
        raise ValueError(msg) from None


def has_columns(values: Any) -> bool:
    """Return whether values have two columns or more, as scores of several classes have.

    >>> has_columns([[0.2, 0.8]]), has_columns([[0.2], [0.8]]), has_columns([0.2, 0.8])
    (True, False, False)
    """
    shape = getattr(values, "shape", None)
    if shape is None:
        try:
            shape = np.from_dlpack(values).shape if hasattr(values, "__dlpack__") else np.shape(values)
        except ValueError:  # rows of different lengths, which another check refuses
            return False
    return len(shape) == 2 and int(shape[1]) > 1


def check_matrix(name: str, values: Any, kind: str) -> NDArray[Any]:
    """Return scores of several classes, one column each, as finite numbers; probabilities sum to 1 up to rounding.

    >>> check_matrix("scores", [[0.2, 0.8], [0.5, 0.6]], "probability")
    Traceback (most recent call last):
    ValueError: scores declared as probabilities must have rows that sum to 1; got 1 that do not, the first is row 1,
    [0.5, 0.6], with sum 1.1: give all classes, divide each row by its sum, or say what the scores are by kind
    """
    return survey_matrix(name, values, kind)[0]


def survey_matrix(name: str, values: Any, kind: str) -> tuple[NDArray[Any], tuple[float, float]]:
    """Return the same, and the smallest and the largest score, by one pass over memory.

    >>> survey_matrix("scores", [[0.25, 0.75], [0.5, 0.5]], "probability")[1]
    (0.25, 0.75)
    """
    array = to_array(name, values)
    if array.ndim != 2 or array.shape[1] < 2 or len(array) == 0:
        msg = f"{name} must have one row per object and one column per class; got an array of shape {array.shape}"
        raise ValueError(msg)
    if array.dtype == object:
        array = to_numbers(name, array.ravel()).reshape(array.shape)
    require_real(name, array)
    fine = np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0.0
    rounding = max(ROUNDING, 8.0 * float(fine))  # of float16, which sums to 1 within a percent
    if array.dtype not in (np.float64, np.float32):
        array = array.astype(np.float64)

    unequal: list[bool] = []  # one for each block with rows that do not sum to 1

    def check(rows: slice) -> tuple[float, float]:
        """Check a block of rows; return its smallest and its largest score."""
        block = np.asarray(array[rows], np.float64)
        low, high = float(block.min()), float(block.max())
        if not (isfinite(low) and isfinite(high)):
            raise _wrong_entries(name, "be finite", array, ~np.isfinite(array), "NaN or infinite value(s)")
        if kind != "probability":
            return low, high
        if low < -rounding or high > 1 + rounding:
            outside = (array < -rounding) | (array > 1 + rounding)
            raise _wrong_entries(name, "lie in [0, 1] where they are probabilities", array, outside, "outside")
        off = np.abs(np.einsum("ij->i", block) - 1.0) > rounding  # a product with ones would wake threads of BLAS
        if off.any():
            unequal.append(True)
        return low, high

    found = each_block(check, len(array), max(BLOCK // array.shape[1], 1))
    if unequal:
        slack = _read_decimals(array)
        off = np.abs(array.sum(axis=1, dtype=np.float64) - 1.0) > max(slack, rounding)
        if off.any():
            first, count = int(off.argmax()), int(off.sum())
            total = array[first].sum(dtype=np.float64)
            msg = (
                f"{name} declared as probabilities must have rows that sum to 1; got {count} that do not, the first is "
                f"row {first}, {_show_row(array[first])}, with sum {total:g}: give all classes, divide each row by its "
                "sum, or say what the scores are by kind"
            )
            raise ValueError(msg)
        array = _divide_by_sums(array)
        return array, extremes(array)
    return array, (min(low for low, _ in found), max(high for _, high in found))


def _wrong_entries(name: str, rule: str, array: NDArray[Any], wrong: NDArray[np.bool_], what: str) -> ValueError:
    """Return an error that counts the wrong entries of a matrix and names the first."""
    row, column = np.unravel_index(int(wrong.argmax()), wrong.shape)
    first = f"the first in row {row}, column {column} ({array[row, column]})"
    return ValueError(f"{name} must {rule}; got {int(wrong.sum())} {what}, {first}")


def refuse_other_order(table: Any, classes: Iterable[Any], argument: str | None = "classes") -> None:
    """Raise if the columns of a table are named as classes, whole or between a common start and end, in another order.

    `argument` is the one that says the order, None where there is none. What is no table has no names, and passes.

    >>> import types
    >>> refuse_other_order(types.SimpleNamespace(columns=["p_dog", "p_cat"]), ["cat", "dog"])
    Traceback (most recent call last):
    ValueError: columns must be in the order of the classes, cat, dog; got p_dog, p_cat: put them in that order, or say
    theirs by classes
    """
    if not hasattr(table, "columns"):
        return
    given = list(table.columns)
    names = [str(each) for each in given]
    if given == list(range(len(given))) or names == [f"column_{i}" for i in range(len(names))]:
        return  # names that pandas and Polars give to what has none
    refuse_other_names("columns", names, classes, argument)


def refuse_other_names(name: str, names: Sequence[str], classes: Iterable[Any], argument: str | None = None) -> None:
    """Raise if the names of columns, the argument `name`, are those of the classes in another order.

    `argument` is the one that says the order, None where there is none.

    >>> refuse_other_names("score", ["p_dog", "p_cat"], ["cat", "dog"])
    Traceback (most recent call last):
    ValueError: score must be in the order of the classes, cat, dog; got p_dog, p_cat: put them in that order
    """
    wanted = [str(each) for each in classes]
    if names and match_names(names, wanted) not in (None, wanted):
        msg = (
            f"{name} must be in the order of the classes, {_list_some(wanted)}; got {_list_some(names)}: put them in "
            f"that order{'' if argument is None else f', or say theirs by {argument}'}"
        )
        raise ValueError(msg)


def match_names(names: Sequence[str], classes: Sequence[Any]) -> list[Any] | None:
    """Return the class that each name says, whole or between a start and an end that all have; None if they do not.

    >>> match_names(["p_dog_new", "p_cat_new"], ["cat", "dog"]), match_names(["x", "y"], [0, 1])
    (['dog', 'cat'], None)
    """
    first = names[0]
    for value in classes:
        text = str(value)
        for start in range(len(first) - len(text) + 1):
            if first.startswith(text, start):
                prefix, suffix = first[:start], first[start + len(text) :]
                by_name = {f"{prefix}{each}{suffix}": each for each in classes}
                if by_name.keys() == set(names):
                    return [by_name[name] for name in names]
    return None


def _list_some(values: Sequence[str]) -> str:
    """Return at most five values as text."""
    return ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")


def check_class_names(name: str, values: Any) -> NDArray[Any]:
    """Return the classes of columns as a vector; none is missing, and none there twice."""
    if isinstance(values, (str, set, frozenset)):
        msg = f"{name} must be a list of classes in the order of the columns; got {values!r}"
        raise ValueError(msg)
    classes = check_known_labels(name, list(values) if isinstance(values, Iterable) else values)
    try:
        repeated = len(np.unique(classes)) < len(classes)
    except TypeError:
        msg = f"{name} must be of one type; got {', '.join(sorted({type(each).__name__ for each in classes}))}"
        raise ValueError(msg) from None
    if repeated:
        msg = f"{name} must be a list of classes that are all different; got {values!r}"
        raise ValueError(msg)
    return classes


def find_classes(observed: NDArray[Any], classes: NDArray[Any], name: str = "labels") -> NDArray[np.intp]:
    """Return the position of each label in the list of classes, the argument `name`.

    >>> find_classes(np.array(["b", "a", "b"]), np.array(["b", "c", "a"]))
    array([0, 2, 0])
    """
    if classes.dtype.kind in "iu" and observed.dtype.kind in "iu" and np.array_equal(classes, np.arange(len(classes))):
        low, high = extremes(observed) if len(observed) else (0, 0)
        if low >= 0 and high < len(classes):  # they are their own positions
            return np.asarray(observed, np.intp)
    order = np.argsort(classes, kind="stable")
    if (classes[order[1:]] == classes[order[:-1]]).any():
        msg = f"{name} must all be different; got {', '.join(str(value) for value in classes[:5])}"
        raise ValueError(msg)
    try:
        place = np.searchsorted(classes[order], observed)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in observed})
        msg = f"y must hold labels of the same type as the classes in {name}; got {', '.join(kinds)}"
        raise ValueError(msg) from None
    found = order[np.minimum(place, len(classes) - 1)]
    if not np.all(classes[found] == observed):
        unknown = observed[classes[found] != observed]
        msg = (
            f"y must hold only the classes in {name}; got {_quote(unknown[0])}, the first of {len(unknown)} such "
            f"label(s), and {name} has {_list_some([_quote(each) for each in classes[:6]])}"
        )
        raise ValueError(msg)
    return np.asarray(found, np.intp)


LARGEST = float(np.finfo(np.float64).max)
