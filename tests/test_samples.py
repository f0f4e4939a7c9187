"""The door, and pooling."""

from decimal import Decimal
from fractions import Fraction
from numbers import Integral

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant import collapse, inference, metrics, sample
from calibrant.checks import check_one_of, check_proportion, check_whole
from calibrant.decisions import combining
from calibrant.decisions import deciding as decisions
from calibrant.evidence import curves
from calibrant.maps.classes import ClassMap
from calibrant.posteriors.estimates import distance_estimator
from calibrant.posteriors.objects import check_objects
from calibrant.samples import moderate_weights

GOOD = ([0.1, 0.2, 0.3], [0, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1, np.nan, np.inf], [0, 1, 1]), r"scores must be finite; got 2 .* first at position 1 \(nan\)"),
        (([], []), "scores must hold at least one value"),
        (([0.1, 0.2], [0, 1, 1]), "y must have one value per row; .* 3 for 2"),
        (([[0.1, 0.2], [0.3, 0.4]], [0, 1]), r"scores must be one-dimensional; got an array of shape \(2, 2\)"),
        (([1 + 2j, 0], [0, 1]), "scores must be real numbers; .*complex"),
        (([[1, 2], [3]], [0, 1]), "rows of different lengths"),
        (([10**400, 1], [0, 1]), "scores must be real numbers"),
        ((scipy.sparse.csr_array([[1.0], [0.0]]), [0, 1]), "scores must be a dense array"),
        ((np.ma.masked_array([1.0, 2.0], [True, False]), [0, 1]), "scores must not be masked; got 1"),
        (([0, 1], [0, 1j]), "y must hold labels, not complex numbers"),
        ((["a", "b"], [0, 1]), "scores must be real numbers"),
        ((np.array([0.1, None], object), [0, 1]), "scores must be real numbers; got None at position 1"),
        (([0, 1, 2], [0, 1, 2]), r"y must hold two classes, .* got 3 values: 0, 1, 2"),
        (([0, 1, 2], ["a", "b", "c"]), "got 3 values: a, b, c"),
        (([0, 1], ["a", "a"]), "one class only, .*pos_label"),
        (([0, 1], [7, 7]), "neither 0, 1 nor -1"),
        (([0, 1], [0, np.nan]), "y must be finite"),
        (([0, 1], np.array(["a", None], object)), "no missing label"),
        (([0, 1], np.array(["a", 1], object)), "labels of one type"),
        ((*GOOD, [1, 2]), "sample_weight must have one value per row; .* 2 for 3"),
        ((*GOOD, [1, -1, 0]), r"sample_weight must not be negative; got 1, the first at position 1 \(-1.0\)"),
        ((*GOOD, [0, 0, 0]), "sample_weight must not all be zero"),
        ((*GOOD, [1, 1, np.nan]), "sample_weight must be finite"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sample(*arguments)


def test_bad_kinds_and_labels():
    with pytest.raises(ValueError, match=r"in \[0, 1\]; got 1 outside, the first at position 1 \(1.2\)"):
        sample([0.1, 1.2], [0, 1], kind="probability")
    with pytest.raises(ValueError, match="kind must be one of"):
        sample([0.1, 0.2], [0, 1], kind="odds")
    with pytest.raises(ValueError, match="pos_label must be one of"):
        sample([0.1, 0.2], ["a", "b"], pos_label="c")
    with pytest.raises(ValueError, match="method must be one of"):
        calibrant.fit("plat", [0.1, 2.0], [0, 1])


def test_arrays_are_not_copied():
    scores, labels, weight = np.arange(5.0), np.array([0, 1, 0, 1, 1]), np.ones(5)
    data = sample(scores, labels, weight)
    assert np.shares_memory(data.score, scores)
    assert np.shares_memory(data.label, labels)
    assert np.shares_memory(data.weight, weight)


def test_zero_weights_drop_their_rows():
    assert len(sample([1, 2, 3], [0, 1, 1], [1, 0, 2])) == 2


@pytest.mark.parametrize("container", [list, tuple, np.asarray, pd.Series, pl.Series, lambda v: np.array(v)[:, None]])
def test_containers(container):
    data = sample(container([0.5, 1.5, 2.5]), container([0, 1, 1]))
    assert data.arrays()[0].tolist() == [0.5, 1.5, 2.5]
    assert data.totals() == (2, 1)


def test_one_class_of_numbers_is_what_it_says():
    assert sample([1, 2], [1, 1]).totals() == (2, 0)
    assert sample([1, 2], [-1, -1]).totals() == (0, 2)


def test_totals_of_one_class_do_not_drown_in_those_of_the_other():
    data = sample(np.zeros(9), [0] + [1] * 8, [1.0] + [1e16] * 8)
    assert data.totals() == (8e16, 1.0)
    assert collapse(data).totals() == (8e16, 1.0)
    assert sample([1, 2], [0, 1], [1e308, 1e308]).totals() == (1e308, 1e308)
    assert sample([1, 2], [1, 1], [1.7e308, 1.7e308]).totals() == (np.inf, 0.0)


def test_pooled_and_rescaled_samples_keep_their_classes():
    data = sample([1, 2, 2], ["a", "b", "a"], [1e-300, 1e300, 1e300])
    assert collapse(data).classes == data.classes == ("a", "b")
    moderate, unit = moderate_weights(data)
    assert moderate.classes == ("a", "b")
    assert unit > 1
    assert moderate.weight.min() > 0


rows = st.lists(
    st.tuples(st.sampled_from([-2.5, -1.0, 0.0, 0.1, 3.0]), st.integers(0, 1), st.integers(1, 5)),
    min_size=1,
    max_size=40,
)


@given(rows)
def test_collapse_keeps_the_weight_of_each_class_at_each_score(rows):
    scores, labels, weights = (np.array(column) for column in zip(*rows, strict=True))
    score, positive, negative = collapse(sample(scores, labels, weights)).arrays()
    assert score.tolist() == sorted(set(scores.tolist()))
    for value, plus, minus in zip(score, positive, negative, strict=True):
        here = scores == value
        np.testing.assert_allclose(
            [plus, minus], [weights[here] @ labels[here], weights[here] @ (1 - labels[here])], atol=1e-12
        )


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e305])
def test_cells_keep_totals_and_order(scale):
    rng = np.random.default_rng(0)
    scores = np.clip(rng.standard_cauchy(20_000), -1e3, 1e3) * scale
    labels = rng.integers(0, 2, 20_000)
    pooled = collapse(sample(scores, labels), cells=256)
    assert 100 < len(pooled) <= 256
    assert (np.diff(pooled.score) > 0).all()
    np.testing.assert_allclose(pooled.totals(), (labels.sum(), 20_000 - labels.sum()))
    assert pooled.score.min() >= scores.min()
    assert pooled.score.max() <= scores.max()
    mean = (pooled.score / scale) @ pooled.weight / 20_000
    assert mean == pytest.approx((scores / scale).mean(), rel=1e-9)


def test_few_distinct_scores_need_no_cells():
    pooled = collapse(sample([1, 1, 2], [0, 1, 1]), cells=10)
    assert pooled.score.tolist() == [1, 2]


def test_a_fit_on_cells_is_nearly_the_fit_on_rows():
    rng = np.random.default_rng(1)
    scores = rng.standard_t(2, 100_000)
    labels = rng.random(100_000) < 1 / (1 + np.exp(-scores))
    pooled = collapse(sample(scores, labels), cells=1024)
    rough = calibrant.fit("platt", pooled.score, pooled.label, sample_weight=pooled.weight)
    exact = calibrant.fit("platt", scores, labels)
    assert np.abs(rough(scores) - exact(scores)).max() < 1e-4


# Options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3, 3.0, np.int8(3), np.float32(3)])
def test_whole_numbers(value):
    found = check_whole("k", value, low=3, high=3)
    assert (found, type(found)) == (3, int)


@pytest.mark.parametrize("value", [0, 5, 2.5, True, np.True_, "3", None, [3], np.nan, np.inf, -np.inf, 3j, 10**400])
def test_what_is_no_whole_number_of_a_range(value):
    with pytest.raises(ValueError, match="k must be a whole number from 1 to 4; got "):
        check_whole("k", value, high=4)


def test_an_estimator_keeps_its_whole_numbers_as_they_are_given():
    assert check_whole("k", np.int64(7), kind=Integral) == 7
    with pytest.raises(ValueError, match=r"k must be a whole number, at least 2; got 3\.0"):
        check_whole("k", 3.0, low=2, kind=Integral)


@pytest.mark.parametrize(
    ("value", "low", "high", "interval"),
    [
        (0, False, True, r"\(0, 1\]"),
        (1.0, True, False, r"\[0, 1\)"),
        ("0.5", True, True, r"\[0, 1\]"),
        (np.nan, *[False] * 2, ""),
    ],
)
def test_proportions(value, low, high, interval):
    with pytest.raises(ValueError, match=f"share must lie in {interval}"):
        check_proportion("share", value, low=low, high=high)
    assert check_proportion("share", np.float32(0.5)) == 0.5
    assert (check_proportion("share", 0, low=True), check_proportion("share", 1, high=True)) == (0.0, 1.0)


def test_names():
    check_one_of("scale", None, ("train", None))
    check_one_of("scale", "train", {"train": 1})
    for value in ("tr", None, ["train"], np.array(["train", "train"]), 1):
        with pytest.raises(ValueError, match="scale must be one of train, test, or a function; got "):
            check_one_of("scale", value, iter(["train", "test"]), beside=", or a function")


# What is not there ----------------------------------------------------------------------------------------------------

MISSING = {
    "Int64": pd.array([0, 1, None, 1], dtype="Int64"),
    "boolean": pd.array([False, True, None, True], dtype="boolean"),
    "string": pd.array(["a", "b", None, "b"], dtype="string"),
    "NA": np.array(["a", "b", pd.NA, "b"], object),
    "whole numbers and NA": np.array([0, 1, pd.NA, 1], object),
    "None": np.array(["a", "b", None, "b"], object),
    "NaT": np.array(["2026-01-01", "2026-01-02", "NaT", "2026-01-02"], "datetime64[D]"),
}
FOUR = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
TAKES_LABELS = {
    "fit": lambda y: calibrant.fit("platt", FOUR[:, 1], y),
    "Calibrator": lambda y: calibrant.Calibrator().fit(FOUR[:, 1], y),
    "KernelLogisticRegression": lambda y: calibrant.KernelLogisticRegression().fit(FOUR, y),
    "NearestNeighbour": lambda y: calibrant.posteriors.NearestNeighbour().fit(FOUR, y),
    "objects": lambda y: check_objects(FOUR, y),
    "brier": lambda y: metrics.brier(y, FOUR[:, 1]),
    "log_loss": lambda y: metrics.log_loss(y, FOUR),
    "assess": lambda y: calibrant.assess(y, FOUR[:, 1]),
    "bootstrap": lambda y: inference.bootstrap("brier", y, FOUR[:, 1], draws=9),
    "reliability": lambda y: curves.reliability(y, FOUR[:, 1]),
    "fit_pool": lambda y: combining.fit_pool([FOUR, FOUR], y),
    "compare_scores": lambda y: calibrant.compare_scores(FOUR[:, 1], y, methods=["platt"], cv=2, progress=False),
}


@pytest.mark.parametrize("labels", MISSING)
@pytest.mark.parametrize("door", TAKES_LABELS)
def test_missing_labels_are_named(door, labels):
    with pytest.raises(ValueError, match=r"^y must (hold no missing label|be finite); got 1 .*the first at position 2"):
        TAKES_LABELS[door](MISSING[labels])


def test_missing_numbers_are_named():
    for values in (pd.array([0.1, None], dtype="Float64"), np.array([0.1, pd.NA], object)):
        with pytest.raises(ValueError, match=r"scores must be (finite; got 1 NaN|real numbers; got <NA>)"):
            sample(values, [0, 1])


HIDDEN = np.ma.masked_array(FOUR, np.eye(4, 2))
TAKES_TABLES = {
    "P": lambda P: decisions.reject(P, threshold=0.5),
    "p": lambda p: metrics.log_loss([0, 1, 0, 1], p),
    "log_p": lambda p: metrics.log_loss([0, 1, 0, 1], log_p=np.ma.log(p)),
    "p of a bootstrap": lambda p: inference.bootstrap("brier", [0, 1, 0, 1], p, draws=9),
    "p of one column of a bootstrap": lambda p: inference.bootstrap("brier", [0, 1, 0, 1], p[:, 1], draws=9),
    "posteriors": lambda P: combining.combine([FOUR, P], "mean"),
    "costs": lambda costs: decisions.bayes(FOUR[:, :2], costs[:2]),
    "values": lambda values: inference.ranks(values),
    "distances": lambda distances: distance_estimator(distances),
    "X of objects": lambda X: check_objects(X, [0, 1, 0, 1]),
    "X": lambda X: calibrant.KernelLogisticRegression().fit(X, [0, 1, 0, 1]),
    "X of a calibrated machine": lambda X: calibrant.CalibratedClassifier(GaussianNB(), cv=2).fit(X, [0, 1, 0, 1]),
    "X of new rows": lambda X: calibrant.CalibratedClassifier(
        GaussianNB().fit(FOUR, [0, 1, 0, 1]), protocol="prefit"
    ).fit(FOUR, [0, 1, 0, 1]).predict_proba(X),
    "X of a comparison": lambda X: calibrant.compare((X, [0, 1, 0, 1]), cv=2, progress=False),
    "scores": lambda scores: ClassMap("ovr", (calibrant.maps.Sigmoid(-1.0, 0.0),) * 2)(scores),
}  # fmt: skip


@pytest.mark.parametrize("door", TAKES_TABLES)
def test_masked_tables_are_refused(door):
    with pytest.raises(ValueError, match=r"^\w+(\[1\])? must not be masked; got [12] masked value"):
        TAKES_TABLES[door](HIDDEN)


def test_a_mask_that_hides_nothing_does_no_harm():
    bare = np.ma.masked_array(FOUR, np.zeros((4, 2), bool))
    np.testing.assert_array_equal(decisions.reject(bare, threshold=0.5), decisions.reject(FOUR, threshold=0.5))
    assert metrics.log_loss([0, 1, 0, 1], bare) == metrics.log_loss([0, 1, 0, 1], FOUR)


def test_swapped_arguments_of_a_fit_are_refused():
    y, p = [0, 1, 1, 0], [0.2, 0.7, 0.9, 0.4]
    with pytest.raises(ValueError, match="the arguments look swapped, give scores first and y second"):
        calibrant.fit("platt", y, p)
    with pytest.raises(ValueError, match="the arguments look swapped, give scores first and y second"):
        calibrant.compare_scores(y, p)
    assert calibrant.fit("platt", [0, 1], [0.2, 0.7], kind="margin").a < 0  # pooled rows
    assert calibrant.fit("platt", [0, 1, 1], [0.2, 0.7, 0.9], kind="margin", sample_weight=[3, 1, 2]).a < 0


@pytest.mark.parametrize(
    "y",
    [
        np.array([0.2, 0.7, 1, 0], object),
        np.array([Decimal("0.2"), Decimal("0.7"), 1, 0], object),
        np.array([Fraction(1, 5), Fraction(7, 10), np.float32(1), np.int8(0)], object),
        pd.array([0.2, 0.7, 1, 0], dtype="Float64"),
    ],
)
def test_objects_that_are_shares_are_read_as_numbers(y):
    data = sample([1.0, 2.0, 3.0, 4.0], y)
    np.testing.assert_allclose(data.label, [0.2, 0.7, 1, 0], rtol=1e-12)
    assert data.classes == (0, 1)
    assert metrics.brier(y, [0.5] * 4) == metrics.brier([0.2, 0.7, 1, 0], [0.5] * 4)


def test_other_objects_are_classes():
    for y in ([False, True, True], [3, 9, 9], ["0", "1", "1"]):
        data = sample([1.0, 2.0, 3.0], np.array(y, object))
        assert (data.label.tolist(), data.classes) == ([False, True, True], (y[0], y[1]))


def test_a_positive_label_is_one_of_the_data():
    assert type(sample([1, 2], [0, 1], pos_label=True).classes[1]) is np.int64
    for y, pos_label, message in (
        ([0, 1], "1", "pos_label must be one of the labels 0 and 1; got '1'"),
        (["0", "1"], 1, "pos_label must be one of the labels '0' and '1'; got 1"),
        ([0, 1], [1], r"pos_label must be one label; got \[1\]"),
        (["a", "b"], np.array(["a", "b"]), "pos_label must be one label; got "),
    ):
        with pytest.raises(ValueError, match=message):
            sample([1.0, 2.0], y, pos_label=pos_label)
