"""The files of the data sets themselves, value by value. No package has them all: CALIBRANT_DATA must name a folder."""

import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from calibrant.papers import datasets
from calibrant.papers.datasets import DATASETS, carriers
from tests.conftest import skip_without_folder
from tests.papers.test_datasets import PARTS, load_once

skip_without_folder()

FOLDER = Path(os.environ["CALIBRANT_DATA"])


def file(name):
    return pd.read_csv(FOLDER / f"{name}.csv.gz", dtype=str, keep_default_na=False)


def sorted_rows(X):
    return X[np.lexsort(X.T)]


def load_only(name, part, carrier):
    return datasets.load_part(name, DATASETS[name], replace(part, carriers=(carrier,)), download=False)


class TestFiles:
    def test_class_counts_are_those_counted_before(self):
        stats = json.loads((FOLDER / "stats.json").read_text())
        for name, part in PARTS:
            counted = stats.get(part.carriers[0].file + ".gz", {}).get("classes", {})
            if isinstance(counted, dict) and counted and name != "biomed":  # which is counted with incomplete rows
                spelled = list(DATASETS[name].classes.values())
                assert part.counts == tuple(sum(counted.get(label, 0) for label in labels) for labels in spelled)

    @pytest.mark.parametrize(
        ("name", "part", "carrier"),
        [
            pytest.param(name, part, carrier, id=f"{name}-{carrier.file}")
            for name, part in PARTS
            for carrier in part.carriers[1:]
            if carrier.place == "folder" and carrier.file != "covtype_full.csv"  # half a minute
            if name != "adult_small"  # its test part is that of adult
        ],
    )
    def test_other_files_hold_the_same_cells(self, name, part, carrier):
        X, y, features, *_ = load_only(name, part, carrier)
        first, labels, names, *_ = load_only(name, part, part.carriers[0])
        np.testing.assert_array_equal(y, labels)
        assert abs(X - first).sum() == 0
        assert features == names

    @pytest.mark.parametrize(
        ("name", "part", "carrier"),
        [
            pytest.param(name, part, carrier, id=f"{name}-{carrier.package}")
            for name, part in PARTS
            for carrier in part.carriers
            if carrier.place == "package"
        ],
    )
    def test_packages_hold_the_same_cells(self, name, part, carrier):
        if find_spec(carrier.package) is None:
            pytest.skip(f"{carrier.package} is not installed")
        X, y, features, *_ = load_only(name, part, carrier)
        first, labels, names, *_ = load_only(name, part, part.carriers[0])
        assert features == names
        if name in ("sonar", "spambase"):
            order, other = (np.lexsort(np.column_stack([a, b]).T) for a, b in ((X, y), (first, labels)))
            X, y, first, labels = X[order], y[order], first[other], labels[other]
        np.testing.assert_array_equal(y, labels)
        assert abs(X - first).sum() == 0


class TestPreparation:
    def test_mushroom_indicators_are_those_of_the_agaricus_file(self):
        X, y = load_svmlight_file(str(FOLDER / "mushroom_126.svm.gz"), n_features=126, zero_based=False)
        data = load_once("mushroom")
        expected = sorted_rows(np.column_stack([X.toarray(), y]))
        np.testing.assert_array_equal(sorted_rows(np.column_stack([data.X, data.y])), expected)
        assert data.features[2] == "cap-shape=x"
        assert data.features[60] == "stalk-root=?"

    def test_promoters_have_one_base_per_place(self):
        data = load_once("promoters")
        assert (data.X.reshape(106, 57, 4).sum(axis=2) == 1).all()
        first = "".join("acgt"[base] for base in data.X.reshape(106, 57, 4)[0].argmax(axis=1))
        assert first == "".join(file("promoters").iloc[0, :57])
        assert data.y[0] == 1
        assert data.features[:2] == ("p-50=a", "p-50=c")

    @pytest.mark.parametrize(
        ("name", "stem"),
        [("bank_marketing", "bank_marketing"), ("german_credit", "german_credit"), ("icu", "icu_hosmer200")],
    )
    def test_nominal_columns_become_the_indicators_of_pandas(self, name, stem):
        frame = pd.read_csv(FOLDER / f"{stem}.csv.gz").drop(columns="target")
        expected = pd.get_dummies(frame, prefix_sep="=")
        data = load_once(name)
        assert set(data.features) == set(expected.columns)
        np.testing.assert_array_equal(data.X, expected[list(data.features)].to_numpy(float))

    def test_support2_keeps_what_is_missing_and_drops_judgements(self):
        data, frame = load_once("support2"), pd.read_csv(FOLDER / "icu_support2.csv.gz")
        assert not {"sps", "aps", "surv2m", "surv6m", "prg2m", "prg6m", "dnr", "dnrday"} & set(data.features)
        np.testing.assert_array_equal(data.X[:, data.features.index("glucose")], frame["glucose"])
        incomes = [place for place, name in enumerate(data.features) if name.startswith("income=")]
        np.testing.assert_array_equal(data.X[:, incomes].sum(axis=1), frame["income"].notna())

    def test_biomed_has_the_complete_rows(self):
        frame = pd.read_csv(FOLDER / "biomed.csv.gz").dropna()
        np.testing.assert_array_equal(load_once("biomed").X, frame.drop(columns="target"))
        np.testing.assert_array_equal(load_once("biomed").y, frame["target"] == "carrier")

    def test_covtype_has_no_constant_column(self):
        assert (np.ptp(load_once("covtype").X, axis=0) > 0).all()

    def test_a_row_of_adult_sets_one_feature_per_known_value(self):
        raw = file("adult_train").drop(columns="target")
        np.testing.assert_array_equal(load_once("adult").X.sum(axis=1).A1, (raw != "").sum(axis=1))
        assert load_once("adult").features[82] == "native-country=United-States"

    def test_adult_small_is_part_of_adult_in_order(self):
        rows = iter(zip(*rows_and_labels("adult"), strict=True))
        assert all(pair in rows for pair in zip(*rows_and_labels("adult_small"), strict=True))
        assert (load_once("adult_small").X_test != load_once("adult").X_test).nnz == 0

    def test_reuters_has_118_topics_and_binary_words(self):
        data = load_once("reuters")
        published = json.loads((FOLDER / "reuters_topics.json").read_text())
        assert data.classes == tuple(published["topics"])
        assert data.y.shape == (9603, 118)
        assert dict(zip(data.classes, data.y.sum(axis=0).tolist(), strict=True))["earn"] == 2877
        assert (data.X.data == 1).all()

    def test_the_words_of_a_topic_speak_of_it(self):
        data = load_once("reuters")
        wheat = datasets.by_mutual_information(data.X, data.y[:, data.classes.index("wheat")])
        assert len(set(wheat.tolist())) == 300
        assert data.features[wheat[0]] == "wheat"


def rows_and_labels(name):
    data = load_once(name)
    return [row.tobytes() for row in np.split(data.X.indices, data.X.indptr[1:-1])], data.y.tolist()


def test_adult_of_openml_gives_a9a(monkeypatch):
    """OpenML has the test part first, nominal values as numbers in the order of adult.names."""
    frame = file("adult_test")
    order = [*DATASETS["adult"].columns.names, "target"]
    nominal = {name: list(values) for name, values in DATASETS["adult"].columns.values.items()}
    columns = [encode_column(frame[name], nominal[name]) if name in nominal else frame[name] for name in order[:-1]]
    bunch = Bunch(
        data=np.column_stack(columns).astype(float),
        feature_names=order[:-1],
        categories=nominal,
        target=frame["target"].to_numpy(object),
    )
    monkeypatch.setattr(carriers, "fetch_openml", lambda **_: bunch)
    row = DATASETS["adult"]
    X, *_ = datasets.load_part("adult", row, replace(row.test, carriers=row.test.carriers[-1:]), download=True)
    assert (load_once("adult").X_test != X).nnz == 0


def encode_column(column, values):
    return column.map({value: code for code, value in enumerate(values)}).to_numpy(float)
