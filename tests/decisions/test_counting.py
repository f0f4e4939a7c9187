"""Confusion of decisions against scikit-learn, and its cost against the cost of each row."""

import numpy as np
import pytest
import sklearn.metrics

from calibrant import decisions, metrics
from calibrant.decisions.counting import confuse

COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.6, 0.6, 0.6], n)
    return rng.integers(0, 3, n), P, rng.integers(0, 4, n)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_table_is_that_of_scikit_learn(weighted):
    y, P, w = rows()
    w = w if weighted else None
    found = decisions.confusion(y, P, sample_weight=w)
    expected = sklearn.metrics.confusion_matrix(y, P.argmax(axis=1), sample_weight=w)
    np.testing.assert_allclose(found.table, expected)
    assert found.cost is None
    assert list(found.rows) == sorted(found.rows, reverse=True)
    assert sum(count for _, _, count in found.wrong) == pytest.approx(metrics.errors(y, P, sample_weight=w))


@pytest.mark.parametrize("rejecting", [False, True])
def test_the_cost_is_the_sum_over_rows(rejecting):
    y, P, w = rows()
    costs = np.column_stack([COSTS, [0.5, 0.5, 0.5]]) if rejecting else COSTS
    decided = decisions.bayes(P, costs)
    found = decisions.confusion(y, P, costs, sample_weight=w)
    assert found.cost == pytest.approx(float(w @ costs[y, decided]))
    assert found.table.shape == (3, 4 if rejecting else 3)
    assert found.table.sum() == pytest.approx(w.sum())
    if rejecting:
        assert found.table[:, -1].sum() == pytest.approx(w[decided == decisions.REJECT].sum())
        assert all(chosen != decisions.REJECT for _, chosen, _ in found.wrong)


def test_the_most_probable_class_can_be_charged_too():
    y, P, w = rows()
    found = confuse(metrics.check_forecasts(y, P, w), COSTS)
    assert found.cost == pytest.approx(float(w @ COSTS[y, P.argmax(axis=1)]))


def test_deciding_by_costs_is_cheaper_where_the_forecast_is_right():
    rng = np.random.default_rng(1)
    P = rng.dirichlet([0.6, 0.6, 0.6], 4000)
    y = np.minimum((P.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1), 2)
    data = metrics.check_forecasts(y, P)
    assert confuse(data, COSTS, decide_by_costs=True).cost < 0.9 * confuse(data, COSTS).cost


def test_one_column_and_shares_of_classes():
    found = decisions.confusion([0.25, 1.0, 0.0], [0.2, 0.9, 0.6], sample_weight=[4, 1, 2])
    np.testing.assert_allclose(found.table, [[3, 2], [1, 1]])


def test_a_class_without_rows_has_a_row_of_zeros():
    found = decisions.confusion(["a", "c"], [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], labels=["a", "b", "c"])
    np.testing.assert_allclose(found.table, [[1, 0, 0], [0, 0, 0], [0, 1, 0]])


def test_bad_costs_are_named():
    y, P, _ = rows(20)
    with pytest.raises(ValueError, match="costs must have a row for each of the 3 classes"):
        decisions.confusion(y, P, [[0, 1], [1, 0]])
