"""Comparisons: the same folds for all methods, numbers that can be recomputed, folders that lose nothing."""

import importlib
import json
import os
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import Parallel, delayed
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss as reference_log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import calibrant
from calibrant import CalibratedClassifier, KernelLogisticRegression, compare, compare_scores
from calibrant import progress as bars
from calibrant.comparing import DEFAULT_METHODS, GRIDS, METHOD_SETS, arguments, tasks
from calibrant.comparing.content import content_of
from calibrant.comparing.folder import key_of
from calibrant.comparing.standings import standings_of
from calibrant.comparing.tasks import ComparisonSettings, SearchTask
from calibrant.comparing.verdicts import describe_verdict
from calibrant.evidence.words import to_json
from calibrant.samples import Sample

FAST_METHODS = ("platt", "softmax", "clip01")


def two_classes(n=90, seed=0, d=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, d)) + y[:, None] * 1.2, y


def quick(data=None, **keywords):
    settings = {"kernels": ["linear"], "methods": FAST_METHODS, "cv": 3, "grid": None, "progress": False} | keywords
    return compare(two_classes() if data is None else data, **settings)


def same(first, second, rtol=0.0):
    """Assert that two comparisons found the same numbers, by default to the last bit."""
    for one, other in zip(first.cells, second.cells, strict=True):
        assert (one.dataset, one.machine, one.method, one.fold) == (
            other.dataset,
            other.machine,
            other.method,
            other.fold,
        )
        assert list(one.values) == list(other.values)
        np.testing.assert_allclose(list(one.values.values()), list(other.values.values()), rtol=rtol)
    assert first.predictions.keys() == second.predictions.keys()
    for name, found in first.predictions.items():
        np.testing.assert_allclose(found.p, second.predictions[name].p, rtol=rtol)
    assert first.choices == second.choices


class Broken(ClassifierMixin, BaseEstimator):
    """A classifier that cannot be trained."""

    def fit(self, X, y):
        msg = "out of luck"
        raise RuntimeError(msg)


def refuses(data):
    msg = f"no map for {len(data)} rows"
    raise ValueError(msg)


def half(data: Sample):
    return calibrant.maps.Steps((), (0.5,))


class TestNumbers:
    @pytest.mark.parametrize("protocol", ["cv", "holdout", "train", "ensemble", "loo"])
    def test_a_cell_is_what_a_calibrated_classifier_says(self, protocol):
        X, y = two_classes()
        found = quick((X, y), protocol=protocol, random_state=4, kernels=["rbf"])
        folds = StratifiedKFold(3, shuffle=True, random_state=4).split(X, y)
        for number, (train, test) in enumerate(folds):
            for method in FAST_METHODS:
                machine = make_pipeline(StandardScaler(), SVC())
                model = CalibratedClassifier(machine, method, protocol=protocol, cv=3, random_state=4)
                p = model.fit(X[train], y[train]).predict_proba(X[test])
                kept = found.predictions["data", "rbf", method]
                np.testing.assert_allclose(kept.p[kept.fold == number], p, rtol=1e-9)
                np.testing.assert_array_equal(kept.rows[kept.fold == number], test)

    def test_a_cell_is_what_plain_scikit_learn_and_one_map_say(self):
        X, y = two_classes(seed=3)
        found = quick((X, y), kernels=["linear"], random_state=1)
        train, test = list(StratifiedKFold(3, shuffle=True, random_state=1).split(X, y))[1]
        machine = make_pipeline(StandardScaler(), SVC(kernel="linear"))
        inner = StratifiedKFold(3, shuffle=True, random_state=1)
        scores = cross_val_predict(machine, X[train], y[train], cv=inner, method="decision_function")
        platt = calibrant.fit("platt", scores, y[train])
        p = platt(machine.fit(X[train], y[train]).decision_function(X[test]))
        cell = next(cell for cell in found.cells if (cell.method, cell.fold) == ("platt", 1))
        assert cell.values["brier"] == pytest.approx(np.mean((y[test] - p) ** 2), rel=1e-9)
        assert cell.values["log_loss"] == pytest.approx(reference_log_loss(y[test], p), rel=1e-9)

    def test_klr_and_raw_are_the_machines_own_probabilities(self):
        X, y = two_classes(seed=5)
        found = quick((X, y), machines={"bayes": GaussianNB()}, methods=["klr", "raw", "platt"])
        for number, (train, test) in enumerate(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y)):
            klr = make_pipeline(StandardScaler(), KernelLogisticRegression(kernel="linear"))
            for name, machine in ((("data", "linear", "klr"), klr), (("data", "bayes", "raw"), GaussianNB())):
                kept = found.predictions[name]
                p = machine.fit(X[train], y[train]).predict_proba(X[test])
                np.testing.assert_allclose(kept.p[kept.fold == number], p, rtol=1e-6)
        assert ("data", "bayes", "klr") not in found.predictions
        assert ("data", "linear", "raw") not in found.predictions

    def test_every_row_is_predicted_once_and_folds_are_identical(self):
        data = {"a": two_classes(70, 1), "b": two_classes(60, 2)}
        found = quick(data, machines={"bayes": GaussianNB()}, methods=[*FAST_METHODS, "klr"])
        for (name, _, _), kept in found.predictions.items():
            y = data[name][1]
            np.testing.assert_array_equal(np.sort(kept.rows), np.arange(len(y)))
            np.testing.assert_array_equal(kept.y, y[kept.rows])
            first = found.predictions[name, "linear", "platt"]
            np.testing.assert_array_equal(kept.rows, first.rows)
            np.testing.assert_array_equal(kept.fold, first.fold)

    def test_infinite_losses_stay_infinite(self):
        found = quick(two_classes(120, 7))
        assert np.isinf(found.means.loc["log_loss", "clip01"]).all()
        assert found.ranks.loc["log_loss", "linear"].loc["clip01", "min"] == 3

    def test_scales(self):
        X, y = two_classes()
        X = X * [1.0, 100.0, 0.01]
        whole, plain = quick((X, y), scale="global"), quick((X, y), scale=None)
        same(whole, quick((StandardScaler().fit_transform(X), y), scale=None))
        assert whole.cells[0].values != plain.cells[0].values
        assert whole.cells[0].values != quick((X, y), scale="train").cells[0].values

    def test_labels_of_any_type_and_several_classes(self):
        X, y = load_iris(return_X_y=True)
        names = np.array(["setosa", "versicolor", "virginica"])[y]
        found = quick(
            (X, names), machines={"bayes": GaussianNB()}, methods=["klr", "raw", "platt"], metrics=["log_loss"]
        )
        model = CalibratedClassifier(make_pipeline(StandardScaler(), SVC(kernel="linear")), "platt", random_state=0)
        train, test = next(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
        p = model.fit(X[train], names[train]).predict_proba(X[test])
        kept = found.predictions["data", "linear", "platt"]
        np.testing.assert_allclose(kept.p[kept.fold == 0], p, rtol=1e-9)
        assert found.cells[0].method == "klr"
        assert found.means.loc["log_loss"].to_numpy()[np.isfinite(found.means.loc["log_loss"].to_numpy())].max() < 0.5

    def test_several_classes_are_fitted_as_the_classifier_fits_them(self):
        X, y = load_iris(return_X_y=True)
        machine = LinearSVC(random_state=0)
        found = quick((X, y), kernels=(), machines={"linear": machine}, methods=["temperature", "platt"], scale=None)
        train, test = next(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
        for method in ("temperature", "platt"):
            p = CalibratedClassifier(machine, method, random_state=0).fit(X[train], y[train]).predict_proba(X[test])
            kept = found.predictions["data", "linear", method]
            np.testing.assert_allclose(kept.p[kept.fold == 0], p, rtol=1e-9)

    def test_groups_stay_together(self):
        X, y = two_classes(120)
        groups = np.arange(120) // 4
        found = quick((X, y, groups), cv=4)
        kept = found.predictions["data", "linear", "platt"]
        folds_of_group = {}
        for row, fold in zip(kept.rows, kept.fold, strict=True):
            folds_of_group.setdefault(groups[row], set()).add(fold)
        assert all(len(each) == 1 for each in folds_of_group.values())

    @pytest.mark.parametrize("protocol", ["cv", "ensemble", "holdout"])
    @pytest.mark.parametrize("choose", ["prior", "nested"])
    def test_no_machine_scores_rows_of_a_group_it_was_trained_on(self, protocol, choose):
        X, y = two_classes(120)
        X, groups = np.column_stack([np.arange(120), X]), np.arange(120) // 10
        splits = []

        class Spy(GaussianNB):
            def fit(self, X, y):
                self.rows_ = X[:, 0].astype(int)
                return super().fit(X[:, 1:], y)

            def predict_proba(self, X):
                splits.append((self.rows_, X[:, 0].astype(int)))
                return super().predict_proba(X[:, 1:])

        machines = {
            "spy": Spy(),
            "calibrated": CalibratedClassifier(Spy()),
            "search": GridSearchCV(Spy(), {"var_smoothing": [1e-9, 1e-3]}, cv=GroupKFold(3)),
        }
        grid = {"spy": {"var_smoothing": [1e-9, 1e-2]}, "calibrated": {"cv": [2, 3]}}
        found = quick(
            (X, y, groups),
            kernels=(),
            machines=machines,
            methods=["raw", "platt"],
            grid=grid,
            choose=choose,
            protocol=protocol,
        )
        assert not [cell.note for cell in found.cells if "groups" in cell.note or np.isnan(cell.values["brier"])]
        assert len(splits) > 50
        for trained, scored in splits:
            assert not set(groups[trained]) & set(groups[scored])

    def test_a_class_that_a_training_part_lacks_has_no_probability(self):
        X, y = load_iris(return_X_y=True)
        order = np.random.default_rng(0).permutation(150)
        X, y = X[order], y[order]
        folds = [(np.flatnonzero((np.arange(150) % 2 == 0) & (y != 2)), np.flatnonzero(np.arange(150) % 2))]
        methods = {"linear": ["platt", "auto", "softmax"], "nb": ["platt", "auto", "raw"]}
        found = quick((X, y), machines={"nb": GaussianNB()}, methods=["platt", "auto", "softmax", "raw"], cv=folds)
        for machine, method in ((machine, method) for machine, names in methods.items() for method in names):
            p = found.predictions["data", machine, method].p
            np.testing.assert_allclose(p.sum(axis=1), 1)
            assert not p[:, 2].any()
        for method in ("platt", "auto"):
            alone = CalibratedClassifier(GaussianNB(), method).fit(X[folds[0][0]], y[folds[0][0]])
            p = found.predictions["data", "nb", method].p
            np.testing.assert_allclose(p[:, :2], alone.predict_proba(X[1::2]))

    @pytest.mark.parametrize("method", ["platt", "auto", "temperature", "dirichlet"])
    def test_a_class_of_four_that_a_training_part_lacks_has_no_probability(self, method):
        rng = np.random.default_rng(1)
        y = np.arange(240) % 4
        X = rng.normal(size=(240, 2)) + 2.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[y]
        train, test = np.flatnonzero((np.arange(240) < 160) & (y != 1)), np.arange(160, 240)
        found = quick((X, y), kernels=[], machines={"nb": GaussianNB()}, methods=[method], cv=[(train, test)])
        alone = CalibratedClassifier(GaussianNB(), method, random_state=0).fit(X[train], y[train])
        p = found.predictions["data", "nb", method].p
        assert not p[:, 1].any()
        np.testing.assert_allclose(p[:, [0, 2, 3]], alone.predict_proba(X[test]), rtol=1e-9)

    def test_a_splitter_and_one_fold_and_one_method(self):
        found = quick(cv=ShuffleSplit(1, random_state=0), methods="platt")
        assert len(found.cells) == 1
        assert found.ranks["min"].tolist() == [1.0, 1.0]
        with pytest.raises(ValueError, match="at least 2 folds"):
            found.rejections  # noqa: B018

    def test_folds_given_once_serve_every_data_set(self):
        X, y = two_classes()
        once = iter(list(StratifiedKFold(3).split(X, y)))
        assert len(quick({"a": (X, y), "b": (X, y)}, cv=once).cells) == 2 * 3 * 3

    def test_records_with_a_name_and_frames(self):
        pandas = pytest.importorskip("pandas")
        X, y = two_classes()

        class Record:
            name = "named"

        record = Record()
        record.X, record.y = pandas.DataFrame(X, columns=list("abc")), y
        same(quick(record), quick({"named": (X, y)}), rtol=1e-9)


class TestMethods:
    def test_the_nine_of_the_paper_have_a_name(self):
        found = quick(two_classes(150), methods="rueping2004", kernels=["linear"])
        expected = [name for name in METHOD_SETS["rueping2004"] if name != "raw"]
        assert found.methods("linear") == expected
        assert len(expected) == 9

    def test_the_default_is_what_is_in_use_today(self):
        score = np.linspace(-2, 2, 60)
        y = np.arange(60) % 3 > score + 1
        found = compare_scores(score, y, cv=2, progress=False)
        today = {"platt", "temperature", "kull_beta", "isotonic", "spline", "auto", "pp"}
        assert set(found.methods("scores")) == today == set(DEFAULT_METHODS) - {"klr", "raw"}
        assert quick(two_classes(150), methods=None, kernels=["linear"]).methods("linear") == [
            name for name in DEFAULT_METHODS if name != "raw"
        ]
        p = 1 / (1 + np.exp(-score))
        assert set(compare_scores(p, y, kind="probability", cv=2, progress=False).methods("scores")) == {"raw", *today}

    @pytest.mark.parametrize("methods", ["platt", ["platt"], {"mine": "platt"}, "rueping2004"])
    def test_forecasts_as_they_are_are_always_a_row(self, methods):
        score = np.linspace(-2, 2, 60)
        y, p = np.arange(60) % 3 > score + 1, 1 / (1 + np.exp(-score))
        for kind, scores in (("probability", p), ("logit", score)):
            assert "raw" in compare_scores(scores, y, methods=methods, kind=kind, cv=2, progress=False).methods(
                "scores"
            )
        assert "raw" not in compare_scores(score, y, methods=methods, kind="margin", cv=2, progress=False).methods(
            "scores"
        )

    def test_printed_it_is_its_verdict(self):
        found = quick(methods=["platt", "softmax"])
        assert str(found) == str(found.answers)
        assert found.verdict == describe_verdict(found, standings_of(found))
        assert repr(found) == "Comparison(platt and softmax on 1 data set, by log_loss, brier)"

    def test_options_and_functions(self):
        methods = {
            "beta": "beta",
            "beta as printed": ("beta", {"as_printed": True}),
            "half": half,
            "bins 4": ("bins", {"k": 4}),
        }
        found = quick(methods=methods)
        assert found.methods("linear") == list(methods)
        np.testing.assert_array_equal(found.predictions["data", "linear", "half"].p, 0.5)
        plain, printed = (found.predictions["data", "linear", name].p[:, 1] for name in ("beta", "beta as printed"))
        assert not np.array_equal(plain, printed)
        assert (printed >= 0.5 - 1e-12)[plain > 0.9].all()

    def test_a_method_that_fails_is_a_note(self):
        with pytest.warns(UserWarning, match="3 of 6 cells have no value; the first .data, linear, refuses, fold 0."):
            found = quick(methods=["platt", refuses])
        failed = [cell for cell in found.cells if cell.method == "refuses"]
        assert all(np.isnan(cell.values["brier"]) and "no map for 60 rows" in cell.note for cell in failed)
        assert found.ranks.loc["brier", "linear"]["min"].tolist() == [1, 2]
        assert found.rejections["brier"].loc["linear"].loc["refuses", "platt"] == 1
        assert ("data", "linear", "refuses") not in found.predictions

    def test_a_machine_that_fails_is_a_note(self):
        with pytest.warns(UserWarning, match="3 of 6 cells .* out of luck"):
            quick(kernels=["linear"], machines={"broken": Broken()}, methods="platt")

    def test_a_metric_that_does_not_exist_on_a_fold_is_a_note(self):
        X, y = two_classes(40)
        order = np.argsort(y, kind="stable")
        folds = [(np.r_[5:40], np.r_[0:5]), (np.r_[0:15, 20:40], np.r_[15:20])]
        with pytest.warns(UserWarning, match="cells have no value"):
            found = quick((X[order], y[order]), cv=folds, metrics=["brier", "auc"], methods="platt")
        assert np.isnan(found.cells[0].values["auc"])
        assert "auc" in found.cells[0].note
        assert np.isfinite(found.cells[0].values["brier"])

    def test_larger_is_better_where_it_is(self):
        found = quick(two_classes(150), metrics=["accuracy", "error_rate"], methods=["platt", "clip01", "half"][:2])
        ranks = found.ranks["average"]
        np.testing.assert_array_equal(ranks.loc["accuracy"].to_numpy(), ranks.loc["error_rate"].to_numpy())


class TestTables:
    def test_tables_agree_with_the_cells_and_with_scipy(self):
        data = {name: two_classes(80, seed) for seed, name in enumerate("abc")}
        found = quick(data, methods=["platt", "softmax", "bins"], cv=5)
        frame = found.scores
        assert list(frame.columns[:6]) == ["dataset", "machine", "method", "fold", "log_loss", "brier"]
        assert len(frame) == 3 * 3 * 5
        table = frame.pivot_table(index="dataset", columns="method", values="brier")[["platt", "softmax", "bins"]]
        np.testing.assert_allclose(found.means.loc["brier", "linear"].to_numpy(), table.to_numpy())
        ranks = stats.rankdata(table.to_numpy(), axis=1, method="min").mean(axis=0)
        np.testing.assert_allclose(found.ranks.loc["brier", "linear"]["min"], ranks)
        count = 0
        for name in data:
            one, other = (
                frame[(frame.dataset == name) & (frame.method == method)].brier.to_numpy()
                for method in ("bins", "platt")
            )
            count += stats.ttest_rel(one, other, alternative="greater").pvalue < 0.05
        assert found.rejections["brier"].loc["linear"].loc["bins", "platt"] == count

    def test_json_is_strict_and_holds_the_cells(self, tmp_path):
        found = quick(two_classes(120, 7))
        text = found.to_json(tmp_path / "comparison.json")
        assert (tmp_path / "comparison.json").read_text() == text

        def refuse(word):
            raise AssertionError(word)

        document = json.loads(text, parse_constant=refuse)
        assert len(document["cells"]) == len(found.cells)
        assert "inf" in {cell["values"]["log_loss"] for cell in document["cells"]}
        assert document["settings"]["methods"]["platt"] == "platt()"
        assert "SVC" in document["settings"]["machines"]["linear svm"]

    def test_without_pandas_the_error_names_the_extra(self, monkeypatch):
        found = quick()
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ModuleNotFoundError, match=r"calibrant\[report\]"):
            found.scores  # noqa: B018
        assert found.to_json()

    def test_keep_nothing(self):
        assert quick(keep=False).predictions == {}

    def test_the_report_is_written_by_the_report_module(self, monkeypatch):
        told = []
        module = type(sys)("calibrant.report")
        module.write_report = lambda comparison, path: told.append((comparison, path))
        monkeypatch.setitem(sys.modules, "calibrant.report", module)
        found = quick()
        found.report("report.html")
        assert told == [(found, "report.html")]


class TestHyperparameters:
    GRID = {"rbf": {"C": [0.1, 10.0], "gamma": [0.01, 30.0]}}  # noqa: RUF012

    def test_the_prior_choice_has_the_best_accuracy(self):
        X, y = two_classes(100, 2)
        found = quick((X, y), kernels=["rbf"], grid=self.GRID, methods=["platt", "klr"])
        folds = StratifiedKFold(10, shuffle=True, random_state=1)
        accuracy = {
            (C, gamma): cross_val_predict(make_pipeline(StandardScaler(), SVC(C=C, gamma=gamma)), X, y, cv=folds)
            for C in self.GRID["rbf"]["C"]
            for gamma in self.GRID["rbf"]["gamma"]
        }
        accuracy = {point: np.mean(predicted == y) for point, predicted in accuracy.items()}
        (svm,) = [each for each in found.choices if each.trained == "svm"]
        assert svm.accuracy == pytest.approx(max(accuracy.values()))
        assert accuracy[svm.parameters["C"], svm.parameters["gamma"]] == pytest.approx(svm.accuracy)
        assert {each.trained for each in found.choices} == {"svm", "klr"}
        assert list(found.parameters.columns) == ["dataset", "machine", "trained", "fold", "accuracy", "C", "gamma"]

    def test_the_chosen_parameters_are_those_of_the_machine(self):
        X, y = two_classes(100, 2)
        chosen = quick((X, y), kernels=["rbf"], grid=self.GRID)
        point = {name: [value] for name, value in chosen.choices[0].parameters.items()}
        same_point = quick((X, y), kernels=["rbf"], grid={"rbf": point})
        for name, kept in chosen.predictions.items():
            np.testing.assert_array_equal(kept.p, same_point.predictions[name].p)

    def test_nested_choice_sees_training_rows_only(self):
        X, y = two_classes(100, 2)
        found = quick((X, y), kernels=["rbf"], grid=self.GRID, choose="nested", methods=["platt"])
        assert [each.fold for each in found.choices] == [0, 1, 2]
        train, test = next(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
        flipped = y.copy()
        flipped[test] = 1 - flipped[test]
        other = quick(
            (X, flipped), kernels=["rbf"], grid=self.GRID, choose="nested", methods="platt", cv=[(train, test)]
        )
        assert other.choices[0].parameters == found.choices[0].parameters
        inner = StratifiedKFold(5, shuffle=True, random_state=1)
        machine = make_pipeline(StandardScaler(), SVC(**found.choices[0].parameters))
        predicted = cross_val_predict(machine, X[train], y[train], cv=inner)
        assert found.choices[0].accuracy == pytest.approx(np.mean(predicted == y[train]))

    def test_each_machine_of_a_kernel_may_have_its_own_grid(self):
        grid = {"linear": {"C": [1.0]}, "linear klr": {"C": [5.0]}}
        found = quick(methods=["klr", "platt"], grid=grid)
        assert {each.trained: each.parameters for each in found.choices} == {"svm": {"C": 1.0}, "klr": {"C": 5.0}}

    def test_grids_of_other_machines(self):
        X, y = two_classes(90, 4)
        machines = {"tree": DecisionTreeClassifier(), "logistic": LogisticRegression()}
        grid = {"tree": {"max_depth": [1, 4]}, "logistic": {"C": [0.01, 1.0]}}
        found = compare((X, y), machines=machines, grid=grid, methods=["raw", "platt"], cv=3, progress=False)
        assert {name for each in found.choices for name in each.parameters} == {"max_depth", "C"}
        accuracy = next(each.accuracy for each in found.choices if each.machine == "logistic")
        folds = StratifiedKFold(10, shuffle=True, random_state=1)
        weights = [len(test) for _, test in folds.split(X, y)]
        best = max(
            np.average(cross_val_score(LogisticRegression(C=C), X, y, cv=folds), weights=weights) for C in (0.01, 1.0)
        )
        assert accuracy == pytest.approx(best)

    @pytest.mark.parametrize("name", GRIDS)
    def test_grids_name_parameters_that_both_machines_have(self, name):
        for key, grid in GRIDS[name].items():
            kernel = key.split()[0]
            assert set(grid) <= set(SVC(kernel=kernel).get_params())
            assert set(grid) <= set(KernelLogisticRegression(kernel=kernel).get_params())
        assert len(GRIDS["published"]["rbf"]["C"]) * len(GRIDS["published"]["rbf"]["gamma"]) == 110


class TestReproducible:
    def test_the_same_twice_and_in_parallel(self):
        machines = {"tree": DecisionTreeClassifier(max_features=1)}
        settings = {"machines": machines, "methods": ["klr", "raw", "platt"], "cv": 2}
        settings["grid"] = {"tree": {"max_depth": [2, 4]}}
        first = quick(**settings)
        same(first, quick(**settings))
        same(first, quick(**settings, n_jobs=2))
        assert quick(**settings, random_state=1).cells[0].values != first.cells[0].values

    def test_a_random_state_object_is_used_once(self):
        same(quick(random_state=np.random.RandomState(3)), quick(random_state=np.random.RandomState(3)))

    def test_the_machine_is_trained_once_for_all_methods(self, monkeypatch):
        fits = []
        original = SVC.fit
        monkeypatch.setattr(SVC, "fit", lambda self, X, y, **rest: fits.append(len(y)) or original(self, X, y, **rest))
        quick(methods=FAST_METHODS)
        assert len(fits) == 3 * (3 + 1)


def in_code(factor):
    """Return a function whose constant stands in its code, as if a file had been edited."""
    found = {"__name__": "own"}
    exec(f"def scale(X): return X * {factor}", found)
    return found["scale"]


def nested(factor):
    """Return a function that calls another, in a lambda, which closes over a third."""
    inner = in_code(factor)

    def middle(X):
        return next(inner(rows) for rows in [X])

    return lambda X: (lambda Z: middle(Z))(X)


def scaled(X, factor=1.0):
    return X * factor


class Scaling:
    """A callable object."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, X):
        return X * self.factor

    def method(self, X):
        return X * self.factor


def with_class(factor):
    """Return an object of a class whose code says what it does."""
    found = {"__name__": "own"}
    exec(f"class Scale:\n    def __call__(self, X):\n        return X * {factor}", found)
    return found["Scale"]()


def with_global(factor):
    found = {"__name__": "own"}
    exec(f"FACTOR = {factor}\ndef scale(X): return X * FACTOR", found)
    return found["scale"]


FORMS = {
    "code": in_code,
    "nested": nested,
    "lambda": lambda factor: lambda X: X * factor,
    "default": lambda factor: lambda X, by=factor: X * by,
    "keyword": lambda factor: lambda X, *, by=factor: X * by,
    "partial": lambda factor: partial(scaled, factor=factor),
    "partial of code": lambda factor: partial(in_code(factor)),
    "object": Scaling,
    "method": lambda factor: Scaling(factor).method,
    "class": with_class,
    "method of a class": lambda factor: with_class(factor).__call__,
    "decorated": lambda factor: wraps(scaled)(in_code(factor)),
    "global": with_global,
}


# Modules in which `mine` depends on the value {k} by way of something that it names, and of nothing else.
MODULES = {
    "dictionary": """
        G = {{"gamma": {k}, 1: "one", None: 2, ("a", 1): 3}}
        def mine(x): return x * G["gamma"]
    """,
    "list": """
        G = [1, [{k}]]
        def mine(x): return x * G[1][0]
    """,
    "set": """
        G = {{"a", "b", "c", None, 7, {k}}}
        def mine(x): return x in G
    """,
    "frozenset": """
        G = frozenset({{"a", "b", "c", frozenset({{"d", "e", "f", ("g", {k})}})}})
        def mine(x): return x in G
    """,
    "set of objects": """
        class Point:
            def __init__(self, at): self.at = at
        G = {{Point("a"), Point("b"), Point("c"), Point({k})}}
        def mine(x): return x in G
    """,
    "default that is a set": """
        def mine(x, among=frozenset({{"a", "b", "c", {k}}})): return x in among
    """,
    "proxy of a dictionary": """
        from types import MappingProxyType
        G = MappingProxyType({{"gamma": {k}}})
        def mine(x): return x * G["gamma"]
    """,
    "partial": """
        from functools import partial
        G = partial(pow, {k})
        def mine(x): return G(x)
    """,
    "object": """
        class Own:
            def __init__(self): self.k, self.me = {k}, self
        G = Own()
        def mine(x): return x * G.k
    """,
    "object of a package": """
        from sklearn.preprocessing import Binarizer
        G = Binarizer(threshold={k})
        def mine(x): return G.transform(x)
    """,
    "built-in function": """
        import math
        G = [math.sin, math.cos, math.tan][{k}]
        def mine(x): return G(x)
    """,
    "cached function": """
        from functools import cache
        @cache
        def inner(): return {k}
        def mine(x): return x * inner()
    """,
    "enumeration": """
        from enum import Enum
        class Own(Enum):
            A = {k}
        def mine(x): return x * Own.A.value
    """,
    "dictionary of a class": """
        from abc import ABC
        class Own(ABC):
            settings = {{"k": [{k}]}}
        def mine(x): return Own.settings
    """,
    "cached property": """
        from functools import cached_property
        class Own:
            @cached_property
            def k(self): return {k}
        def mine(x): return x * Own().k
    """,
    "partial method": """
        from functools import partialmethod
        class Own:
            def times(self, x, k): return x * k
            scaled = partialmethod(times, k={k})
        def mine(x): return Own().scaled(x)
    """,
    "method of a metaclass": """
        class Kind(type):
            def scaled(cls, x): return x * {k}
        class Own(metaclass=Kind): pass
        def mine(x): return Own.scaled(x)
    """,
    "attribute of a function": """
        def mine(x): return x * mine.k
        mine.k = {k}
    """,
    "table that holds the function": """
        G = {{"k": {k}}}
        def mine(x): return G["mine"], G["k"]
        G["mine"] = mine
    """,
    "beside a lock": """
        from threading import Lock
        G = {{"lock": Lock(), "zeta": {k}}}
        def mine(x): return x * G["zeta"]
    """,
    "deep inside": """
        G = [{k}]
        for _ in range(1500):
            G = [G]
        def mine(x): return G
    """,
    "graph": """
        class Node: pass
        G = [Node() for _ in range(40)]
        for i, node in enumerate(G):
            node.at, node.others = i, set(G)
        G[-1].k = {k}
        def mine(x): return G[0]
    """,
}


def mine(form, k):
    """Return the function of a module."""
    found = {"__name__": "own"}
    exec(textwrap.dedent(MODULES[form]).format(k=k), found)
    return found["mine"]


# Ways to use `helper` of the module own_package.inner.sub, from the module own_package.uses.
IMPORTS = {
    "dotted": """
        import own_package.inner.sub
        def mine(x): return own_package.inner.sub.helper(x)
    """,
    "dotted, inside": """
        def mine(x):
            import own_package.inner.sub
            return own_package.inner.sub.helper(x)
    """,
    "renamed, inside": """
        def mine(x):
            import own_package.inner.sub as other
            return other.helper(x)
    """,
    "function, inside": """
        def mine(x):
            from own_package.inner.sub import helper
            return helper(x)
    """,
    "module, inside": """
        def mine(x):
            from own_package.inner import sub
            return sub.helper(x)
    """,
    "relative, inside": """
        def mine(x):
            from .inner.sub import helper as other
            return other(x)
    """,
    "relative module, inside a lambda's maker": """
        def mine(x):
            def maker():
                from .inner import sub
                return lambda x: sub.helper(x)
            return maker()(x)
    """,
    "beside one that is not there": """
        def mine(x):
            import own_package.missing
            from own_package.inner.sub import helper
            return helper(x)
    """,
}


def first_task():
    """Return the first task of a small comparison."""
    settings = ComparisonSettings(methods={}, metrics=("brier",), cv=3, protocol="cv", inner_cv=3, seed=0)
    trainers = [*arguments.make_kernel_trainers(["linear"], settings, arguments.read_methods(["platt"]))]
    return arguments.make_tasks(arguments.read_datasets(two_classes())[0], trainers, settings)[0]


class TestFolder:
    def test_a_second_run_computes_nothing_and_finds_the_same(self, tmp_path):
        settings = {"folder": tmp_path, "methods": ["klr", "platt"], "cv": 2}
        first = quick(**settings, grid={"linear": {"C": [1.0]}})
        assert first.computed == 4
        again = quick(**settings, grid={"linear": {"C": [1.0]}})
        assert again.computed == 0
        same(first, again)
        same(first, quick(**{**settings, "folder": None}, grid={"linear": {"C": [1.0]}}))

    def test_nested_choices_come_back_from_the_folder(self, tmp_path):
        settings = {"folder": tmp_path, "grid": {"linear": {"C": [0.1, 1.0]}}, "choose": "nested"}
        same(quick(**settings), quick(**settings))

    def test_another_method_trains_nothing(self, tmp_path, monkeypatch):
        quick(folder=tmp_path, methods="platt")
        monkeypatch.setattr(SVC, "fit", lambda *_, **__: pytest.fail("trained again"))
        found = quick(folder=tmp_path, methods=["platt", "softmax", half])
        assert found.computed == 6

    def test_another_metric_computes_nothing(self, tmp_path):
        quick(folder=tmp_path)
        found = quick(folder=tmp_path, metrics=["accuracy"])
        assert found.computed == 0
        assert list(found.cells[0].values) == ["accuracy"]

    @pytest.mark.parametrize(
        "change",
        [
            {"random_state": 1},
            {"scale": "global"},
            {"protocol": "train"},
            {"inner_cv": 4},
            {"cv": 4},
            {"kernels": ["rbf"]},
            {"grid": {"linear": {"C": [7.0]}}},
            {"methods": {"platt": "softmax"}},
            {"methods": {"platt": ("bins", {"k": 5})}},
            {"data": two_classes(seed=1)},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_a_changed_setting_meets_no_old_number(self, tmp_path, change):
        quick(folder=tmp_path, methods=["platt"])
        found = quick(**{"folder": tmp_path, "methods": ["platt"], **change})
        assert found.computed == len(found.cells)

    def test_a_changed_function_is_another_method(self, tmp_path):
        def constant(value):
            return lambda data: calibrant.maps.Steps((), (value,))

        def first(data):
            return calibrant.maps.Steps((), (0.25,))

        def second(data):
            return calibrant.maps.Steps((), (0.75,))

        assert quick(folder=tmp_path, methods={"mine": first}).computed == 3
        assert quick(folder=tmp_path, methods={"mine": first}).computed == 0
        assert quick(folder=tmp_path, methods={"mine": second}).computed == 3
        assert quick(folder=tmp_path, methods={"mine": constant(0.3)}).computed == 3
        assert quick(folder=tmp_path, methods={"mine": constant(0.4)}).computed == 3

    def test_the_functions_that_a_method_calls_are_part_of_it(self, tmp_path):
        def module(name, share, factor=1):
            """Return a method that calls, in a lambda, a function that calls another, which calls the first again."""
            code = f"""
                from calibrant.maps import Steps
                FACTOR = {factor}
                def level(deep):
                    return {share} if deep else shares(deep + 1)
                def shares(deep):
                    return level(deep)
                def mine(data):
                    return (lambda deep: Steps((), (shares(deep) * FACTOR,)))(0)
            """
            found = {"__name__": name}
            exec(textwrap.dedent(code), found)
            return found["mine"]

        def computed(method):
            return quick(folder=tmp_path, methods={"mine": method}).computed

        assert computed(module("own", 0.25)) == 3
        assert computed(module("own", 0.25)) == 0
        assert computed(module("own", 0.5)) == 3
        assert computed(module("own", 0.5, factor=2)) == 3

    def test_a_method_that_calls_itself_is_recognised(self, tmp_path):
        def countdown(data, left=2):
            return countdown(data, left - 1) if left else calibrant.maps.Steps((), (0.25,))

        assert quick(folder=tmp_path, methods={"mine": countdown}).computed == 3
        assert quick(folder=tmp_path, methods={"mine": countdown}).computed == 0

    @pytest.mark.parametrize("form", FORMS)
    def test_a_changed_function_inside_a_machine_is_another_machine(self, tmp_path, form):
        def computed(factor):
            function = FORMS[form](factor)
            inside = make_pipeline(FunctionTransformer(function), GaussianNB())
            kernel = SVC(kernel=lambda X, Z: function(X) @ function(Z).T)
            machines = {"inside": inside, "kernel": kernel}
            found = quick(kernels=[], machines=machines, methods="platt", cv=2, folder=tmp_path)
            return found.computed

        assert computed(1.5) == 4
        assert computed(1.5) == 0
        assert computed(2.5) == 4

    def test_a_changed_class_of_a_machine_is_another_machine(self, tmp_path):
        def computed(prior):
            found = {"__name__": "own"}
            code = f"""
                from sklearn.naive_bayes import GaussianNB
                class Mine(GaussianNB):
                    def fit(self, X, y):
                        self.priors = [{prior}, 1 - {prior}]
                        return super().fit(X, y)
            """
            exec(textwrap.dedent(code), found)
            return quick(kernels=[], machines={"own": found["Mine"]()}, methods="platt", folder=tmp_path).computed

        assert [computed(0.25), computed(0.25), computed(0.75)] == [3, 0, 3]

    def test_a_function_is_the_same_in_another_process(self, tmp_path):
        def run(n_jobs):
            machine = make_pipeline(FunctionTransformer(FORMS["nested"](2.0)), GaussianNB())
            return quick(kernels=[], machines={"own": machine}, methods="platt", folder=tmp_path, n_jobs=n_jobs)

        assert run(2).computed == 3
        assert run(1).computed == 0

    @pytest.mark.parametrize("changed", ["test", "train"])
    def test_other_rows_meet_no_old_number(self, tmp_path, changed):
        """Of two runs whose folds differ in the training rows alone, or in the test rows alone, no cell is shared."""
        half = np.arange(45)
        rows = {"train": half, "test": half + 45}
        other = {**rows, changed: rows[changed][:-3]}
        for folds in (rows, other):
            found = quick(folder=tmp_path, methods=["platt"], cv=[(folds["train"], folds["test"])])
            assert found.computed == 1
            np.testing.assert_array_equal(found.predictions["data", "linear", "platt"].rows, folds["test"])

    def test_other_rows_meet_no_old_choice(self):
        """The outcomes of a search are not read from one with the same training rows and other test rows."""
        task = first_task()
        search = SearchTask(task.data, task.trainer, np.arange(45), np.arange(45, 90))
        keys = {key_of(search), key_of(replace(search, test=np.arange(45, 80)))}
        assert len(keys | {key_of(replace(search, train=np.arange(40)))}) == 3

    @pytest.mark.parametrize("package", ["calibrant", "sklearn", "numpy", "scipy"])
    def test_another_version_meets_no_old_number(self, package, monkeypatch):
        task = first_task()
        before = key_of(task)
        monkeypatch.setattr(f"{package}.__version__", "0.0")
        assert key_of(task) != before

    def test_other_weights_labels_and_kinds_meet_no_old_number(self, tmp_path):
        rng = np.random.default_rng(0)
        scores, y = 2 * rng.random(60) - 1, rng.integers(0, 2, 60)

        def computed(y=y, **changes):
            return compare_scores(
                scores, y, methods=["platt"], cv=2, folder=tmp_path, progress=False, **changes
            ).computed

        assert computed() == 2
        assert computed(sample_weight=np.full(60, 2.0)) == 2
        assert computed(sample_weight=np.full(60, 3.0)) == 2
        assert computed(1 - y) == 2
        assert computed(kind="logit") == 4  # and as they are
        assert computed() == 0

    @pytest.mark.parametrize("content", ["{}", "[]", "null", "1", '"text"', '{"p": 1}', "[[1, 2]]", "[" * 5000])
    def test_a_file_of_another_shape_is_computed_anew(self, tmp_path, content):
        settings = {"folder": tmp_path, "cv": 2, "methods": ["platt"], "grid": {"linear": {"C": [0.1, 1.0]}}}
        first = quick(**settings)
        for path in tmp_path.glob("*.json"):
            path.write_text(content)
        again = quick(**settings)
        assert again.computed == 2
        same(first, again)
        assert quick(**settings).computed == 0

    @given(data=st.data())
    @settings(max_examples=25)
    def test_a_spoilt_file_is_computed_anew_or_says_the_same(self, data, tmp_path_factory):
        folder = tmp_path_factory.mktemp("folder")
        asked = {"folder": folder, "cv": 2, "methods": ["raw"], "kernels": [], "machines": {"bayes": GaussianNB()}}
        first = quick(**asked)
        for path in sorted(folder.glob("*.json")):
            document = json.loads(path.read_text())
            name = data.draw(st.sampled_from(sorted(set(document) - {"seconds", "training_seconds", "note", "notes"})))
            wrong = [None, [], {}, 1, [[]], [[0.5]], [None], *(["text"] if name != "failure" else [])]
            document[name] = data.draw(st.sampled_from(wrong))
            path.write_text(json.dumps(document))
        found = quick(**asked)
        same(first, found)

    def test_a_machine_that_cannot_be_recognised(self, tmp_path):
        numbers = (each for each in range(3))  # which cannot be pickled
        machine = make_pipeline(FunctionTransformer(lambda X: X + 0 * len(repr(numbers))), GaussianNB())
        assert quick(machines={"odd": machine}, methods="platt").computed == 6
        with pytest.raises(ValueError, match="machine 'odd' cannot be recognised in a folder"):
            quick(machines={"odd": machine}, methods="platt", folder=tmp_path)

    @pytest.mark.parametrize("form", MODULES)
    def test_what_a_function_names_is_part_of_it(self, form):
        first = content_of("method", mine(form, 1))
        assert first == content_of("method", mine(form, 1))
        assert first != content_of("method", mine(form, 2))

    def test_a_changed_dictionary_is_another_method(self, tmp_path):
        def computed(share):
            found = {"__name__": "own", "calibrant": calibrant, "G": {"share": share}}
            exec("def mine(data): return calibrant.maps.Steps((), (G['share'],))", found)
            return quick(folder=tmp_path, methods={"mine": found["mine"]}).computed

        assert [computed(0.25), computed(0.25), computed(0.75)] == [3, 0, 3]

    @pytest.mark.parametrize("form", IMPORTS)
    def test_what_a_function_imports_is_part_of_it(self, form, tmp_path, monkeypatch):
        def content(k):
            """Return the content of the function in a process that has imported nothing of the package yet."""
            for name in [each for each in sys.modules if each.partition(".")[0] == "own_package"]:
                monkeypatch.delitem(sys.modules, name)
            folder = tmp_path / str(k)
            inner = folder / "own_package" / "inner"
            inner.mkdir(parents=True, exist_ok=True)
            for each in (inner, inner.parent):
                (each / "__init__.py").touch()
            (inner / "sub.py").write_text(f"def helper(x): return x * {k}")
            (inner.parent / "uses.py").write_text(textwrap.dedent(IMPORTS[form]))
            with monkeypatch.context() as patch:
                patch.syspath_prepend(folder)
                return content_of("method", importlib.import_module("own_package.uses").mine)

        first = content(1)
        assert first == content(1)
        assert first != content(2)

    def test_what_a_try_covers_is_part_of_a_function(self):
        def content(code):
            found = {"__name__": "own"}
            exec(textwrap.dedent(code), found)
            return content_of("method", found["mine"])

        inside = """
            def mine(a, b):
                try: a(); b()
                except ValueError: pass
        """
        before = """
            def mine(a, b):
                a()
                try: b()
                except ValueError: pass
        """
        assert content(inside) == content(inside)
        assert content(inside) != content(before)

    def test_content_is_the_same_in_every_process(self):
        """Texts have another hash, and sets another order, in each process."""
        code = """
            import json
            from tests.comparing.test_compare import MODULES, content_of, mine
            print(json.dumps({form: content_of("method", mine(form, 1)) for form in MODULES}))
        """

        def contents(seed):
            run = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(code)],
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
            )
            return json.loads(run.stdout)

        assert contents("1") == contents("2")

    def test_a_function_of_a_script_is_the_same_in_a_worker(self):
        """The main module of a worker is joblib's, not the script."""

        def scripted(k):
            found = {"__name__": "__main__", "G": {"k": k}}
            exec("def helper(x): return x * G['k']\ndef mine(x): return helper(x)", found)
            return found["mine"]

        functions = [scripted(1), scripted(1), scripted(2)]
        here = [content_of("method", each) for each in functions]
        assert here[0] == here[1] != here[2]
        assert Parallel(n_jobs=2)(delayed(content_of)("method", each) for each in functions) == here

    def test_what_cannot_be_read_is_left_out_where_it_is_only_named(self, tmp_path, monkeypatch):
        monkeypatch.setattr("calibrant.comparing.content._MOST_POSTPONED", 100)  # to be fast on objects without end
        code = """
            import os, sys, threading
            from calibrant.maps import Steps

            class Endless:
                "Has a new part in each part."
                def __reduce__(self): return Endless, (Endless(),)

            class Refusal(Exception): pass

            class Refusing:
                def __reduce__(self): raise Refusal

            numbers = (each for each in range(3))
            names = [sys, threading.Lock(), open(os.devnull), numbers, Endless(), Refusing(), os.environ]

            class Own:
                lock = threading.Lock()

            def mine(data):
                return Steps((), (0.25,)) if names and Own and numbers and sys else None

            mine.lock = threading.Lock()
        """

        def computed():
            found = {"__name__": "own"}
            exec(textwrap.dedent(code), found)
            found["names"][2].close()
            return quick(folder=tmp_path, methods={"mine": found["mine"]}).computed

        assert [computed(), computed()] == [3, 0]

    def test_a_long_chain_of_functions_is_followed_to_its_end(self):
        def content(k):
            found = {"__name__": "own"}
            exec("\n".join(f"def f{i}(x): return f{i + 1}(x)" for i in range(500)), found)
            exec(f"def f500(x): return x * {k}", found)
            return content_of("method", found["f0"])

        assert content(1) == content(1)
        assert content(1) != content(2)

    def test_raw_beside_other_methods(self, tmp_path):
        settings = {"kernels": [], "machines": {"bayes": GaussianNB()}, "protocol": "ensemble", "folder": tmp_path}
        both = quick(**settings, methods=["raw", "platt"])
        alone = quick(**{**settings, "folder": None}, methods="raw")
        np.testing.assert_array_equal(
            both.predictions["data", "bayes", "raw"].p, alone.predictions["data", "bayes", "raw"].p
        )
        assert quick(**settings, methods=["platt"]).computed == 0
        assert quick(**settings, methods=["softmax"]).computed == 3

    def test_a_file_that_cannot_be_read_is_computed_anew(self, tmp_path):
        first = quick(folder=tmp_path)
        for path in tmp_path.glob("*.json"):
            path.write_text(path.read_text()[:20])
        again = quick(folder=tmp_path)
        assert again.computed == 9
        same(first, again)

    def test_killed_and_resumed(self, tmp_path):
        """Kill a run after some cells; the next computes the others, and only those."""
        code = """
            import os, signal, sys
            sys.path.insert(0, {tests!r})
            import tests.comparing.test_compare as t
            finished = 0
            def told(share):
                global finished
                finished += 1
                if finished == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
            t.quick(folder={folder!r}, progress=told, machines={{"bayes": t.GaussianNB()}})
        """
        root = str(Path(__file__).parents[2])
        code = textwrap.dedent(code).format(tests=root, folder=str(tmp_path))
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode != 0
        resumed = quick(folder=tmp_path, machines={"bayes": GaussianNB()})
        assert resumed.computed == 18 - 2 * 3
        same(resumed, quick(machines={"bayes": GaussianNB()}))

    def test_interrupted_within_a_task_keeps_the_finished_cells(self, tmp_path):
        def interrupted(data):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            quick(folder=tmp_path, methods={"platt": "platt", "later": interrupted})
        assert quick(folder=tmp_path, methods=["platt"]).computed == 2


class TestScores:
    def test_maps_are_fitted_to_the_other_folds(self):
        rng = np.random.default_rng(0)
        score = rng.normal(size=200)
        y = np.where(rng.random(200) < 1 / (1 + np.exp(-2 * score)), "yes", "no")
        found = compare_scores(score, y, methods=["platt", "isotonic"], cv=4, progress=False)
        for number, (train, test) in enumerate(StratifiedKFold(4, shuffle=True, random_state=0).split(score, y)):
            for method in ("platt", "isotonic"):
                kept = found.predictions["data", "scores", method]
                p = calibrant.fit(method, score[train], y[train])(score[test])
                np.testing.assert_allclose(kept.p[kept.fold == number, 1], p, rtol=1e-12)

    @pytest.mark.parametrize("kind", ["probability", "logit"])
    def test_raw_is_what_the_scores_say(self, kind):
        rng = np.random.default_rng(1)
        logit = rng.normal(size=100)
        y = rng.random(100) < 1 / (1 + np.exp(-logit))
        p = 1 / (1 + np.exp(-logit))
        given = p if kind == "probability" else logit
        found = compare_scores(given, y, kind=kind, methods=["raw", "platt"], progress=False)
        kept = found.predictions["data", "scores", "raw"]
        np.testing.assert_allclose(kept.p[:, 1], p[kept.rows], rtol=1e-12)
        assert "raw" not in compare_scores(logit, y, methods=None, progress=False).methods("scores")

    def test_a_method_on_own_probabilities_may_have_options(self, monkeypatch):
        def shrink(p, *, share=0.5):
            return (1 - share) * p + share / p.shape[1]

        row = replace(tasks.OWN_METHODS["raw"], fit=shrink)
        monkeypatch.setitem(tasks.OWN_METHODS, "shrink", row)
        p = np.linspace(0.1, 0.9, 40)
        methods = {"half": "shrink", "all": ("shrink", {"share": 1.0})}
        found = compare_scores(p, np.arange(40) % 2, kind="probability", methods=methods, cv=2, progress=False)
        half, whole = (found.predictions["data", "scores", name] for name in methods)
        np.testing.assert_allclose(half.p[:, 1], 0.5 * p[half.rows] + 0.25)
        np.testing.assert_array_equal(whole.p, 0.5)

    def test_a_weight_is_a_repetition(self):
        rng = np.random.default_rng(2)
        score, weight = rng.normal(size=60), rng.integers(1, 4, 60)
        y = (rng.random(60) < 1 / (1 + np.exp(-2 * score))).astype(int)
        again = np.repeat(np.arange(60), weight)
        one = compare_scores(
            score, y, sample_weight=weight, groups=np.arange(60), cv=GroupKFold(3), methods="platt", progress=False
        )
        fold = np.empty(60, int)
        kept = one.predictions["data", "scores", "platt"]
        fold[kept.rows] = kept.fold
        folds = [(np.flatnonzero(fold[again] != k), np.flatnonzero(fold[again] == k)) for k in range(3)]
        other = compare_scores(score[again], y[again], cv=folds, methods="platt", progress=False)
        for left, right in zip(one.cells, other.cells, strict=True):
            assert left.values["log_loss"] == pytest.approx(right.values["log_loss"], rel=1e-9)

    @pytest.mark.parametrize("listed", [False, True])
    def test_rows_of_no_weight_are_left_out(self, listed):
        rng = np.random.default_rng(3)
        p, weight = rng.random(90), rng.integers(0, 3, 90)
        y, kept = (rng.random(90) < p).astype(int), np.flatnonzero(weight)
        folds = list(KFold(3).split(kept))
        asked = {"methods": ["raw", "platt"], "kind": "probability", "progress": False}
        one = compare_scores(
            p,
            y,
            sample_weight=weight,
            cv=[(np.setdiff1d(np.arange(90), kept[test]), kept[test]) for _, test in folds] if listed else 3,
            **asked,
        )
        other = compare_scores(p[kept], y[kept], sample_weight=weight[kept], cv=folds if listed else 3, **asked)
        assert [each.values for each in one.cells] == [each.values for each in other.cells]
        for left, right in zip(one.predictions.values(), other.predictions.values(), strict=True):
            np.testing.assert_array_equal(left.rows, kept[right.rows])
        assert "nan" not in one.answers.text
        with pytest.raises(ValueError, match="at least two classes"):
            compare_scores(p, y, sample_weight=np.where(y, 1.0, 0.0), **asked)

    def test_several_tables_in_a_folder_and_several_classes(self, tmp_path):
        X, y = load_iris(return_X_y=True)
        P = cross_val_predict(GaussianNB(), X, y, method="predict_proba")
        tables = {"iris": (P, y)}
        found = compare_scores(tables, kind="probability", methods=["raw", "platt"], folder=tmp_path, progress=False)
        assert found.computed == 20
        again = compare_scores(tables, kind="probability", methods=["raw", "platt"], folder=tmp_path, progress=False)
        assert again.computed == 0
        same(found, again)
        np.testing.assert_allclose(found.predictions["iris", "scores", "platt"].p.sum(axis=1), 1.0)


class TestProgress:
    def test_the_share_rises_to_one(self):
        told = []
        quick(progress=told.append, grid={"linear": {"C": [0.1, 1.0]}})
        assert told == sorted(told)
        assert told[-1] == pytest.approx(1.0)

    def test_nothing_is_written_where_there_is_no_terminal(self, capfd):
        quick(progress=True)
        captured = capfd.readouterr()
        assert captured.out == captured.err == ""

    def test_a_bar_with_the_time_left_on_a_terminal(self, monkeypatch, capfd):
        pytest.importorskip("rich")
        monkeypatch.setattr(bars, "_is_terminal", lambda: True)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("FORCE_COLOR", "1")
        with bars.show_progress("comparing", 4.0, True) as advance:
            advance(2.0)
        captured = capfd.readouterr()
        assert captured.out == ""
        assert "comparing" in captured.err
        assert "left" in captured.err
        monkeypatch.setitem(sys.modules, "rich.console", None)
        with bars.show_progress("comparing", 4.0, True) as advance:
            advance(2.0)
        assert capfd.readouterr().err == ""

    def test_there_is_one_place_that_draws_bars(self):
        source = Path(calibrant.__file__).parent
        drawing = [path.name for path in source.rglob("*.py") if "rich.progress" in path.read_text()]
        assert drawing == ["progress.py"]

    def test_nothing_to_do_needs_no_bar(self, monkeypatch, capfd):
        monkeypatch.setattr(bars, "_is_terminal", lambda: True)
        with bars.show_progress("comparing", 0.0, True):
            pass
        assert capfd.readouterr().err == ""
        told = []
        with bars.show_progress("comparing", 0.0, told.append) as advance:
            advance(0.0)
        assert told == [0.0]


X_Y = two_classes(30)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"methods": ["plat"]}, "method must be one of .*; got 'plat'"),
        ({"methods": []}, "methods must hold at least one"),
        ({"methods": ["platt", "platt"]}, "methods must have different names"),
        ({"methods": {"a": ("bins", {"bins": 3})}}, "no option 'bins'"),
        ({"methods": {"a": ("klr", {"C": 3})}}, "'klr' has no options"),
        ({"methods": ["raw", "platt"]}, "no machine has 'raw'"),
        ({"metrics": ["breir"]}, "metrics must be one of .*; got 'breir'"),
        ({"metrics": []}, "metrics must name at least one"),
        ({"kernels": "linear"}, "kernels must be a list"),
        ({"kernels": ["cubic"]}, "kernels must be one of linear, rbf, poly; got 'cubic'"),
        ({"kernels": []}, "no machine has|at least one machine"),
        ({"machines": [GaussianNB()]}, "machines must be a mapping"),
        ({"machines": {"a": GaussianNB}}, r"machines\['a'\] must be a classifier"),
        ({"machines": {"linear": GaussianNB()}}, "machines must not be named like a kernel"),
        ({"protocol": "prefit"}, "protocol must be one of"),
        ({"protocol": "given"}, "protocol must be one of train, holdout"),
        ({"choose": "later"}, "choose must be one of prior, nested"),
        ({"scale": "all"}, "scale must be one of"),
        ({"grid": "big"}, "grid must be one of default, published"),
        ({"grid": {"rbf": {"C": [1.0]}}}, "grid must name kernels and machines of this comparison; got 'rbf'"),
        ({"grid": {"linear": {"D": [1.0]}}}, r"grid\['linear'\] must hold parameters of SVC; got 'D'"),
        ({"cv": 1}, "cv must be at least 2"),
        ({"data": {}}, "data must hold at least one data set"),
        ({"data": X_Y[0]}, "data must be"),
        ({"data": {"a": X_Y[0]}}, "data must be .*; got ndarray for 'a'"),
        ({"data": (X_Y[0], X_Y[1][:-1])}, "inconsistent numbers of samples"),
        ({"data": (X_Y[0], np.ones(30))}, "two classes"),
        ({"data": (*X_Y, np.arange(30) % 7), "protocol": "loo"}, "groups are used by .*; got them for 'loo'"),
        ({"data": (*X_Y, np.arange(30) % 2)}, "cv=3 needs at least 3 groups .*; got 2"),
        ({"data": (*X_Y, [None] * 30)}, "groups must hold no missing label"),
        (
            {"data": (*X_Y, np.arange(30) % 7), "cv": [(np.arange(9), np.arange(9, 30))]},
            "must keep groups together",
        ),
        (
            {"data": (*X_Y, np.arange(30) % 7), "machines": {"a": GridSearchCV(SVC(), {"C": [1]})}},
            "cv of GridSearchCV must keep groups together",
        ),
    ],
)
def test_bad_input_is_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        quick(**{"data": X_Y, **keywords})


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="folder must be a directory"):
        quick(folder=tmp_path / "file")


@pytest.mark.parametrize(
    ("scores", "keywords", "message"),
    [
        ([0.1, np.nan], {}, "scores must be finite"),
        ([0.1, 2.0], {"kind": "probability"}, r"must lie in \[0, 1\]"),
        ([0.1, 2.0], {"kind": "auto"}, "kind must be one of margin, probability, logit; got 'auto'"),
        ([[0.1, 2.0, 3.0], [1.0, 1.0, 2.0]], {}, r"2 columns, .* or one number per row, .*; got shape \(2, 3\)"),
        ([[0.1, 2.0], [1.0, 1.0]], {"kind": "probability"}, r"must lie in \[0, 1\]"),
        ([[0.1, 0.2], [1.0, 0.0]], {"kind": "probability"}, "rows that sum to 1; got 1 that do not"),
        ([[0.1, 2.0], [1.0, 1.0]], {"classes": ["no", "yes"]}, "y must hold only the classes in classes"),
        ([0.1, 2.0], {"classes": [0, 1]}, r"scores must have 2 columns, one per class of y; got shape \(2,\)"),
        ([0.1, 2.0], {"methods": ["klr"]}, "no machine has 'klr'"),
        ([0.1, 2.0], {"sample_weight": [1.0, -1.0]}, "sample_weight must not be negative"),
        ([0.1], {}, "inconsistent numbers of samples"),
    ],
)
def test_bad_scores_are_refused(scores, keywords, message):
    with pytest.raises(ValueError, match=message):
        compare_scores(scores, [0, 1], **{"progress": False, **keywords})


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=4))
def test_json_words_come_back(values):
    back = json.loads(json.dumps(to_json({"values": values}), allow_nan=False))["values"]
    np.testing.assert_array_equal(np.asarray(back, np.float64), values)


@given(st.dictionaries(st.sampled_from(["C", "gamma", "degree"]), st.lists(st.integers(1, 9), min_size=1, max_size=3)))
def test_paths_hold_every_point_once(grid):
    points = [point for path in arguments.grid_paths(grid) for point in path]
    assert len(points) == (np.prod([len(values) for values in grid.values()]) if grid else 0)
    assert all(set(point) == set(grid) for point in points)


def test_machines_without_decision_values_or_probabilities_work_where_they_can():
    found = quick(machines={"hinge": LinearSVC(random_state=0)}, methods=["platt"])
    assert found.methods("hinge") == ["platt"]


class TestDetails:
    def noisy(self, n=120):
        rng = np.random.default_rng(0)
        score = rng.normal(size=n)
        return score, rng.random(n) < 1 / (1 + np.exp(-score))

    def test_the_corrected_test_knows_the_share_of_rows_tested(self):
        from sklearn.model_selection import RepeatedStratifiedKFold

        from calibrant.comparing.standings import standing_of
        from calibrant.inference import corrected_t

        folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=0)
        found = calibrant.compare_scores(*self.noisy(), methods=["platt", "softmax"], cv=folds, progress=False)
        first, second = found.errors("brier", "scores")["data"]
        expected = corrected_t(first, second, ratio=0.25).pvalue
        pvalues = standing_of(found, "brier", "scores")["against_best"]["pvalues"]
        assert pvalues[1] == pytest.approx(expected, rel=1e-9)

    def test_what_stands_beside_a_mapping_is_refused(self):
        score, y = self.noisy()
        for beside in ({"groups": np.arange(120)}, {"y": y}):
            with pytest.raises(ValueError, match="inside the mapping"):
                calibrant.compare_scores({"a": (score, y)}, methods=["platt"], cv=3, **beside)
        with pytest.raises(ValueError, match="names that differ as text"):
            calibrant.compare_scores({1: (score, y), "1": (score, y)}, methods=["platt"], cv=3)

    def test_what_failed_or_is_broken_is_computed_again(self, tmp_path):
        score, y = self.noisy()
        state = {"fails": True}

        def moody(data):
            if state["fails"]:
                msg = "not today"
                raise ValueError(msg)
            return calibrant.maps.fit_map("platt", data)

        def run():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return calibrant.compare_scores(
                    score, y, methods={"moody": moody}, cv=3, folder=tmp_path, progress=False
                )

        assert np.isnan(run().means.to_numpy()).all()
        state["fails"] = False
        good = run()
        assert np.isfinite(good.means.to_numpy()).all()
        assert run().computed == 0
        for path in tmp_path.glob("*.json"):
            if '"note"' in path.read_text() and '"p"' in path.read_text():
                path.write_text("[1]")
        assert run().computed == 3
