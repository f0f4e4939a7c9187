"""Maps of several classes are fitted to tables as to rows in memory."""

import errno
import os
import tempfile
import warnings
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import calibrant
from calibrant import engines
from calibrant.engines import classes, measuring, scratch
from tests.engines.backends import BACKENDS, come_home

KINDS = ["margin", "logit", "probability"]
NAMES = ["cat", "dog", "hare"]


def rows_of(n=600, k=3, kind="logit", seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (n, k))
    q = np.exp(1.3 * z)
    y = (q.cumsum(axis=1) / q.sum(axis=1, keepdims=True) < rng.random((n, 1))).sum(axis=1)
    if kind == "probability":
        z = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return (z * 50.0 if kind == "margin" else z), y


def table_of(scores, y, names=None):
    named = y if names is None else np.array(names)[y]
    columns = {f"p {c}": scores[:, c] for c in range(scores.shape[1])}
    return pa.table({**columns, "y": named, "w": np.linspace(0.5, 2.0, len(y))})


def columns_of(scores):
    return [f"p {c}" for c in range(scores.shape[1])]


@pytest.mark.parametrize("backend", BACKENDS)
def test_few_rows_are_fitted_in_memory(backend):
    scores, y = rows_of(kind="probability")
    native = BACKENDS[backend](table_of(scores, y, NAMES))
    options = {"score": columns_of(scores), "label": "y", "kind": "probability"}
    for method in ("platt", "temperature", "matrix"):
        found = engines.fit(method, native, **options)
        expected = calibrant.fit(method, scores, np.array(NAMES)[y], kind="probability")
        np.testing.assert_allclose(found(scores), expected(scores), rtol=1e-9)
        assert found.origin == expected.origin


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("most", [0, 10_000], ids=["by the engine", "at home"])
def test_losses_are_those_in_memory(monkeypatch, most, backend, weight):
    monkeypatch.setattr(measuring, "_MOST_NUMBERS", most)
    scores, y = rows_of(200, kind="margin")
    names, table = np.array(NAMES)[y], table_of(scores, y, NAMES)
    fitted = calibrant.fit("temperature", scores, names, kind="margin")
    asked = {"score": columns_of(scores), "label": "y", "classes": NAMES, "weight": weight}
    found = measuring.measure_classes(fitted, BACKENDS[backend](table), **asked)
    weights = None if weight is None else table["w"].to_numpy()
    for name in ("log_loss", "brier"):
        expected = getattr(calibrant.metrics, name)(names, fitted(scores), sample_weight=weights)
        assert getattr(found, name) == pytest.approx(expected, rel=1e-12)
    counts = np.bincount(y, weights, 3)
    assert list(found.weights) == NAMES
    np.testing.assert_allclose(list(found.weights.values()), counts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_one_temperature_of_all_rows(monkeypatch, kind, weighted, k):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 200)
    scores, y = rows_of(k=k, kind=kind)
    if kind == "probability":
        scores[:3] = np.eye(k)[y[:3]]  # zeros
        scores[3] = np.eye(k)[(y[3] + 1) % k]
    native = BACKENDS["duckdb"](table_of(scores, y))
    weight = np.linspace(0.5, 2.0, len(y)) if weighted else None
    found = engines.fit(
        "temperature", native, score=columns_of(scores), label="y", weight="w" if weighted else None, kind=kind
    )
    expected = calibrant.fit("temperature", scores, y, kind=kind, sample_weight=weight)
    np.testing.assert_allclose(found(scores), expected(scores), rtol=1e-7, atol=1e-12)
    assert found.origin.rows == len(y)
    assert found.origin.weight == pytest.approx(expected.origin.weight)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["platt", "isotonic", "temperature"])
def test_every_engine_fits_all_rows(monkeypatch, backend, method):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 300)
    scores, y = rows_of(seed=1, kind="probability")
    native = BACKENDS[backend](table_of(scores, y, NAMES))
    found = engines.fit(method, native, score=columns_of(scores), label="y", kind="probability")
    expected = calibrant.fit(method, scores, np.array(NAMES)[y], kind="probability")
    np.testing.assert_allclose(found(scores), expected(scores), rtol=1e-6, atol=1e-9)
    assert found.origin.classes == expected.origin.classes == tuple(NAMES)
    again = come_home(engines.apply(found, native, score=columns_of(scores), into="q"))
    assert {"q_cat", "q_dog", "q_hare"} <= set(again.column_names)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["platt", "kull_beta", "bins", "gauss"])
@pytest.mark.parametrize("k", [2, 4])
def test_each_class_against_the_rest(monkeypatch, kind, method, k):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 300)
    scores, y = rows_of(k=k, kind=kind, seed=2)
    found = engines.fit(method, table_of(scores, y), score=columns_of(scores), label="y", kind=kind, weight="w")
    expected = calibrant.fit(method, scores, y, kind=kind, sample_weight=np.linspace(0.5, 2.0, len(y)))
    np.testing.assert_allclose(found(scores), expected(scores), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["vector", "temperature_robust"])
def test_methods_that_need_little_memory_see_all_rows(monkeypatch, tmp_path, backend, method):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 300)
    monkeypatch.setattr(scratch, "_BATCH", 70)
    monkeypatch.setattr(scratch, "_PART", 130)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scores, y = rows_of(seed=3, kind="probability")
    native = BACKENDS[backend](table_of(scores, y, NAMES))
    found = engines.fit(method, native, score=columns_of(scores), label="y", weight="w", kind="probability")
    weight = np.linspace(0.5, 2.0, len(y))
    expected = calibrant.fit(method, scores, np.array(NAMES)[y], kind="probability", sample_weight=weight)
    np.testing.assert_allclose(found(scores), expected(scores), rtol=1e-9)
    assert found.origin == replace(expected.origin, weight=found.origin.weight)
    assert found.origin.weight == pytest.approx(expected.origin.weight)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["vector", "matrix", "dirichlet", "temperature_robust"])
@pytest.mark.parametrize("k", [2, 4])
def test_rows_in_a_file_are_rows_in_memory(monkeypatch, kind, method, k):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 300)
    scores, y = rows_of(k=k, kind=kind, seed=4)
    found = engines.fit(method, table_of(scores, y), score=columns_of(scores), label="y", kind=kind)
    expected = calibrant.fit(method, scores, y, kind=kind)
    np.testing.assert_allclose(found(scores), expected(scores), rtol=1e-9)


def test_no_room_for_a_file_is_an_error_that_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 300)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def refuse(file, start, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    scores, y = rows_of()
    with pytest.raises(
        OSError, match=r"no room for a temporary file of 0\.0 GB in .*: set TMPDIR to a folder that has"
    ):
        engines.fit("vector", table_of(scores, y), score=columns_of(scores), label="y", kind="logit")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", ["INSERT INTO rows SELECT * FROM rows LIMIT 5", "DELETE FROM rows WHERE y = 0"])
def test_a_table_that_changes_before_its_rows_come_home(monkeypatch, change):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 300)
    scores, y = rows_of()
    connection = duckdb.connect()
    connection.from_arrow(table_of(scores, y)).create("rows")
    read = classes.read_batches

    def change_and_read(*given):
        connection.execute(change)
        return read(*given)

    monkeypatch.setattr(classes, "read_batches", change_and_read)
    with pytest.raises(RuntimeError, match="the table changed while it was read: 600 rows at first"):
        engines.fit("vector", connection.table("rows"), score=columns_of(scores), label="y", kind="logit")


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_methods_see_a_sample(monkeypatch, backend):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 2_000)
    scores, y = rows_of(4_500, seed=3)
    native = BACKENDS[backend](table_of(scores, y))
    said = (
        "auto of several classes is fitted to a random sample of 2,000 of 4,500 rows: the standard errors .* 1.5 times"
    )
    with pytest.warns(UserWarning, match=said):
        found = engines.fit("auto", native, score=columns_of(scores), label="y", kind="logit")
    assert 1_800 <= found.origin.rows <= 2_200
    expected = calibrant.fit("auto", scores, y, kind="logit")
    assert np.abs(found(scores) - expected(scores)).max() < 0.1


def test_more_rows_than_files_may_hold_are_sampled(monkeypatch):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 300)
    monkeypatch.setattr(classes, "MOST_IN_FILES", 400)
    scores, y = rows_of()
    with pytest.warns(UserWarning, match="vector of several classes is fitted to a random sample of 300 of 600 rows"):
        found = engines.fit("vector", table_of(scores, y), score=columns_of(scores), label="y", kind="logit")
    assert found.origin.rows == 300


def test_separable_rows_have_no_best_temperature(monkeypatch):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 50)
    scores, _ = rows_of(120)
    table = table_of(scores, scores.argmax(axis=1))
    with pytest.warns(UserWarning, match="own class has the largest score|separ"):
        found = engines.fit("temperature", table, score=columns_of(scores), label="y", kind="logit")
    assert np.isfinite(found(scores)).all()


def test_scores_the_wrong_way_round(monkeypatch):
    monkeypatch.setattr(classes, "MOST_AT_HOME", 300)
    scores, y = rows_of(seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = engines.fit("temperature", table_of(-scores, y), score=columns_of(scores), label="y", kind="logit")
    np.testing.assert_allclose(found(scores), 1 / 3, atol=1e-6)


def test_classes_name_the_columns():
    scores, y = rows_of()
    table = table_of(scores, y, ["b", "c", "a"])
    options = {"label": "y", "kind": "logit", "classes": ["b", "c", "a"]}
    found = engines.fit("temperature", table, score=columns_of(scores), **options)
    assert found.origin.classes == ("b", "c", "a")
    expected = calibrant.fit("temperature", scores, y, kind="logit")
    np.testing.assert_allclose(found(scores), expected(scores), rtol=1e-9)


def test_wrong_columns_are_refused():
    scores, y = rows_of(50)
    table, names = table_of(scores, y), columns_of(scores)
    options = {"label": "y", "kind": "logit"}
    with pytest.raises(ValueError, match="score must name one column per class of 'y', 2 of them; got 0, 1, 2: give"):
        engines.fit("platt", table, score=names[:2], **options)
    with pytest.raises(ValueError, match="score must name two columns or more, all different"):
        engines.fit("platt", table, score=names[:1], **options)
    with pytest.raises(ValueError, match="pos_label is for one column of scores"):
        engines.fit("platt", table, score=names, pos_label=1, **options)
    with pytest.raises(ValueError, match="classes is for several columns of scores"):
        engines.fit("platt", table, score="p 0", classes=[0, 1], **options)
    with pytest.raises(ValueError, match="classes must name, 3 of them; got 2"):
        engines.fit("platt", table, score=names, classes=[0, 1, 7], **options)
    with pytest.raises(ValueError, match="or score must name several; got 'matrix'"):
        engines.fit("matrix", table, score="p 0", **options)
    with pytest.raises(ValueError, match="score declared as probabilities must lie in"):
        engines.fit("platt", table, score=names, label="y", kind="probability")
    gaps = table.append_column("gap", pa.array([None, *scores[1:, 0]]))
    with pytest.raises(ValueError, match="must not be missing; got 1 of 'gap' in 50 rows"):
        engines.fit("platt", gaps, score=["gap", *names[1:]], **options)
    with pytest.warns(UserWarning, match="1 of 50 rows have a missing value and are left out"):
        found = engines.fit("platt", gaps, score=["gap", *names[1:]], missing="skip", **options)
    assert found.origin.rows == 49
    far = table.append_column("far", pa.array([np.inf, *scores[1:, 0]]))
    with pytest.raises(ValueError, match="score must be finite; got infinite values in 'far'"):
        engines.fit("platt", far, score=["far", *names[1:]], **options)
