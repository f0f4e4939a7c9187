"""The noise of the arena's tests: pairs against scipy's test, chances against draws."""

import numpy as np
import pytest
from bench.arena.running import Task
from bench.noise_table import Duel, compare_rows, count, run_task
from scipy import stats


def test_a_duel_is_a_paired_test():
    rng = np.random.default_rng(0)
    label, ours, base = rng.integers(0, 2, 500), rng.random(500), rng.random(500)
    found = compare_rows(ours, base, label, 0.0)
    losses = [-np.log(np.where(label == 1, p, 1 - p)) for p in (ours, base)]
    # scipy divides by n - 1.
    assert found.gain / found.error * np.sqrt(499 / 500) == pytest.approx(stats.ttest_rel(*losses[::-1]).statistic)
    assert found.scale == pytest.approx(losses[1].mean())
    assert compare_rows(ours, base, label, 7.0).scale == 7.0


def test_the_chance_of_a_bad_task_is_that_of_draws():
    duel = Duel(gain=0.0, error=0.004, scale=0.5)
    gains = np.random.default_rng(0).normal(0, duel.error, 200_000)
    drawn = np.mean([Duel(gain, duel.error, duel.scale).is_bad for gain in gains])
    assert duel.by_chance == pytest.approx(drawn, abs=5e-3)
    assert Duel(0.0, 0.0, 0.5).by_chance == 0.0


def test_what_is_bad_and_what_is_clear():
    noisy, small, large = Duel(-0.01, 0.01, 0.5), Duel(-0.01, 0.003, 0.5), Duel(-0.1, 0.003, 0.5)
    assert [each.is_bad for each in (noisy, small, large)] == [True, True, True]
    assert [each.is_clear for each in (noisy, small, large)] == [False, True, True]
    assert [each.is_clearly_bad for each in (noisy, small, large)] == [False, False, True]
    cells = [cell.strip() for cell in count("tuning", 400, [noisy, small, large, Duel(0.1, 0.01, 0.5)]).split("|")]
    assert cells[2:7] == ["400", "4", "3 (75.0 %)", "2", "1 (25.0 %)"]
    assert cells[8] == "-20 %"


def test_a_task_is_run_with_auto_first():
    rng = np.random.default_rng(0)
    score = rng.normal(size=6_000)
    label = (rng.random(6_000) < np.where(score < 0, 0.1, 0.9)).astype(int)  # a step, which no sigmoid is
    assert run_task(Task(score[:2_000], label[:2_000], score[2_000:], label[2_000:]), "margin").gain > 0
