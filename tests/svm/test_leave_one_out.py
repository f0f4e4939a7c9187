"""Leave-one-out decision values: other people's numbers, brute force, geometry, and every kind of SVC."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, NuSVC

from calibrant.svm import LEAVE_ONE_OUT, Machine, loo_drop_own, loo_span, svc_leave_one_out
from calibrant.svm.leave_one_out import squared_spans
from calibrant.svm.support import read_svc, split_pairs

RNG = np.random.default_rng
PRECISE = {"tol": 1e-7, "cache_size": 10}


def two_classes(n=40, seed=0):
    rng = RNG(seed)
    X = rng.normal(size=(n, 3)) * (1.0, 2.0, 0.5) + 0.3
    return X, np.where(X[:, 0] + np.sin(X[:, 1]) + 0.6 * rng.normal(size=n) > 0.4, "yes", "no")


def three_classes(n=60, seed=1):
    X, y = load_iris(return_X_y=True)
    rows = RNG(seed).permutation(len(y))[:n]
    return X[rows] + RNG(seed).normal(scale=0.4, size=(n, 4)), np.array(["b", "c", "a"])[y[rows]]


def rational(x, z):
    return 1.0 / (1.0 + ((np.asarray(x)[:, None, :] - np.asarray(z)) ** 2).sum(axis=2))


def sparse_products(x, z):
    return sparse.csr_array(x) @ sparse.csr_array(z).T


MACHINES = {
    "linear": {"kernel": "linear", "C": 0.5},
    "rbf": {"C": 5.0},
    "rbf auto": {"gamma": "auto", "C": 5.0},
    "rbf number": {"gamma": 0.7, "C": 2.0},
    "rbf narrow": {"gamma": 4.0, "C": 50.0},
    "poly": {"kernel": "poly", "coef0": 1.0, "C": 0.3},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.02, "coef0": 0.1, "C": 20.0},
    "balanced": {"class_weight": "balanced", "C": 2.0},
    "classes": {"class_weight": {"no": 3.0, "b": 0.3}, "C": 2.0},
}
MATRICES = {
    "rational": {"kernel": rational, "C": 3.0},
    "sparse_products": {"kernel": sparse_products, "C": 0.5},
}


def machine_of(name, y):
    """Return an unfitted machine of the table, with weights for the classes there are."""
    options = dict(MACHINES[name])
    if isinstance(options.get("class_weight"), dict):
        options["class_weight"] = {key: value for key, value in options["class_weight"].items() if key in y}
    return SVC(**options, **PRECISE)


def gamma_of(svc, X):
    return {"scale": 1.0 / (X.shape[1] * X.var()), "auto": 1.0 / X.shape[1]}.get(svc.gamma, svc.gamma)


def without(svc, X, y, weight, row):
    """Return a machine like `svc` trained without one row, its gamma and class weights held."""
    others = np.delete(np.arange(len(y)), row)
    held = {"gamma": gamma_of(svc, X), "class_weight": dict(zip(svc.classes_, svc.class_weight_, strict=True))}
    again = SVC(**{**svc.get_params(), **held, "decision_function_shape": "ovo"})
    return again.fit(X[others], y[others], None if weight is None else weight[others])


def brute_force(svc, X, y, weight=None):
    """Return the decision values of all rows left out in turn, NaN where the intercept is not unique."""
    values = []
    for row in range(len(y)):
        again = without(svc, X, y, weight, row)
        kept = np.delete(np.arange(len(y)), row)
        problem = read_svc(again, X[kept], y[kept], None if weight is None else weight[kept])
        unique = [pair.machine().free.any() for pair in split_pairs(problem)]
        values.append(np.where(unique, again.decision_function(X[[row]]), np.nan)[0])
    return np.squeeze(values)


def assert_brute_force(values, svc, X, y, weight=None):
    expected = brute_force(svc, X, y, weight)
    unique = np.isfinite(expected)
    assert unique.mean() > 0.6
    np.testing.assert_allclose(values[unique], expected[unique], atol=2e-5)


def test_vectors(vectors):
    case = vectors["svm_loo"]
    X, y = np.array(case["X"]), np.array(case["y"])
    svc = SVC(C=case["C"], gamma=case["gamma"], tol=1e-7).fit(X, y)
    expected = {"span": "loo_span", "exact": "loo_exact", "drop_own": "loo_jaakkola_haussler_no_bias_bound"}
    for how, key in expected.items():
        np.testing.assert_allclose(svc_leave_one_out(svc, X, y, how), case[key], atol=1e-6, err_msg=how)
    span, exact = (svc_leave_one_out(svc, X, y, how) for how in ("span", "exact"))
    equal = [row for row in svc.support_ if abs(span[row] - exact[row]) < 1e-4]
    assert sorted(equal) == case["indices_span_equals_exact_1e-4"]


def test_dual_solution_of_the_vectors(vectors):
    case = vectors["svm_loo"]
    X, y, alpha, f = (np.array(case[name]) for name in ("X", "y", "alpha", "f"))
    support = np.flatnonzero(alpha)
    kernel = np.exp(-case["gamma"] * ((X[:, None] - X) ** 2).sum(axis=2))
    coefficient, free = (alpha * y)[support], case["free"]
    bound = np.full(len(support), case["C"])
    machine = Machine(coefficient, bound, f[support], np.diag(kernel)[support], kernel[np.ix_(support, free)])
    assert support[machine.free].tolist() == free
    np.testing.assert_allclose(squared_spans(machine), np.array(case["span_S2"], float)[support], rtol=1e-6)
    np.testing.assert_allclose(loo_span(machine), np.array(case["loo_span"])[support], rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MACHINES)
def test_exact_is_brute_force(name, weighted):
    X, y = two_classes()
    weight = RNG(3).uniform(0.3, 2.0, len(y)) if weighted else None
    svc = machine_of(name, y).fit(X, y, weight)
    exact = svc_leave_one_out(svc, X, y, "exact", sample_weight=weight)
    assert_brute_force(exact, svc, X, y, weight)


@pytest.mark.parametrize("name", MATRICES)
def test_exact_with_kernels_given_as_function_and_as_matrix(name):
    X, y = two_classes()
    svc = SVC(**MATRICES[name], **PRECISE).fit(X, y)
    kernel = svc.kernel(X, X)
    kernel = kernel.toarray() if sparse.issparse(kernel) else kernel
    by_matrix = SVC(**{**MATRICES[name], "kernel": "precomputed"}, **PRECISE).fit(kernel, y)
    assert_brute_force(svc_leave_one_out(svc, X, y, "exact"), svc, X, y)
    for how in LEAVE_ONE_OUT:
        np.testing.assert_allclose(
            svc_leave_one_out(svc, X, y, how), svc_leave_one_out(by_matrix, kernel, y, how), atol=1e-9
        )


@pytest.mark.parametrize("how", LEAVE_ONE_OUT)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("data", [two_classes, three_classes])
def test_sparse_is_dense(data, name, how):
    X, y = data(30)
    X[np.abs(X) < 0.4] = 0.0
    dense, thin = (machine_of(name, y).fit(rows, y) for rows in (X, sparse.csr_array(X)))
    expected = svc_leave_one_out(dense, X, y, how)
    np.testing.assert_allclose(svc_leave_one_out(thin, sparse.csc_array(X), y, how), expected, atol=1e-5)
    np.testing.assert_allclose(svc_leave_one_out(thin, X, y, how), expected, atol=1e-5)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("shape", ["dense", "sparse", "constant"])
def test_the_kernel_is_that_of_the_machine(name, shape):
    X, y = two_classes()
    X = {"dense": X, "sparse": sparse.csr_array(X), "constant": np.full_like(X, 0.5)}[shape]
    svc = machine_of(name, y).fit(X, y)
    problem = read_svc(svc, X, y)
    coefficient = svc.dual_coef_.toarray() if sparse.issparse(svc.dual_coef_) else svc.dual_coef_
    values = problem.kernel(np.arange(len(y)), problem.support) @ coefficient[0] + svc.intercept_
    np.testing.assert_allclose(values, svc.decision_function(X), rtol=1e-11, atol=1e-11)


def categories(svc, X, y, weight):
    """Return 0, 1, 2 for rows that are no, free, and bounded support vectors, by the pair's own C."""
    problem = read_svc(svc, X, y, weight)
    (pair,) = split_pairs(problem)
    kind = np.zeros(len(y), int)
    kind[pair.support] = 2 - pair.machine().free
    return kind


@pytest.mark.parametrize("name", ["linear", "rbf", "rbf narrow", "poly", "balanced"])
@pytest.mark.parametrize("weighted", [False, True])
def test_span_is_exact_where_no_row_changes_category(name, weighted):
    X, y = two_classes(80)
    weight = RNG(5).uniform(0.5, 1.5, len(y)) if weighted else np.ones(len(y))
    svc = machine_of(name, y).fit(X, y, weight)
    svc.set_params(gamma=gamma_of(svc, X))
    span = svc_leave_one_out(svc, X, y, "span", sample_weight=weight)
    before, same = categories(svc, X, y, weight), []
    for row in svc.support_:
        others = np.delete(np.arange(len(y)), row)
        again = without(svc, X, y, weight, row)
        if np.array_equal(categories(again, X[others], y[others], weight[others]), before[others]):
            same.append(row)
            assert span[row] == pytest.approx(again.decision_function(X[[row]])[0], abs=1e-4)
    assert same


@pytest.mark.parametrize("name", ["rbf", "rbf number", "rbf narrow"])
def test_span_is_closer_to_the_truth_than_the_other_two(name):
    X, y = two_classes(150)
    svc = machine_of(name, y).fit(X, y)
    exact, span, own = (svc_leave_one_out(svc, X, y, how, n_jobs=2) for how in ("exact", "span", "drop_own"))
    error, plain, dropped = (np.abs(f - exact)[svc.support_].mean() for f in (span, svc.decision_function(X), own))
    assert error < min(plain, dropped)


def affine_distances(features, free):
    """Return each row's squared distance to the affine hull of the other free rows, by least squares."""
    squares = []
    for row, point in enumerate(features):
        base, *rest = (features[other] for other in np.flatnonzero(free) if other != row)
        directions = np.array(rest).reshape(-1, features.shape[1]) - base
        inside = np.linalg.lstsq(directions.T, point - base, rcond=1e-10)[0] @ directions
        squares.append(np.sum((point - base - inside) ** 2))
    return np.array(squares)


GEOMETRIES = {
    "regular": lambda rng: rng.normal(size=(12, 20)),
    "dependent": lambda rng: rng.normal(size=(12, 4)),
    "just regular": lambda rng: rng.normal(size=(12, 6)),
    "far": lambda rng: rng.normal(size=(12, 20)) + 100.0,
    "large": lambda rng: rng.normal(size=(12, 20)) * 1e8,
    "small": lambda rng: rng.normal(size=(12, 20)) * 1e-8,
    "free twins": lambda rng: rng.normal(size=(6, 20))[[0, 0, 1, 2, 3, 3, 3, 4, 5, 4, 5, 1]],
    "all the same": lambda rng: np.ones((12, 3)),
    "all zero": lambda rng: np.zeros((12, 3)),
}


@pytest.mark.parametrize("free", [2, 7, 12])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_spans_are_distances_to_the_affine_hull_of_the_free_vectors(name, free):
    features = GEOMETRIES[name](RNG(4))
    kernel = features @ features.T
    alpha = np.where(np.arange(12) < free, 1.0, 2.0)
    machine = Machine(alpha, np.full(12, 2.0), np.zeros(12), np.diag(kernel), kernel[:, :free])
    expected = affine_distances(features, machine.free)
    np.testing.assert_allclose(squared_spans(machine), expected, rtol=1e-9, atol=1e-15 + 1e-10 * np.abs(kernel).max())


def test_spans_are_those_of_the_bordered_system():
    features = RNG(6).normal(size=(9, 3))
    kernel = np.exp(-((features[:, None] - features) ** 2).sum(axis=2))
    free = np.arange(9) % 2 == 0
    bordered = np.block([[kernel[np.ix_(free, free)], np.ones((5, 1))], [np.ones((1, 5)), np.zeros((1, 1))]])
    inverse = np.linalg.inv(bordered)
    v = np.column_stack([kernel[np.ix_(~free, free)], np.ones(4)])
    machine = Machine(np.where(free, -0.5, 1.0), np.ones(9), np.zeros(9), np.ones(9), kernel[:, free])
    spans = squared_spans(machine)
    np.testing.assert_allclose(spans[free], 1 / np.diag(inverse)[:5], rtol=1e-10)
    np.testing.assert_allclose(spans[~free], 1 - np.diag(v @ inverse @ v.T), rtol=1e-10)


@pytest.mark.parametrize("free", [0, 1])
def test_a_row_without_another_free_one_drops_its_own_term(free):
    features = RNG(8).normal(size=(5, 3))
    kernel = features @ features.T
    alpha = np.where(np.arange(5) < free, 0.5, 1.0) * (1, -1, 1, -1, -1)
    machine = Machine(alpha, np.ones(5), features[:, 0], np.diag(kernel), kernel[:, :free])
    rows = slice(0, 1 if free else None)
    np.testing.assert_array_equal(loo_span(machine)[rows], loo_drop_own(machine)[rows])


def test_a_kernel_without_feature_space_gives_no_negative_span():
    kernel = RNG(9).normal(size=(8, 8))
    kernel = kernel + kernel.T
    alpha = np.where(np.arange(8) < 5, 0.5, 1.0)
    spans = squared_spans(Machine(alpha, np.ones(8), np.zeros(8), np.diag(kernel), kernel[:, :5]))
    assert np.isfinite(spans).all()
    assert (spans >= 0).all()
    assert (spans == 0).any()


@pytest.mark.parametrize("how", LEAVE_ONE_OUT)
@pytest.mark.parametrize("data", [two_classes, three_classes])
def test_other_rows_keep_their_value_and_left_out_ones_move_away_from_their_class(data, how):
    X, y = data()
    svc = SVC(C=2.0, **PRECISE).fit(X, y)
    plain = SVC(C=2.0, decision_function_shape="ovo", **PRECISE).fit(X, y).decision_function(X)
    values = svc_leave_one_out(svc, X, y, how)
    assert values.shape == plain.shape
    assert svc.decision_function_shape == "ovr"
    others = np.setdiff1d(np.arange(len(y)), svc.support_)
    np.testing.assert_array_equal(values[others], plain[others])
    if plain.ndim == 1:
        assert ((values - plain) * np.where(y == "yes", 1, -1) <= 1e-6).all()
        assert ((values - plain) * np.where(y == "yes", 1, -1) < -1e-3).any()


@pytest.mark.parametrize("how", LEAVE_ONE_OUT)
@pytest.mark.parametrize("name", ["linear", "rbf", "balanced", "classes"])
def test_pairs_of_classes_are_two_class_machines(name, how):
    X, y = three_classes()
    weight = RNG(2).uniform(0.5, 2.0, len(y))
    svc = machine_of(name, y).fit(X, y, weight)
    values = svc_leave_one_out(svc, X, y, how, sample_weight=weight)
    held = {"gamma": gamma_of(svc, X), "class_weight": dict(zip(svc.classes_, svc.class_weight_, strict=True))}
    for column, classes in enumerate(("ab", "ac", "bc")):
        rows = np.isin(y, list(classes))
        own = {**held, "class_weight": {key: held["class_weight"][key] for key in classes}}
        pair = SVC(**{**svc.get_params(), **own}).fit(X[rows], y[rows], weight[rows])
        expected = -svc_leave_one_out(pair, X[rows], y[rows], how, sample_weight=weight[rows])
        np.testing.assert_allclose(values[rows, column], expected, atol=2e-5)
        np.testing.assert_allclose(values[~rows, column], -pair.decision_function(X[~rows]), atol=2e-5)


def test_exact_is_brute_force_with_three_classes():
    X, y = three_classes(40)
    svc = SVC(C=2.0, **PRECISE).fit(X, y)
    assert_brute_force(svc_leave_one_out(svc, X, y, "exact"), svc, X, y)


@pytest.mark.parametrize("how", LEAVE_ONE_OUT)
def test_a_row_of_weight_zero_was_never_there(how):
    X, y = two_classes()
    weight = np.ones(len(y))
    weight[[3, 17]] = 0.0
    kept = weight > 0
    svc = SVC(gamma=0.5, **PRECISE).fit(X, y, weight)
    small = SVC(gamma=0.5, **PRECISE).fit(X[kept], y[kept])
    values = svc_leave_one_out(svc, X, y, how, sample_weight=weight)
    np.testing.assert_allclose(values[kept], svc_leave_one_out(small, X[kept], y[kept], how), atol=1e-6)
    np.testing.assert_allclose(values[~kept], small.decision_function(X[~kept]), atol=1e-6)


def test_the_only_row_of_a_class_is_left_to_the_other():
    X = np.array([[0.0], [1.0], [2.0], [5.0]])
    svc = SVC(kernel="linear").fit(X, [0, 0, 0, 1])
    assert svc_leave_one_out(svc, X, [0, 0, 0, 1], "exact")[3] == -1.0
    svc = SVC(kernel="linear").fit(X, [0, 1, 1, 2])
    assert svc_leave_one_out(svc, X, [0, 1, 1, 2], "exact")[0].tolist()[:2] == [-1.0, -1.0]
    assert svc_leave_one_out(svc, X, [0, 1, 1, 2], "exact")[3].tolist()[1:] == [1.0, 1.0]


@pytest.mark.parametrize("how", LEAVE_ONE_OUT)
def test_rows_of_any_container(how):
    X, y = two_classes(30)
    svc = SVC(kernel=rational).fit(X, y)
    expected = svc_leave_one_out(svc, X, y, how)
    for rows in (pd.DataFrame(X), [tuple(row) for row in X]):
        again = SVC(kernel=rational).fit(rows, y)
        np.testing.assert_allclose(svc_leave_one_out(again, rows, list(y), how), expected, atol=1e-9)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    linear = SVC(kernel="linear").fit(frame, y)
    np.testing.assert_allclose(
        svc_leave_one_out(linear, frame, y, how),
        svc_leave_one_out(SVC(kernel="linear").fit(X, y), X.tolist(), y, how),
        atol=1e-9,
    )


def test_a_callable_kernel_of_sparse_rows():
    X, y = two_classes(30)
    rows = sparse.csr_array(X)
    svc = SVC(kernel=sparse_products, C=0.5).fit(rows, y)
    expected = svc_leave_one_out(SVC(kernel="linear", C=0.5).fit(X, y), X, y)
    np.testing.assert_allclose(svc_leave_one_out(svc, rows, y), expected, atol=1e-9)


def test_errors():
    X, y = two_classes()
    svc = SVC().fit(X, y)
    with pytest.raises(ValueError, match="how must be one of exact, drop_own, span; got 'jackknife'"):
        svc_leave_one_out(svc, X, y, "jackknife")
    for other in (LogisticRegression().fit(X, y), NuSVC().fit(X, y), "svc"):
        with pytest.raises(TypeError, match=f"svc must be a scikit-learn SVC; got a {type(other).__name__}"):
            svc_leave_one_out(other, X, y)
    with pytest.raises(ValueError, match="svc must be fitted"):
        svc_leave_one_out(SVC(), X, y)
    with pytest.raises(ValueError, match="got 39 rows where it was fitted on 40"):
        svc_leave_one_out(svc, X[1:], y[1:])
    with pytest.raises(ValueError, match="X must hold the rows the SVC was fitted on, in their order"):
        svc_leave_one_out(svc, X[::-1], y)
    for labels in (y[1:], np.where(y == "yes", "no", "yes"), y == "yes"):
        with pytest.raises(ValueError, match="y must hold the labels the SVC was fitted on, 40 of classes"):
            svc_leave_one_out(svc, X, labels)
    with pytest.raises(ValueError, match="sample_weight must have one value"):
        svc_leave_one_out(svc, X, y, sample_weight=[1.0])


def test_errors_of_weights():
    X, y = two_classes()
    weight = np.full(len(y), 3.0)
    with pytest.raises(ValueError, match="sample_weight must be that of the fit; got an alpha of 3 above its C of 1"):
        svc_leave_one_out(SVC().fit(X, y, weight), X, y)
    with pytest.raises(ValueError, match="sample_weight must be that of the fit; got 30 rows of weight zero, too many"):
        svc_leave_one_out(SVC().fit(X, y), X, y, sample_weight=np.arange(40) < 10)
    weight[0] = 0.0
    for svc, rows in ((SVC(kernel=rational), X), (SVC(kernel="precomputed"), rational(X, X))):
        with pytest.raises(ValueError, match="sample_weight must not be zero if the kernel is precomputed or callable"):
            svc_leave_one_out(svc.fit(rows, y, weight), rows, y, sample_weight=weight)


def test_machines_of_a_subclass_are_machines():
    class Renamed(SVC):
        pass

    X, y = two_classes()
    for how in LEAVE_ONE_OUT:
        np.testing.assert_array_equal(
            svc_leave_one_out(Renamed().fit(X, y), X, y, how), svc_leave_one_out(SVC().fit(X, y), X, y, how)
        )
