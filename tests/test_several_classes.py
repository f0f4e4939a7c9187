"""`calibrant.fit` and `Calibrator` of scores with one column per class: what they refuse, and what comes out."""

import sqlite3
import tracemalloc
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibrant
from calibrant import METHODS, CalibratedClassifier, Calibrator, compare_scores, engines
from calibrant.checks import ROUNDING, match_names
from calibrant.maps.classes import ClassMap, MatrixMap, TwoClassMap
from calibrant.maps.methods import list_methods
from calibrant.maps.store import from_dict, to_dict
from calibrant.samples import class_sample

KINDS = ("probability", "logit", "margin")
NAMES = np.array(["ape", "bee", "cat", "dog", "eel"])


def draw_rows(k=3, n=300, kind="probability", seed=0, sharpness=1.0):
    """Return scores of k classes, and classes that follow them."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * sharpness
    P = special.softmax(logits, axis=1)
    index = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return (P if kind == "probability" else logits), NAMES[:k][index] if k <= 5 else index


class TestWhatComesOut:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("k", [2, 3, 5])
    @pytest.mark.parametrize("name", list_methods("column", "matrix"))
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_every_method_gives_distributions(self, name, k, kind):
        scores, y = draw_rows(k, 120, kind)
        fitted = calibrant.fit(name, scores, y, kind=kind)
        P = fitted(scores)
        assert (P.shape, P.dtype) == (scores.shape, np.float64)
        assert P.min() >= 0
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-9)
        assert fitted.origin.classes == tuple(NAMES[:k])
        assert (fitted.origin.kind, fitted.origin.rows, fitted.origin.method) == (kind, 120, name)
        gap = scores.copy()
        gap[3, 1] = np.nan
        missing = np.isnan(fitted(gap))
        assert missing[3].all()
        assert missing.sum() == k
        loaded = from_dict(to_dict(fitted))
        assert loaded == fitted
        np.testing.assert_array_equal(loaded(scores), P)

    @pytest.mark.parametrize("name", ["platt", "isotonic", "kull_beta"])
    def test_a_method_of_one_column_is_fitted_to_each_class_against_the_rest(self, name):
        P, y = draw_rows()
        fitted = calibrant.fit(name, P, y, kind="probability")
        assert isinstance(fitted, ClassMap)
        single = [
            calibrant.fit(name, P[:, c], y == each, kind="probability")(P[:, c]) for c, each in enumerate(NAMES[:3])
        ]
        q = np.column_stack(single) ** fitted.power
        np.testing.assert_allclose(fitted(P), q / q.sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-12)

    def test_a_method_with_a_joint_row_is_fitted_to_all_columns(self):
        P, y = draw_rows()
        for name in [name for name, row in METHODS.items() if row.joint is not None or row.needs == "matrix"]:
            assert isinstance(calibrant.fit(name, P, y, kind="probability"), MatrixMap), name

    @pytest.mark.parametrize("name", ["platt", "auto", "isotonic", "bins", "beta"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_two_columns_are_the_binary_method(self, name, kind):
        scores, y = draw_rows(2, kind=kind)
        one = scores[:, 1] if kind == "probability" else scores[:, 1] - scores[:, 0]
        fitted, binary = calibrant.fit(name, scores, y, kind=kind), calibrant.fit(name, one, y, kind=kind)
        assert isinstance(fitted, TwoClassMap)
        np.testing.assert_allclose(fitted(scores)[:, 1], binary(one), rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(fitted(scores).sum(axis=1), 1.0, rtol=1e-12)
        if name == "auto":
            assert fitted.why == binary.why

    def test_the_first_of_two_classes_keeps_its_digits(self):
        fitted = calibrant.fit("platt", *draw_rows(2, kind="logit"), kind="logit")
        p = fitted([[0.0, 80.0]])[0]
        assert 0 < p[0] < 1e-20

    def test_one_column_of_an_array_is_a_column(self):
        P, y = draw_rows(2)
        assert calibrant.fit("platt", P[:, 1:], y, kind="probability") == calibrant.fit(
            "platt", P[:, 1], y, kind="probability"
        )

    @pytest.mark.parametrize("k", [2, 3])
    def test_the_order_of_columns_is_what_classes_says(self, k):
        P, y = draw_rows(k)
        order = np.roll(np.arange(k), 1)
        plain = calibrant.fit("beta", P, y, kind="probability")
        turned = calibrant.fit("beta", P[:, order], y, kind="probability", classes=NAMES[order])
        assert turned.origin.classes == tuple(NAMES[order])
        if k == 3:  # of two classes the second column is the positive one
            np.testing.assert_allclose(turned(P[:, order]), plain(P)[:, order], rtol=1e-9)

    @pytest.mark.parametrize("name", ["platt", "beta", "isotonic"])
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_a_class_without_rows(self, name):
        P, y = draw_rows(4)
        kept = y != "bee"
        fitted = calibrant.fit(name, P[kept], y[kept], kind="probability", classes=NAMES[:4])
        found = fitted(P)
        assert found.shape == P.shape
        assert np.isfinite(found).all()
        assert fitted.origin.classes == tuple(NAMES[:4])

    @pytest.mark.filterwarnings("ignore::UserWarning")  # some sigmoids fall
    def test_soft_labels_are_rows_repeated_by_their_probability(self):
        P, _ = draw_rows(3, 60)
        target = np.roll(P, 1, axis=0).round(1)
        target[:, 2] = 1.0 - target[:, :2].sum(axis=1)
        target = np.abs(target)
        rows, index = np.repeat(np.arange(60), 3), np.tile(np.arange(3), 60)
        weight = target.ravel()
        soft = calibrant.fit("platt", P, target, kind="probability", targets="hard")
        hard = calibrant.fit("platt", P[rows], index, kind="probability", sample_weight=weight, targets="hard")
        assert isinstance(soft, ClassMap)
        for one, other in zip(soft.maps, hard.maps, strict=True):
            np.testing.assert_allclose(one(P[:, 0]), other(P[:, 0]), rtol=1e-6)
        hot = calibrant.fit("isotonic", P, np.eye(3)[P.argmax(axis=1)], kind="probability")
        np.testing.assert_allclose(
            np.array([each(P[:, 0]) for each in hot.maps]),
            [each(P[:, 0]) for each in calibrant.fit("isotonic", P, P.argmax(axis=1), kind="probability").maps],
        )

    @pytest.mark.parametrize("method", ["platt", "isotonic", "beta", "temperature", "matrix", "auto"])
    @pytest.mark.parametrize("columns", [2, 3])
    def test_one_hot_rows_are_labels(self, method, columns):
        P, y = draw_rows(columns)
        names = NAMES[:columns]
        hot = (y[:, None] == names).astype(int)
        one, other = (calibrant.fit(method, P, each, kind="probability", classes=names) for each in (y, hot))
        np.testing.assert_array_equal(one(P), other(P))

    def test_a_table_of_soft_labels_names_the_classes(self):
        P, _ = draw_rows()
        target = pd.DataFrame(P, columns=NAMES[:3])
        fitted = calibrant.fit("platt", P, target, kind="probability")
        assert fitted.origin.classes == tuple(NAMES[:3])
        with pytest.raises(ValueError, match="columns must be in the order of the classes, ape, bee, cat; got cat"):
            calibrant.fit("platt", pd.DataFrame(P, columns=NAMES[2::-1]), target, kind="probability")
        with pytest.raises(ValueError, match="columns must be in the order of the classes, cat, bee, ape; got ape"):
            calibrant.fit("platt", P, target, kind="probability", classes=NAMES[2::-1])

    @pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
    @pytest.mark.parametrize("name", ["platt", "isotonic", "beta", "auto"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_two_columns_in_sql(self, kind, name, dialect):
        scores, y = draw_rows(2, 80, kind)
        fitted = calibrant.fit(name, scores, y, kind=kind)
        rows = np.vstack([scores, [[np.nan, 0.5], [0.5, np.nan]]])
        connection = duckdb.connect() if dialect == "duckdb" else sqlite3.connect(":memory:")
        connection.execute("create table t (i integer, u double, v double)")
        connection.executemany("insert into t values (?, ?, ?)", [[i, *row] for i, row in enumerate(rows.tolist())])
        texts = calibrant.sql(fitted, ["u", "v"], dialect)
        found = np.array(connection.execute(f"select {', '.join(texts)} from t order by i").fetchall(), float)
        connection.close()
        np.testing.assert_allclose(found, fitted(rows), atol=1e-9)

    @pytest.mark.parametrize("name", ["platt", "isotonic", *(n for n, row in METHODS.items() if row.joint is not None)])
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_few_rows_and_columns_that_say_nothing(self, name):
        P, y = draw_rows(5, 60)
        few = calibrant.fit(name, P[:3], y[:3], kind="probability", classes=NAMES)
        assert np.isfinite(few(P)).all()
        constant = np.column_stack([np.full(60, 0.25), 0.75 * P[:, :4] / P[:, :4].sum(axis=1, keepdims=True)])
        fitted = calibrant.fit(name, constant, y, kind="probability")
        np.testing.assert_allclose(fitted(constant).sum(axis=1), 1.0, rtol=1e-9)
        same = np.full((60, 5), 0.2)
        shares = calibrant.fit(name, same, y, kind="probability")(same)
        np.testing.assert_allclose(shares, shares[:1].repeat(60, axis=0))

    @pytest.mark.parametrize("name", ["platt", "beta"])
    @pytest.mark.parametrize("k", [2, 3])
    def test_one_class_only_is_said(self, name, k):
        P, _ = draw_rows(k)
        with pytest.warns(UserWarning, match="one class only"):
            fitted = calibrant.fit(name, P, ["ape"] * len(P), kind="probability", classes=NAMES[:k])
        assert np.isfinite(fitted(P)).all()

    def test_soft_labels_find_the_truth(self):
        logits, _ = draw_rows(3, 500, "logit")
        truth = special.softmax(0.5 * logits, axis=1)
        two = calibrant.fit(
            "platt", logits[:, :2], special.softmax(0.5 * logits[:, :2], axis=1), kind="logit", targets="hard"
        )
        np.testing.assert_allclose(
            two(logits[:, :2])[:, 1], special.expit(0.5 * (logits[:, 1] - logits[:, 0])), atol=1e-3
        )
        P = special.softmax(logits, axis=1)
        fitted = calibrant.fit("platt", P, truth, kind="probability")
        assert np.abs(fitted(P) - truth).mean() < 0.5 * np.abs(P - truth).mean()

    def test_weights_are_repetitions_and_zeros_are_absent(self):
        P, y = draw_rows(3, 90)
        times = np.arange(90) % 3
        weighted = calibrant.fit("platt", P, y, kind="probability", sample_weight=times)
        repeated = calibrant.fit("platt", np.repeat(P, times, axis=0), np.repeat(y, times), kind="probability")
        np.testing.assert_allclose(weighted(P), repeated(P), atol=1e-9)
        assert weighted.origin.rows == np.count_nonzero(times)


class Tensor:
    """What a tensor of another library offers: its memory, by `__array__`."""

    def __init__(self, values, error=None):
        self.values, self.error = values, error

    @property
    def shape(self):
        return self.values.shape

    def __array__(self, dtype=None, copy=None):
        if self.error is not None:
            raise self.error
        return self.values


class Capsule:
    """An array that offers its memory by DLPack alone."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class TestContainers:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("wrap", [np.asarray, Tensor, Capsule, lambda P: pd.DataFrame(P, copy=False)])
    def test_memory_is_shared(self, wrap, dtype):
        P, y = draw_rows()
        values = P.astype(dtype)
        data = class_sample(wrap(values), y, kind="probability")
        assert data.scores.dtype == dtype
        assert np.shares_memory(data.scores, values)

    @pytest.mark.parametrize(
        "wrap",
        [
            Tensor,
            Capsule,
            pd.DataFrame,
            pl.DataFrame,
            lambda P: P.tolist(),
            np.asfortranarray,
            lambda P: P.astype(np.float32),
            lambda P: pd.DataFrame(P).astype("Float64"),
            lambda P: P.astype(object),
            lambda P: np.ma.masked_array(P, np.zeros(P.shape, bool)),
        ],
    )
    def test_all_give_the_same_map(self, wrap):
        P, y = draw_rows()
        fitted = calibrant.fit("platt", wrap(P), y, kind="probability")
        np.testing.assert_allclose(fitted(P), calibrant.fit("platt", P, y, kind="probability")(P), atol=1e-5)
        given = P if wrap is Capsule else wrap(P)  # maps take what NumPy converts by itself
        np.testing.assert_allclose(fitted(given), fitted(P), atol=1e-5)

    def test_half_precision_may_sum_to_one_less_exactly(self):
        P, y = draw_rows(5)
        half = P.astype(np.float16)
        assert np.abs(half.astype(float).sum(axis=1) - 1).max() > ROUNDING
        np.testing.assert_allclose(
            calibrant.fit("platt", half, y, kind="probability")(P),
            calibrant.fit("platt", P, y, kind="probability")(P),
            atol=0.01,
        )

    @pytest.mark.parametrize("container", [list, pd.Series, pl.Series, np.array, lambda y: pd.Categorical(y)])
    def test_labels(self, container):
        P, y = draw_rows()
        found = calibrant.fit("platt", P, container(y), kind="probability")
        assert found == calibrant.fit("platt", P, y, kind="probability")

    @pytest.mark.parametrize("labels", [[3, 5, 9], [-1.0, 0.0, 2.0], ["b", "c", "a"], [10, 9, 100]])
    def test_classes_are_sorted(self, labels):
        P, y = draw_rows()
        named = np.array(labels)[np.searchsorted(NAMES, y)]
        order = np.argsort(labels)
        fitted = calibrant.fit("platt", P[:, order], named, kind="probability")
        assert fitted.origin.classes == tuple(sorted(labels))

    @pytest.mark.parametrize("decimals", [2, 3, 4, 6])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_rows_of_a_file_with_few_decimals_are_divided_by_their_sums(self, decimals, dtype):
        P, y = draw_rows()
        rounded = P.round(decimals).astype(dtype)
        normalised = rounded / rounded.sum(axis=1, dtype=np.float64, keepdims=True)
        fitted, wanted = (calibrant.fit("matrix", each, y, kind="probability") for each in (rounded, normalised))
        np.testing.assert_allclose(fitted(P), wanted(P), rtol=1e-6)
        np.testing.assert_allclose(
            calibrant.metrics.log_loss(y, rounded), calibrant.metrics.log_loss(y, normalised), rtol=1e-6
        )
        told = [calibrant.assess(y, each)["log_loss"].value for each in (rounded, normalised)]
        assert told[0] == pytest.approx(told[1], rel=1e-6)

    def test_few_decimals_excuse_no_more_than_rounding(self):
        P, y = draw_rows()
        P = P.round(2)
        P[7] += [0.03, 0.0, 0.0]
        P[7, 0] = min(P[7, 0], 1.0)
        P[8] = [0.2, 0.3, 0.4]
        for check in (lambda: calibrant.fit("platt", P, y, kind="probability"), lambda: calibrant.metrics.ece(y, P)):
            with pytest.raises(ValueError, match=r"sum to 1; .*row (7|8)"):
                check()

    def test_rows_off_the_simplex_by_rounding_are_normalised(self):
        P, y = draw_rows()
        off = P * (1 + 5e-6 * np.sin(np.arange(len(P))))[:, None]
        one, other = (calibrant.fit("beta", each, y, kind="probability") for each in (P, off))
        np.testing.assert_allclose(one(P), other(P), atol=1e-4)
        np.testing.assert_allclose(other(off).sum(axis=1), 1.0, rtol=1e-12)


class TestNamesOfColumns:
    @pytest.mark.parametrize("make", [pd.DataFrame, lambda P, columns: pl.DataFrame(P, schema=columns)])
    @pytest.mark.parametrize("pattern", ["{}", "p_{}", "{}_2026", "score of {} (new)"])
    def test_in_order_they_are_fine_and_in_another_an_error(self, make, pattern):
        P, y = draw_rows()
        names = [pattern.format(name) for name in NAMES[:3]]
        fitted = calibrant.fit("platt", make(P, columns=names), y, kind="probability")
        turned = make(P[:, ::-1], columns=names[::-1])
        wanted = r"columns must be in the order of the classes, \w+, \w+, cat; got .*: put them in that order"
        plain = make(P, columns=names)
        for way, wrong in (
            (", or say theirs by classes", lambda: calibrant.fit("platt", turned, y, kind="probability")),
            (
                ", or say theirs by classes",
                lambda: calibrant.fit("platt", plain, y, kind="probability", classes=NAMES[[1, 0, 2]]),
            ),
            ("", lambda: fitted(turned)),
            ("", lambda: Calibrator(kind="probability").fit(P, y).predict_proba(turned)),
            (", or say theirs by labels", lambda: calibrant.assess(y, turned, draws=9)),
            (", or say theirs by labels", lambda: calibrant.metrics.log_loss(y, turned)),
            (", or say theirs by labels", lambda: calibrant.metrics.log_loss(y, plain, labels=NAMES[[1, 0, 2]])),
        ):
            with pytest.raises(ValueError, match=f"{wanted}{way}$"):
                wrong()
        loss = calibrant.metrics.log_loss(y, plain)
        np.testing.assert_allclose(calibrant.metrics.log_loss(y, turned, labels=NAMES[2::-1]), loss, rtol=1e-12)
        again = calibrant.fit("platt", turned, y, kind="probability", classes=NAMES[2::-1])
        np.testing.assert_allclose(again(turned), fitted(P)[:, ::-1], rtol=1e-9)

    def test_a_list_of_names_in_another_order_is_an_error_too(self):
        P, y = draw_rows()
        names = [f"p_{name}" for name in NAMES[:3]]
        table = pd.DataFrame(P, columns=names).assign(y=y)
        fitted = calibrant.fit("platt", P, y, kind="probability")
        turned = names[::-1]
        for argument, way, wrong in (
            ("column", "", lambda: calibrant.sql(fitted, turned)),
            ("column", "", lambda: calibrant.sql(fitted, turned, table="t")),
            ("score", "", lambda: engines.apply(fitted, table, score=turned)),
            (
                "score",
                ", or say theirs by classes",
                lambda: engines.fit("platt", table, score=turned, label="y", kind="probability"),
            ),
            (
                "probability",
                ", or say theirs by classes",
                lambda: engines.assess(table, probability=turned, label="y", draws=9),
            ),
        ):
            wanted = rf"^{argument} must be in the order of the classes, .*; got .*: put them in that order{way}$"
            with pytest.raises(ValueError, match=wanted):
                wrong()
        again = engines.fit("platt", table, score=turned, label="y", kind="probability", classes=NAMES[2::-1])
        p = engines.apply(again, table, score=turned)[[f"probability_{name}" for name in NAMES[:3]]]
        np.testing.assert_allclose(p, fitted(P), rtol=1e-9)

    @pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
    def test_names_that_nobody_gave_say_nothing(self, make):
        P, y = draw_rows()
        numbers = np.searchsorted(NAMES, y)
        assert calibrant.fit("platt", make(P[:, ::-1]), numbers, kind="probability", classes=[2, 1, 0]) is not None

    def test_names_of_something_else_say_nothing(self):
        P, y = draw_rows()
        table = pd.DataFrame(P, columns=["x", "y", "z"])
        assert calibrant.fit("platt", table, y, kind="probability").origin.classes == tuple(NAMES[:3])

    @given(st.permutations(["1", "11", "111", "21"]), st.text("1a_", max_size=3), st.text("1b_", max_size=3))
    def test_the_class_of_a_name_is_found(self, order, prefix, suffix):
        names = [f"{prefix}{each}{suffix}" for each in order]
        assert match_names(names, sorted(order)) == list(order)


P3, Y3 = draw_rows()


def changed(value, row=7, column=1):
    P = P3.copy()
    P[row, column] = value
    return P


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((2 * P3, Y3), {}, r"must lie in \[0, 1\] where they are probabilities; got \d+ outside, the first in row"),
        ((0.9 * P3, Y3), {}, r"rows that sum to 1; got 300 that do not, the first is row 0, .* divide each row"),
        ((changed(-0.25), Y3), {}, r"got 1 outside, the first in row 7, column 1 \(-0.25\)"),
        ((changed(np.nan), Y3), {}, r"finite; got 1 NaN or infinite value\(s\), the first in row 7, column 1 \(nan\)"),
        ((changed(np.inf), Y3), {}, r"must be finite; got 1 NaN"),
        ((P3 * 1j, Y3), {}, "scores must be real numbers; Complex data not supported"),
        ((P3.astype(str).astype(object), Y3), {}, "scores must be real numbers; got '0"),
        ((np.ma.masked_less(P3, 0.5), Y3), {}, "scores must not be masked"),
        ((P3[:0], Y3[:0]), {}, "one row per object and one column per class; got an array of shape"),
        ((P3[:, :, None], Y3), {}, "scores must be one-dimensional; got an array of shape"),
        ((P3[:, :1], Y3), {}, "y must hold two classes, .* got 3 values: .*; for several classes give one column"),
        ((P3, Y3[:-1]), {}, "y must have one value per row; .* 299 for 300 rows"),
        ((P3, np.where(Y3 == "ape", "bee", Y3)), {}, "3 columns, and y holds 2 class.*'bee', 'cat': give classes"),
        ((P3[:, :2] / P3[:, :2].sum(axis=1, keepdims=True), Y3), {}, "3 class.*: give the columns of all of them"),
        ((P3, Y3), {"classes": ["ape", "bee"]}, "classes must name one class per column of scores, 3; got 2: 'ape'"),
        ((P3, Y3), {"classes": ["ape", "bee", "cow"]}, "'cat', the first of .* classes has 'ape', 'bee', 'cow'"),
        ((P3, Y3), {"classes": [0, 1, 2]}, "y must hold only the classes in classes; got '"),
        ((P3, Y3), {"classes": ["ape", "ape", "cat"]}, "classes must be a list of classes that are all different"),
        ((P3, Y3), {"classes": "abc"}, "classes must be a list of classes in the order of the columns; got 'abc'"),
        ((P3, Y3), {"classes": {"ape", "bee", "cat"}}, "classes must be a list of classes in the order of the columns"),
        ((P3, Y3), {"classes": ["ape", None, "cat"]}, "classes must hold no missing label"),
        ((P3, Y3), {"classes": ["ape", 1, "cat"]}, "y must hold only the classes in classes; got 'bee'"),
        ((P3, Y3), {"classes": 3}, "classes must be one-dimensional"),
        ((P3, np.where(Y3 == "ape", None, Y3)), {}, "y must hold no missing label"),
        ((P3, [*Y3[:-1], 3]), {}, "y holds 4 class"),
        ((P3, np.array([*Y3[:-1], 3], object)), {}, "y must hold labels of one type; got int, str"),
        ((P3, Y3), {"pos_label": "ape"}, "pos_label is for one column of scores; .* give classes"),
        ((P3[:, 0], Y3 == "ape"), {"classes": [0, 1]}, "classes is for scores with one column per class; .* pos_label"),
        ((Y3, P3), {}, "scores must be real numbers; got"),
        ((P3[:, 0], P3), {}, r"one label per row beside one column of scores; got shape \(300, 3\): give scores"),
        ((P3, P3[:, :2]), {}, "as many columns as scores, 3; got 2"),
        ((P3, P3 * 2), {}, "y must hold rows of non-negative numbers that sum to 1"),
        ((P3, P3[:-1]), {}, "y must have one value per row"),
        ((P3, Y3), {"sample_weight": np.ones(3)}, "sample_weight must have one value per row"),
        ((P3, Y3), {"sample_weight": -np.ones(300)}, "sample_weight must not be negative"),
        ((P3, Y3), {"sample_weight": np.zeros(300)}, "sample_weight must not all be zero"),
        ((P3, Y3), {"kind": "odds"}, "kind must be one of margin, probability, logit; got 'odds'"),
        ((P3, Y3), {"method": "moderated"}, "got 'moderated', which needs the support vectors of an SVC: use"),
        ((P3, Y3), {"method": "nonsense"}, "method must be one of .*platt.*; got 'nonsense'"),
        ((P3, Y3), {"k": 3}, "method 'platt' has no option 'k'; it has "),
        ((P3, Y3), {"method": "beta", "as_printed": True}, "'beta on all classes at once' has no option 'as_printed'"),
        ((Tensor(P3, TypeError("can't convert cuda:0 tensor to numpy")), Y3), {}, "scores must convert .* cuda:0"),
        ((Tensor(P3, RuntimeError("Tensor that requires grad")), Y3), {}, "scores must convert .* grad"),
        ((Tensor(P3, TypeError("Got unsupported ScalarType BFloat16")), Y3), {}, r"scores must convert .*float\(\)"),
    ],
)  # fmt: skip
def test_bad_input_is_named(arguments, options, sentence):
    method, options = options.get("method", "platt"), {"kind": "probability", **options}
    options.pop("method", None)
    with pytest.raises(ValueError, match=sentence) as caught:
        calibrant.fit(method, *arguments, **options)
    assert len(str(caught.value)) < 700


def test_a_warning_asks_what_scores_in_the_unit_interval_are():
    with pytest.warns(UserWarning, match="give kind='probability' if they are probabilities"):
        calibrant.fit("platt", P3, Y3)
    with pytest.warns(UserWarning, match="give kind='probability' if they are probabilities"):
        Calibrator().fit(P3, Y3)


matrices = hnp.arrays(
    st.sampled_from([np.float64, np.float32]),
    st.tuples(st.integers(1, 12), st.integers(2, 5)),
    elements=st.one_of(
        st.floats(-1, 2, width=32), st.sampled_from([0.0, 0.5, 1.0, np.nan, np.inf, -np.inf, 1e-30, 1e30, -1e-6, 1e-7])
    ),
)


@pytest.mark.parametrize("name", ["platt", "isotonic", "beta"])
@given(P=matrices, seed=st.integers(0, 99), normal=st.booleans(), kind=st.sampled_from(KINDS))
@settings(max_examples=60, deadline=None)
def test_any_matrix_is_refused_in_a_sentence_or_mapped_to_distributions(name, P, seed, normal, kind):
    n, k = P.shape
    if normal:
        with np.errstate(all="ignore"):
            P = np.abs(P) / np.abs(P).sum(axis=1, keepdims=True)
    y = np.random.default_rng(seed).integers(0, k, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted, sentence = None, ""
        try:
            fitted = calibrant.fit(name, P, y, kind=kind, classes=range(k))
        except ValueError as error:
            sentence = str(error)
    wide = P.astype(float)
    with np.errstate(all="ignore"):
        off = (wide < 0).any() or np.abs(wide.sum(axis=1) - 1).max() > 0.9 * ROUNDING
    if fitted is None:
        assert sentence.startswith("scores ")
        assert not np.isfinite(wide).all() or (kind == "probability" and off)
        return
    found = fitted(P)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)


def test_many_classes_take_little_memory():
    rng = np.random.default_rng(0)
    P = special.softmax(rng.normal(size=(1000, 1000)), axis=1)
    y = rng.integers(0, 1000, 1000)
    tracemalloc.start()
    data = class_sample(P, y, kind="probability", classes=range(1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.shares_memory(data.scores, P)
    assert peak < 0.5 * P.nbytes


class TestCalibrator:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("k", [2, 3])
    @pytest.mark.parametrize("name", ["platt", "beta", "isotonic"])
    def test_it_is_the_map(self, name, k, kind):
        scores, y = draw_rows(k, kind=kind)
        model = Calibrator(name, kind=kind).fit(scores, y)
        assert model.map_ == calibrant.fit(name, scores, y, kind=kind)
        assert model.classes_.tolist() == NAMES[:k].tolist()
        assert model.n_features_in_ == k
        P = model.predict_proba(scores)
        np.testing.assert_array_equal(P, model.map_(scores))
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(model.predict_log_proba(scores), np.log(P), atol=1e-12)
        best = (P[:, 1] >= 0.5).astype(int) if k == 2 else P.argmax(axis=1)
        np.testing.assert_array_equal(model.predict(scores), model.classes_[best])
        assert model.score(scores, y) > 1 / k

    def test_classes_are_sorted_whatever_the_order_of_columns(self):
        P, y = draw_rows()
        model = Calibrator("beta", kind="probability", classes=["cat", "ape", "bee"]).fit(P[:, [2, 0, 1]], y)
        plain = Calibrator("beta", kind="probability").fit(P, y)
        assert model.classes_.tolist() == plain.classes_.tolist()
        assert model.map_.origin.classes == ("cat", "ape", "bee")
        np.testing.assert_allclose(model.predict_proba(P[:, [2, 0, 1]]), plain.predict_proba(P), rtol=1e-9)
        np.testing.assert_allclose(model.predict_log_proba(P[:, [2, 0, 1]]), plain.predict_log_proba(P), rtol=1e-9)
        np.testing.assert_array_equal(model.predict(P[:, [2, 0, 1]]), plain.predict(P))

    def test_a_class_without_rows_has_a_column(self):
        P, y = draw_rows(4)
        kept = y != "bee"
        model = Calibrator("beta", kind="probability", classes=NAMES[:4])
        with pytest.warns(UserWarning, match="no row is assigned|class"):
            model.fit(P[kept & (P.argmax(axis=1) != 1)], y[kept & (P.argmax(axis=1) != 1)])
        assert model.predict_proba(P).shape == (len(P), 4)

    def test_missing_and_infinite_scores(self):
        logits, y = draw_rows(kind="logit")
        model = Calibrator("platt", kind="logit").fit(logits, y)
        P = model.predict_proba([[np.nan, 0.0, 1.0], [np.inf, 0.0, 0.0], [-np.inf, 0.0, 0.0]])
        assert np.isnan(P[0]).all()
        assert P[1].argmax() == 0
        assert P[2, 0] < 1e-9
        p, y = draw_rows()
        gap = np.vstack([p[:2], [[np.nan, 0.5, 0.5]]])
        assert np.isnan(Calibrator(kind="probability").fit(p, y).predict_proba(gap)).sum() == 3

    @pytest.mark.parametrize(
        ("given", "sentence"),
        [
            (P3[:, :2], "scores must have 3 columns, one per class; got an array of shape"),
            (P3[:, 0], "scores must have 3 columns, one per class; got an array of shape"),
            (2 * P3, r"scores must lie in \[0, 1\]"),
            (0.5 * P3, "rows that sum to 1; got 300"),
        ],
    )
    def test_prediction_takes_what_it_was_fitted_on(self, given, sentence):
        model = Calibrator(kind="probability").fit(P3, Y3)
        with pytest.raises(ValueError, match=sentence):
            model.predict_proba(given)
        with pytest.raises(ValueError, match="kind must be 'probability', the kind of scores"):
            model.set_params(kind="logit").predict_proba(P3)

    def test_names_of_columns_are_remembered(self):
        table = pd.DataFrame(P3, columns=["u", "v", "w"])
        model = Calibrator(kind="probability").fit(table, Y3)
        assert model.feature_names_in_.tolist() == ["u", "v", "w"]
        with pytest.raises(ValueError, match="feature names"):
            model.predict_proba(table[["w", "v", "u"]])


MATRIX_METHODS = [name for name, row in METHODS.items() if row.joint is not None or row.needs == "matrix"]
IRIS = load_iris(return_X_y=True)
FEW = np.arange(0, 150, 3)  # enough for leave-one-out


class Silent(ClassifierMixin, BaseEstimator):
    """A classifier that gives classes and no scores, or one column of scores too few."""

    def __init__(self, columns=0):
        self.columns = columns

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class Terse(Silent):
    def decision_function(self, X):
        return np.zeros((len(X), len(self.classes_) - 1))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
class TestCalibratedClassifier:
    @pytest.mark.parametrize("kind", ["auto", "probability", "logit"])
    @pytest.mark.parametrize("protocol", ["cv", "holdout", "ensemble", "train", "prefit", "loo"])
    @pytest.mark.parametrize("name", MATRIX_METHODS)
    def test_every_protocol_fits_every_method_of_a_matrix(self, name, protocol, kind):
        X, y = IRIS
        rows = FEW if protocol == "loo" else np.arange(150)
        machine = LogisticRegression(C=0.1)
        machine = machine.fit(X, y) if protocol == "prefit" else machine
        model = CalibratedClassifier(machine, name, protocol=protocol, kind=kind, multiclass="matrix")
        P = model.fit(X[rows], NAMES[y[rows]] if protocol != "prefit" else y[rows]).predict_proba(X)
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-9)
        assert (P.argmax(axis=1) == y).mean() > 0.8
        for _, fitted in model.calibrated_:
            assert isinstance(fitted, MatrixMap)
            assert fitted.origin.kind == {"auto": "margin"}.get(kind, kind)
            assert from_dict(to_dict(fitted)) == fitted

    @pytest.mark.parametrize("name", MATRIX_METHODS)
    def test_it_is_the_map_of_the_calibration_scores(self, name):
        X, y = IRIS
        machine = GaussianNB().fit(X[::2], y[::2])
        model = CalibratedClassifier(machine, name, protocol="prefit", multiclass="matrix").fit(X[1::2], y[1::2])
        direct = calibrant.fit(name, machine.predict_proba(X[1::2]), y[1::2], kind="probability")
        assert model.calibrated_[0][1] == direct
        np.testing.assert_array_equal(model.predict_proba(X), direct(machine.predict_proba(X)))

    @pytest.mark.parametrize("machine", [SVC(), make_pipeline(StandardScaler(), SVC(kernel="linear"))])
    def test_a_support_vector_machine_gives_one_score_per_class(self, machine):
        X, y = IRIS
        model = CalibratedClassifier(machine, MATRIX_METHODS[0], multiclass="matrix").fit(X, y)
        assert model.predict_proba(X).shape == (150, 3)

    @pytest.mark.parametrize(
        ("machine", "sentence"),
        [
            (Silent(), "kind='auto' needs an estimator with decision_function or predict_proba; Silent has none"),
            (Terse(), "the estimator must give 3 columns of scores for 3 classes; got 2"),
        ],
    )
    def test_a_machine_without_scores_of_each_class_is_named(self, machine, sentence):
        with pytest.raises(ValueError, match=sentence):
            CalibratedClassifier(machine, MATRIX_METHODS[0], multiclass="matrix").fit(*IRIS)

    def test_two_classes_have_the_method_of_one_column(self):
        X, y = IRIS
        two = y > 0
        one, other = (
            CalibratedClassifier(LogisticRegression(), "auto", multiclass=multiclass).fit(X[two], y[two])
            for multiclass in ("matrix", "auto")
        )
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


class TestComparison:
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_columns_of_two_classes_are_one_column(self, kind):
        scores, y = draw_rows(2, 90, kind)
        one = scores[:, 1] if kind == "probability" else scores[:, 1] - scores[:, 0]
        found = [compare_scores(each, y, kind=kind, methods=["platt", "bins"], cv=3) for each in (scores, one)]
        pd.testing.assert_frame_equal(found[0].means, found[1].means, rtol=1e-9)

    def test_a_method_is_fitted_as_fit_does_it(self):
        P, y = draw_rows(3, 90)
        folds = [(np.arange(30, 90), np.arange(30))]
        names = ["platt", "isotonic", *MATRIX_METHODS]
        found = compare_scores(P, y, kind="probability", methods=names, cv=folds)
        assert {name for _, _, name in found.predictions} == {"raw", *names}  # forecasts as they are take part always
        for (_, _, name), kept in found.predictions.items():
            if name == "raw":
                np.testing.assert_allclose(kept.p, P[kept.rows])
                continue
            fitted = calibrant.fit(name, P[30:], y[30:], kind="probability")
            np.testing.assert_allclose(kept.p, fitted(P[kept.rows]), rtol=1e-9)

    def test_classes_say_the_order_of_columns(self):
        P, y = draw_rows(3, 90)
        options = {"kind": "probability", "methods": ["platt", "raw"], "cv": 3}
        plain = compare_scores(P, y, **options).means
        turned = compare_scores(P[:, [2, 0, 1]], y, classes=["cat", "ape", "bee"], **options).means
        pd.testing.assert_frame_equal(plain, turned, rtol=1e-9)
        with pytest.raises(ValueError, match="columns must be in the order of the classes, ape, bee, cat"):
            compare_scores(pd.DataFrame(P[:, [2, 0, 1]], columns=["cat", "ape", "bee"]), y, **options)
