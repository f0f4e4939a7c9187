"""The benchmarks of several classes: contestants do the same work, and goals are read the right way round."""

import numpy as np
import pytest
from bench.cases import OURS, SKLEARN, Cost, Goal, Within

from bench import class_cases


def test_goals_are_ratios_and_limits():
    assert Goal(20).reached(1.0, 20.0)
    assert not Goal(20).reached(1.0, 19.0)
    assert Cost(3).reached(3.0, 1.0)
    assert not Cost(3).reached(3.1, 1.0)
    assert Within(10.0).reached(10.0, 1.0)
    assert not Within(10.0).reached(11.0, 100.0)
    assert [str(goal) for goal in (Goal(20), Cost(3), Within(10_000))] == [">= 20x", "<= 3x the cost", "<= 10,000"]


def test_labels_are_drawn_from_their_probabilities():
    data = class_cases.ClassData.draw(20_000, 3)
    p = data.probability**0.7  # without the bias: shares are only near
    p /= p.sum(axis=1, keepdims=True)
    sure = p.max(axis=1) > 0.8
    hit = p.argmax(axis=1) == data.label
    assert hit[sure].mean() == pytest.approx(p.max(axis=1)[sure].mean(), abs=0.05)


def test_both_temperatures_are_the_same():
    contest = class_cases.temperature(4, 500)
    losses = {name: contest.check(run()) for name, run in contest.run.items()}
    assert losses[OURS] == pytest.approx(losses[SKLEARN], rel=1e-4)
    assert losses[OURS] < contest.check(lambda p: p)


@pytest.mark.parametrize("make", [class_cases.matrix, class_cases.auto])
def test_every_contestant_is_better_than_the_scores(make):
    contest = make(4, 500)
    raw = contest.check(lambda p: p)
    assert all(contest.check(run()) < raw for run in contest.run.values())


def test_the_input_is_what_memory_is_measured_by():
    contest = class_cases.memory("temperature", 4, 500)
    assert np.asarray(contest.run[class_cases.INPUT]()).nbytes == 500 * 4 * 8
    assert callable(contest.run[OURS]())
