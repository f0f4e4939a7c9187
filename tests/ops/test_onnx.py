"""The same formula in ONNX, executed by onnxruntime."""

import json
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

import calibrant
from calibrant.checks import KINDS
from calibrant.maps import Clip, Lines, Linked, Sigmoid, Steps, probabilities
from calibrant.maps.classes import ClassMap, MatrixMap, Plan, TwoClassMap
from calibrant.maps.coupling import pairs
from calibrant.maps.exporting import count_columns
from calibrant.maps.lifting import fit_classes
from calibrant.maps.methods import list_methods
from calibrant.maps.records import BetaCdf, BetaClasses, BetaPiece, Origin, Parzen, QuadraticLogit
from calibrant.maps.store import from_dict
from calibrant.ops import NUMPY
from calibrant.ops.onnx import ONNX, Graph
from calibrant.samples import ClassSample
from tests.conftest import noisy_scores, quiet_fit
from tests.maps import test_store
from tests.ops.test_sql import BETAS, COLUMNS, OVO, PIECED, RECORDS, corners, exact_line, nasty_score, near

SCORES = np.concatenate(
    [np.linspace(-5, 5, 401), [0, 1, -1, 17, -17, 1e-300, 1e308, -1e308, 800, -800, np.inf, -np.inf, np.nan]]
)
UNIT_SCORES = np.concatenate([np.linspace(0, 1, 201), [1e-12, 1 - 1e-12, 1 + 1e-9, -1e-9, np.nan]])
CLOSE = {"float64": 1e-12, "float32": 1e-6}


def run(model, given):
    """Return the probabilities that onnxruntime computes, of an array of any real numbers."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    [wanted] = session.get_inputs()
    [found] = session.run(None, {wanted.name: np.asarray(given, TYPES[wanted.type])})
    return found


TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64}


def quietly(function, scores):
    with np.errstate(all="ignore"):
        return function(np.asarray(scores, np.float64))


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("kind", ["margin", "probability", "logit"])
@pytest.mark.parametrize("name", list_methods("column"))
def test_onnx_is_the_numpy_formula(name, kind, dtype):
    scores, labels = noisy_scores(80, seed=1)
    given = SCORES
    if kind == "probability":
        scores, given = 1 / (1 + np.exp(-scores)), UNIT_SCORES
    fitted = quiet_fit(name, scores, labels, kind=kind)
    with np.errstate(over="ignore"):
        given = given.astype(dtype)
    found = run(calibrant.onnx(fitted, dtype=dtype), given)
    assert found.dtype == dtype
    assert found.shape == (len(given), 2)
    np.testing.assert_allclose(found, probabilities(fitted, given), atol=CLOSE[dtype], rtol=0)
    np.testing.assert_allclose(found[:, 1], quietly(fitted, given), atol=CLOSE[dtype], rtol=0)


SEVERAL = {"ClassMap", "MatrixMap", "TwoClassMap", *test_store.PARTS, "PooledMaps", "SeparateMaps", "Information"}

# Every record ---------------------------------------------------------------------------------------------------------


def of_one_column(name):
    """Return random maps of one column that are records of this name, or have one inside."""
    if name == "BetaPiece":
        return st.builds(lambda one, other: BetaClasses((one, other)), *[test_store.RECORDS[name]] * 2)
    if name == "BetaClasses":
        return test_store.two_pieces
    if name == "Member":
        return test_store.autos()
    return test_store.RECORDS[name]


@pytest.mark.parametrize("name", sorted(test_store.RECORDS.keys() - SEVERAL))
@settings(max_examples=20)
@given(data=st.data())
def test_every_record_of_one_column(name, data):
    record = data.draw(of_one_column(name).filter(_is_short))
    scores = [*data.draw(st.lists(nasty_score, max_size=6)), 0.5, 0.0, -2.0, np.inf, -np.inf, np.nan]
    if _takes_unit(record):
        scores = np.clip(scores, 0.0, 1.0)
    expected = probabilities(record, scores)
    # Cosines may leave [0, 1]. Far from its centers the logit of a Parzen map is a difference of squares of widths.
    atol = {"Parzen": 1e-10, "Linked": 1e-10}.get(name, 1e-12) * max(1.0, np.nanmax(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(run(calibrant.onnx(record), scores), expected, atol=atol, rtol=0)


def _is_short(record):
    """Return whether the kernel sums inside a record have few parts: a reach of 1000 narrow widths has thousands."""
    if isinstance(record, Parzen):
        return (record.centers[-1] - record.centers[0]) / record.width + 2 * record.reach < 200
    return all(
        map(_is_short, [record.inner] if isinstance(record, (Linked, TwoClassMap)) else getattr(record, "maps", ()))
    )


def _takes_unit(record):
    return isinstance(record, (BetaCdf, BetaClasses)) or (isinstance(record, Linked) and record.link == "logit")


@settings(max_examples=25)
@given(data=st.data())
def test_every_record_of_several_classes(data):
    one_map_each = (test_store.RECORDS["ClassMap"] | test_store.RECORDS["TwoClassMap"]).filter(_is_short)
    pieces = test_store.two_pieces | test_store.more_pieces  # fitted maps of all classes: tests/maps/test_matrix.py
    record = data.draw(one_map_each | st.builds(MatrixMap, st.sampled_from(KINDS), pieces))
    if isinstance(record, ClassMap) and record.scheme == "ovo" and record.coupling == "hastie_tibshirani":
        record = ClassMap("ovo", record.maps, "price", record.power)
    count = len(record.inner.pieces) if isinstance(record, MatrixMap) else count_columns(record)
    value = st.floats(0, 1)
    scores = data.draw(st.lists(st.lists(value, min_size=count, max_size=count), min_size=1, max_size=5))
    expected = record(np.array(scores))
    np.testing.assert_allclose(run(calibrant.onnx(record), scores), expected, atol=1e-9, rtol=0)


class TestCornersThatAreCloseOrFar:
    @settings(max_examples=40)
    @given(st.sets(corners, min_size=1, max_size=9), st.data())
    def test_lines(self, points, data):
        xs = sorted(points)
        ys = data.draw(st.lists(st.floats(0, 1), min_size=len(xs), max_size=len(xs)))
        scores = near(points)
        found = run(calibrant.onnx(Lines(tuple(xs), tuple(ys))), scores)[:, 1]
        np.testing.assert_allclose(found, [exact_line(x, xs, ys) for x in scores], atol=1e-12)

    @settings(max_examples=40)
    @given(st.sets(corners | st.sampled_from([-np.inf, np.inf]), max_size=9), st.data())
    def test_steps(self, points, data):
        values = data.draw(st.lists(st.floats(0, 1), min_size=len(points) + 1, max_size=len(points) + 1))
        scores = near({x for x in points if np.isfinite(x)})
        found = run(calibrant.onnx(Steps(tuple(sorted(points)), tuple(values))), scores)[:, 1]
        np.testing.assert_array_equal(found, [values[sum(edge <= x for edge in points)] for x in scores])

    def test_a_float32_score_stands_on_the_step_it_has_in_numpy(self):
        edges = np.unique(np.random.default_rng(0).normal(size=300))
        fitted = Steps(tuple(edges.tolist()), tuple(np.linspace(0, 1, 301).tolist()))
        scores = edges.astype(np.float32)  # half of them below the edge they were made of
        found = run(calibrant.onnx(fitted, dtype="float32"), scores)[:, 1]
        np.testing.assert_allclose(found, fitted(scores), atol=1e-7)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 10_000])
def test_many_steps_and_corners(count):
    rng = np.random.default_rng(count)
    edges = np.sort(rng.normal(size=count))
    scores = np.concatenate([edges, rng.normal(size=500), [-np.inf, np.inf, np.nan]])
    steps = Steps(tuple(edges.tolist()), tuple(np.linspace(0, 1, count + 1).tolist()))
    lines = Lines(tuple(edges.tolist()), tuple(np.linspace(0, 1, count).tolist()))
    for fitted in (steps, lines):
        model = calibrant.onnx(fitted)
        assert len(model.graph.node) < 100  # it grows with the logarithm
        np.testing.assert_allclose(run(model, scores)[:, 1], fitted(scores), atol=1e-12, rtol=0)


def test_a_parzen_map_of_many_centers_far_apart():
    rng = np.random.default_rng(0)
    centers = np.sort(np.concatenate([rng.normal(size=150), 1e4 + rng.normal(size=150), [1e31]]))
    fitted = Parzen(tuple(centers.tolist()), *(tuple(rng.random(301).tolist()) for _ in range(2)), 0.1)
    scores = np.concatenate([centers, rng.normal(0, 3, 500), np.linspace(-1e4, 3e4, 500), [1e308, -np.inf, np.nan]])
    found = run(calibrant.onnx(fitted), scores)[:, 1]
    np.testing.assert_allclose(found, fitted(scores), atol=1e-10, rtol=0)  # NumPy measures 1e4 in widths of 0.1


def test_numbers_that_are_0_or_1_in_single_precision_are_kept():
    """By onnxruntime, which takes them for 0 and 1 and leaves the operation out."""
    graph = Graph()
    x, c = graph.add("Abs", graph.read("scores", "float64", ["n", 1])), 1.0 + 3e-8
    model = graph.finish([x * c, c * x, x / c, x + 1e-300, 1e-300 + x, x - 1e-300], "float64", {}, "")
    for one in (1.0, 3e-300):
        wanted = [[one * c, c * one, one / c, one + 1e-300, 1e-300 + one, one - 1e-300]]
        np.testing.assert_allclose(run(model, np.array([[one]])), wanted, rtol=1e-15)


@pytest.mark.parametrize(
    ("mapping", "size"),
    [(Sigmoid(-1.0 - 3e-8, 0.5), 1e2), (QuadraticLogit(-0.1, 1.0, 0.0, 5e-301, 1e-300), 1e-300)],
)
def test_maps_with_such_numbers(mapping, size):
    scores = np.linspace(-1.0, 1.0, 41) * size
    np.testing.assert_allclose(run(calibrant.onnx(mapping), scores)[:, 1], mapping(scores), rtol=1e-12)


def test_the_first_column_is_not_a_difference():
    [[first, second]] = run(calibrant.onnx(Sigmoid(-1.0, 0.0)), [50.0])
    assert second == 1.0
    assert first == pytest.approx(np.exp(-50.0), rel=1e-12)


@pytest.mark.parametrize("name", ["platt", "isotonic", "bins", "beta"])
def test_a_map_of_probabilities_gives_nan_for_other_scores(name):
    scores, labels = noisy_scores(80, seed=1)
    fitted = quiet_fit(name, 1 / (1 + np.exp(-scores)), labels, kind="probability")
    found = run(calibrant.onnx(fitted), [-0.1, 1.1, 17.0, -np.inf, np.inf, 0.0, 1.0000001, -1e-7])
    assert np.isnan(found[:5]).all()
    np.testing.assert_allclose(found[5:, 1], fitted([0.0, 1.0, 0.0]), atol=1e-12)


# Several classes ------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.data())
def test_maps_of_several_classes_are_the_numpy_formula(data):
    scheme, k = data.draw(st.sampled_from([("binary", 2), ("ovr", 2), ("ovr", 3), ("ovr", 6), *OVO]), "scheme")
    count = COLUMNS[scheme](k)
    maps = tuple(data.draw(st.lists(st.sampled_from(RECORDS), min_size=count, max_size=count), "maps"))
    coupling = data.draw(st.sampled_from(["price", "wu_lin_weng"]), "coupling")
    fitted = ClassMap(scheme, maps, coupling, data.draw(st.sampled_from([1.0, 0.3, 2.5]), "power"))
    row = st.lists(nasty_score, min_size=count, max_size=count)
    scores = data.draw(st.lists(row, min_size=1, max_size=8), "scores")
    accuracy = 1e-10 if scheme == "ovo" else 1e-12  # what is compared cancels in either
    np.testing.assert_allclose(run(calibrant.onnx(fitted), scores), fitted(np.array(scores)), atol=accuracy, rtol=0)


@pytest.mark.parametrize("scheme", ["ovr", "ovo"])
def test_polynomials_in_maps_of_several_classes(scheme):
    fitted = ClassMap(scheme, PIECED, power=1.5)
    scores = np.vstack([np.random.default_rng(0).normal(0, 2, (60, 3)), np.full((1, 3), 1e308), np.full((1, 3), -40.0)])
    np.testing.assert_allclose(run(calibrant.onnx(fitted), scores), fitted(scores), atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", ["margin", "logit", "probability"])
def test_a_map_of_all_classes_at_once(kind):
    rng = np.random.default_rng(0)
    if kind == "probability":
        extremes = [[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1], [0.5, 0.5, 0], [1, 1e-9, 1e-8]]
        scores = np.vstack([rng.dirichlet(np.ones(3), 50), rng.random((20, 3)), extremes])
    else:
        scores = np.vstack([rng.normal(0, 3, (50, 3)), rng.choice([0.0, 1.0, -40.0, 1e308, -1e308, np.inf], (40, 3))])
    fitted = MatrixMap(kind, BETAS)
    np.testing.assert_allclose(run(calibrant.onnx(fitted), scores), fitted(scores), atol=1e-12, rtol=0)


@pytest.mark.parametrize("scheme", ["ovr", "ovo", "matrix"])
@pytest.mark.parametrize("dtype", CLOSE)
def test_fitted_maps_of_several_classes(scheme, dtype):
    rng = np.random.default_rng(0)
    index = rng.integers(0, 3, 120)
    scores = (rng.normal(size=(120, 3)) + np.eye(3)[index]).astype(dtype)
    fitted = fit_classes(Plan("beta"), scheme, ClassSample(scores.astype(float), index, 3))
    found = run(calibrant.onnx(fitted, dtype=dtype), scores)
    np.testing.assert_allclose(found, fitted(scores), atol=max(CLOSE[dtype], 1e-11), rtol=0)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)


def test_nan_in_any_column():
    three = tuple(Sigmoid(-1.0 - c, 0.1 * c) for c in range(3))
    maps = [
        ClassMap("ovr", three),
        ClassMap("ovo", three),
        ClassMap("ovo", three * 2, power=1.5),
        MatrixMap("margin", BETAS),
        MatrixMap("margin", BETAS, scale=4.0),
    ]
    for fitted in maps:
        model = calibrant.onnx(fitted)
        for column in range(len(getattr(fitted, "maps", three))):
            scores = np.full((2, len(getattr(fitted, "maps", three))), 0.5)
            scores[0, column] = np.nan
            found = run(model, scores)
            assert np.isnan(found[0]).all()
            np.testing.assert_allclose(found[1], fitted(scores)[1], atol=1e-12)


@pytest.mark.parametrize("k", [5, 10])
def test_pairs_of_many_classes_are_coupled_by_equations(k):
    """Pairwise probabilities of a distribution, exact and disturbed, some of them all but sure."""
    rng = np.random.default_rng(k)
    p = rng.dirichlet(np.full(k, 0.2), 40) + 1e-12
    r = np.array([[row[i] / (row[i] + row[j]) for i, j in pairs(k)] for row in p])
    scores = np.log(r / (1 - r)) + rng.normal(0, np.repeat([0.0, 0.5, 3.0, 0.0], 10)[:, None], r.shape)
    fitted = ClassMap("ovo", (Sigmoid(-1.0, 0.0),) * len(pairs(k)))
    found = run(calibrant.onnx(fitted), scores)
    np.testing.assert_allclose(found, fitted(scores), atol=1e-9, rtol=0)
    np.testing.assert_allclose(found[:10], p[:10], atol=1e-5, rtol=0)  # they are kept 1e-7 off 0 and 1


def test_columns_that_are_computed_alike_are_side_by_side():
    maps = tuple(Sigmoid(-1.0 - c / 100, 0.01 * c, center=0.5 + c) for c in range(300))
    fitted = ClassMap("ovr", maps, power=1.5)
    model, scores = calibrant.onnx(fitted), np.random.default_rng(0).normal(size=(20, 300))
    operators = Counter(node.op_type for node in model.graph.node)
    assert operators["Exp"] <= 4  # of p, of 1 - p, of the power
    assert sum(operators.values()) < 700  # of which a sum of 300 columns takes 600
    np.testing.assert_allclose(run(model, scores), fitted(scores), atol=1e-12, rtol=0)


def test_columns_in_any_order():
    """Columns of several kinds, used twice, out of order, and with others that are not columns."""
    graph = Graph()
    a, b, c = graph.apart(graph.read("all", "float64", ["n", 3]), 3)
    up, down = [x * f + 1.0 for x, f in zip((c, a, b), (2.0, 3.0, 4.0), strict=True)], [1.0 / x for x in (a, b)]
    mixed = [up[0] + down[1], up[2] + down[0], ONNX.exp(down[0]) - a, up[1] + up[1], a + up[0] * 0.0, b]
    total = graph.side_by_side(graph.apart(graph.side_by_side([a, up[1], b]), 3)[::-1])
    model = graph.finish(
        [*mixed, graph.add("ReduceSum", total, graph.constant([1], np.int64), keepdims=1)], "float64", {}, ""
    )
    rows = np.random.default_rng(0).normal(3, 1, (9, 3))
    x, y, z = rows.T
    expected = [2 * z + 1 + 1 / y, 4 * y + 1 + 1 / x, np.exp(1 / x) - x, 6 * x + 2, x, y, x + y + 3 * x + 1]
    np.testing.assert_allclose(run(model, rows), np.stack(expected, axis=1), rtol=1e-14)


@pytest.mark.parametrize("k", [1, 2, 7])
def test_equations_of_columns(k):
    rng = np.random.default_rng(k)
    root, right = rng.normal(size=(20, k, k)), rng.normal(size=(20, k))
    matrix = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(k)
    expected = np.linalg.solve(matrix, right[:, :, None])[:, :, 0]
    np.testing.assert_allclose(np.stack(NUMPY.solve(matrix.transpose(1, 2, 0), list(right.T)), axis=1), expected)
    graph = Graph()
    columns = graph.apart(graph.read("all", "float64", ["n", k * k + k]), k * k + k)
    found = ONNX.solve([columns[i * k : i * k + k] for i in range(k)], columns[k * k :])
    model = graph.finish(found, "float64", {}, "")
    np.testing.assert_allclose(run(model, np.hstack([matrix.reshape(20, -1), right])), expected, rtol=1e-9)


# The file -------------------------------------------------------------------------------------------------------------


def test_the_file_says_what_it_is():
    fitted = calibrant.fit("platt", [-1.0, 0.5, 1.0, 2.0], ["no", "yes", "no", "yes"], kind="logit")
    model = calibrant.onnx(fitted)
    told = {each.key: each.value for each in model.metadata_props}
    assert (told["method"], told["kind"], told["version"]) == ("platt", "logit", calibrant.__version__)
    assert json.loads(told["classes"]) == ["no", "yes"]
    other = calibrant.fit("platt", [1.0, -0.5, -1.0, -2.0], ["no", "yes", "no", "yes"], kind="logit", pos_label="no")
    told_other = {each.key: each.value for each in calibrant.onnx(other).metadata_props}
    assert json.loads(told_other["classes"]) == ["yes", "no"]
    again = from_dict(json.loads(told["map"]))
    assert (again, again.origin) == (fitted, fitted.origin)
    assert (model.producer_name, model.producer_version) == ("calibrant", calibrant.__version__)
    [scores], [found] = model.graph.input, model.graph.output
    assert scores.name == "scores"
    assert [each.dim_param or each.dim_value for each in scores.type.tensor_type.shape.dim] == ["n"]
    assert [each.dim_param or each.dim_value for each in found.type.tensor_type.shape.dim] == ["n", 2]


def test_the_definition_of_the_operators_gives_the_same():
    """The reference implementation of ONNX, which is not onnxruntime."""
    scores, labels = noisy_scores(80, seed=1)
    given = np.linspace(-3, 3, 31)
    for name in ("platt", "isotonic", "beta", "parzen"):
        fitted = quiet_fit(name, scores, labels)
        model = calibrant.onnx(fitted)
        onnx.checker.check_model(model, full_check=True)
        found = ReferenceEvaluator(model).run(None, {"scores": given})[0][:, 1]
        np.testing.assert_allclose(found, fitted(given), atol=1e-12)


class Equal:
    """A map of any number of classes."""

    def matrix(self, memberships, ops):
        return ops.run_columns(lambda columns: [p * 0.5 + 0.5 / len(columns) for p in columns], memberships, None, "")


def test_a_map_of_any_number_of_classes(monkeypatch):
    monkeypatch.setattr("calibrant.maps.exporting.to_dict", lambda mapping: {})
    scores = np.random.default_rng(0).normal(size=(9, 4))
    fitted = MatrixMap("margin", Equal())
    with pytest.raises(ValueError, match=r"columns must be the number .* this MatrixMap does not know"):
        calibrant.onnx(fitted)
    np.testing.assert_allclose(run(calibrant.onnx(fitted, columns=4), scores), fitted(scores), atol=1e-12)
    known = MatrixMap("margin", Equal(), origin=Origin("equal", "margin", 9, 9.0, ("a", "b", "c", "d")))
    np.testing.assert_allclose(run(calibrant.onnx(known), scores), fitted(scores), atol=1e-12)


def test_no_rows():
    assert run(calibrant.onnx(Steps((0.0,), (0.1, 0.9))), []).shape == (0, 2)


@pytest.mark.parametrize(
    ("mapping", "options", "message"),
    [
        (Clip(), {"dtype": "float16"}, "dtype must be one of float32, float64; got 'float16'"),
        (ClassMap("ovr", (Clip(),) * 3), {"columns": 0}, "columns must be a whole number, at least 1; got 0"),
        (ClassMap("ovr", (Clip(),) * 3), {"columns": 2}, "scores must have 3 columns, one per map; got 2"),
        (ClassMap("ovo", (Clip(),) * 3, "hastie_tibshirani"), {}, "iterates .* use coupling='wu_lin_weng' or 'price'"),
        (BetaClasses((BetaPiece(None),) * 3), {}, "takes their memberships as a matrix"),
        ("platt.json", {}, "mapping must be a map, .*; got 'platt.json'"),
        (lambda score: score, {}, "only the maps of calibrant"),
    ],
)
def test_what_does_not_compile_is_refused(mapping, options, message):
    with pytest.raises(ValueError, match=message):
        calibrant.onnx(mapping, **options)
