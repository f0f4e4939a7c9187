"""The published algorithms: every step of their recorded traces, their optimum, and their faults."""

import numpy as np
import pytest

import calibrant
from calibrant.maps.published import fit_platt_lm, fit_platt_newton, levenberg_marquardt_run, newton_run
from calibrant.numerics.logistic import smoothed_targets
from calibrant.samples import sample
from tests.conftest import noisy_scores

SMALL8 = sample([-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [0, 0, 0, 1, 0, 1, 1, 1])
HUGE = sample(np.array([-1.0, -0.5, 0.5, 1.0]) * 1e308, [0, 0, 1, 1])

RUNS = {
    "newton_fixed": newton_run,
    "newton_dynamic": lambda data: newton_run(data, sigma="dynamic"),
    "lm_appendix_bug": lambda data: levenberg_marquardt_run(data, bug=True),
    "lm_bug_fixed": levenberg_marquardt_run,
    "lm_as_tested_by_lin": lambda data: levenberg_marquardt_run(data, stop="lin"),
}
# Rounding alone decides when these stop: the last steps are below what F resolves.
ILL_CONDITIONED = {("outlier_1e4", "newton_dynamic"), ("outlier_1e4", "lm_bug_fixed")}


def number(value):
    return float(value) if isinstance(value, str) else value


@pytest.mark.parametrize("algorithm", RUNS)
def test_traces(vectors, algorithm):
    for name, case in vectors["platt_fits"]["sets"].items():
        expected = case[algorithm]
        run = RUNS[algorithm](sample(case["f"], (np.array(case["y"]) + 1) // 2))
        where = f"{name}, {algorithm}"
        found = [run.map.a, run.map.b, run.objective]
        wanted = [number(expected[key]) for key in ("A", "B", "F" if "F" in expected else "F_true")]
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9, err_msg=where)
        if "err_as_computed" in expected:
            np.testing.assert_allclose(run.error, number(expected["err_as_computed"]), rtol=1e-12, err_msg=where)
        if (name, algorithm) not in ILL_CONDITIONED:
            assert run.status == expected["status"], where
            for counter in {"iterations", "backtracks", "overflows"} & expected.keys():
                assert getattr(run, counter) == expected[counter], f"{where}: {counter}"


def test_newton_is_libsvm(vectors):
    case = vectors["libsvm_end_to_end"]
    fitted = fit_platt_newton(sample(case["decision_values_5fold"], case["y"]))
    np.testing.assert_allclose([fitted.a, fitted.b], [case["libsvm_probA"], case["libsvm_probB"]], rtol=1e-14)


def test_counters_known_without_the_file():
    assert (newton_run(SMALL8).iterations, newton_run(SMALL8).backtracks) == (4, 0)
    assert [levenberg_marquardt_run(SMALL8, bug=bug).iterations for bug in (False, True)] == [5, 100]
    assert levenberg_marquardt_run(SMALL8, bug=True).map.a == pytest.approx(-0.7292406498240089, rel=1e-12)


@pytest.mark.parametrize("algorithm", ["newton_fixed", "newton_dynamic", "lm_bug_fixed", "lm_as_tested_by_lin"])
@pytest.mark.parametrize("seed", range(4))
def test_they_end_near_the_optimum(algorithm, seed):
    scores, labels = noisy_scores(150, seed=seed)
    run = RUNS[algorithm](sample(scores, labels))
    best = calibrant.fit("platt", scores, labels)
    assert run.converged
    assert run.map.a == pytest.approx(best.a, rel=1e-4)
    high, low = smoothed_targets(labels.sum(), len(labels) - labels.sum())
    target = np.where(labels == 1, high, low)
    u = run.map.a * scores + run.map.b
    assert run.objective == pytest.approx((target * np.logaddexp(0, u) + (1 - target) * np.logaddexp(0, -u)).sum())
    residual = target - run.map(scores)
    assert max(abs(residual.sum()), abs(residual @ scores)) < 1e-5


def test_weights_repeat_rows_and_pooled_rows_are_the_rows():
    scores, labels = noisy_scores(60, seed=2, ties=True)
    weight = np.random.default_rng(0).integers(1, 4, 60)
    repeated = sample(np.repeat(scores, weight), np.repeat(labels, weight))
    for algorithm in ("newton_fixed", "lm_bug_fixed"):
        samples = sample(scores, labels, weight), repeated, calibrant.collapse(repeated)
        runs = [RUNS[algorithm](data) for data in samples]
        assert len({run.iterations for run in runs}) == 1
        for run in runs[1:]:
            np.testing.assert_allclose([run.map.a, run.map.b], [runs[0].map.a, runs[0].map.b], rtol=1e-9)


def test_only_the_bug_makes_the_order_of_rows_matter():
    scores, labels = noisy_scores(40, seed=3)
    order = np.argsort(labels)
    scores, labels = scores[order], labels[order]
    turned = sample(scores[::-1], labels[::-1])
    for bug, same in ((False, True), (True, False)):
        maps = [levenberg_marquardt_run(data, bug=bug).map for data in (sample(scores, labels), turned)]
        assert np.isclose(maps[0].a, maps[1].a, rtol=1e-9) == same


def test_levenberg_marquardt_overflows_and_gives_up_where_newton_does_not():
    scores = np.append(np.linspace(-1.1, -0.9, 400), 300.0)
    data = sample(scores, scores > 0)
    newton, marquardt = newton_run(data), levenberg_marquardt_run(data, stop="lin")
    assert newton.converged
    assert newton.overflows == 0
    assert marquardt.overflows > 100
    assert marquardt.status == "max_iterations"
    assert marquardt.objective > 2 * newton.objective
    with pytest.warns(UserWarning, match="gave up after 100 iterations"):
        assert fit_platt_lm(data, stop="lin") == marquardt.map


def test_huge_scores_end_in_no_number_and_the_fit_says_so():
    run = levenberg_marquardt_run(HUGE)
    assert np.isnan([run.map.a, run.map.b, run.objective]).all()
    assert run.status == "count3"
    assert not run.converged
    with pytest.raises(ValueError, match=r"scores are too large for the published algorithm.*'platt'"):
        fit_platt_lm(HUGE)
    with pytest.warns(UserWarning, match=r"gave up after 0 iterations \(line_search_failed\)"):
        assert fit_platt_newton(HUGE).a == 0


def test_a_singular_system_is_damped_until_it_is_not():
    run = levenberg_marquardt_run(sample([1.0, 1.0], [0, 1], [1e17, 2e17]))  # lambda = 1e-3 is lost beside the weights
    assert run.map(1.0) == pytest.approx(2 / 3, rel=1e-12)


def test_tiny_scores_fool_the_absolute_stopping_rule():
    data = sample(SMALL8.score * 1e-300, SMALL8.label)
    assert newton_run(data).converged
    assert newton_run(data).map.a == 0
    assert calibrant.fit("platt", data.score, data.label).a == pytest.approx(-0.928407601025861e300, rel=1e-9)


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="sigma must be fixed or dynamic; got 'none'"):
        newton_run(SMALL8, sigma="none")
    with pytest.raises(ValueError, match="stop must be one of paper, lin; got 'never'"):
        levenberg_marquardt_run(SMALL8, stop="never")
