"""Bets against forecasts: fair on cells of any width, for any truth inside the tolerance, at every look."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from calibrant.evidence.betting import (
    ALTERNATIVES,
    PRIOR,
    bound_difference,
    estimate_shift,
    place_bets,
    play,
    reject_groups,
    start_wealth,
)

P = expit(np.linspace(-5.0, 1.0, 24))  # forecasts of 24 equally likely kinds of rows, 17 % in the mean
CENTER, SCALE = -1.0, 1.2
STREAMS, DAYS, ROWS = 400, 50, 300
ALPHA = 0.05


def run(truth, tolerance=0.0, per_cell=1, streams=STREAMS, days=DAYS, seed=0):
    """Return the evidence of both kinds, (days, streams); `truth(day)` are the probabilities, cells hold some kinds."""
    rng, wealth, found = np.random.default_rng(seed), start_wealth(streams), []
    for day in range(1, days + 1):
        n = rng.multinomial(ROWS, np.full(len(P), 1 / len(P)), size=streams)
        k = rng.binomial(n, truth(day))
        rows, predicted, positive = (
            np.add.reduceat(each, np.arange(0, len(P), per_cell), axis=1).astype(float) for each in (n, n * P, k)
        )
        if per_cell == 1:
            settled = place_bets(P, CENTER, SCALE, tolerance).settle(rows, positive)
        else:
            mean = predicted / np.maximum(rows, 1)
            settled = [
                np.stack(each)
                for each in zip(
                    *(
                        place_bets(np.where(n > 0, p, 0.5), CENTER, SCALE, tolerance).settle(n, k)
                        for p, n, k in zip(mean, rows, positive, strict=True)
                    ),
                    strict=True,
                )
            ]
        wealth = play(wealth, *settled)
        found.append((wealth.log_e, wealth.log_m))
    return np.swapaxes(found, 0, 1)


def share_of_alarms(log_e, level=1 / ALPHA):
    return np.mean((log_e >= np.log(level)).any(axis=0))


def most(chance, streams=STREAMS):
    """Return what a share of streams stays below, but for one time in a thousand."""
    return chance + 3 * np.sqrt(chance * (1 - chance) / streams)


def test_the_first_wealth_is_one_and_bets_come_in_pairs():
    assert PRIOR.sum() == pytest.approx(1.0)
    assert {tuple(row) for row in ALTERNATIVES} == {tuple(-row + 0.0) for row in ALTERNATIVES}


@given(
    t=st.lists(st.floats(-6, 6), min_size=1, max_size=4),
    off=st.lists(st.floats(-1, 1), min_size=4, max_size=4),
    tolerance=st.floats(0, 2),
)
def test_no_truth_inside_the_band_makes_a_bet_favourable(t, off, tolerance):
    """All labels of one cell of different forecasts, in full: the mean of LR is at most 1."""
    forecast = expit(np.array(t))
    truth = expit(np.array(t) + tolerance * np.array(off[: len(t)]))
    bets = place_bets(np.array([forecast.mean()]), -0.5, 1.0, tolerance)
    mean = 0.0
    for labels in product((0, 1), repeat=len(t)):
        chance = np.prod(np.where(labels, truth, 1 - truth))
        ratio, _ = bets.settle(np.array([float(len(t))]), np.array([float(sum(labels))]))
        mean = mean + chance * np.exp(ratio)
    assert (mean <= 1 + 1e-9).all()


def test_bets_on_one_side_are_fair_for_every_smaller_probability():
    bets = place_bets(np.array([0.02]), -2.0, 1.0, 0.3, rising=True, falling=False)
    for truth in (0.0, 1e-4, 0.02, expit(logit(0.02) + 0.3)):
        assert (truth * np.exp(bets.positive) + (1 - truth) * np.exp(bets.negative) <= 1 + 1e-12).all()
    assert np.exp(bets.positive).max() > 2


@pytest.mark.parametrize(("per_cell", "streams"), [(1, 400), (8, 100)])
def test_right_forecasts_are_left_alone_at_every_look(per_cell, streams):
    log_e, log_m = run(lambda day: P, per_cell=per_cell, streams=streams)
    assert share_of_alarms(log_e) <= most(ALPHA, streams)
    assert share_of_alarms(log_m, 1000) <= most(DAYS / 1000, streams)
    assert np.exp(log_e[-1]).mean() <= 1 + 4 * np.exp(log_e[-1]).std() / np.sqrt(streams)


def test_a_truth_at_the_edge_of_the_band_is_left_alone_and_one_beyond_is_found():
    inside, beyond = (run(lambda day, by=by: expit(logit(P) + by), tolerance=0.3)[0] for by in (0.3, 0.8))
    assert share_of_alarms(inside) <= most(ALPHA)
    assert share_of_alarms(beyond) > 0.95
    assert share_of_alarms(run(lambda day: expit(logit(P) + 0.3))[0]) > 0.95  # without a tolerance


@pytest.mark.parametrize("change", ["shift", "slope"])
def test_a_late_change_is_found_by_both(change):
    after = logit(P) + 0.5 if change == "shift" else CENTER + 0.6 * (logit(P) - CENTER)
    log_e, log_m = run(lambda day: expit(after) if day > 30 else P, streams=200)
    assert (log_e[29] >= np.log(20)).mean() < 0.05
    assert share_of_alarms(log_e[30:]) > 0.95
    delay = [np.median(np.argmax(each[30:] >= np.log(level), axis=0)) for each, level in ((log_e, 20), (log_m, 1000))]
    assert delay[1] <= delay[0] <= 15


def test_wide_cells_lose_little():
    fine, wide = (
        share_of_alarms(run(lambda day: expit(logit(P) + 0.25), per_cell=each, streams=60, days=15)[0])
        for each in (1, 4)
    )
    assert fine > 0.5
    assert abs(fine - wide) < 0.15


def test_what_is_not_finite_is_refused():
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="must be finite"):
            play(start_wealth(), np.full(len(PRIOR), wrong), np.zeros(len(PRIOR)))


@given(st.lists(st.floats(-5, 12), min_size=1, max_size=8))
def test_groups_are_rejected_as_e_bh_is_defined(log_e):
    e, m = np.exp(np.array(log_e)), len(log_e)
    enough = [k for k in range(1, m + 1) if np.sum(e >= m / (ALPHA * k)) >= k]
    expected = e >= m / (ALPHA * max(enough)) if enough else np.zeros(m, bool)
    np.testing.assert_array_equal(reject_groups(np.array(log_e), ALPHA), expected)


def test_the_interval_of_the_difference_holds_at_all_times():
    rng = np.random.default_rng(0)
    p = rng.random((STREAMS, 300)) * 0.4
    difference, variance = np.cumsum((rng.random(p.shape) < p) - p, axis=1), np.cumsum(p * (1 - p), axis=1)
    low, high = bound_difference(difference, variance)
    missed = ((low > 0) | (high < 0)).any(axis=1).mean()
    assert missed <= most(ALPHA)
    assert (high - low < 3 * 2 * 1.96 * np.sqrt(variance) + 40).all()


def test_the_shift_that_explains_the_positives():
    rows = np.full(len(P), 1e6)
    for shift in (-1.5, 0.0, 0.4):
        assert estimate_shift(rows, P, float(rows @ expit(logit(P) + shift))) == pytest.approx(shift, abs=1e-4)
    assert -8 <= estimate_shift(np.array([5.0]), np.array([0.5]), 0.0) < -1
