"""What every row of METHODS promises."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant import METHODS
from calibrant.maps.methods import list_methods
from calibrant.maps.store import from_dict, to_dict
from tests.conftest import noisy_scores, quiet_fit

GRID = np.concatenate([np.linspace(-6, 6, 241), [0.0, 1.0, -1.0, 1e3, -1e3]])
PRINTED = ("platt_lm", "platt_newton")  # stop where the papers' absolute tolerances say, not at the optimum
CLOSE = {"atol": 1e-9, "rtol": 1e-7}


def close_to(name):
    """Return the tolerance at which two fits of a method are the same fit."""
    return {"atol": 2e-4} if name in PRINTED else CLOSE


COLUMN = {name: METHODS[name] for name in list_methods("column")}


@pytest.fixture(params=COLUMN)
def name(request):
    return request.param


def test_row_is_complete(name):
    row = METHODS[name]
    assert row.source
    assert row.domain in ("real", "unit", "any")
    assert row.invariant in ("affine", "scale", "none")
    assert row.fit.__doc__


def test_fit_returns_the_record_and_keeps_the_arrays(name):
    scores, labels = noisy_scores()
    scores.flags.writeable = labels.flags.writeable = False
    before = scores.copy()
    fitted = quiet_fit(name, scores, labels)
    inner = fitted.inner if isinstance(fitted, calibrant.maps.Linked) else fitted
    assert isinstance(inner, METHODS[name].record)
    np.testing.assert_array_equal(scores, before)


def test_probabilities_lie_in_the_unit_interval(name):
    fitted = quiet_fit(name, *noisy_scores())
    p = fitted(GRID)
    assert p.dtype == np.float64
    assert p.shape == GRID.shape
    assert ((p >= 0) & (p <= 1)).all()


def test_weight_is_repetition(name):
    scores, labels = noisy_scores(60, seed=1, ties=True)
    weight = np.random.default_rng(2).integers(0, 4, 60)
    weight[:2] = 1
    weighted = quiet_fit(name, scores, labels, sample_weight=weight)
    repeated = quiet_fit(name, np.repeat(scores, weight), np.repeat(labels, weight))
    np.testing.assert_allclose(weighted(GRID), repeated(GRID), **close_to(name))


def test_order_of_rows_does_not_matter(name):
    scores, labels = noisy_scores(150, seed=3, ties=True)
    order = np.random.default_rng(0).permutation(150)
    fitted, shuffled = quiet_fit(name, scores, labels), quiet_fit(name, scores[order], labels[order])
    np.testing.assert_allclose(fitted(GRID), shuffled(GRID), **close_to(name))


def test_pooling_rows_of_equal_score_does_not_matter(name):
    scores, labels = noisy_scores(150, seed=4, ties=True)
    pooled = calibrant.collapse(calibrant.sample(scores, labels))
    fitted = quiet_fit(name, scores, labels)
    same = quiet_fit(name, pooled.score, pooled.label, sample_weight=pooled.weight)
    np.testing.assert_allclose(fitted(GRID), same(GRID), **close_to(name))


PROMISED = {
    "none": [],
    "scale": [(3.0, 0.0), (1e-200, 0.0), (1e300, 0.0)],
    "affine": [(3.0, 0.0), (1e-3, 5.0), (7.0, -1e3), (1e-200, 0.0), (1e300, 0.0)],
}


@pytest.mark.parametrize(
    ("method", "scale", "offset"),
    [(method, *change) for method, row in COLUMN.items() for change in PROMISED[row.invariant]],
)
def test_scale_and_offset_change_nothing_where_promised(method, scale, offset):
    scores, labels = noisy_scores(120, seed=5)
    fitted = quiet_fit(method, scores, labels)
    moved = quiet_fit(method, scale * scores + offset, labels)
    np.testing.assert_allclose(moved(scale * scores + offset), fitted(scores), atol=1e-8)


def test_monotone_where_promised(name):
    for seed in range(5):
        p = quiet_fit(name, *noisy_scores(80, seed=seed))(np.sort(GRID))
        rises = (np.diff(p) >= -1e-12).all()
        assert rises or not METHODS[name].monotone


def test_nan_stays_nan_and_infinities_give_the_limit(name):
    fitted = quiet_fit(name, *noisy_scores())
    assert np.isnan(fitted(np.array([np.nan, 0.0]))).tolist() == [True, False]
    limits, far = fitted(np.array([-np.inf, np.inf])), fitted(np.array([-1e300, 1e300]))
    np.testing.assert_allclose(limits, far, atol=1e-12)


def test_scalars_lists_and_shapes(name):
    fitted = quiet_fit(name, *noisy_scores())
    assert np.ndim(fitted(0.5)) == 0
    assert fitted([0.5, 1])[0] == fitted(0.5)
    assert fitted(np.zeros((3, 2), np.float32)).shape == (3, 2)


def test_blocks_are_seamless(name):
    fitted = quiet_fit(name, *noisy_scores())
    many = np.linspace(-4, 4, 40_001)
    np.testing.assert_array_equal(fitted(many)[::100], fitted(many[::100]))


def test_json_round_trip_is_exact(name):
    fitted = quiet_fit(name, *noisy_scores())
    again = from_dict(to_dict(fitted))
    assert again == fitted
    np.testing.assert_array_equal(again(GRID), fitted(GRID))


@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_every_kind_of_score_is_taken_as_declared(name, kind):
    scores, labels = noisy_scores(100, seed=6)
    given_scores = 1 / (1 + np.exp(-scores)) if kind == "probability" else scores
    p = quiet_fit(name, given_scores, labels, kind=kind)(given_scores)
    assert ((p >= 0) & (p <= 1)).all()


EDGES = {
    "one row": ([0.3], [1]),
    "one negative row": ([-2.0], [0]),
    "two rows": ([0.0, 1.0], [0, 1]),
    "one class": ([0.1, 0.2, 0.4], [1, 1, 1]),
    "other class": ([0.1, 0.2, 0.4], [0, 0, 0]),
    "constant": ([0.7] * 5, [0, 1, 1, 0, 1]),
    "zeros": ([0.0] * 4, [0, 1, 0, 1]),
    "separable": ([-3, -2, -1, 1, 2, 3], [0, 0, 0, 1, 1, 1]),
    "reversed": ([3, 2, 1, -1, -2, -3], [0, 0, 0, 1, 1, 1]),
    "tiny": (np.array([-2, -1, 1, 2, 0.5]) * 1e-300, [0, 0, 1, 1, 0]),
    "huge": (np.array([-1.7, -1, 1, 1.7, 0.5]) * 1e308, [0, 0, 1, 1, 0]),
    "outlier": ([-1, -0.5, 0.1, 0.3, 1e8, 0.2], [0, 0, 1, 0, 1, 1]),
    "duplicates": ([0, 0, 1, 1, 1, 2], [0, 1, 0, 1, 1, 1]),
}


@pytest.mark.parametrize("case", EDGES)
def test_edge_inputs_survive(name, case):
    if name in PRINTED and case == "huge":
        pytest.skip("the published algorithm overflows there, and the fit says so")
    scores, labels = EDGES[case]
    fitted = quiet_fit(name, scores, labels)
    p = fitted(np.asarray(scores))
    assert ((p >= 0) & (p <= 1)).all(), p


@pytest.mark.parametrize(("label", "side"), [(1, "positive"), (0, "negative")])
def test_one_class_is_said_by_methods_that_look_at_labels(name, label, side):
    scores = [-2.0, 0.2, 2.4]  # beyond the margin too, where some methods look
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = calibrant.fit(name, scores, [label] * 3)
        swapped = calibrant.fit(name, scores, [1 - label] * 3)
    said = [str(each.message) for each in caught if "one class only" in str(each.message)]
    if fitted == swapped:  # the fit takes no notice of labels
        assert not said
        return
    first, _ = said
    assert first.startswith(f"y holds one class only, 3 rows that are all {side}")
    constant = np.ptp(fitted(np.asarray(scores))) == 0
    assert ("the map is the constant" in first) == constant


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, bool])
def test_number_types(name, dtype):
    scores, labels = noisy_scores(80, seed=8)
    typed = np.round(scores * 2).astype(dtype)
    fitted = quiet_fit(name, typed, labels)
    same = quiet_fit(name, typed.astype(np.float64), labels)
    np.testing.assert_allclose(fitted(typed), same(typed), atol=1e-6)


def test_non_contiguous_arrays(name):
    scores, labels = noisy_scores(100, seed=9)
    fitted = quiet_fit(name, scores[::-2], labels[::-2])
    same = quiet_fit(name, scores[::-2].copy(), labels[::-2].copy())
    np.testing.assert_array_equal(fitted(GRID), same(GRID))


@pytest.mark.parametrize("labels", ["names", "signs", "booleans", "one and two"])
def test_any_two_labels(name, labels):
    scores, y = noisy_scores(60, seed=10)
    other = {
        "names": np.array(["ham", "spam"])[y],
        "signs": 2 * y - 1,
        "booleans": y.astype(bool),
        "one and two": y + 1,
    }[labels]
    np.testing.assert_array_equal(quiet_fit(name, scores, other)(GRID), quiet_fit(name, scores, y)(GRID))


def test_pos_label_turns_the_classes_round(name):
    scores, y = noisy_scores(60, seed=11)
    chosen = quiet_fit(name, scores, y, pos_label=0)
    swapped = quiet_fit(name, scores, 1 - y)
    np.testing.assert_array_equal(chosen(GRID), swapped(GRID))


def test_many_rows(name):
    scores, labels = noisy_scores(300_000, seed=12)
    if name in PRINTED:
        scores, labels = scores[:20_000], labels[:20_000]
    p = quiet_fit(name, scores, labels)(GRID)
    assert ((p >= 0) & (p <= 1)).all()


numbers = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.parametrize("some_name", COLUMN)
@given(rows=st.lists(st.tuples(numbers, st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=12))
def test_any_finite_sample(some_name, rows):
    scores, labels, weights = (np.array(column) for column in zip(*rows, strict=True))
    try:
        fitted = quiet_fit(some_name, scores, labels, sample_weight=weights)
    except ValueError as error:
        assert some_name in PRINTED, error  # noqa: PT017
        return
    p = fitted(scores)
    assert ((p >= 0) & (p <= 1)).all()


def test_weights_may_sum_to_one(name):
    scores, labels = noisy_scores(80, seed=13)
    share = np.full(80, 1 / 80)
    p = quiet_fit(name, scores, labels, sample_weight=share)(GRID)
    assert ((p >= 0) & (p <= 1)).all()
    if name in ("gauss", "gauss_tied", "isotonic", "isotonic_centered"):
        np.testing.assert_allclose(p, quiet_fit(name, scores, labels)(GRID), atol=1e-6)


NUMBERS = {"width", "sd", "scale", "gamma", "strength", "penalty", "k", "terms"}


@pytest.mark.parametrize(
    ("method", "option"),
    [(method, option) for method, row in COLUMN.items() for option in row.options() if option in NUMBERS],
)
def test_options_that_are_no_numbers_are_named(method, option):
    with pytest.raises(ValueError, match=f"{option} must be"):
        calibrant.fit(method, *noisy_scores(30), **{option: "abc"})


def test_complex_scores_are_refused(name):
    with pytest.raises(ValueError, match="real numbers"):
        quiet_fit(name, *noisy_scores(30))(np.array([1 + 5j]))


def test_unknown_names_are_errors_that_help(name):
    scores, labels = noisy_scores(20)
    with pytest.raises(ValueError, match="has no option 'nonsense'"):
        calibrant.fit(name, scores, labels, nonsense=1)


def test_a_function_is_a_method():
    fitted = calibrant.fit(
        lambda data: calibrant.maps.Clip(0.0, float(data.label.mean())), [0, 1], [0, 1], kind="margin"
    )
    assert fitted == calibrant.maps.Clip(0.0, 0.5)


def test_the_papers_methods_are_all_there():
    promised = "softmax platt platt_lm platt_newton duin_tax gauss_tied gauss beta beta2 bins clip01 pp printed01"
    assert set(promised.split()) | {"parzen", "cosine", "isotonic"} <= set(METHODS)
