"""The tuning numbers: few, explained, and none of them changes an answer."""

import ast
import inspect
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import make_classification

from calibrant.kernels import settings
from calibrant.kernels.functions import Kernel, Parameters, gram, thin_gram
from calibrant.kernels.loo import choose
from calibrant.kernels.losses import Bernoulli, Multinomial, softmax
from calibrant.kernels.problem import Problem
from calibrant.kernels.settings import SETTINGS
from calibrant.kernels.solver import solve

NAMES = [field.name for field in fields(SETTINGS)]
RBF = Kernel("rbf", Parameters(gamma=0.03))


def changed(name, factor):
    value = getattr(SETTINGS, name)
    return replace(SETTINGS, **{name: type(value)(value * factor)})


def rows(n, classes=2, **options):
    X, y = make_classification(
        n, 12, n_informative=8, n_classes=classes, n_clusters_per_class=2, random_state=0, **options
    )
    return X, y


def problems():
    """An overlapping and a nearly separable problem of two classes, one of three, and one of few rows."""
    for n, C, options in ((3000, 10.0, {"flip_y": 0.1}), (3000, 10.0, {"class_sep": 3.0}), (200, 3.0, {"flip_y": 0.1})):
        X, y = rows(n, **options)
        yield Problem(gram(RBF, X, single=n > 250), Bernoulli(y.astype(float), np.full(n, C)))
    X, y = rows(700, 3, flip_y=0.1)
    yield Problem(gram(RBF, X, single=True), Multinomial(np.eye(3)[y], np.full(700, 10.0)))


@pytest.fixture(scope="module")
def solved():
    return [(problem, solve(replace(problem, tol=1e-6))) for problem in problems()]


def test_there_are_at_most_25():
    assert len(NAMES) <= 25


def test_each_is_explained_and_names_what_it_was_measured_on():
    (record,) = (node for node in ast.parse(inspect.getsource(settings)).body if isinstance(node, ast.ClassDef))
    texts = {}
    for node, following in zip(record.body, record.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(following, ast.Expr):
            texts[node.target.id] = following.value.value
    assert list(texts) == NAMES
    for name, text in texts.items():
        assert len(text.split()) > 8, name
        assert any(word in text for word in ("rows", "classes", "table", "overtype")), name


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("name", NAMES)
def test_twice_or_half_of_it_changes_no_answer_beyond_the_tolerance(name, factor, solved):
    for problem, best in solved:
        found = solve(problem, changed(name, factor))
        assert found.converged, name
        assert found.gap <= problem.tol * found.objective
        # 1e-6 is the gap of the best one
        assert best.objective * (1 - 2e-6) <= found.objective <= best.objective * (1 + problem.tol)
        to_p = expit if best.f.ndim == 1 else softmax
        difference = to_p(found.f + found.b) - to_p(best.f + best.b)
        assert np.sqrt(np.mean(np.square(difference))) < 0.01


@pytest.fixture(scope="module")
def chosen():
    """Two classes, and three, whose values of C are chosen by leaving out groups."""
    found, grid = [], np.logspace(-1, 3, 9)
    for n, classes in ((600, 2), (400, 3)):
        X, y = rows(n, classes, flip_y=0.1)
        loss = Bernoulli(y.astype(float), np.ones(n)) if classes == 2 else Multinomial(np.eye(classes)[y], np.ones(n))
        problem = Problem(gram(RBF, X), loss)
        found.append((problem, grid, choose([(0.0, problem)], np.ones(n), grid).paths[0]))
    return found


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("name", NAMES)
def test_twice_or_half_of_it_chooses_nearly_the_same_c(name, factor, chosen):
    for problem, grid, usual in chosen:
        copies = np.ones(problem.gram.n)
        found = choose([(0.0, problem)], copies, grid, settings=changed(name, factor)).paths[0]
        losses = dict(zip(usual.C, usual.loss, strict=True))
        if name != "groups" or isinstance(problem.loss, Bernoulli):  # machines without a quarter of 400 rows are worse
            assert min(found.loss) == pytest.approx(min(usual.loss), rel=0.03)
        assert losses.get(found.best, min(usual.loss)) <= 1.01 * min(usual.loss)
        assert abs(np.log10(found.best / usual.best)) <= 0.51  # one place of the grid


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("name", NAMES)
def test_twice_or_half_of_it_gives_landmarks_that_are_as_good(name, factor):
    X, y = rows(1500, flip_y=0.1)
    problem = Problem(thin_gram(RBF, X), Bernoulli(y.astype(float), np.full(1500, 10.0)), rank=60)
    usual, found = solve(problem), solve(problem, changed(name, factor))
    assert found.converged
    assert found.objective == pytest.approx(usual.objective, rel=0.02)  # other landmarks may be drawn
