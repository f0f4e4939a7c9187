"""Platt 1999: the parts, claims judged from made-up numbers, and what is done without data."""

from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

from calibrant.inference import wilcoxon
from calibrant.maps import Sigmoid
from calibrant.papers import platt1999, reproduce, writing
from calibrant.papers.cells import Cell
from calibrant.papers.platt1999 import REUTERS, TASKS, PlattTask
from tests.conftest import paper_tables

RESULT = Path(__file__).parents[2] / "experiments" / "platt1999" / "result.json"
CHECKS = {claim.id: claim.check for claim in platt1999.EXPERIMENT.claims}


# The parts ------------------------------------------------------------------------------------------------------------


def test_rounded_differences_of_topics_give_the_test_of_all():
    rng = np.random.default_rng(0)
    topics = [rng.standard_t(2, 500) * 10.0 ** rng.integers(-4, 1, 500) + 1e-5 for _ in range(4)]
    pooled = platt1999.pool_wilcoxon([{"differences": platt1999.count_rounded(each)} for each in topics])
    exact = wilcoxon(np.concatenate(topics), np.zeros(2000))
    assert pooled["z"] == pytest.approx(exact.z, abs=0.02)


def test_surprise_is_minus_log_of_what_was_so():
    f, y = np.array([-3.0, 0.5, 2.0]), np.array([0, 1, 0])
    p = 1 / (1 + np.exp(-1.5 * f + 0.3))
    expected = -np.log(np.where(y == 1, p, 1 - p))
    assert platt1999.surprise(Sigmoid(-1.5, 0.3), f, y) == pytest.approx(expected, rel=1e-12)


def test_C_is_chosen_by_the_sum_over_topics():
    losses = np.ones((2, len(platt1999.LOG2_C)))
    losses[0, 2], losses[1, 2], losses[1, 5] = 0.0, 9.0, 0.5
    settings = {"task": REUTERS, "part": "hold-out"}
    cells = [Cell(settings | {"topic": str(i)}, {"log_loss": each.tolist()}, 0.0) for i, each in enumerate(losses)]
    assert platt1999.best_C(cells, REUTERS) == platt1999.LOG2_C[5]
    assert platt1999.best_C(cells, "Adult Linear") is None
    failed = Cell(settings | {"topic": "x"}, None, 0.0, "no data")
    assert platt1999.best_C([*cells, failed], REUTERS) is None


def test_a_machine_has_the_kernel_of_the_paper():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = (X[:, 0] > 0).astype(int)
    task = PlattTask("none", 30, 0, 2.0, 3, c=5.0)
    machine = task.support_vector_machine().fit(X, y)
    kernel = (X @ machine.support_vectors_.T / 5 + 1) ** 2
    assert machine.decision_function(X) == pytest.approx(kernel @ machine.dual_coef_[0] + machine.intercept_)
    machine = task.likelihood_machine(1.0, X, y)
    kernel = (X @ machine.support_vectors_.T / 5 + 1) ** 2
    assert machine.decision_function(X) == pytest.approx(kernel @ machine.dual_coef_[0] + machine.intercept_)


def test_published_numbers_are_those_transcribed():
    published = paper_tables("platt")
    for name, task in TASKS.items():
        assert published["table1"][name] == [task.train, task.test, task.C, task.inputs, task.machines]
        assert published["table2"][name] == list(platt1999.PUBLISHED[name])
        assert task.c in (None, published["kernel_constants"].get(name.split()[0]))
    assert platt1999.PUBLISHED_THRESHOLD["Adult Quadratic"] == published["adult_quadratic_threshold_abs"]
    assert (published["cv_folds_for_sigmoid"], published["histogram_bin_width"]) == (platt1999.FOLDS, platt1999.WIDTH)
    assert (published["holdout_fraction"], published["significance"]) == (platt1999.HOLD_OUT, platt1999.SIGNIFICANT)
    (earlier,) = published["reproduction_reference_not_published"].values()
    for name, key in (("sigmoid", "sigmoid_errors"), ("score", "neg_log_p_nats"), ("a", "A"), ("b", "B")):
        assert platt1999.REFERENCE[name] == (min(earlier[key]), max(earlier[key]))


# The claims -----------------------------------------------------------------------------------------------------------


def counts_of(slope, mean=None):
    """Rows of the bins from -3 to 3: exponential between the margins, or of a normal distribution around a mean."""
    middle = np.arange(-29.5, 30) * 0.1
    if mean is not None:
        return np.round(1e5 * np.exp(-((middle - mean) ** 2) / 2)).astype(int).tolist()
    bent = np.where(np.abs(middle) < 1, slope * middle, slope * np.sign(middle) - 3 * np.abs(middle) + 3)
    return np.round(1e4 * np.exp(bent)).astype(int).tolist()


def cell_of(task, topic=None, **changed):
    settings = {"task": task, "part": "test", "log2C": -1} | ({"topic": topic} if topic else {})
    test = {"differences": {"value": [-0.1, 0.1], "count": [500, 500]}} if topic else {}
    values = {
        "rows": [1000, 100, 1000, 100],
        "test_part": "made up",
        "errors": {"raw": 100, "sigmoid": 100, "likelihood": 100},
        "only_wrong": [[20, 20], [30, 30], [30, 30]],
        "log_loss": {"sigmoid": 300.0, "likelihood": 305.0, "training": 301.0},
        "sigmoids": {"folds": [-2.0, 0.1], "training": [-3.0, 0.1]},
        "wilcoxon": {"plus": 100.0, "minus": 100.0, "z": 0.0, "pvalue": 1.0},
        "histogram": {"first": -30, "negative": counts_of(-2.0), "positive": counts_of(2.0)},
        "normal": {
            name: {"mean": 0.0, "deviation": 1.0, "distance": 0.1, "pvalue": 1e-9} for name in ("negative", "positive")
        },
        **test,
    }
    return Cell(settings, values | changed, 0.0)


def made_up(changed=None, leave_out=()):
    """All five tasks, with some changes to some of them."""
    changed = {
        "Adult Linear": {"log_loss": {"sigmoid": 305.0, "likelihood": 300.0, "training": 306.0}},
        "Adult Quadratic": {"log_loss": {"sigmoid": 300.0, "likelihood": 305.0, "training": 400.0}},
        "Web Linear": {"log_loss": {"sigmoid": 305.0, "likelihood": 300.0, "training": 306.0}},
        "Web Quadratic": {"log_loss": {"sigmoid": 300.0, "likelihood": 305.0, "training": 400.0}},
    } | (changed or {})
    cells = [Cell({"example": "contradiction"}, platt1999.compute({"example": "contradiction"}), 0.0)]
    for task, about in TASKS.items():
        topics = [f"topic {i}" for i in range(about.machines)] if about.machines > 1 else [None]
        cells += [cell_of(task, topic, **changed.get(task, {})) for topic in topics if task not in leave_out]
    return cells


BETTER = {"errors": {"raw": 130, "sigmoid": 100, "likelihood": 100}, "only_wrong": [[40, 10], [40, 10], [9, 9]]}
TOPIC = {"errors": {"raw": 101, "sigmoid": 100, "likelihood": 101}, "only_wrong": [[1, 0], [1, 1], [0, 1]]}
WORSE = {"only_wrong": [[10, 40], [9, 9], [9, 9]]}
PREFERRED = {"wilcoxon": {"plus": 900.0, "minus": 100.0, "z": 9.0, "pvalue": 1e-9}}


def scores(sigmoid, likelihood, training):
    return {"log_loss": {"sigmoid": sigmoid, "likelihood": likelihood, "training": training}}


AGAINST = PREFERRED | scores(300.0, 305.0, 400.0)  # the likelihood is preferred, the sigmoid has the lower sum


@pytest.mark.parametrize(
    ("claim", "cells", "outcome"),
    [
        ("C9", made_up(), "does not hold"),
        ("C9", made_up({"Web Linear": BETTER}), "holds"),
        ("C9", made_up({"Web Linear": WORSE}), "does not hold"),
        ("C9", made_up({REUTERS: TOPIC}), "holds"),
        ("C9b", made_up({"Web Linear": BETTER}), "does not hold"),
        ("C9b", made_up({"Adult Quadratic": BETTER}), "does not hold"),
        ("C9b", made_up({"Adult Quadratic": BETTER, REUTERS: TOPIC}), "holds"),
        ("C9b", made_up(leave_out=[REUTERS]), "not testable"),
        ("C10", made_up(), "holds"),
        ("C10", made_up({"Web Linear": scores(400.0, 300.0, 400.0)}), "does not hold"),
        ("C10", made_up({task: scores(300.0, 310.0, 300.0) for task in TASKS}), "does not hold"),
        ("C10b", made_up(), "holds"),
        ("C10b", made_up({"Web Linear": scores(300.0, 305.0, 300.0)}), "does not hold"),
        ("C10b", made_up(leave_out=["Web Linear"]), "not testable"),
        ("C9", made_up(leave_out=[REUTERS]), "not testable"),  # the one that is missing might show it
        ("C9", made_up({"Web Linear": BETTER}, leave_out=[REUTERS]), "holds"),
        ("C10", made_up(leave_out=[REUTERS]), "not testable"),
        ("C10", made_up({"Web Linear": scores(400.0, 300.0, 400.0)}, leave_out=[REUTERS]), "not testable"),
        ("C11", made_up({"Web Quadratic": AGAINST}), "holds"),
        ("C11", made_up({"Adult Linear": AGAINST}), "holds"),
        ("C11", made_up({"Adult Linear": AGAINST}, leave_out=[REUTERS]), "holds"),
        ("C11", made_up({"Web Quadratic": PREFERRED | scores(305.0, 300.0, 400.0)}), "does not hold"),
        ("C11", made_up(), "does not hold"),
        ("C11", made_up(leave_out=["Web Quadratic"]), "not testable"),
        ("C11", made_up({"Adult Linear": AGAINST})[1:], "not testable"),  # without the constructed example
        ("C11b", made_up({"Web Quadratic": AGAINST}), "holds"),
        ("C11b", made_up({"Adult Linear": AGAINST}), "does not hold"),
        ("C11b", made_up({"Web Quadratic": PREFERRED | scores(305.0, 300.0, 400.0)}), "does not hold"),
        ("C11b", made_up(leave_out=["Web Quadratic"]), "not testable"),
        ("C12", made_up(), "holds"),
        ("C12", made_up({"Web Linear": scores(300.0, 300.0, 330.0)}), "does not hold"),
        ("C12", made_up({"Web Quadratic": scores(300.0, 300.0, 330.0)}), "does not hold"),
        ("C12", made_up(leave_out=["Adult Quadratic", "Web Quadratic"]), "not testable"),
        ("C12", made_up(leave_out=[REUTERS]), "not testable"),
        ("C19", made_up(leave_out=["Adult Linear"]), "not testable"),
    ],
)
def test_claims_are_judged_from_the_numbers(claim, cells, outcome):
    assert platt1999.EXPERIMENT.judge(cells)[claim].outcome == outcome


def test_what_is_missing_is_said():
    verdicts = platt1999.EXPERIMENT.judge(made_up(leave_out=[REUTERS, "Web Linear"]))
    for claim in ("C9", "C10", "C10b", "C11", "C12"):
        assert verdicts[claim].outcome == "not testable"
        assert "all 5 tasks are needed" in verdicts[claim].evidence
        assert verdicts[claim].evidence.endswith("Reuters Linear, Web Linear")


def test_straightness_is_the_likelihood_ratio_test_of_a_poisson_regression():
    x = np.arange(-9.5, 10) * 0.1
    for bend in (0.0, 0.4):
        rows = np.random.default_rng(1).poisson(200 * np.exp(-0.3 * x + bend * x**2)).astype(float)
        rows[3] = 0.0

        def deviance(*theta, rows=rows):
            expected = np.exp(np.polyval(theta, x))
            return 2 * (np.where(rows > 0, rows * np.log(np.maximum(rows, 1) / expected), 0) - rows + expected).sum()

        line, bent = (
            optimize.minimize(lambda theta: deviance(*theta), [*start, np.log(rows.mean())], method="BFGS")
            for start in ([0.0], [0.0, 0.0])
        )
        found = platt1999.fit_exponential(x, rows)
        assert found.slope == pytest.approx(line.x[0], abs=1e-5)
        assert found.deviance == pytest.approx(line.fun, abs=1e-6)
        assert found.gain == pytest.approx(line.fun - bent.fun, abs=1e-6)
        assert (found.pvalue, found.pvalue_of_gain) == pytest.approx(
            (stats.chi2.sf(line.fun, 18), stats.chi2.sf(line.fun - bent.fun, 1)), rel=1e-5
        )


def test_a_line_that_is_level_and_straight_is_told_though_the_rule_fails():
    level = np.round(1e4 * np.exp(0.01 * np.arange(-29.5, 30) * 0.1)).astype(int)
    level[20:40:2] += 60  # a little noise, so that R2 is small
    changed = {"histogram": {"first": -30, "negative": counts_of(-2.0), "positive": level.tolist()}}
    verdict = CHECKS["C19"](made_up({"Adult Linear": changed}))
    assert verdict.outcome == "does not hold"
    assert "A test of fit says otherwise: for neither class" in verdict.evidence
    bent = {"histogram": {"first": -30, "negative": counts_of(-2.0), "positive": counts_of(0.0, mean=0.0)}}
    evidence = CHECKS["C19"](made_up({"Adult Linear": bent})).evidence
    assert "is rejected at 0.05 for positive" in evidence


def test_the_fit_of_the_committed_counts():
    if not RESULT.exists():
        pytest.skip("there is no committed result beside the tests")
    cells = writing.cells_of(writing.read_document(RESULT))
    # Numbers of an independent computation.
    for name, expected in (("negative", (-1.06, 21.1, 18, 0.27)), ("positive", (0.127, 26.4, 18, 0.09))):
        found = platt1999.fit_between_margins(cells, name)
        assert f"{found.slope:.3g}" == f"{expected[0]:g}"
        assert (round(found.deviance, 1), found.freedom, round(found.pvalue, 2)) == expected[1:]
    (table,) = [each for each in platt1999.EXPERIMENT.tables(cells) if each.title.startswith("Is ln p(f | class)")]
    assert [round(row[-1], 1) for row in table.rows] == [45.0, 117.1]


@pytest.mark.parametrize(
    ("negative", "mean", "pvalue", "outcome"),
    [
        (counts_of(-2.0), -2.0, 1e-9, "holds"),
        (counts_of(-2.0), -2.0, 0.5, "does not hold"),
        (counts_of(0.0, mean=-1.0), -1.0, 1e-9, "does not hold"),  # straight enough, but nearer to the normal one
        (counts_of(0.0, mean=0.0), 0.5, 1e-9, "does not hold"),  # not straight
    ],
)
def test_densities_are_judged_from_the_numbers(negative, mean, pvalue, outcome):
    bell = {"mean": mean, "deviation": 1.0, "distance": 0.1, "pvalue": pvalue}
    changed = {
        "histogram": {"first": -30, "negative": negative, "positive": counts_of(2.0)},
        "normal": {"negative": bell, "positive": {"mean": 0.0, "deviation": 1.0, "distance": 0.1, "pvalue": 1e-9}},
    }
    assert CHECKS["C19"](made_up({"Adult Linear": changed})).outcome == outcome


def test_underlines_follow_the_tests():
    assert platt1999.describe_underlined(platt1999.result_of(made_up(), "Web Linear")) == (
        "no difference",
        "no difference",
    )
    cells = made_up({"Web Linear": BETTER | PREFERRED})
    assert platt1999.describe_underlined(platt1999.result_of(cells, "Web Linear")) == (
        "sigmoid, likelihood",
        "likelihood",
    )
    against_the_sums = made_up({"Web Linear": PREFERRED | scores(300.0, 400.0, 300.0)})
    assert platt1999.describe_underlined(platt1999.result_of(against_the_sums, "Web Linear"))[1] == "likelihood"
    notes = {table.title: table.note for table in platt1999.EXPERIMENT.tables(against_the_sums)}
    assert "also on Web Linear, where the sums are the other way round" in notes["Table 2: errors and sums of -log p"]
    notes = {table.title: table.note for table in platt1999.EXPERIMENT.tables(made_up())}
    assert "the other way round" not in notes["Table 2: errors and sums of -log p"]


def test_topics_are_added_up():
    found = platt1999.result_of(made_up({REUTERS: TOPIC}), REUTERS)
    assert (found.errors("raw"), found.only_wrong("raw", "sigmoid")) == (118 * 101, (118, 0))
    assert found.score("likelihood") == pytest.approx(118 * 305.0)
    assert found.wilcoxon["pvalue"] == 1.0
    with pytest.raises(LookupError, match="only 117 of the 118 machines"):
        platt1999.result_of(made_up()[:118], REUTERS)


# The runs -------------------------------------------------------------------------------------------------------------


def test_no_legend_is_on_top_of_what_is_drawn():
    drawing = platt1999.EXPERIMENT.figure(made_up())
    assert all(axes.get_legend() is None for axes in drawing.axes)
    (legend,) = drawing.legends
    assert [text.get_text() for text in legend.get_texts()][:2] == ["negative", "positive"]
    assert platt1999.EXPERIMENT.figure([]).legends == []


def test_without_data_the_claims_are_not_testable(tmp_path, monkeypatch):
    def missing(name):
        msg = f"data set {name!r} cannot be found"
        raise FileNotFoundError(msg)

    monkeypatch.setattr(platt1999, "_load", missing)
    monkeypatch.setattr("calibrant.papers.running._fingerprint_all", lambda names: ["" for _ in names])
    with pytest.warns(UserWarning, match="cells could not be computed"):
        result = reproduce("platt1999", quick=True, folder=tmp_path, n_jobs=1, progress=False)
    assert {verdict.outcome for verdict in result.verdicts.values()} == {"not testable"}
    assert result.tables == ()
