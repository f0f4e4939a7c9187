"""What every method of all classes at once promises; the methods are read from the table."""

import json

import duckdb
import numpy as np
import onnxruntime
import pytest

import calibrant
from calibrant.maps import METHODS
from calibrant.maps.class_records import TemperatureClasses
from calibrant.maps.classes import LogRows, MatrixMap, Plan, learn_floor, learn_scale, to_memberships
from calibrant.maps.lifting import fit_classes
from calibrant.maps.methods import list_methods
from calibrant.maps.records import Origin
from calibrant.maps.store import from_dict, to_dict
from calibrant.samples import ClassSample, class_sample

NAMES = [*list_methods("matrix"), *(name for name, row in METHODS.items() if row.joint is not None)]
CLASSES = ("a", "b", "c")


def rows(kind, n=240):
    """Return scores of three classes of a kind, and classes that follow them."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(3), n)
    index = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return (P if kind == "probability" else np.log(P)), index


@pytest.mark.parametrize("floor", [0.0, 1e-3])
def test_a_temperature_is_the_same_of_scores_that_the_door_has_checked_and_of_others(floor):
    P, index = rows("probability")
    P = np.where(P < 0.05, floor, P)
    P /= P.sum(axis=1, keepdims=True)
    P[7], index[7] = [1e-12, 1e-9, 1.0 - 1e-9 - 1e-12], 2  # the least of all counts nothing
    weight = np.where(np.arange(240) == 7, 0.0, 2.0)
    checked = class_sample(P, index, weight, kind="probability")
    others = [ClassSample(P, index, 3, "probability", weight, CLASSES), class_sample(P, index, kind="probability")]
    assert others[1].ends == (P.min(), P.max())
    assert checked.ends is None
    first = fit_classes(Plan("temperature"), "matrix", checked)
    assert first.clip == fit_classes(Plan("temperature"), "matrix", others[0]).clip
    assert first.inner == fit_classes(Plan("temperature"), "matrix", others[0]).inner
    unchecked = fit_classes(Plan("temperature"), "matrix", ClassSample(P, index, 3, "probability", None, CLASSES))
    known = fit_classes(Plan("temperature"), "matrix", others[1])
    assert known.clip == unchecked.clip
    assert known.inner.inverse == pytest.approx(unchecked.inner.inverse, rel=1e-9)


def fitted_to(name, scores, index, kind, weight=None):
    return fit_classes(Plan(name), "matrix", ClassSample(scores, index, 3, kind, weight, CLASSES))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("probability", lambda P: P),
        ("probability", lambda P: P.astype(np.float32)),
        ("probability", lambda P: np.where(P < 0.1, 0.0, P)),
        ("probability", lambda P: np.asfortranarray(0.2 * P)),
        ("probability", lambda P: np.minimum(1.0, P + 0.9)),
        ("logit", np.log),
        ("logit", lambda P: 1e300 * (P - 0.3)),
        ("margin", lambda P: (100.0 * P).astype(np.float32)),
    ],
)
def test_rows_of_logarithms_are_known_up_to_a_constant(kind, change):
    scores = change(rows("probability")[0])
    clip = learn_floor(scores) if kind == "probability" else 0.0
    scale = learn_scale(scores) if kind == "margin" else 1.0
    whole = to_memberships(scores, kind, "real", clip, scale)
    positive = bool(scores.min() >= 2.0 * clip and np.allclose(scores.sum(axis=1), 1.0))
    found = LogRows(scores, kind, clip, scale, positive=positive)
    assert (len(found), found.shape) == (240, (240, 3))
    for some in (slice(0, 7), slice(5, None, 9)):
        away = found[some] - whole[some]
        np.testing.assert_allclose(
            away, np.repeat(away[:, :1], 3, axis=1), rtol=1e-12, atol=1e-12 * np.abs(whole).max()
        )
        assert found[some].max(axis=1).min() >= -np.log(6.0)


@pytest.mark.parametrize("kind", ["probability", "logit", "margin"])
@pytest.mark.parametrize("name", NAMES)
class TestEveryMethodOfAMatrix:
    def test_rows_sum_to_one(self, name, kind):
        scores, index = rows(kind)
        P = fitted_to(name, scores, index, kind)(scores)
        assert P.shape == scores.shape
        assert P.min() >= 0
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)

    def test_weight_is_repetition(self, name, kind):
        scores, index = rows(kind)
        times = 1 + np.arange(len(index)) % 3
        weighted = fitted_to(name, scores, index, kind, times.astype(float))
        repeated = fitted_to(name, np.repeat(scores, times, axis=0), np.repeat(index, times), kind)
        np.testing.assert_allclose(weighted(scores), repeated(scores), atol=1e-6)

    def test_order_of_rows_does_not_matter(self, name, kind):
        scores, index = rows(kind)
        order = np.random.default_rng(0).permutation(len(index))
        one, other = fitted_to(name, scores, index, kind), fitted_to(name, scores[order], index[order], kind)
        np.testing.assert_allclose(one(scores), other(scores), atol=1e-6)

    def test_json_round_trip_is_exact(self, name, kind):
        scores, index = rows(kind)
        fitted = fitted_to(name, scores, index, kind)
        loaded = from_dict(json.loads(json.dumps(to_dict(fitted), allow_nan=False)))
        assert loaded == fitted
        assert isinstance(loaded, MatrixMap)
        np.testing.assert_array_equal(loaded(scores), fitted(scores))

    def test_sql_is_the_numpy_formula(self, name, kind):
        scores, index = rows(kind)
        fitted = fitted_to(name, scores, index, kind)
        try:
            expressions = calibrant.sql(fitted, list("uvw"))
        except ValueError as error:
            pytest.skip(str(error))
        with duckdb.connect() as connection:
            connection.execute("create table t (i integer, u double, v double, w double)")
            connection.executemany(
                "insert into t values (?, ?, ?, ?)", [[i, *row] for i, row in enumerate(scores[:40].tolist())]
            )
            found = connection.execute(f"select {', '.join(expressions)} from t order by i").fetchall()
        np.testing.assert_allclose(np.array(found), fitted(scores[:40]), atol=1e-9)

    def test_onnx_is_the_numpy_formula(self, name, kind):
        scores, index = rows(kind)
        fitted = fitted_to(name, scores, index, kind)
        for dtype, close in (("float64", 1e-12), ("float32", 1e-6)):
            given = scores.astype(dtype)
            model = calibrant.onnx(fitted, dtype=dtype).SerializeToString()
            session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
            [found] = session.run(None, {"scores": given})
            np.testing.assert_allclose(found, fitted(given), atol=close, rtol=0)

    def test_it_knows_what_it_was_fitted_on(self, name, kind):
        scores, index = rows(kind)
        fitted = fitted_to(name, scores, index, kind, np.full(len(index), 2.0))
        assert fitted.origin == Origin(name, kind, len(index), 2.0 * len(index), CLASSES)
        assert from_dict(to_dict(fitted)).origin == fitted.origin


SCALED = [name for name in NAMES if (METHODS[name].joint or METHODS[name]).invariant == "scale"]


@pytest.mark.parametrize("factor", [1e-200, 1e-5, 3.0, 1e6, 1e200])
@pytest.mark.parametrize("name", SCALED)
def test_the_scale_of_margins_does_not_matter(name, factor):
    scores, index = rows("margin")
    one, other = (fitted_to(name, each, index, "margin") for each in (scores, factor * scores))
    np.testing.assert_allclose(other(factor * scores), one(scores), atol=1e-6)
    assert calibrant.metrics.log_loss(index, one(scores)) < 0.9  # it is not that they say nothing


@pytest.mark.parametrize("name", SCALED)
def test_a_logit_has_a_unit(name):
    scores, index = rows("logit")
    assert fitted_to(name, scores, index, "logit").scale == 1.0


def test_a_row_of_extreme_margins_does_not_set_the_scale():
    scores, _ = rows("margin")
    far = scores.copy()
    far[0] *= 1e12
    assert learn_scale(far) == pytest.approx(learn_scale(scores), rel=0.05)


def test_the_scale_of_margins_is_that_of_a_typical_row():
    margins = np.array([[0.0, 8.0, 3.0], [5.0, 5.0, 1.0], [0.0, 0.0, 0.0]])
    assert learn_scale(margins) == 1.0
    assert learn_scale(margins, np.array([3.0, 1.0, 1.0])) == 0.5
    assert learn_scale(np.array([[2.0], [-4.0], [1e9]])) == 0.5  # one column f stands for -f and f
    assert learn_scale(np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 2.0]])) == 2.0  # most rows say nothing
    assert learn_scale(np.ones((3, 2))) == 1.0
    assert learn_scale(np.empty((0, 2))) == 1.0
    assert 0.0 < learn_scale(np.array([[-1e308, 1e308]])) < 1e-307
    assert np.isfinite(learn_scale(np.array([[0.0, 5e-324]])))


@pytest.mark.parametrize(("kind", "scale"), [("margin", 0.0), ("margin", np.inf), ("margin", np.nan), ("logit", 2.0)])
def test_a_scale_that_margins_cannot_have_is_refused(kind, scale):
    with pytest.raises(ValueError, match="scale must be positive for margins, else 1; got"):
        MatrixMap(kind, fitted_to("temperature", *rows("margin"), "margin").inner, domain="real", scale=scale)


def test_there_is_one():
    assert "beta" in NAMES
    assert "auto" in SCALED


def test_a_query_of_a_table_grows_with_the_classes_not_with_their_square():
    one, two = (
        calibrant.sql(
            MatrixMap("probability", TemperatureClasses(0.7), domain="real", clip=1e-9),
            [f"p{c}" for c in range(k)],
            table="scores",
            into=[f"q{c}" for c in range(k)],
        )
        for k in (20, 40)
    )
    assert len(two) < 2.2 * len(one)


@pytest.mark.parametrize("wrong", ["NULL", "'nan'::DOUBLE", "1.5"])
def test_a_query_of_a_table_gives_no_class_of_a_row_with_a_wrong_score(wrong):
    fitted = MatrixMap("probability", TemperatureClasses(0.7), domain="real", clip=1e-9)
    query = calibrant.sql(fitted, ["a", "b", "c"], table="scores", into=["q0", "q1", "q2"])
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE scores AS SELECT 0.2::DOUBLE AS a, ({wrong})::DOUBLE AS b, 0.3::DOUBLE AS c")
        engine.execute("INSERT INTO scores VALUES (0.2, 0.5, 0.3)")
        rows = engine.execute(f"SELECT q0, q1, q2 FROM ({query}) ORDER BY b = 0.5").fetchall()
    known = [row for row in rows if row[0] is not None and not np.isnan(row[0])]
    assert len(rows) == 2
    np.testing.assert_allclose(known, fitted(np.array([[0.2, 0.5, 0.3]])), rtol=1e-12)
