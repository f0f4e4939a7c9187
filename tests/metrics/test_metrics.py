"""Scores against definitions, scikit-learn and the vectors."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import assume, given
from hypothesis import strategies as st

from calibrant import metrics
from calibrant.metrics.forecasts import one_vs_rest
from calibrant.metrics.scores import row_losses
from calibrant.numerics.pava import sort_rows
from calibrant.samples import collapse
from tests.conftest import count_checks


def test_vectors(vectors):
    case = vectors["metrics"]
    y, p = case["y01"], case["p"]
    assert metrics.brier(y, p) == pytest.approx(case["mse"], rel=1e-12)
    assert metrics.log_loss(y, p) == pytest.approx(case["mcre_nats"], rel=1e-12)
    assert metrics.mcre(y, p, paper_scale_folds=10) == pytest.approx(case["mcre_paper_scale_10_folds"], rel=1e-12)
    assert metrics.log_loss(case["infinite_case"]["y01"], case["infinite_case"]["p"]) == np.inf
    assert metrics.log_loss(case["zero_log_zero"]["y01"], case["zero_log_zero"]["p"]) == 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [5, 40_000])
def test_agree_with_scikit_learn(n, weighted):
    rng = np.random.default_rng(0)
    p, y = rng.random(n), rng.integers(0, 2, n)
    y[:2] = 0, 1
    w = rng.random(n) if weighted else None
    assert metrics.brier(y, p, sample_weight=w) == pytest.approx(
        sklearn.metrics.brier_score_loss(y, p, sample_weight=w), rel=1e-12
    )
    assert metrics.log_loss(y, p, sample_weight=w) == pytest.approx(
        sklearn.metrics.log_loss(y, p, sample_weight=w), rel=1e-12
    )


@pytest.mark.parametrize("labels", [None, ["c", "a", "b"]])
def test_one_column_per_class(labels):
    rng = np.random.default_rng(1)
    P, y = rng.dirichlet([1, 1, 1], 200), np.array(["a", "b", "c"])[rng.integers(0, 3, 200)]
    order = [0, 1, 2] if labels is None else [2, 0, 1]
    given_p = P[:, order]
    assert metrics.log_loss(y, given_p, labels=labels) == pytest.approx(sklearn.metrics.log_loss(y, P), rel=1e-12)
    one_hot = (y[:, None] == np.array(["a", "b", "c"])).astype(float)
    assert metrics.brier(y, given_p, labels=labels) == pytest.approx(((P - one_hot) ** 2).sum(1).mean(), rel=1e-12)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_soft_labels_are_mixtures(rows):
    label, p = (np.array(column) for column in zip(*rows, strict=True))
    assume(set(p) != {0.0, 1.0})  # which look like labels
    both_p, both_y, share = np.tile(p, 2), np.repeat([1, 0], len(p)), np.concatenate([label, 1 - label])
    for metric in (metrics.brier, metrics.log_loss):
        np.testing.assert_allclose(metric(label, p), metric(both_y, both_p, sample_weight=share), atol=1e-12)


def test_weight_is_repetition():
    p, y, w = np.array([0.2, 0.7, 0.9]), np.array([0, 1, 0]), np.array([3, 0, 2])
    for metric in (metrics.brier, metrics.log_loss):
        assert metric(y, p, sample_weight=w) == pytest.approx(metric(np.repeat(y, w), np.repeat(p, w)))


def test_guarded_logarithm():
    assert metrics.log_loss([0], [1.0], eps=0.01) == pytest.approx(-np.log(0.01))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0.2, 1.2]), "p declared as probabilities must lie in"),
        (([0, 1], [0.2, np.nan]), "p must be finite"),
        (([0, 1, 1], [0.2, 0.3]), "y must have one value"),
        (([0, 1], [[0.2, 0.3], [0.5, 0.5]]), "sum to 1"),
        (([0, 1], [[0.2, 0.3, 0.5], [0.5, 0.5, 0]]), "give labels"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.log_loss(*arguments)


@pytest.mark.parametrize("name", metrics.METRICS)
def test_every_metric_of_the_table_is_a_function_of_the_package(name):
    assert getattr(metrics, name) is metrics.METRICS[name].function
    assert name in metrics.__all__
    assert metrics.METRICS[name].function.__name__ == name


SWAPPED = {
    "0 and 1": np.array([0, 1, 1, 0]),
    "as floats": np.array([0.0, 1.0, 1.0, 0.0]),
    "True and False": np.array([False, True, True, False]),
    "-1 and 1": np.array([-1, 1, 1, -1]),
}


@pytest.mark.parametrize("y", SWAPPED.values(), ids=SWAPPED)
@pytest.mark.parametrize("name", metrics.METRICS)
def test_swapped_arguments_are_refused(name, y):
    p = np.array([0.2, 0.7, 0.9, 0.4])
    with pytest.raises(ValueError, match="the arguments look swapped, give y first and p second"):
        metrics.METRICS[name].function(p, y)
    if name != "normalized_confidence_error":  # undefined where no decision is wrong
        assert np.isfinite(metrics.METRICS[name].function(y, p))


def test_shares_with_genuine_probabilities_are_not_swapped():
    assert metrics.brier([0.2, 0.7], [0.0, 0.5]) == pytest.approx((0.2 + 0.5**2) / 2)
    assert metrics.brier([0.2], [1.0]) == pytest.approx(0.8)
    assert metrics.brier([0.0, 1.0], [0, 1]) == 0


def test_bad_keywords_are_named():
    with pytest.raises(ValueError, match="eps must lie in"):
        metrics.log_loss([0, 1], [0.1, 0.9], eps=0.7)
    with pytest.raises(ValueError, match="only the classes in labels; got 'x'"):
        metrics.log_loss(["a", "x"], [[1, 0], [0, 1]], labels=["a", "b"])


def binary_rows(n=300, seed=0, ties=False):
    """Return labels, probabilities including values near 0 and 1, and whole weights including zeros."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.9, n)
    p = np.round(p, 1) if ties else p
    y = (rng.random(n) < 0.1 + 0.7 * p).astype(int)
    return y, p, rng.integers(0, 4, n)


def class_rows(n=300, k=3, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(k, 0.7), n)
    y = np.array([rng.choice(k, p=row) for row in 0.3 / k + 0.7 * P])
    return y, P, rng.integers(0, 4, n)


ROWS = {"ties": binary_rows(ties=True), "no ties": binary_rows(), "three classes": class_rows()}


@pytest.mark.parametrize("name", metrics.METRICS)
class TestEveryMetric:
    @pytest.mark.parametrize("rows", ROWS)
    def test_weight_is_repetition(self, name, rows):
        y, p, w = ROWS[rows]
        function = metrics.METRICS[name].function
        repeated = function(np.repeat(y, w), np.repeat(p, w, axis=0))
        assert function(y, p, sample_weight=w) == pytest.approx(repeated, rel=1e-9, abs=1e-12)

    @pytest.mark.parametrize("rows", ROWS)
    def test_order_of_rows_does_not_matter(self, name, rows):
        y, p, w = ROWS[rows]
        order = np.random.default_rng(1).permutation(len(y))
        function = metrics.METRICS[name].function
        shuffled = function(y[order], p[order], sample_weight=w[order])
        assert function(y, p, sample_weight=w) == pytest.approx(shuffled, rel=1e-9, abs=1e-12)

    @pytest.mark.parametrize("rows", ROWS)
    def test_the_core_has_the_defaults_of_the_function(self, name, rows):
        """An assessment calls the core, a person the function: numbers of bins and the like must be the same."""
        y, p, w = ROWS[rows]
        core = metrics.METRICS[name].core(metrics.check_forecasts(y, p, sample_weight=w))
        assert metrics.METRICS[name].function(y, p, sample_weight=w) == pytest.approx(core, rel=1e-12, abs=1e-15)

    @pytest.mark.parametrize("rows", ROWS)
    def test_lies_within_its_bounds(self, name, rows):
        y, p, w = ROWS[rows]
        low, high = metrics.METRICS[name].bounds
        assert low <= metrics.METRICS[name].function(y, p, sample_weight=w) <= high

    @pytest.mark.parametrize("scale", [1e-300, 0.125, 1e300])
    def test_scale_of_weights_does_not_matter(self, name, scale):
        y, p, w = ROWS["ties"]
        function = metrics.METRICS[name].function
        if name in {"errors", "total_log_loss"}:
            expected = function(y, p, sample_weight=w) * scale
        elif name.endswith("_debiased") or name == "canonical_error":  # noise depends on the number of rows
            return
        else:
            expected = function(y, p, sample_weight=w)
        assert function(y, p, sample_weight=w * scale) == pytest.approx(expected, rel=1e-9)

    def test_two_columns_are_one(self, name):
        y, p, w = ROWS["no ties"]
        function = metrics.METRICS[name].function
        times = 2 if name in {"brier", "miscalibration", "discrimination", "uncertainty"} else 1
        both = function(y, np.column_stack([1 - p, p]), sample_weight=w)
        assert both == pytest.approx(times * function(y, p, sample_weight=w), rel=1e-9)

    def test_a_third_column_of_zeros_changes_nothing(self, name):
        y, p, w = ROWS["no ties"]
        P, function = np.column_stack([1 - p, p]), metrics.METRICS[name].function
        three = np.column_stack([P, np.zeros(len(p))])
        if name in {"auc", "discrimination", "log_discrimination"} or "ece" in name or name.startswith("log_"):
            return  # means or sums over classes
        assert function(y, three, labels=[0, 1, 2], sample_weight=w) == pytest.approx(function(y, P, sample_weight=w))

    @pytest.mark.parametrize("rows", ["ties", "no ties"])
    def test_counts_are_rows(self, name, rows):
        y, p, w = ROWS[rows]
        values, place = np.unique(p, return_inverse=True)
        hits, misses = np.bincount(place, w * y), np.bincount(place, w * (1 - y))
        rows_say = metrics.METRICS[name].function(y, p, sample_weight=w)
        assert metrics.from_counts(name, values, hits, misses) == pytest.approx(rows_say, rel=1e-9, abs=1e-12)

    def test_soft_labels_are_mixtures(self, name):
        y, p, w = ROWS["ties"]
        values, place = np.unique(p, return_inverse=True)
        total = np.bincount(place, w)
        share = np.bincount(place, w * y) / total
        function = metrics.METRICS[name].function
        assert function(share, values, sample_weight=total) == pytest.approx(
            function(y, p, sample_weight=w), rel=1e-9, abs=1e-12
        )

    def test_names_of_classes_do_not_matter(self, name):
        y, p, w = ROWS["no ties"]
        function = metrics.METRICS[name].function
        expected = function(y, p, sample_weight=w)
        for named in (y == 1, 2 * y - 1, np.array(["no", "yes"])[y], y.astype(float)):
            assert function(named, p, sample_weight=w) == pytest.approx(expected, rel=1e-12)
        swapped = function(np.array(["yes", "no"])[y], p, sample_weight=w, labels=["yes", "no"])
        assert swapped == pytest.approx(expected, rel=1e-12)

    def test_order_of_columns_is_that_of_labels(self, name):
        y, P, w = ROWS["three classes"]
        function, named = metrics.METRICS[name].function, np.array(["a", "b", "c"])[y]
        expected = function(y, P, sample_weight=w)
        assert function(named, P[:, [2, 0, 1]], labels=["c", "a", "b"], sample_weight=w) == pytest.approx(expected)

    def test_sure_and_right(self, name):
        y = np.array([0, 1, 1, 0, 1])
        if name == "normalized_confidence_error":  # no errors: not defined
            assert np.isnan(metrics.METRICS[name].function(y, y))
            return
        known = {"accuracy": 1, "auc": 1, "spherical": 1}
        for part, entropy in (("uncertainty", 0.24), ("log_uncertainty", -0.4 * np.log(0.4) - 0.6 * np.log(0.6))):
            known[part] = known[part.replace("uncertainty", "discrimination")] = entropy
        assert metrics.METRICS[name].function(y, y.astype(float)) == pytest.approx(known.get(name, 0), abs=1e-12)

    def test_sure_and_wrong(self, name):
        y = np.array([0, 1, 1, 0, 1])
        known = {"errors": 5, "auc": 0, "accuracy": 0, "spherical": 0, "normalized_confidence_error": 0.5}
        known |= dict.fromkeys(["log_loss", "total_log_loss", "mcre", "log_miscalibration"], np.inf)
        known |= dict.fromkeys(["discrimination", "log_discrimination"], 0)
        known |= {"uncertainty": 0.24, "log_uncertainty": -0.4 * np.log(0.4) - 0.6 * np.log(0.6)}
        known["miscalibration"] = 1 - 0.24
        # Ten pairs of rows: four of one side, with (e - p).(e - p) = 2, and six of both, with -2 k.
        known["canonical_error"] = (4 * 2 - 6 * 2 * np.exp(-2 * np.sqrt(2) / np.sqrt(2 * 2 * 0.24))) / 10
        if name == "smooth_ece":  # a wide kernel mixes the residuals at 0 and 1, which cancel unless they have one sign
            y = np.zeros(5)
        assert metrics.METRICS[name].function(y, 1.0 - y) == pytest.approx(known.get(name, 1), abs=1e-12)

    def test_one_class(self, name):
        metric = metrics.METRICS[name]
        for y in ([1, 1, 1], [0, 0, 0]):
            if metric.one_class:
                assert np.isfinite(metric.function(y, [0.2, 0.9, 0.4]))
                assert metric.function(y, [0.2, 0.9, 0.4], labels=[0, 1]) == metric.function(y, [0.2, 0.9, 0.4])
            else:
                with pytest.raises(ValueError, match="y must hold both classes"):
                    metric.function(y, [0.2, 0.9, 0.4])

    def test_one_row(self, name):
        if metrics.METRICS[name].one_class:
            assert np.isfinite(metrics.METRICS[name].function([1], [0.3]))

    @pytest.mark.parametrize(
        ("arguments", "keywords", "message"),
        [
            (([0, 1], [0.2, 1.2]), {}, "p declared as probabilities must lie in"),
            (([0, 1], [0.2, np.nan]), {}, "p must be finite"),
            (([0, 1], ["a", "b"]), {}, "p must be real"),
            (([0, 1, 1], [0.2, 0.3]), {}, "y must have one value"),
            (([0, 1, 2], [0.2, 0.3, 0.4]), {}, "y must hold two classes"),
            (([0, np.nan], [0.2, 0.3]), {}, "y must be finite"),
            ((["a", "a"], [0.2, 0.3]), {}, r"positive by labels=\[negative, positive\]"),
            (([0, 1], [0.2, 0.3]), {"labels": [0, 1, 2]}, "labels must hold the negative and the positive class"),
            (([0, 1], [0.2, 0.3]), {"labels": [1, 1]}, "labels must all be different"),
            ((["a", "x"], [0.2, 0.3]), {"labels": ["a", "b"]}, "only the classes in labels; got 'x'"),
            (([None, "b"], [0.2, 0.3]), {"labels": ["a", "b"]}, "y must hold no missing label; got 1"),
            (
                (np.array([1, "b"], object), [0.2, 0.3]),
                {"labels": ["a", "b"]},
                "same type as the classes in .*; got int, str",
            ),
            (([0, 1], [[0.2, 0.3], [0.5, 0.5]]), {}, "sum to 1"),
            (([0, 1], [[0.2, 0.3, 0.5], [0.5, 0.5, 0]]), {}, "give labels"),
            (([0, 3], [[0.2, 0.3, 0.5], [0.5, 0.5, 0]]), {"labels": [0, 1, 2]}, "only the classes in labels; got 3"),
            (([0, 1], [0.2, 0.3]), {"sample_weight": [1, -1]}, "sample_weight must not be negative"),
            (([0, 1], [0.2, 0.3]), {"sample_weight": [1]}, "sample_weight must have one value"),
            (([0, 1], [0.2, 0.3]), {"sample_weight": [0, 0]}, "sample_weight must not all be zero"),
            (([], []), {}, "must hold at least one value"),
        ],
    )
    def test_bad_input_is_named(self, name, arguments, keywords, message):
        with pytest.raises(ValueError, match=message):
            metrics.METRICS[name].function(*arguments, **keywords)

    @pytest.mark.parametrize("rows", ROWS)
    def test_the_function_is_its_core_after_the_checks(self, name, rows):
        y, p, w = ROWS[rows]
        data = metrics.check_forecasts(y, p, w)
        assert metrics.METRICS[name].core(data) == metrics.METRICS[name].function(y, p, sample_weight=w)

    def test_the_core_takes_counts(self, name):
        y, p, w = ROWS["ties"]
        rows, core = metrics.check_forecasts(y, p, w), metrics.METRICS[name].core
        cells = collapse(rows)
        assert len(cells) < len(rows)
        assert core(cells) == pytest.approx(core(rows), rel=1e-9, abs=1e-12)

    @pytest.mark.parametrize("rows", ROWS)
    def test_fast_forms_are_the_core(self, name, rows):
        y, p, w = ROWS[rows]
        data, metric = metrics.check_forecasts(y, p, w), metrics.METRICS[name]
        if metric.loss is not None:
            mean = np.average(row_losses(data, metric.loss), weights=data.weight)
            assert mean == pytest.approx(metric.core(data), rel=1e-12)
        if metric.totals is not None and rows != "three classes":
            assert metric.totals(*sort_rows(data)) == pytest.approx(metric.core(data), rel=1e-9, abs=1e-12)
        if metric.averaged:
            each = [metric.totals(*sort_rows(one)) for one in one_vs_rest(data)]
            assert np.mean(each) == pytest.approx(metric.core(data), rel=1e-12)

    @pytest.mark.parametrize("rows", ROWS)
    def test_arguments_are_checked_once(self, name, rows):
        y, p, w = ROWS[rows]
        found = count_checks(lambda: metrics.METRICS[name].function(y, p, sample_weight=w))
        assert found["check_finite"] + found["check_distributions"] == 2  # p and the weights
        assert found["check_weights"] == 1

    def test_a_value_that_another_metric_has_too_is_said(self, name):
        for place, rows in enumerate(("no ties", "three classes")):
            y, p, w = ROWS[rows]
            values = {each: row.function(y, p, sample_weight=w) for each, row in metrics.METRICS.items()}
            twins = {each for each, value in values.items() if value == pytest.approx(values[name], rel=1e-9)}
            said = {metrics.METRICS[each].same[place] or each for each in twins}
            assert len(said) == 1, f"{twins} have one value"
            assert said <= twins

    def test_the_row_is_complete(self, name):
        metric = metrics.METRICS[name]
        assert metric.several in {"", "top label", "classwise", "canonical"}
        assert metric.better in {"smaller", "larger"}
        assert metric.formula
        assert metric.source
        assert getattr(metrics, name, metric.function) is metric.function


@given(
    st.sampled_from(list(metrics.METRICS)),
    st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1), st.floats(0, 1e6)), min_size=1, max_size=12),
)
def test_any_rows_give_a_value_or_a_clear_refusal(name, rows):
    y, p, w = (np.array(column) for column in zip(*rows, strict=True))
    metric = metrics.METRICS[name]
    if not w.any() or (not metric.one_class and len(set(y[w > 0])) < 2):
        with pytest.raises(ValueError, match="must"):
            metric.function(y, p, sample_weight=w)
        return
    value = metric.function(y, p, sample_weight=w)
    low, high = metric.bounds
    assert np.isnan(value) if name == "normalized_confidence_error" and np.isnan(value) else low - 1e-9 <= value
    assert not value > high * (1 + 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_auc_agrees_with_scikit_learn(weighted, ties):
    y, p, w = binary_rows(500, ties=ties)
    w = w + 0.25 if weighted else None
    expected = sklearn.metrics.roc_auc_score(y, p, sample_weight=w)
    for multiclass in ("ovr", "ovo"):
        assert metrics.auc(y, p, sample_weight=w, multiclass=multiclass) == pytest.approx(expected, rel=1e-12)
    y, P, w = class_rows(400, 4)
    w = w + 0.25 if weighted else None
    expected = sklearn.metrics.roc_auc_score(y, P, multi_class="ovr", sample_weight=w)
    assert metrics.auc(y, P, sample_weight=w) == pytest.approx(expected, rel=1e-12)
    expected = sklearn.metrics.roc_auc_score(y, P, multi_class="ovo")
    assert metrics.auc(y, P, multiclass="ovo") == pytest.approx(expected, rel=1e-12)


def test_auc_refuses_a_class_without_rows_and_other_means():
    with pytest.raises(ValueError, match="y must hold both classes"):
        metrics.auc([0, 1, 1], [[0.2, 0.3, 0.5]] * 3, labels=[0, 1, 2])
    with pytest.raises(ValueError, match="multiclass must be one of ovr, ovo; got 'mean'"):
        metrics.auc([0, 1], [0.2, 0.3], multiclass="mean")


@pytest.mark.parametrize("rows", ROWS)
def test_accuracy_and_errors_agree_with_scikit_learn(rows):
    y, p, w = ROWS[rows]
    decided = p.argmax(axis=1) if p.ndim == 2 else p > 0.5
    assert metrics.accuracy(y, p, sample_weight=w) == pytest.approx(
        sklearn.metrics.accuracy_score(y, decided, sample_weight=w)
    )
    assert metrics.errors(y, p, sample_weight=w) == w[decided != y].sum()


def test_accuracy_of_decision_values():
    y, f, w = np.array([-1, 1, 1, -1]), np.array([-1.0, 0.0, 2.0, 3.0]), np.array([1, 2, 3, 4])
    assert metrics.accuracy_at_threshold(y, f) == 0.75  # f = 0 counts as positive
    assert metrics.accuracy_at_threshold(y, f, 2.5, sample_weight=w) == pytest.approx(1 / 10)
    assert metrics.accuracy_at_threshold(["b"], [1.0], labels=["a", "b"]) == 1
    for arguments, message in [
        (([0, 1], [0.0, np.inf]), "score must be finite"),
        (([0, 1], [0.0, 1.0], np.nan), "threshold must be finite"),
        (([0, 1], [0.0]), "y must have one value"),
    ]:
        with pytest.raises(ValueError, match=message):
            metrics.accuracy_at_threshold(*arguments)


def test_spherical_score_is_proper():
    grid = np.linspace(0, 1, 201)
    for q in (0.1, 0.35, 0.8):
        expected = [metrics.spherical([q], [p]) for p in grid]
        assert grid[np.argmax(expected)] == pytest.approx(q)
    assert metrics.spherical([2], [[0.2, 0.3, 0.5]], labels=[0, 1, 2]) == pytest.approx(0.5 / np.sqrt(0.38))


def test_total_log_loss(vectors):
    case = vectors["metrics"]
    assert metrics.total_log_loss(case["y01"], case["p"]) == pytest.approx(case["cre_nats"], rel=1e-12)
    assert metrics.total_log_loss([0, 1], [1.0, 0.5], sample_weight=[0, 3]) == pytest.approx(3 * np.log(2))


def test_log_probabilities_do_not_cancel():
    logit = np.array([800.0, -900.0, 40.0, 0.0])
    log_p = np.column_stack([-np.logaddexp(0, logit), -np.logaddexp(0, -logit)])
    assert metrics.log_loss([0, 1, 0, 1], log_p=log_p) == pytest.approx((800 + 900 + 40 + np.log(2)) / 4, rel=1e-15)
    assert metrics.log_loss([1, 0, 1, 1], log_p=log_p) == pytest.approx((np.exp(-40) + np.log(2)) / 4, rel=1e-15)
    assert metrics.log_loss([0], log_p=[[-np.inf, 0.0]], labels=[0, 1]) == np.inf
    assert metrics.log_loss([0], log_p=[[-np.inf, 0.0]], labels=[0, 1], eps=1e-3) == pytest.approx(-np.log(1e-3))
    y, P, w = ROWS["three classes"]
    expected = metrics.total_log_loss(y, P, sample_weight=w, eps=0.01)
    assert metrics.total_log_loss(y, log_p=np.log(P), sample_weight=w, eps=0.01) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "give either p or log_p; got neither"),
        ({"p": [0.1, 0.2], "log_p": [[0, 0], [0, 0]]}, "got both"),
        ({"log_p": [-0.1, -0.2]}, r"exp\(log_p\) must have one row .* class; got an array of shape \(2,\)"),
        ({"log_p": [["a", "b"]]}, "log_p must be real numbers"),
        ({"log_p": np.ma.masked_less([[-0.7, -0.7]] * 2, 0)}, "log_p must not be masked"),
        (
            {"log_p": [[-0.5, -0.5], [-0.1, 0.3]]},
            r"exp\(log_p\) must hold rows .*; row 0 is \[0.606531, 0.606531",
        ),
        ({"log_p": [[0.0, -np.inf], [1000.0, 0.0]]}, r"exp\(log_p\) must hold rows .* row 1 is \[inf, 1\]"),
        ({"log_p": np.log([[0.5, 0.5], [np.nan, 0.5]])}, r"sum to 1; row 1 is \[nan"),
    ],
)
def test_bad_logarithms_are_named(keywords, message):
    with pytest.raises(ValueError, match=message):
        metrics.log_loss([0, 1], **keywords)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nonsense", [0.1], [1], [1]), "name must be one of brier, .*; got 'nonsense'"),
        (("brier", [0.1], [-1], [1]), "positive must not be negative; got -1.0 at position 0"),
        (("brier", [0.1], [1], [1, 2]), "negative must have one value"),
        (("brier", [0.1, 2.0], [1, 1], [1, 1]), "p declared as probabilities"),
        (("brier", [0.1], [0], [0]), "must not all be zero"),
    ],
)
def test_bad_counts_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.from_counts(*arguments)


def test_counts_of_any_size_are_exact():
    assert metrics.from_counts("log_loss", [1.0], [1e20], [1]) == np.inf
    assert metrics.from_counts("ece", [0.3, 0.3], [1, 2], [3, 4], bins=3) == pytest.approx(0.0)


def test_confidences_are_forecasts_of_being_right(vectors):
    y, P, w = ROWS["three classes"]
    right, confidence = metrics.confidences(y, P)
    q = metrics.brier(right, confidence, sample_weight=w)
    assert metrics.confidence_error(y, P, sample_weight=w) == pytest.approx(q, rel=1e-12)


def test_one_class_for_several_columns_is_said():
    with pytest.raises(ValueError, match="got 2 columns for y that holds one class only, 'a': give labels"):
        metrics.brier(["a", "a"], [[0.2, 0.8], [0.5, 0.5]])
