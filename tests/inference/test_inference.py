"""Tests and intervals against the vectors, published tables, SciPy, statsmodels, definitions and simulation."""

from itertools import combinations

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

import calibrant
from calibrant import inference, metrics
from calibrant.comparing.standings import compare_with_best, holm
from calibrant.inference import (
    TESTS,
    bootstrap,
    bootstrap_difference,
    canonical,
    corp,
    corrected_t,
    critical_difference,
    friedman,
    hosmer_lemeshow,
    mcnemar,
    mcnemar_from_counts,
    paired_t,
    ranks,
    rejections,
    resampling,
    spiegelhalter,
    underline,
    wilcoxon,
)
from calibrant.inference.calibration import judge_by_groups, judge_by_score
from calibrant.inference.evaluations import prepare_mean, prepare_metric
from calibrant.metrics import METRICS
from calibrant.samples import collapse
from tests.conftest import ARRAY_CHECKS, count_checks, paper_tables

INF = np.inf
SIDES = ["two-sided", "greater", "less"]


@pytest.fixture(scope="module")
def published():
    return paper_tables("rueping")


def forecast(n=300, seed=0, digits=None):
    rng = np.random.default_rng(seed)
    p = rng.random(n) if digits is None else rng.random(n).round(digits)
    y = (rng.random(n) < p).astype(int)
    y[:2] = 0, 1
    return y, p


def at_most(rejected, trials, alpha):
    """Return whether this many rejections are compatible with a test of size at most alpha."""
    return stats.binomtest(int(rejected), trials, alpha, alternative="greater").pvalue > 1e-4


def about(rejected, trials, alpha):
    """Return whether this many rejections are compatible with a test of size alpha."""
    return stats.binomtest(int(rejected), trials, alpha).pvalue > 1e-4


# Vectors and published tables


def test_vectors_ranks(vectors):
    case = vectors["ranks"]
    for ties in ("min", "average"):
        np.testing.assert_allclose(ranks(case["scores_rows_datasets"], ties), case[f"{ties}_rank"])


def test_vectors_paired_t(vectors):
    case = vectors["paired_t"]
    test = paired_t(case["row_errors"], case["col_errors"])
    assert test.statistic == pytest.approx(case["t"], rel=1e-12)
    assert (test.degrees_of_freedom, test.direction) == (case["df"], "first is worse")
    assert test.pvalue == pytest.approx(case["p_two_sided"], rel=1e-9)
    worse = paired_t(case["row_errors"], case["col_errors"], alternative="greater")
    assert worse.pvalue == pytest.approx(case["p_one_sided_row_worse"], rel=1e-9)
    assert rejections([[case["row_errors"], case["col_errors"]]]).tolist() == [[0, 1], [0, 0]]


def test_vectors_mcnemar(vectors):
    for case in vectors["mcnemar"]:
        test = mcnemar_from_counts(case["b"], case["c"])
        assert test.exact == (case["b"] + case["c"] < 25)
        assert test.pvalue == pytest.approx(case["exact_p"] if test.exact else case["chi2_cc_p"], rel=1e-9)
        if not test.exact:
            assert test.statistic == pytest.approx(case["chi2_cc"])


def test_vectors_wilcoxon(vectors):
    case = vectors["wilcoxon"]
    test = wilcoxon(case["loss_1"], case["loss_2"])
    assert (test.plus, test.minus) == (case["W_plus"], case["W_minus"])
    assert (test.rows - test.zeros, test.exact) == (case["n_nonzero"], False)
    assert test.pvalue == pytest.approx(case["p_normal_two_sided"], rel=1e-9)


def number(value):
    return INF if value == "inf" else value


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_published_averages_are_ranked_as_printed(published, kernel):
    table = published[kernel]["MSE"]
    order = published["printed_order"][f"{kernel}_MSE"]
    assert ranks([[table[name] for name in order]]).tolist() == list(range(1, 10))
    entropy = ranks([[number(published[kernel]["mCRE"][name]) for name in order]])
    assert entropy[order.index("SVM-Beta")] == 9  # printed as infinite


@pytest.mark.parametrize("case", ["linear_MSE", "linear_mCRE", "rbf_MSE", "rbf_mCRE"])
def test_published_ranks_are_those_of_the_minimum_rule(published, case):
    kernel, metric = case.split("_")
    printed = np.array(list(published["average_rank"][kernel][metric].values()))
    sums = np.array(published["average_rank_derived"][case]["rank_sums_over_11_data_sets"])
    values = values_with_rank_sums(sums, data_sets=11)
    np.testing.assert_allclose(ranks(values), printed, atol=0.0051)
    assert ranks(values, "average").sum() == pytest.approx(45)  # so the printed sums below 495 need the other rule
    assert sums.sum() <= 495


def min_ranks(row):
    return (row[:, None] > row).sum(axis=1) + 1


def values_with_rank_sums(target, data_sets):
    """Build values, ties included, whose minimum ranks have given sums, by changing one data set at a time."""
    rng = np.random.default_rng(0)
    values = target + rng.normal(0, 9, (data_sets, 9))
    off = sum(min_ranks(row) for row in values) - target
    for _ in range(200_000):
        if not off.any():
            return values
        row, one, other = rng.integers([data_sets, 9, 9])
        changed = values[row].copy()
        changed[one] = changed[other] + rng.choice([-1e-9, 0.0, 1e-9])  # just before, beside or just behind the other
        now = off + min_ranks(changed) - min_ranks(values[row])
        if np.abs(now).sum() <= np.abs(off).sum():
            values[row], off = changed, now
    raise AssertionError(off)


def test_published_rejections_obey_the_rules_of_the_table(published):
    for kernel in ("linear", "rbf"):
        table = np.array(published["ttest_rejections"][kernel])
        assert not np.diag(table).any()
        assert (table + table.T).max() <= 11
    assert critical_difference(9, 11) == pytest.approx(3.102 * np.sqrt(90 / 66), rel=1e-3)  # Demšar 2006, table 5
    rbf = published["average_rank"]["rbf"]["mCRE"]
    assert rbf["SVM-Beta-2"] - rbf["KLR"] < critical_difference(9, 11) < rbf["SVM-01"] - rbf["KLR"]


# Two methods


@pytest.mark.parametrize("alternative", SIDES)
def test_paired_t_agrees_with_scipy(alternative):
    a, b = np.random.default_rng(1).normal(size=(2, 10))
    expected = stats.ttest_rel(a, b, alternative=alternative)
    test = paired_t(a, b, alternative=alternative)
    assert (test.statistic, test.pvalue) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-10)
    assert test.statistic == pytest.approx(test.difference / test.standard_error)
    np.testing.assert_allclose(corrected_t(a, b, ratio=0, alternative=alternative).pvalue, test.pvalue)


def test_corrected_t_is_a_t_of_a_larger_variance():
    a, b = np.random.default_rng(2).normal(size=(2, 10))
    d = a - b
    test = corrected_t(a, b, ratio=1 / 9)
    assert test.statistic == pytest.approx(d.mean() / np.sqrt((1 / 10 + 1 / 9) * d.var(ddof=1)))
    assert test.pvalue == pytest.approx(2 * stats.t.sf(abs(test.statistic), 9))
    assert test.pvalue > paired_t(a, b).pvalue


@pytest.mark.parametrize(
    ("first", "second", "statistic", "pvalue"),
    [
        ([1, 2, 3], [1, 2, 3], 0, 0.5),  # no difference
        ([2, 3, 4], [1, 2, 3], INF, 0),  # no spread: worse
        ([1, 2, 3], [2, 3, 4], -INF, 1),  # no spread: better
        ([0.1, 0.2, 0.3], [0.1 + 0.2 - 0.2, 0.2, 0.3], 0, 0.5),  # equal up to rounding
        ([INF, 1, 1], [1, 2, 2], INF, 0),
        ([1, 2, 2], [INF, 1, 1], -INF, 1),
        ([INF, INF, INF], [INF, INF, INF], 0, 0.5),
        ([INF, 1, 1], [1, INF, 1], 0, 0.5),  # an infinite value on each side
    ],
)
def test_paired_t_at_the_edge(first, second, statistic, pvalue):
    test = paired_t(first, second, alternative="greater")
    assert (test.statistic, test.pvalue) == (statistic, pvalue)
    assert rejections([[first, second]])[0, 1] == (pvalue == 0)


def test_infinite_against_infinite_counts_nothing():
    d = [0.3, 0.1, 0.2, 0.4]
    assert paired_t([INF, *d], [INF, 0, 0, 0, 0]).statistic == paired_t([0, *d], [0] * 5).statistic


@pytest.mark.parametrize("n", [20, 400])
def test_mcnemar_agrees_with_statsmodels(n):
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    rng = np.random.default_rng(n)
    a, b = rng.random((2, n)) < [[0.5], [0.3]]
    test = mcnemar(a, b)
    table = [[int((a & b).sum()), int((a & ~b).sum())], [int((~a & b).sum()), int((~a & ~b).sum())]]
    assert (test.only_first, test.only_second) == (table[0][1], table[1][0])
    expected = tables.mcnemar(table, exact=test.exact, correction=True)
    assert (test.statistic, test.pvalue) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-9)
    assert test.exact == (n == 20)


@pytest.mark.parametrize(("b", "c"), [(18, 6), (24, 0), (18, 7), (25, 0), (19, 6)])
def test_mcnemar_is_exact_below_25_discordant_decisions(b, c):
    test = mcnemar_from_counts(b, c)
    assert test.exact == (b + c < 25)
    exact, corrected = stats.binomtest(b, b + c).pvalue, stats.chi2.sf((abs(b - c) - 1) ** 2 / (b + c), 1)
    assert test.pvalue == pytest.approx(exact if b + c < 25 else corrected, rel=1e-12)
    assert exact != pytest.approx(corrected, rel=1e-3)


@given(st.integers(0, 24), st.integers(0, 24))
def test_mcnemar_is_symmetric_and_exact(b, c):
    test, other = mcnemar_from_counts(b, c), mcnemar_from_counts(c, b)
    assert test.pvalue == other.pvalue
    if 0 < b + c < 25:
        assert test.pvalue == pytest.approx(stats.binomtest(b, b + c).pvalue)


def test_mcnemar_without_discordant_rows():
    assert mcnemar([0, 1, 1], [0, 1, 1]).pvalue == 1
    assert mcnemar_from_counts(0, 0).direction == "no difference"
    assert mcnemar_from_counts(30, 30).pvalue == 1


@pytest.mark.parametrize("alternative", SIDES)
@pytest.mark.parametrize("n", [6, 25, 26, 500])
@pytest.mark.parametrize("ties", [False, True])
def test_wilcoxon_agrees_with_scipy(n, ties, alternative):
    a, b = np.random.default_rng(n).normal(size=(2, n))
    if ties:
        a, b = np.round(a * 4), np.round(b * 4)
    d = (a - b)[a != b]
    test = wilcoxon(a, b, alternative=alternative)
    assert test.exact == (len(d) <= 25 and len(set(abs(d))) == len(d))
    method = {"method": "exact"} if test.exact else {"method": "asymptotic", "correction": False}
    expected = stats.wilcoxon(d, alternative=alternative, **method)
    assert test.pvalue == pytest.approx(expected.pvalue, rel=1e-9)
    statistic = expected.statistic
    assert statistic == (min(test.plus, test.minus) if alternative == "two-sided" else test.plus)


TENTHS = st.integers(-30, 30)
ONE_DECIMAL = st.lists(st.tuples(TENTHS, TENTHS), min_size=1, max_size=40)


@given(ONE_DECIMAL, st.integers(-12, 12), st.sampled_from(SIDES))
@example([(13, 11), (16, 13), (15, 29), (10, 5), (28, 18), (11, 12), (19, 20)], 0, "two-sided")  # 1.1 - 1.2 < 2 - 1.9
def test_wilcoxon_does_not_depend_on_the_unit(pairs, power, alternative):
    a, b = np.array(pairs).T
    whole = wilcoxon(a, b, alternative=alternative)
    for first, second in ((a / 10, b / 10), (a / 10 * 10.0**power, b / 10 * 10.0**power)):
        assert wilcoxon(first, second, alternative=alternative) == whole
    if (a != b).any():  # scipy has no p-value where all differences are 0
        kept = a[a != b] - b[a != b]
        method = "exact" if whole.exact else "asymptotic"
        theirs = stats.wilcoxon(kept, alternative=alternative, method=method)
        assert whole.pvalue == pytest.approx(theirs.pvalue, rel=1e-9)


@given(st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=2, max_size=9), st.integers(-12, 12))
def test_ranks_do_not_depend_on_the_unit(rows, power):
    values = np.array(rows)
    sums = values / 10 * 10.0**power + 0.1 * 10.0**power  # 0.1 + 0.2 is not 0.3
    built = (values + 1) / 10 * 10.0**power
    mixed = np.where(np.arange(4) % 2, sums, built)
    for ties in ("min", "average"):
        assert ranks(mixed, ties).tolist() == ranks(values, ties).tolist()
    assert friedman(mixed).pvalue == friedman(values).pvalue


def test_many_close_differences_are_no_ties():
    d = 1.0 + 1e-11 * np.arange(1000)  # neighbours agree to ten digits, the first and the last do not
    sign = np.where(np.arange(1000) % 3, 1.0, -1.0)
    own = wilcoxon(sign * d, np.zeros(1000))
    assert own.plus == stats.rankdata(d)[sign > 0].sum()
    few = wilcoxon(sign[:9] * d[:9], np.zeros(9))
    assert few.plus == 5 * (sign[:9] > 0).sum()


def test_wilcoxon_at_the_edge():
    same = wilcoxon([1, 2, INF], [1, 2, INF])
    assert (same.pvalue, same.zeros, same.direction) == (1, 3, "no difference")
    far = wilcoxon([1, 2, INF, 4], [0.5, 3, 3, 2])
    assert far.pvalue == wilcoxon([1, 2, 99, 4], [0.5, 3, 3, 2]).pvalue
    # More small losses against few large ones: ranks contradict the sums, as on Platt's Web Quadratic.
    first, second = np.r_[np.full(90, 0.1), np.full(10, 9.0)], np.r_[np.full(90, 0.2), np.full(10, 1.0)]
    assert first.sum() > second.sum()
    assert wilcoxon(first, second).direction == "second is worse"


def test_weight_is_repetition_in_tests():
    rng = np.random.default_rng(3)
    w = rng.integers(0, 4, 60)
    a, b = rng.random((2, 60)).round(1)
    y, p = forecast(60)
    again = [np.repeat(values, w) for values in (a, b, y, p)]
    for test, arguments, repeated in [
        (mcnemar, (a > 0.4, b > 0.5), (again[0] > 0.4, again[1] > 0.5)),
        (wilcoxon, (a, b), again[:2]),
        (spiegelhalter, (y, p), again[2:]),
        (corp, (y, p), again[2:]),
    ]:
        assert test(*arguments, sample_weight=w) == test(*repeated)
    one, other = hosmer_lemeshow(y, p, sample_weight=w), hosmer_lemeshow(*again[2:])
    assert one.pvalue == pytest.approx(other.pvalue)
    np.testing.assert_array_equal(one.count, other.count)


# Many methods


def closed_testing(pvalues):
    """Return Holm's p-values by closed testing: the largest of Bonferroni's over all sets that hold the hypothesis."""
    m = len(pvalues)
    sets = [chosen for size in range(1, m + 1) for chosen in combinations(range(m), size)]
    return [max(min(1, len(s) * min(pvalues[list(s)])) for s in sets if i in s) for i in range(m)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_closed_testing(pvalues):
    np.testing.assert_allclose(holm(np.array(pvalues)), closed_testing(np.array(pvalues)), rtol=1e-12)


def test_each_method_is_tested_against_the_best_alone_and_among_all_pairs():
    rng = np.random.default_rng(7)
    values = rng.normal(size=(4, 10)) * 0.02 + np.array([0.1, 0.12, 0.13, 0.125])[:, None]
    found = compare_with_best(values.mean(axis=1)[None], {"data": values}, 1 / 9)
    pairs = list(combinations(range(4), 2))
    plain = np.array([corrected_t(values[j], values[i], ratio=1 / 9).pvalue for i, j in pairs])
    expected = closed_testing(plain)[:3]
    np.testing.assert_allclose(found["pvalues"][1:], plain[:3])
    np.testing.assert_allclose(found["holm"][1:], expected)
    assert found["worse"].tolist() == [False, *(p < 0.05 for p in plain[:3])]
    assert (found["holm"][1:] < 0.05).sum() < found["worse"].sum()  # some difference is significant only if uncorrected


def test_infinite_values_rank_last_and_tie():
    np.testing.assert_array_equal(ranks([[INF, 0.1, INF, 0.2]]), [3, 1, 3, 2])
    np.testing.assert_array_equal(ranks([[INF, 0.1, INF, 0.2]], "average"), [3.5, 1, 3.5, 2])


def test_friedman_agrees_with_scipy():
    values = np.random.default_rng(4).normal(size=(11, 6)).round(1)
    expected = stats.friedmanchisquare(*values.T)
    test = friedman(values)
    assert (test.statistic, test.pvalue) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-10)
    np.testing.assert_allclose(test.average_ranks, ranks(values, "average"))
    f = 10 * test.statistic / (11 * 5 - test.statistic)
    assert (test.f_statistic, test.f_pvalue) == pytest.approx((f, stats.f.sf(f, 5, 50)))


def test_friedman_at_the_edge():
    tied = friedman(np.ones((5, 3)))
    assert (tied.statistic, tied.pvalue, tied.f_pvalue) == (0, 1, 1)
    certain = friedman(np.tile([1, 2, INF], (8, 1)))
    assert (certain.statistic, certain.f_statistic, certain.f_pvalue) == (16, INF, 0)


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (6, 2.850), (10, 3.164)])
def test_critical_difference_agrees_with_the_table_of_demsar(methods, q):
    assert critical_difference(methods, 14) == pytest.approx(q * np.sqrt(methods * (methods + 1) / 84), abs=4e-4)


def test_nemenyi_rejects_beyond_the_critical_difference():
    test = friedman(np.random.default_rng(5).normal(size=(9, 4)) + np.arange(4))
    apart = np.abs(np.subtract.outer(test.average_ranks, test.average_ranks))
    np.testing.assert_array_equal(test.pairwise < 0.05, apart > test.critical_difference)
    assert (np.diag(test.pairwise) == 1).all()


@pytest.mark.parametrize(("alternative", "limit"), [("greater", 1.8331), ("two-sided", 2.2622), ("less", 1.8331)])
def test_rejections_count_data_sets(alternative, limit):
    errors = np.random.default_rng(6).normal(size=(7, 4, 10)) + 0.4 * np.arange(4)[:, None]
    errors[0, 1, 0] = errors[1, 1, 2] = errors[1, 2, 2] = INF
    table = rejections(errors, alternative=alternative)
    sign = -1 if alternative == "less" else 1
    for i, j in np.ndindex(4, 4):
        t = np.array([paired_t(errors[k, i], errors[k, j]).statistic for k in range(7)])
        assert table[i, j] == (sign * t > limit).sum()
    assert not np.diag(table).any()
    assert (table + table.T).max() <= 7


def pvalues(pairs, n):
    p = np.ones((n, n))
    for i, j in pairs:
        p[i, j] = p[j, i] = 0.01
    return p


@pytest.mark.parametrize(
    ("values", "pairs", "marked"),
    [
        ([1, 2, 3], [(0, 1), (0, 2)], [0]),
        ([3, 1, 2], [(0, 1), (0, 2)], [1, 2]),
        ([1, 2, 3], [], [0, 1, 2]),
        ([1, 2, 3], [(0, 2)], []),  # the middle one is neither worse than the first nor better than the last
        ([1, 2, 3], [(0, 1), (1, 2), (0, 2)], [0]),
    ],
)
def test_underlining(values, pairs, marked):
    np.testing.assert_array_equal(np.flatnonzero(underline(values, pvalues(pairs, 3))), marked)


def test_one_sided_tests_may_contradict_the_values():
    np.testing.assert_array_equal(underline([1767, 2163], [[1, 0.999], [0.001, 1]]), [False, True])


@pytest.mark.parametrize("p", [0.01, 1e-100])
@pytest.mark.parametrize("off", [1 + 1e-15, 1 - 1e-12])
def test_underlining_does_not_hang_on_rounding(p, off):
    """The same two-sided p-value, and the same value, may be computed twice with different rounding."""
    for table in ([[1, p], [p * off, 1]], [[1, p * off], [p, 1]]):
        np.testing.assert_array_equal(underline([2.0, 1.0], table), [False, True])
        for values in ([0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3]):
            np.testing.assert_array_equal(underline(values, table), [True, True])


@given(st.integers(2, 5), st.integers(0, 10_000))
def test_underlined_entries_are_the_smallest_set_of_the_definition(n, seed):
    rng = np.random.default_rng(seed)
    values, p = rng.permutation(n), rng.random((n, n)) ** 4
    p = np.minimum(p, p.T)
    better = (p < 0.05) & (values[:, None] < values)
    found = np.zeros(n, bool)
    for m in range(1, n + 1):
        member = values < m
        if better[np.ix_(member, ~member)].all() and not better[np.ix_(member, member)].any():
            found = member
            break
    np.testing.assert_array_equal(underline(values, p), found)


# Calibration


def test_spiegelhalter_is_its_formula():
    y, p = forecast()
    z = ((y - p) * (1 - 2 * p)).sum() / np.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    test = spiegelhalter(y, p)
    assert (test.statistic, test.pvalue) == pytest.approx((z, 2 * stats.norm.sf(abs(z))), rel=1e-10)
    assert (test.score, test.expected) == pytest.approx((metrics.brier(y, p), (p * (1 - p)).mean()))
    two = spiegelhalter(y, np.column_stack([1 - p, p]))
    assert (two.statistic, two.score) == pytest.approx((z, 2 * test.score))
    assert spiegelhalter(y, p, score="log_loss").score == pytest.approx(metrics.log_loss(y, p))


def test_spiegelhalter_at_the_edge():
    assert spiegelhalter([0, 1], [0.5, 0.5]).pvalue == 1
    assert spiegelhalter([0, 1, 1], [0, 1, 1]).pvalue == 1
    assert spiegelhalter([1, 1, 1], [0, 1, 1], score="log_loss").pvalue == 0
    assert spiegelhalter([1, 1, 1], [0, 1, 1]).statistic == INF


def test_hosmer_lemeshow_is_its_formula():
    y, p = forecast(500)
    test = hosmer_lemeshow(y, p, fitted_parameters=2)
    chi2 = 0.0
    for group in np.array_split(np.argsort(p), 10):
        o, e, n = y[group].sum(), p[group].sum(), len(group)
        chi2 += (o - e) ** 2 / (e * (1 - e / n))
    assert test.statistic == pytest.approx(chi2)
    assert (test.degrees_of_freedom, test.pvalue) == pytest.approx((8, stats.chi2.sf(chi2, 8)))
    assert test.observed.sum() == y.sum()


def test_hosmer_lemeshow_at_the_edge():
    test = hosmer_lemeshow([0, 1, 0, 1], [0.0, 1.0, 0.3, 0.3], groups=4)  # only the middle can be tested
    assert test.degrees_of_freedom == 1
    assert hosmer_lemeshow([1, 1, 0, 1], [0.0, 1.0, 0.3, 0.3], groups=4).pvalue == 0
    with pytest.raises(
        ValueError, match=r"must leave at least one degree of freedom; got 1 groups .* and fitted_parameters=2"
    ):
        hosmer_lemeshow([0, 1], [0.5, 0.5], groups=10, fitted_parameters=2)


@pytest.mark.parametrize("score", ["brier", "log_loss"])
@pytest.mark.parametrize("digits", [None, 1])
def test_corp_takes_the_miscalibration_of_the_metrics(score, digits):
    y, p = forecast(digits=digits)
    p = np.clip(p, 0.05, 0.95)
    test = corp(y, p, score=score, draws=200)
    assert test.statistic == pytest.approx(metrics.decomposition(y, p, score=score).miscalibration, rel=1e-9)
    assert test.pvalue == pytest.approx(round(test.pvalue * 201) / 201)
    assert corp(y, p**3, score=score, draws=200).pvalue == pytest.approx(1 / 201)
    assert corp(y, p, score=score, draws=200) == test


def test_corp_draws_the_same_null_by_rows_and_by_cells():
    p, w = np.array([0.1, 0.4, 0.8]), 40
    expected = corp(np.tile([0, 1, 1], w), np.tile(p, w), draws=2000).expected
    y, weight = np.array([0, 1, 0, 1, 0, 1]), [2, 2, 2, 2, 2, 2]
    assert corp(y, np.repeat(p, 2), sample_weight=weight, draws=2000).expected > expected
    rng = np.random.default_rng(0)
    direct = [
        metrics.miscalibration(rng.random(3 * w) < np.tile(p, w), np.tile(p, w), labels=[False, True])
        for _ in range(300)
    ]
    assert abs(np.mean(direct) - expected) < 4 * np.std(direct) / np.sqrt(300) + 1e-5


# Size under the null hypothesis, and power


CALIBRATION = {
    "spiegelhalter": lambda y, p, rng: spiegelhalter(y, p),
    "spiegelhalter, log loss": lambda y, p, rng: spiegelhalter(y, p, score="log_loss"),
    "hosmer_lemeshow": lambda y, p, rng: hosmer_lemeshow(y, p),
    "corp": lambda y, p, rng: corp(y, p, draws=59, random_state=rng),
}


@pytest.mark.parametrize("name", CALIBRATION)
def test_calibration_tests_have_their_size_and_power(name):
    rng = np.random.default_rng(7)
    trials, size, power = 100, 0, 0
    for _ in range(trials):
        p = rng.beta(2, 2, 200)
        y = (rng.random(200) < p).astype(int)
        size += CALIBRATION[name](y, p, rng).pvalue <= 0.05
        sure = p**3 / (p**3 + (1 - p) ** 3)
        power += CALIBRATION[name](y, sure, rng).pvalue <= 0.05
    assert about(size, trials, 0.05)
    assert power >= 0.9 * trials


def test_paired_tests_have_their_size():
    rng = np.random.default_rng(8)
    trials = 300
    a, b = rng.normal(size=(2, trials, 10))
    assert about(sum(paired_t(*pair).pvalue <= 0.05 for pair in zip(a, b, strict=True)), trials, 0.05)
    assert about(rejections(np.stack([a, b], axis=1))[0, 1], trials, 0.05)
    a, b = rng.exponential(size=(2, trials, 60))
    assert about(sum(wilcoxon(*pair).pvalue <= 0.05 for pair in zip(a, b, strict=True)), trials, 0.05)
    wrong = rng.random((2, trials, 100)) < 0.3
    assert at_most(sum(mcnemar(*pair).pvalue <= 0.05 for pair in zip(*wrong, strict=True)), trials, 0.05)
    values = rng.normal(size=(trials // 10, 20, 3))
    assert at_most(sum(friedman(table).pvalue <= 0.05 for table in values), trials // 10, 0.05)


def test_corrected_t_mends_the_size_where_training_sets_overlap():
    rng = np.random.default_rng(9)
    trials, share = 400, 0.1  # correlation of the folds
    d = np.sqrt(share) * rng.normal(size=(trials, 1)) + np.sqrt(1 - share) * rng.normal(size=(trials, 10))
    plain = sum(paired_t(row, np.zeros(10)).pvalue <= 0.05 for row in d)
    mended = sum(corrected_t(row, np.zeros(10), ratio=1 / 9).pvalue <= 0.05 for row in d)
    assert not at_most(plain, trials, 0.05)
    assert about(mended, trials, 0.05)


# Bootstrap


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("digits", [None, 1])
def test_every_metric_has_an_interval(name, digits):
    y, p = forecast(120, digits=digits)
    found = bootstrap(name, y, p, draws=60)
    assert found.value == pytest.approx(METRICS[name].function(y, p), rel=1e-9, abs=1e-12, nan_ok=True)
    assert found.low <= found.high
    plain = bootstrap(METRICS[name].function, y, p, draws=60)  # by weights, without any fast form
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.loss or metric.totals])
def test_fast_forms_agree_with_the_metric_on_repeated_rows(name):
    y, p = forecast(80, digits=2)
    count = np.random.default_rng(1).integers(0, 4, 80)
    value = prepare_metric(name, y, p, {})(count.astype(float))
    assert value == pytest.approx(METRICS[name].function(np.repeat(y, count), np.repeat(p, count)), rel=1e-9)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("classes", [2, 3])
def test_draws_check_nothing(name, classes):
    rng = np.random.default_rng(2)
    P = rng.dirichlet(np.ones(classes), 60)
    y = np.arange(60) % classes
    p = P if classes > 2 else P[:, 1]
    few, many = (count_checks(lambda draws=draws: bootstrap(name, y, p, draws=draws)) for draws in (5, 25))
    for check in ARRAY_CHECKS:
        assert few[check] == many[check] <= 3, check


@pytest.mark.parametrize("test", [spiegelhalter, hosmer_lemeshow, corp])
def test_calibration_tests_check_arguments_once(test):
    y, p = forecast(60)
    found = count_checks(lambda: test(y, p, sample_weight=np.arange(60) % 3))
    assert found["check_finite"] == 2  # p and the weights
    assert found["check_weights"] == 1


def test_tests_of_calibration_take_counts():
    y, p = forecast(400, digits=1)
    rows = metrics.check_forecasts(y, p)
    cells = collapse(rows)
    assert len(cells) == 11
    assert judge_by_score(cells).statistic == pytest.approx(spiegelhalter(y, p).statistic)
    assert judge_by_groups(cells).statistic == pytest.approx(hosmer_lemeshow(y, p).statistic)


@pytest.mark.parametrize("name", ["brier", "log_loss", "accuracy", "auc", "miscalibration"])
def test_more_than_two_classes(name):
    rng = np.random.default_rng(2)
    P = rng.dirichlet([1, 1, 1], 150)
    y = np.array(["a", "b", "c"])[[rng.choice(3, p=row) for row in P]]
    found = bootstrap(name, y, P, draws=40)
    assert found.value == pytest.approx(METRICS[name].function(y, P))
    order = bootstrap(name, y, P[:, [2, 0, 1]], draws=40, labels=["c", "a", "b"])
    assert order.value == pytest.approx(found.value)
    assert found.low <= found.high


def test_the_standard_error_of_a_mean():
    y, p = forecast(2000)
    loss = (y - p) ** 2
    found = bootstrap("brier", y, p, draws=2000)
    assert found.standard_error == pytest.approx(loss.std() / np.sqrt(2000), rel=0.08)
    half = 1.96 * loss.std() / np.sqrt(2000)
    assert (found.value - found.low, found.high - found.value) == pytest.approx((half, half), rel=0.12)
    assert abs(found.bias) < 0.1 * found.standard_error


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_intervals_agree_with_scipy(method):
    y, p = forecast(60)
    loss = (y - p) ** 2
    ours = bootstrap("brier", y, p, draws=9999, method=method)
    theirs = stats.bootstrap(
        (loss,), np.mean, n_resamples=9999, method=method, rng=np.random.default_rng(0)
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs), abs=0.06 * ours.standard_error * 4)


def make_draws(known, confidence=0.95, loss=None):
    """Return the draws of a mean loss as the functions of intervals take them."""
    loss = np.zeros(2) if loss is None else loss
    plan = resampling.BootstrapPlan(len(known), confidence, "bca", np.random.default_rng(0))
    population = resampling.Population(np.ones(len(loss)))
    return resampling.BootstrapDraws(prepare_mean(loss), population, plan, float(loss.mean()), np.sort(known))


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [2, 39, 40, 999, 1000])
def test_quantiles_of_draws_are_those_of_the_inverse_distribution_function(n, confidence):
    known = np.random.default_rng(n).normal(size=n)
    shares = np.round([(1 - confidence) / 2, (1 + confidence) / 2], 12)
    theirs = np.quantile(known, shares, method="inverted_cdf")
    assert resampling.percentile_ends(make_draws(known, confidence)) == tuple(theirs)
    low, high = resampling.percentile_ends(make_draws(np.arange(1, 1001), 0.95))
    assert (low, high) == (25, 975)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_acceleration_of_a_mean_is_a_sixth_of_its_skewness(sign):
    # Efron (1987), eq. 6.6: leaving out row i moves the mean by (mean - x_i)/(n - 1).
    loss = sign * np.random.default_rng(1).exponential(size=80)
    found = make_draws(np.zeros(10), loss=loss)
    a = resampling.acceleration(found.evaluate, found.population, np.random.default_rng(0))
    assert a == pytest.approx(stats.skew(loss) / (6 * np.sqrt(80)))
    assert np.sign(a) == sign


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_bca_is_efrons_formula(sign):
    rng = np.random.default_rng(2)
    loss = sign * rng.exponential(size=60) ** 2
    known = rng.choice(loss, (4000, 60)).mean(axis=1)
    z0 = stats.norm.ppf(np.mean(known < loss.mean()))
    z, a = stats.norm.ppf([0.05, 0.95]), stats.skew(loss) / (6 * np.sqrt(60))
    shares = stats.norm.cdf(z0 + (z0 + z) / (1 - a * (z0 + z)))  # Efron & Tibshirani 1993, eq. 14.10
    ends = resampling.bca_ends(make_draws(known, 0.9, loss))
    assert ends == pytest.approx(tuple(np.quantile(known, shares, method="inverted_cdf")))


def test_bca_of_a_skewed_loss_agrees_with_scipy():
    rng = np.random.default_rng(3)
    p = rng.beta(0.5, 0.5, 50)
    y = (rng.random(50) < 0.8 * p + 0.1).astype(int)
    loss = -np.log(np.where(y == 1, p, 1 - p))
    assert stats.skew(loss) > 1.9
    ours = bootstrap("log_loss", y, p, draws=9999, method="bca")
    plain, theirs = (
        stats.bootstrap((loss,), np.mean, n_resamples=9999, method=method, rng=np.random.default_rng(0))
        for method in ("percentile", "bca")
    )
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.1 * ours.standard_error)
    assert theirs.confidence_interval.low - plain.confidence_interval.low > 0.15 * ours.standard_error


def test_draws_by_rows_and_by_cells_are_alike():
    p = np.array([0.2, 0.5, 0.9])
    few = bootstrap("auc", [0, 1, 0, 1, 0, 1], np.repeat(p, 2), sample_weight=[7, 2, 5, 5, 1, 8], draws=4000)
    many = bootstrap("auc", [0, 1, 0, 1, 0, 1], np.repeat(p, 2), sample_weight=[70, 20, 50, 50, 10, 80], draws=4000)
    assert few.value == pytest.approx(many.value)
    assert few.standard_error == pytest.approx(many.standard_error * np.sqrt(10), rel=0.1)


def test_weight_is_repetition_in_the_bootstrap():
    y, p = forecast(90)
    w = np.random.default_rng(3).integers(0, 4, 90)
    for metric in ("brier", "auc", "ece"):
        assert bootstrap(metric, y, p, sample_weight=w) == bootstrap(metric, np.repeat(y, w), np.repeat(p, w))


def test_the_difference_of_forecasts_on_the_same_rows():
    y, p = forecast(400)
    other = np.clip(p + np.random.default_rng(4).normal(0, 0.05, 400), 0, 1)
    found = bootstrap_difference("brier", y, other, p)
    assert found.value == pytest.approx(metrics.brier(y, other) - metrics.brier(y, p))
    assert found.standard_error == pytest.approx(((y - other) ** 2 - (y - p) ** 2).std() / 20, rel=0.12)
    assert found.standard_error < bootstrap("brier", y, p).standard_error / 3
    same = bootstrap_difference("auc", y, p, p)
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_groups_are_drawn_together():
    y, p = forecast(200)
    once = bootstrap("brier", y, p, draws=2000)
    again = bootstrap("brier", np.repeat(y, 4), np.repeat(p, 4), groups=np.repeat(np.arange(200), 4), draws=2000)
    assert again.standard_error == pytest.approx(once.standard_error, rel=0.1)
    w = np.random.default_rng(5).random(200)
    weighted = bootstrap("brier", y, p, sample_weight=w, groups=range(200), draws=50)
    assert weighted.value == pytest.approx(metrics.brier(y, p, sample_weight=w))
    scaled = bootstrap("brier", y, p, sample_weight=1000 * w, groups=range(200), draws=50)
    assert (scaled.low, scaled.high) == pytest.approx((weighted.low, weighted.high))


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_intervals_cover_the_truth(method):
    rng = np.random.default_rng(10)
    covered = 0
    for _ in range(100):
        p = rng.random(100)
        found = bootstrap("brier", rng.random(100) < p, p, draws=200, method=method)
        covered += found.low <= 1 / 6 <= found.high
    assert stats.binomtest(covered, 100, 0.94).pvalue > 1e-3


def test_other_peoples_metrics():
    y, p = forecast(100)
    found = bootstrap(sklearn.metrics.brier_score_loss, np.where(y, "yes", "no"), p, draws=50, pos_label="yes")
    ours = bootstrap("brier", y, p, draws=50)
    assert (found.value, found.low, found.high) == pytest.approx((ours.value, ours.low, ours.high))


def test_draws_without_a_class_are_left_out():
    with pytest.warns(UserWarning, match="does not exist on"):
        found = bootstrap("auc", [0] * 9 + [1], np.arange(10) / 10, draws=200)
    assert 30 < found.undefined < 120
    assert found.low <= found.value == 1


def test_infinite_losses():
    y, p = forecast(50)
    p[0] = 1.0  # of a negative row
    found = bootstrap("log_loss", y, p, draws=300)
    assert found.value == found.high == INF
    assert np.isfinite(found.low)
    with pytest.raises(ValueError, match="'basic' needs a metric with finite values"):
        bootstrap("log_loss", y, p, draws=300, method="basic")
    assert np.isfinite(bootstrap("log_loss", y, p, draws=30, eps=0.01).high)


def test_only_random_state_is_random():
    y, p = forecast(100)
    assert bootstrap("auc", y, p, draws=50) == bootstrap("auc", y, p, draws=50)
    assert bootstrap("auc", y, p, draws=50) != bootstrap("auc", y, p, draws=50, random_state=1)
    generator = np.random.default_rng(0)
    assert bootstrap("auc", y, p, draws=50, random_state=generator) == bootstrap("auc", y, p, draws=50)


# The table, and the checks


def test_every_test_says_what_it_asks_and_where_it_comes_from():
    assert calibrant.inference is inference
    for name, test in TESTS.items():
        assert test.function.__name__ == name
        assert test.question.endswith("?")
        assert test.null
        assert any(letter.isdigit() for letter in test.source)
        assert test.function is getattr(inference, name)


ARGUMENTS = {
    "paired_t": ([1, 2, 4], [2, 2, 3]),
    "corrected_t": ([1, 2, 4], [2, 2, 3]),
    "mcnemar": ([1, 0, 1], [0, 1, 1]),
    "wilcoxon": ([1, 2, 4], [2, 2, 3]),
    "friedman": ([[1, 2, 3], [2, 1, 3]],),
    "spiegelhalter": ([1, 0, 1], [0.2, 0.3, 0.9]),
    "hosmer_lemeshow": ([1, 0, 1], [0.2, 0.3, 0.9]),
    "corp": ([1, 0, 1], [0.2, 0.3, 0.9]),
    "canonical": ([1, 0, 2], [[0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8]]),
}


def vectors_of_classes(n, k, seed, power=1.0):
    """Return classes drawn from forecasts, and the forecasts raised to a power."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(k, 0.5), n)
    y = np.minimum((P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), k - 1)
    return y, P**power / (P**power).sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("n", "k", "cells"), [(60, 3, 512), (150, 10, 40), (200, 2, 20)])
def test_canonical_has_its_size_with_and_without_pooling(n, k, cells):
    options = {"labels": range(k), "draws": 49, "cells": cells}
    rejected = sum(canonical(*vectors_of_classes(n, k, seed), **options).pvalue <= 0.1 for seed in range(300))
    assert about(rejected, 300, 0.1)


def test_canonical_finds_what_the_top_label_hides():
    # The second and the third class have changed places where neither is the most probable: confidences stay right.
    rng = np.random.default_rng(0)
    first = rng.uniform(0.5, 0.8, 400)
    P = np.column_stack([first, 0.85 * (1 - first), 0.15 * (1 - first)])
    y = np.minimum((P.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1), 2)
    swapped = P[:, [0, 2, 1]]
    assert corp(y == 0, first, draws=99).pvalue > 0.05
    assert canonical(y, P, draws=99).pvalue > 0.05
    found = canonical(y, swapped, draws=99)
    assert found.pvalue == 0.01
    assert found.statistic > found.chance


def test_canonical_takes_whole_weights_and_any_order():
    y, P = vectors_of_classes(80, 4, 1)
    weight = np.random.default_rng(2).integers(0, 4, len(y))
    once = canonical(y, P, sample_weight=weight, labels=range(4), draws=19)
    again = canonical(np.repeat(y, weight), np.repeat(P, weight, axis=0), labels=range(4), draws=19)
    assert once.statistic == pytest.approx(again.statistic, rel=1e-9)
    assert once.rows == again.rows
    with pytest.raises(ValueError, match="whole"):
        canonical(y, P, sample_weight=np.full(len(y), 0.5), labels=range(4))


def test_the_distance_of_canonical_is_that_of_a_constant_error():
    rng = np.random.default_rng(0)
    P, error = rng.dirichlet([2, 2, 2], 20_000) * 0.7 + 0.1, np.array([0.06, -0.02, -0.04])
    y = np.minimum(((P - error).cumsum(axis=1) < rng.random((20_000, 1))).sum(axis=1), 2)
    assert canonical(y, P, draws=0).distance == pytest.approx(np.sqrt(error @ error), abs=0.01)


def test_canonical_has_power_that_grows():
    found = [canonical(*vectors_of_classes(n, 3, 5, power=1.6), labels=range(3), draws=99) for n in (50, 3000)]
    assert found[0].pvalue > found[1].pvalue == 0.01


@pytest.mark.parametrize("name", TESTS)
def test_every_test_returns_a_frozen_record(name):
    options = {"ratio": 0.1} if name == "corrected_t" else {}
    record = TESTS[name].function(*ARGUMENTS[name], **options)
    assert 0 <= record.pvalue <= 1
    assert isinstance(record.statistic, float)
    with pytest.raises(AttributeError):
        record.pvalue = 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_t([1], [2]), "first must hold at least 2 values; got 1"),
        (lambda: paired_t([1, 2], [2, 3, 4]), "second must have one value per row"),
        (lambda: paired_t([1, np.nan], [2, 3]), "first must not be NaN; got 1, the first at position 1"),
        (lambda: paired_t([1, 2], ["a", "b"]), "second must be real numbers"),
        (lambda: paired_t([1, 2], [2, 3], alternative="worse"), "alternative must be one of two-sided, greater, less"),
        (lambda: corrected_t([1, 2], [2, 3], ratio=-1), "ratio must be a finite number not below 0"),
        (lambda: mcnemar([0, 2], [0, 1]), "first must hold 1 for each wrong decision and 0 for each right one; got 2"),
        (lambda: mcnemar([0, 1], [0, 1], sample_weight=[1, 0.5]), "sample_weight must be whole numbers, because"),
        (lambda: mcnemar_from_counts(-1, 2), "only_first must be a whole number, at least 0"),
        (lambda: mcnemar_from_counts(1, 2.5), "only_second must be a whole number, at least 0; got 2.5"),
        (lambda: wilcoxon([1, 2], [2, 3], digits=0), "digits must be a whole number, at least 1; got 0"),
        (lambda: ranks([1, 2]), "values must have two dimensions"),
        (lambda: ranks([[1, 2], [3]]), "values must be a table of real numbers with rows of equal length"),
        (lambda: ranks([[1, np.nan]]), "values must not be NaN; got 1, the first at position 0, 1"),
        (lambda: ranks([[1, 2]], ties="max"), "ties must be one of min, average; got 'max'"),
        (lambda: friedman([[1, 2], [1, 2]]), "at least 2 data sets and 3 methods"),
        (lambda: critical_difference(1, 5), "methods must be at least 2"),
        (lambda: critical_difference(3, 5, alpha=1.5), r"alpha must lie in \(0, 1\); got 1.5"),
        (lambda: rejections([[1, 2]]), "errors must have three dimensions"),
        (lambda: rejections([[[1], [2]]]), "errors must hold at least 2 folds; got 1"),
        (lambda: underline([1, 2], [[1, 1]]), "pvalues must be a square"),
        (lambda: underline([1, 2], [[1, 2], [2, 1]]), "pvalues must be a square of numbers in"),
        (lambda: spiegelhalter([0, 1], [0.5, 1.5]), "p declared as probabilities must lie in"),
        (lambda: spiegelhalter([0, 1], [0.5, 0.5], score="auc"), "score must be one of brier, log_loss; got 'auc'"),
        (
            lambda: corp([0.5, 1.0], [0.5, 0.5]),
            "y must hold two classes, because the test counts rows; got the share 0.5",
        ),
        (lambda: hosmer_lemeshow([0, 1], [0.5, 0.5], groups=0), "groups must be a whole number, at least 1; got 0"),
        (lambda: bootstrap("best", [0, 1], [0.5, 0.5]), "metric must be one of brier, "),
        (lambda: bootstrap("brier", [0, 1], [0.5, 0.5], method="t"), "method must be one of percentile, basic, bca"),
        (lambda: bootstrap("brier", [0, 1], [0.5, 0.5], confidence=95), r"confidence must lie in \(0, 1\); got 95"),
        (lambda: bootstrap("brier", [0, 1], [0.5, 0.5], draws=1), "draws must be a whole number, at least 2; got 1"),
        (lambda: bootstrap("brier", [0, 1], [0.5]), "one value per row"),
        (lambda: bootstrap("brier", [0, 1], [0.5, np.nan]), "p must be finite"),
        (
            lambda: bootstrap("brier", [0, 1], [0.5, 0.5], sample_weight=[1, 0.5]),
            r"give groups=range\(n\), which draws rows",
        ),
        (lambda: bootstrap("brier", [0, 1], [0.5, 0.5], groups=[1]), "groups must have one value per row"),
        (lambda: bootstrap("auc", [1, 1], [0.5, 0.6]), "both classes|metric must exist"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@given(st.lists(st.floats(), min_size=1, max_size=8), st.lists(st.floats(), min_size=1, max_size=8))
def test_any_numbers_give_a_pvalue_or_a_named_error(a, b):
    for test in (paired_t, wilcoxon):
        try:
            assert 0 <= test(a, b).pvalue <= 1
        except ValueError as error:
            if "must" not in str(error):
                raise


def test_spiegelhalter_takes_the_names_of_two_classes():
    y = ["yes", "no", "no"] * 20
    one = spiegelhalter(y, [0.1, 0.9, 0.9] * 20, labels=["yes", "no"])
    other = spiegelhalter(y, [0.9, 0.1, 0.1] * 20, labels=["no", "yes"])
    assert one.statistic == pytest.approx(other.statistic)
    with pytest.raises(ValueError, match="labels"):
        spiegelhalter([0, 1, 1], [0.9, 0.1, 0.1], labels=["x", "y"])
