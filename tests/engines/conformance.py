"""What every engine must answer: one small function per case, for any backend; `make conformance` writes the table.

The answers are compared with those in memory, or with PyArrow's where the engine alone can give them.
"""

import argparse
import datetime
import re
import sys
import warnings
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import calibrant
from calibrant import engines
from calibrant.engines import fitting
from tests.conftest import noisy_scores, quiet_fit
from tests.engines.backends import MISSING, NAMES, come_home, open_backends

__all__ = ["CASES", "PAGE"]

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
HOSTILE = '"; drop table --'
FOUR = {"f": [-1.0, 0.5, 0.0, 1.0], "y": [0, 1, 0, 1], "w": [1.0, 1.0, 2.0, 3.0]}


def fit(method, table, **keywords):
    return engines.fit(method, table, **{"score": "f", "label": "y", "kind": "margin"} | keywords)


def four(**changed):
    return pa.table(FOUR | changed)


def assert_gauss(found, columns, close=1e-9, **keywords):
    expected = quiet_fit("gauss_tied", columns["f"], columns["y"], kind="margin", **keywords)
    assert found.a == pytest.approx(expected.a, rel=close)
    assert found.b == pytest.approx(expected.b, rel=close, abs=close)


@contextmanager
def many_rows():
    """Fit some hundred rows by the ways of many."""
    with patch.object(fitting, "FEW_ROWS", 50):
        yield


def fits_platt(bring):
    scores, y = noisy_scores(400, seed=3)
    with many_rows():
        found = fit("platt", bring(pa.table({"f": scores, "y": y})))
    expected = quiet_fit("platt", scores, y, kind="margin")
    np.testing.assert_allclose([found.a, found.b], [expected.a, expected.b], rtol=1e-9)


def fits_isotonic(bring):
    scores, y = noisy_scores(400, seed=4, ties=True)
    with many_rows():
        found = fit("isotonic", bring(pa.table({"f": scores, "y": y})))
    np.testing.assert_allclose(found(scores), quiet_fit("isotonic", scores, y, kind="margin")(scores), atol=1e-12)


def fits_weights(bring):
    scores, y = noisy_scores(400, seed=5)
    w = np.random.default_rng(0).integers(0, 4, 400).astype(float)
    with many_rows():
        found = fit("platt", bring(pa.table({"f": scores, "y": y, "w": w})), weight="w")
    expected = quiet_fit("platt", scores, y, sample_weight=w, kind="margin")
    np.testing.assert_allclose([found.a, found.b], [expected.a, expected.b], rtol=1e-9)


def fits_probabilities(bring):
    scores, y = noisy_scores(400, seed=6)
    p = 1 / (1 + np.exp(-scores))
    p[:2] = 0.0, 1.0
    with many_rows():
        found = fit("kull_beta", bring(pa.table({"f": p, "y": y})), kind="probability")
    np.testing.assert_allclose(found(p), quiet_fit("kull_beta", p, y, kind="probability")(p), rtol=1e-8)


def _applied(bring, fitted, scores):
    table = pa.table({"i": range(len(scores)), "f": pa.array(scores, pa.float64(), from_pandas=False)})
    home = come_home(engines.apply(fitted, bring(table), score="f", into="p"))
    return home.sort_by("i")["p"].to_pylist()


FAR = [-np.inf, -1e308, -40.0, -1.5, 0.0, 1e-300, 0.25, 2.0, 40.0, 1e308, np.inf]


def applies_a_sigmoid(bring):
    fitted = calibrant.maps.Sigmoid(-1.5, 0.25)
    scores = [x for x in FAR if abs(x) < 1e308]
    np.testing.assert_allclose(_applied(bring, fitted, scores), fitted(scores), atol=1e-12)


def applies_to_infinities(bring):
    fitted = calibrant.maps.Sigmoid(-1.0, 0.25)
    np.testing.assert_allclose(_applied(bring, fitted, FAR), fitted(FAR), atol=1e-12)


def applies_a_long_map(bring):
    scores, y = noisy_scores(3_000, seed=7)
    fitted = calibrant.fit("isotonic", scores, y, kind="margin")
    assert len(fitted.x) > 64
    np.testing.assert_allclose(
        _applied(bring, fitted, [*scores[:200], *FAR]), fitted([*scores[:200], *FAR]), atol=1e-12
    )


def applies_null_and_nan(bring):
    found = _applied(bring, calibrant.maps.Sigmoid(-1.0, 0.0), [0.0, None, float("nan")])
    assert found[:2] == [0.5, None]
    assert found[2] is None or np.isnan(found[2])  # NaN is NULL in pandas


def assesses(bring):
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = (rng.random(500) < p).astype(int)
    found = engines.assess(bring(pa.table({"p": p, "y": y})), probability="p", label="y", draws=10)
    expected = calibrant.assess(y, p, draws=10)
    for one, other in zip(found.measures, expected.measures, strict=True):
        if one.name in ("brier", "log_loss"):
            assert one.value == pytest.approx(other.value, rel=1e-9)


def summaries_add(bring):
    scores, y = noisy_scores(400, seed=8)
    whole = engines.summarise(bring(pa.table({"f": scores, "y": y})), score="f", label="y")
    parts = [
        engines.summarise(bring(pa.table({"f": scores[rows], "y": y[rows]})), score="f", label="y", like=whole)
        for rows in (slice(150), slice(150, None))
    ]
    one, other = engines.fit("platt", whole), engines.fit("platt", parts[0] + parts[1])
    assert other.a == pytest.approx(one.a, rel=1e-9)


def refuses_or_skips(column, values):
    def check(bring):
        given = FOUR | {column: values}
        native = bring(pa.table(given))
        with pytest.raises(ValueError, match=f"must not be missing; got 1 of '{column}' in 4 rows"):
            fit("gauss_tied", native, weight="w")
        with pytest.warns(UserWarning, match="1 of 4 rows have a missing value and are left out"):
            found = fit("gauss_tied", native, weight="w", missing="skip")
        rest = {name: values[1:] for name, values in given.items()}
        assert_gauss(found, rest, sample_weight=rest["w"])

    return check


def refuses(message, **changed):
    def check(bring):
        with pytest.raises(ValueError, match=message):
            fit("platt", bring(four(**changed)), weight="w")

    return check


def refuses_an_empty_table(bring):
    with pytest.raises(ValueError, match="table must have at least one row; got none"):
        fit("platt", bring(pa.table({"f": pa.array([], pa.float64()), "y": pa.array([], pa.int64())})))


def warns_of_one_class(bring):
    with pytest.warns(UserWarning, match="y holds one class only"):
        assert fit("platt", bring(four(y=[1, 1, 1, 1])))(0.0) == pytest.approx(5 / 6)


def takes_labels(labels, **keywords):
    def check(bring):
        found = fit("gauss_tied", bring(four(y=labels)), **keywords)
        assert_gauss(found, FOUR | {"y": labels}, **keywords)

    return check


def takes_dates(bring):
    days = [datetime.date(2026, 1, 1 + place) for place in (0, 1, 0, 1)]
    assert fit("gauss_tied", bring(four(y=days))).origin.positive == "2026-01-02"


def takes_scores(scores):
    def check(bring):
        found = fit("gauss_tied", bring(four(f=scores)))
        assert_gauss(found, FOUR | {"f": [float(score) for score in scores.to_pylist()]})

    return check


def groups_by_dates(bring):
    scores, y = noisy_scores(300, seed=9)
    days = [datetime.date(2026, 1, 1 + place % 3) for place in range(300)]
    table = pa.table({"i": range(300), "f": scores, "y": y, "day": pa.array(days, pa.date32())})

    def answer(native):
        fitted = fit("platt", native, by="day")
        return come_home(engines.apply(fitted, native, score="f", by="day", into="p")).sort_by("i")["p"].to_pylist()

    np.testing.assert_allclose(answer(bring(table)), answer(table), rtol=1e-8)


def takes_hostile_names(bring):
    scores, y = noisy_scores(60)
    native = bring(pa.table({HOSTILE: scores, "a.b`c": y}))
    found = fit("platt", native, score=HOSTILE, label="a.b`c")
    assert found.a == pytest.approx(quiet_fit("platt", scores, y).a, rel=1e-9)
    applied = come_home(engines.apply(found, native, score=HOSTILE, into='p"; --'))
    assert applied.column_names == [HOSTILE, "a.b`c", 'p"; --']


CASES = {
    "`platt` by cells is the fit in memory, to 1e-9": fits_platt,
    "`isotonic` by order is the fit in memory": fits_isotonic,
    "weights, some of them 0": fits_weights,
    "probabilities with 0 and 1, `kull_beta`": fits_probabilities,
    "apply a sigmoid, to 1e-12": applies_a_sigmoid,
    "apply to infinite scores and 1e308": applies_to_infinities,
    "apply an isotonic map of many corners": applies_a_long_map,
    "apply to NULL and NaN": applies_null_and_nan,
    "assess: Brier score and log loss": assesses,
    "summaries add": summaries_add,
    "NULL scores: refused, or skipped and counted": refuses_or_skips("f", [None, 0.5, 0.0, 1.0]),
    "NaN scores": refuses_or_skips("f", [float("nan"), 0.5, 0.0, 1.0]),
    "NULL labels": refuses_or_skips("y", [None, 1, 0, 1]),
    "NULL weights": refuses_or_skips("w", [None, 1.0, 2.0, 3.0]),
    "infinite scores: refused": refuses("score must be finite; got infinite values in 'f'", f=[np.inf, 0.5, 0.0, 1.0]),
    "three labels: refused": refuses("got 3 values: a, b, c", y=["a", "b", "c", "a"]),
    "all weights 0: refused": refuses("weight must not be zero in every row", w=[0.0] * 4),
    "an empty table: refused": refuses_an_empty_table,
    "one class: a constant and a warning": warns_of_one_class,
    "labels: integers": takes_labels([-1, 1, -1, 1]),
    "labels: booleans": takes_labels([False, True, False, True]),
    "labels: strings": takes_labels(["no", "yes", "no", "yes"], pos_label="no"),
    "labels: decimals": takes_labels([Decimal("0.5"), Decimal("1.0"), Decimal("0.0"), Decimal("1.0")]),
    "labels: dates": takes_dates,
    "scores: integers": takes_scores(pa.array([-1, 1, 0, 2], pa.int32())),
    "scores: booleans": takes_scores(pa.array([False, True, True, True])),
    "scores: decimals": takes_scores(
        pa.array([Decimal("-1.5"), Decimal("1.25"), Decimal("0.0"), Decimal("2.5")], pa.decimal128(10, 2))
    ),
    "groups by dates": groups_by_dates,
    'columns named `"; drop table --` and ``a.b`c``': takes_hostile_names,
}


def try_all():
    """Return the outcome of each case on each backend that can be had here."""
    found = {}
    with open_backends() as ways:
        for backend in NAMES:
            for name, check in CASES.items():
                if MISSING.get(backend):
                    found[backend, name] = "not run"
                    continue
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        check(ways(backend))
                    found[backend, name] = "yes"
                except Exception as error:  # noqa: BLE001 (whatever an engine raises is its answer)
                    print(backend, name, type(error).__name__, str(error)[:300], file=sys.stderr)  # noqa: T201
                    found[backend, name] = "**no**"
    return found


def write_page(found):
    """Return the page of outcomes."""
    versions = ", ".join(
        f"{name} {_version(name)}"
        for name in ("narwhals", "duckdb", "polars", "pandas", "pyarrow", "pyspark", "ibis-framework")
    )
    head = [
        "# What every engine answers",
        "",
        "The same tables, the same answers: `tests/engines/conformance.py` asks every kind of table the same questions",
        "and compares with the fit in memory. `make test` runs it on the engines that are installed;",
        "`make conformance` writes this page.",
        "",
        f"Versions: {versions}.",
        "Spark: a local session and a server of Spark Connect. Postgres: 15, through Ibis. Ibis on Spark is refused:",
        "its tests for missing and infinite values are wrong there; give the `DataFrame` of Spark itself.",
        "",
        "| | " + " | ".join(NAMES) + " |",
        "|---" * (1 + len(NAMES)) + "|",
    ]
    rows = [f"| {name} | " + " | ".join(found[backend, name] for backend in NAMES) + " |" for name in CASES]
    return "\n".join(head + rows) + "\n"


def _version(name):
    from importlib.metadata import PackageNotFoundError, version

    try:
        return re.sub(r"^(\d+\.\d+).*", r"\1", version(name))
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Ask every engine the same questions.")
    parser.add_argument("--write", action="store_true", help="write docs/conformance.md")
    asked = parser.parse_args()
    page = write_page(try_all())
    if asked.write:
        PAGE.write_text(page, encoding="utf-8")
    else:
        print(page)  # noqa: T201
