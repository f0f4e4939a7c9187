"""Maps on disk."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant.checks import KINDS
from calibrant.cli.reading import require_place
from calibrant.files import replace_file
from calibrant.maps import Adjusted, Linked, PooledMaps, SeparateMaps, Sigmoid, Steps, store
from calibrant.maps.averages import DEVIATIONS, FAMILIES, Auto, Member
from calibrant.maps.class_records import (
    MEMBERS,
    AutoClasses,
    ClassMember,
    GivenClasses,
    LinearClasses,
    RobustTemperature,
    StructuredClasses,
    TemperatureClasses,
    VectorClasses,
)
from calibrant.maps.classes import SCHEMES, ClassMap, MatrixMap, Plan, TwoClassMap
from calibrant.maps.coupling import COUPLINGS
from calibrant.maps.lifting import fit_classes
from calibrant.maps.records import (
    BetaCdf,
    BetaClasses,
    BetaLogit,
    BetaPiece,
    Clip,
    Cosines,
    Ends,
    Information,
    Lines,
    LogitLines,
    Origin,
    Parzen,
    QuadraticLogit,
    VennAbers,
)
from calibrant.maps.store import DEEPEST, LARGEST, from_dict, to_dict
from calibrant.samples import ClassSample

SIGMOID = to_dict(Sigmoid(-1.0, 0.5))


def test_file_names_the_formula(tmp_path):
    calibrant.save(Sigmoid(-1.0, 0.5), tmp_path / "map.json")
    document = json.loads((tmp_path / "map.json").read_text())
    assert document["format"] == 2
    assert document["kind"] == "Sigmoid"
    assert (document["a"], document["b"]) == (-1.0, 0.5)
    assert calibrant.load(tmp_path / "map.json") == Sigmoid(-1.0, 0.5)


def test_a_file_of_format_one_loads_for_ever():
    inner = '{"kind": "Sigmoid", "a": -2, "b": 0.25, "center": 0.0, "level": 0.25, "errors": null}'
    text = '{"format": 1, "kind": "Linked", "link": "logit", "inner": ' + inner + "}"
    assert from_dict(json.loads(text)) == Linked("logit", Sigmoid(-2.0, 0.25))


# Maps of every kind as 0.1.0 wrote them, one per line. Never written again: people have such files.
STORED = json.loads((Path(__file__).parent / "maps_of_format_2.json").read_text())


def list_kinds(value):
    """Yield the kinds of the records in a document."""
    if isinstance(value, dict):
        yield from [value["kind"]] if value.get("kind") in store.RECORDS else []
        value = list(value.values())
    for each in value if isinstance(value, list) else []:
        yield from list_kinds(each)


def require_part(old, new):
    """Raise unless everything in a document is still in another, which may have more fields."""
    if isinstance(old, dict):
        for name, value in old.items():
            require_part(value, new[name])
    elif isinstance(old, list):
        assert len(old) == len(new)
        for before, after in zip(old, new, strict=True):
            require_part(before, after)
    else:
        assert (type(old), old) == (type(new), new)


@pytest.mark.parametrize("document", STORED, ids=lambda document: document["kind"])
def test_a_file_of_format_two_loads_for_ever(document):
    """A record may get a field more, with a default; none is renamed or dropped, as round trips would not notice."""
    found = from_dict(document)
    require_part({name: value for name, value in document.items() if name != "format"}, to_dict(found))


def test_files_of_format_two_hold_every_kind_of_record():
    assert {kind for document in STORED for kind in list_kinds(document)} == set(store.RECORDS)


def test_fields_added_later_may_be_missing():
    assert from_dict({"format": 1, "kind": "Sigmoid", "a": -2.0, "b": 0.25}) == Sigmoid(-2.0, 0.25)


def test_infinite_slopes_survive():
    steep = Sigmoid(float("-inf"), 0.0)
    assert from_dict(json.loads(json.dumps(to_dict(steep), allow_nan=False))) == steep


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "os.system"}, "kind must be one of"),
        ({"kind": None}, "kind must be one of"),
        ({"format": 99}, "format must be"),
        ({"format": True}, "format must be"),
        ({"a": "one"}, "Sigmoid.a must be float; got 'one'"),
        ({"a": None}, "Sigmoid.a must be float"),
        ({"a": float("nan")}, "numbers must be finite"),
        ({"a": True}, "Sigmoid.a must be float"),
        ({"errors": [1, 2]}, "Sigmoid.errors must hold 3 values; got 2"),
        ({"extra": 1}, "has the fields a, b"),
        ({"kind": ["Sigmoid"]}, "kind must be one of"),
    ],
)
def test_corrupt_files_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        from_dict(SIGMOID | change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not valid JSON"),
        (b'{"format": 1, "kind": "Sig', "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"[1, 2]", "object with a 'kind'"),
        (b'{"format": 1, "kind": "Steps", "edges": [2, 1], "values": [0, 1, 0]}', "strictly increase"),
        (b'{"format": 1, "kind": "Steps", "edges": [1], "values": [0]}', "one value more than edges"),
        (b'{"format": 1, "kind": "Lines", "x": [1], "y": []}', "as many y as x"),
        (b'{"format": 1, "kind": "Lines", "x": [1], "y": ["inf"]}', "y must lie in"),
        (b'{"format": 1, "kind": "Steps", "edges": [1], "values": [7, -3]}', "values must lie in"),
        (b'{"format": 1, "kind": "Clip", "low": 0.9, "high": 0.1}', "low must not exceed high"),
        (b'{"format": 2, "kind": "VennAbers", "edges": [], "low": [0.9], "high": [0.1]}', "low must not exceed high"),
        (b'{"format": 2, "kind": "VennAbers", "edges": [1], "low": [0, 0], "high": [1]}', "one low and one high more"),
        (b'{"format": 2, "kind": "VennAbers", "edges": [1, 1], "low": [0], "high": [1]}', "strictly increase"),
        (b'{"format": 1, "kind": "QuadraticLogit", "a": 1, "b": 1, "c": 1, "scale": 0}', "scale must be positive"),
        (b'{"format": 1, "kind": "Clip", "low": 1' + b"0" * 400 + b', "high": 1}', "at most 1.8e308"),
        (b'{"format": 1, "kind": "ClassMap", "scheme": "bogus", "maps": []}', "known scheme"),
        (b'{"format": 1, "kind": "ClassMap", "scheme": "ovo", "maps": []}', "one map per column"),
        (
            b'{"format": 1, "kind": "Linked", "link": "logit", "inner": {"kind": "BetaPiece", "transport": null}}',
            "inner must be a map",
        ),
        (b'{"format": 1, "kind": "Linked", "link": "odds", "inner": null}', "must be Any|link must be"),
    ],
)
def test_foreign_files_are_named(tmp_path, text, message):
    (tmp_path / "map.json").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        calibrant.load(tmp_path / "map.json")


def test_only_our_maps_can_be_saved(tmp_path):
    with pytest.raises(ValueError, match="only the maps of calibrant"):
        calibrant.save(lambda score: score, tmp_path / "map.json")
    with pytest.raises(ValueError, match="only the maps of calibrant"):
        calibrant.save(Sigmoid(float("nan"), 0.0), tmp_path / "map.json")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "map.json"
    calibrant.save(Steps((), (0.5,)), path)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        calibrant.save(Sigmoid(-1.0, 0.0), path)
    assert calibrant.load(path) == Steps((), (0.5,))
    assert list(tmp_path.iterdir()) == [path]


# Every record there and back -----------------------------------------------------------------------------------------

finite = st.floats(allow_nan=False, allow_infinity=False)
unit = st.floats(0, 1)
small = st.floats(-1e3, 1e3)
positive = st.floats(1e-3, 1e3)


def increasing(numbers=finite, least=0, most=6):
    return st.sets(numbers, min_size=least, max_size=most).map(lambda found: tuple(sorted(found)))


def as_long(xs, numbers):
    return st.lists(numbers, min_size=len(xs), max_size=len(xs)).map(tuple)


@st.composite
def sigmoids(draw):
    errors = draw(st.none() | st.tuples(positive, positive, st.floats(-1, 1)))
    if draw(st.booleans()):
        return Sigmoid(draw(st.floats(allow_nan=False)), draw(finite), errors=errors)
    return Sigmoid(
        draw(small), b := draw(small), center=(c := draw(small)), level=draw(small) if c else b, errors=errors
    )


@st.composite
def parzens(draw):
    centers = draw(increasing(small, least=1))
    weights = as_long(centers, st.floats(0, 1e3))
    at = draw(st.integers(0, len(centers) - 1))
    sides = [list(draw(weights)) for _ in range(2)]
    for side in sides:
        side[at] = draw(positive)
    return Parzen(centers, *map(tuple, sides), draw(positive), draw(positive))


@st.composite
def venn_abers(draw):
    edges = draw(increasing(st.floats(allow_nan=False)))
    ends = draw(as_long((*edges, 0), st.tuples(unit, unit).map(sorted)))
    return VennAbers(edges, *(tuple(each) for each in zip(*ends, strict=True)))


members = st.builds(
    Member, st.sampled_from(list(FAMILIES)), st.sampled_from(list(DEVIATIONS)), unit, st.none() | finite, finite
)


@st.composite
def autos(draw):
    x = draw(increasing(least=1))
    sides = [draw(as_long(x, st.floats(0, 1e3))) for _ in range(2)]
    averaged = tuple(draw(st.lists(members, max_size=3)))
    curved = tuple(replace(each, y=draw(as_long(x, small))) for each in averaged)
    numbers = draw(st.tuples(positive, positive, small, small, st.booleans(), st.booleans()))
    return Auto(LogitLines(x, draw(as_long(x, small))), *sides, averaged + curved, *numbers)


beta_cdfs = st.builds(BetaCdf, *[st.floats(0.05, 50.0)] * 4)
beta_pieces = st.builds(BetaPiece, st.none() | beta_cdfs, st.floats(-1, 1))
two_pieces = st.builds(BetaClasses, st.tuples(beta_pieces, beta_pieces), st.booleans())
more_pieces = st.builds(BetaClasses, st.lists(beta_pieces, min_size=3, max_size=4).map(tuple))
steps = increasing(st.floats(allow_nan=False)).flatmap(
    lambda edges: st.builds(Steps, st.just(edges), as_long((*edges, 0), unit))
)
lines = increasing(least=1).flatmap(lambda x: st.builds(Lines, st.just(x), as_long(x, unit)))
logit_lines = increasing(least=1).flatmap(lambda x: st.builds(LogitLines, st.just(x), as_long(x, small), small, small))
cosines = st.tuples(small, positive, st.lists(small, min_size=1, max_size=5), st.booleans()).map(
    lambda drawn: Cosines(tuple(drawn[2]), drawn[0], drawn[0] + drawn[1], drawn[3])
)
RECORDS = {
    "Sigmoid": sigmoids(),
    "QuadraticLogit": st.builds(QuadraticLogit, finite, finite, finite, finite, st.floats(1e-300, 1e300))
    | st.builds(QuadraticLogit, small, small, small, small, positive, st.floats(-9, 0), st.floats(0, 9)),
    "BetaLogit": st.builds(BetaLogit, st.floats(0, 1e300), st.floats(0, 1e300), finite),
    "Clip": st.tuples(unit, unit).map(sorted).map(lambda ends: Clip(*ends)),
    "Ends": st.builds(Ends, unit, unit),
    "Steps": steps,
    "Lines": lines,
    "BetaCdf": beta_cdfs,
    "BetaPiece": beta_pieces,
    "BetaClasses": two_pieces | more_pieces,
    "Cosines": cosines,
    "Parzen": parzens(),
    "VennAbers": venn_abers(),
    "LogitLines": logit_lines,
    "Auto": autos(),
    "Member": members,
}
one_column = (
    st.one_of([RECORDS[name] for name in RECORDS if name not in ("BetaPiece", "BetaClasses", "Member")]) | two_pieces
)
RECORDS["Linked"] = st.builds(Linked, st.sampled_from(["expit", "softmax"]), one_column) | st.builds(
    Linked, st.just("logit"), st.builds(Linked, st.just("expit"), one_column) | one_column, st.floats(1e-300, 0.49)
)
columns = one_column | RECORDS["Linked"]

moderate = st.floats(-50, 50)
variances = st.tuples(st.floats(0, 100), st.floats(-1, 1), st.floats(0, 100)).map(
    lambda drawn: (drawn[0], float(drawn[1] * np.sqrt(drawn[0]) * np.sqrt(drawn[2])), drawn[2])
)
names = st.text() | st.sampled_from(["inf", "-inf", "kind", "'; drop table --"]) | st.none()
whole_numbers, days, times = (
    st.integers(-(2**70), 2**70) | finite,
    st.dates(),
    st.datetimes().map(lambda each: each.replace(fold=0)),
)
several_keys = st.one_of(
    st.lists(kind, min_size=1, max_size=4, unique=True)
    for kind in (names, whole_numbers, days, times, st.booleans(), st.tuples(names, days))
).map(tuple)


@st.composite
def pooled_maps(draw):
    keys = draw(several_keys)
    by = draw(st.just(()) | st.just(("a", "b") if isinstance(keys[0], tuple) else ("a",)))
    lines = [draw(as_long(keys, moderate)) for _ in range(2)]
    errors = zip(*[draw(variances) for _ in keys], strict=True)
    ends = draw(st.tuples(st.tuples(moderate, moderate), variances, as_long(keys, st.floats(0, 1e9))))
    return PooledMaps(draw(columns), by, keys, draw(moderate), *lines, *map(tuple, errors), *ends)


@st.composite
def separate_maps(draw):
    keys = draw(several_keys)
    return SeparateMaps(draw(columns), (), keys, tuple(draw(columns) for _ in keys))


RECORDS["Adjusted"] = st.builds(Adjusted, columns, moderate, moderate, moderate, variances)
RECORDS["PooledMaps"] = pooled_maps()
RECORDS["SeparateMaps"] = separate_maps()


@st.composite
def class_maps(draw):
    scheme = draw(st.sampled_from(sorted(SCHEMES)))
    n = SCHEMES[scheme].columns(draw(st.integers(2, 4)))
    maps = tuple(draw(columns) for _ in range(n))
    return ClassMap(scheme, maps, draw(st.sampled_from(sorted(COUPLINGS))), draw(positive))


coefficients = st.floats(-1e100, 1e100)


def several(k, values=coefficients):
    return st.tuples(*[values] * k)


@st.composite
def robust_temperatures(draw, k=None):
    shares = np.array(draw(several(k or draw(st.integers(2, 4)), st.floats(0.01, 1.0))))
    share = st.floats(0.0, 1.0, exclude_max=True)
    return RobustTemperature(
        draw(share), draw(st.floats(1e-100, 1e100)), draw(share), tuple((shares / shares.sum()).tolist())
    )


@st.composite
def structured_maps(draw, k=None):
    base = draw(robust_temperatures(k))
    k, knots = len(base.rest), tuple(sorted(draw(st.sets(coefficients, min_size=1, max_size=3))))
    sizes = [k, k, draw(st.sampled_from([0, 4 * k])), draw(st.sampled_from([k, k * k]))]
    lists = [draw(several(size)) for size in (len(knots), *sizes)]
    return StructuredClasses(base, knots, *lists)


@st.composite
def class_members(draw, weight=None, k=None):
    maps = st.just(GivenClasses()) | robust_temperatures(k) | structured_maps(k)
    share = draw(st.floats(0.0, 1.0)) if weight is None else weight
    return ClassMember(draw(st.sampled_from(sorted(MEMBERS))), share, draw(finite), draw(maps))


@st.composite
def auto_classes(draw):
    k, count = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    found = tuple(draw(class_members(1.0 / count, k)) for _ in range(count))
    return AutoClasses(found, draw(positive), draw(finite), draw(st.integers(0, 9)), draw(st.booleans()))


RECORDS["GivenClasses"] = st.just(GivenClasses())
RECORDS["TemperatureClasses"] = st.builds(TemperatureClasses, st.floats(0.0, 1e100))
RECORDS["VectorClasses"] = st.integers(2, 4).flatmap(lambda k: st.builds(VectorClasses, several(k), several(k)))
RECORDS["LinearClasses"] = st.integers(2, 4).flatmap(lambda k: st.builds(LinearClasses, several(k * k), several(k)))
RECORDS["RobustTemperature"] = robust_temperatures()
RECORDS["StructuredClasses"] = structured_maps()
RECORDS["ClassMember"] = class_members()
RECORDS["AutoClasses"] = auto_classes()
unit_maps = st.one_of([RECORDS[name] for name in ("RobustTemperature", "StructuredClasses", "AutoClasses")])
real_maps = st.one_of([RECORDS[name] for name in ("TemperatureClasses", "VectorClasses", "LinearClasses")])

RECORDS["ClassMap"] = class_maps()
RECORDS["MatrixMap"] = (
    st.builds(MatrixMap, st.sampled_from(KINDS), two_pieces | more_pieces | unit_maps)
    | st.builds(MatrixMap, st.sampled_from(["logit", "margin"]), real_maps, domain=st.just("real"))
    | st.builds(MatrixMap, st.just("margin"), two_pieces | more_pieces | unit_maps, scale=st.floats(1e-3, 1e3))
)
PARTS = {  # of maps of several classes
    name for name in RECORDS if name.endswith("Classes") or name in ("RobustTemperature", "ClassMember")
} - {"BetaClasses"}
RECORDS["Information"] = increasing(small, least=1).flatmap(
    lambda x: st.builds(Information, st.just(x), as_long(x, positive), st.integers(0, 5), st.just((-9.0, np.inf)))
)
RECORDS["TwoClassMap"] = st.builds(TwoClassMap, st.sampled_from(KINDS), one_column)


def there_and_back(record, folder):
    path = folder / "map.json"
    calibrant.save(record, path)
    return calibrant.load(path)


def test_every_kind_has_a_recipe():
    assert RECORDS.keys() == store.RECORDS.keys()


@pytest.mark.parametrize("name", store.RECORDS)
@given(data=st.data())
@settings(max_examples=25)
def test_every_record_comes_back_to_the_last_bit(name, data, tmp_path_factory):
    record = data.draw(RECORDS[name])
    if name == "BetaPiece":  # a part of a map
        record = BetaClasses((record, record))
    if name == "ClassMember":
        record = AutoClasses((replace(record, weight=1.0),), 1.0, 0.5)
    if name in PARTS:
        record = MatrixMap("probability", record)
    if name == "Member":
        record = Auto(LogitLines((0.0,), (0.0,)), (1.0,), (1.0,), (record,), 1.0, 1.0)
    if name == "Information":
        record = Clip(origin=Origin("mine", "margin", 1, 1.0, information=record))
    found = there_and_back(record, tmp_path_factory.getbasetemp())
    assert getattr(found.origin, "information", None) == getattr(record.origin, "information", None)
    assert found == record
    assert repr(found) == repr(record)  # which tells -0.0 from 0.0


def test_the_fitted_maps_of_several_classes_come_back(tmp_path):
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(90, 3)), rng.integers(0, 3, 90)
    scores[np.arange(90), y] += 1.0
    for scheme in SCHEMES:
        k = 2 if scheme == "binary" else 3
        given = scores[:, :1] if scheme == "binary" else scores
        fitted = fit_classes(Plan("beta"), scheme, ClassSample(given, np.minimum(y, k - 1), k))
        found = there_and_back(fitted, tmp_path)
        assert found == fitted
        np.testing.assert_array_equal(found(given), fitted(given))


@pytest.mark.parametrize(("kind", "clip"), [("probability", 0.0125), ("logit", 0.0), ("margin", 0.0)])
def test_a_map_of_logarithms_comes_back(kind, clip, tmp_path):
    fitted = MatrixMap(kind, BetaClasses((BetaPiece(None, 0.25), BetaPiece(None))), domain="real", clip=clip)
    assert there_and_back(fitted, tmp_path) == fitted


def test_a_matrix_map_of_an_early_file_loads():
    """Its field `kind` stood in the place of the record's name."""
    inner = to_dict(BetaClasses((BetaPiece(None, 0.25), BetaPiece(None, 0.0), BetaPiece(None, 0.1))))
    del inner["format"]
    early = {"format": 1, "kind": "probability", "inner": inner, "scheme": "matrix"}
    assert from_dict(early) == MatrixMap("probability", from_dict({"format": 1, **inner}))


def test_a_field_may_be_named_like_a_tag():
    document = to_dict(MatrixMap("logit", BetaClasses((BetaPiece(None), BetaPiece(None)))))
    assert (document["kind"], document["kind_"]) == ("MatrixMap", "logit")


# What must not be read -----------------------------------------------------------------------------------------------

PIECE = '{"kind": "BetaPiece", "transport": null}'
PIECES = f'{{"kind": "BetaClasses", "pieces": [{PIECE}, {PIECE}]}}'
ONE = '{"kind": "Clip", "low": 0.1, "high": 0.9}'
NESTED = '{"format": 1, "kind": "Linked", "link": "expit", "inner": '


def deep(records):
    """Return so many records inside each other, as text."""
    inside = '{"kind": "Linked", "link": "expit", "inner": ' * (records - 1) + ONE
    return NESTED + inside + "}" * records


@pytest.mark.parametrize("records", [33, 900, 100_000])
def test_records_nested_too_deep(tmp_path, records):
    (tmp_path / "map.json").write_text(deep(records))
    with pytest.raises(ValueError, match=r"not a calibrant map: .*nested"):
        calibrant.load(tmp_path / "map.json")


def test_what_is_nested_too_deep_is_not_saved_either(tmp_path):
    fitted = Clip()
    for _ in range(DEEPEST):
        fitted = Linked("expit", fitted)
    assert there_and_back(fitted, tmp_path) == fitted
    with pytest.raises(ValueError, match="nested at most 32 deep"):
        calibrant.save(Linked("expit", fitted), tmp_path / "map.json")
    assert calibrant.load(tmp_path / "map.json") == fitted


def document(text):
    return '{"format": 1, "kind": ' + text + "}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"Sigmoid", "a": "-inf", "b": "inf"', "level .* must be finite"),
        ('"Sigmoid", "a": -1, "b": "-inf"', "level .* must be finite"),
        ('"Sigmoid", "a": -1, "b": 0, "center": "inf"', "must be finite"),
        ('"Sigmoid", "a": "-inf", "b": 0, "center": 2', "must be finite"),
        ('"Sigmoid", "a": -1, "b": 0, "level": 3', "level must be b where the center is 0"),
        ('"Sigmoid", "a": -1, "b": 0, "errors": [-1, 1, 0]', "errors must be"),
        ('"Sigmoid", "a": -1, "b": 0, "errors": [1, 1, 2]', "errors must be"),
        ('"Sigmoid", "a": -1, "a": 1, "b": 0', "each name once; got 'a' 2 times"),
        ('"Sigmoid", "a": 1e999, "b": 0', "numbers must be finite"),
        ('"Sigmoid", "a": NaN, "b": 0', "numbers must be finite"),
        ('"Sigmoid", "a": "nan", "b": 0', "Sigmoid.a must be float; got 'nan'"),
        ('"Steps", "edges": [false], "values": [0, 1]', r"Steps.edges\[0\] must be float; got False"),
        ('"Steps", "edges": [0], "values": [0, true]', r"Steps.values\[1\] must be float; got True"),
        ('"Steps", "edges": ["inf", "inf"], "values": [0, 1, 0]', "strictly increase"),
        ('"Lines", "x": [0, "inf"], "y": [0, 1]', "x must be finite"),
        ('"QuadraticLogit", "a": "inf", "b": 0, "c": 0', "a, b, c and center must be finite"),
        ('"QuadraticLogit", "a": 1, "b": 0, "c": "-inf"', "a, b, c and center must be finite"),
        ('"QuadraticLogit", "a": 1, "b": 0, "c": 0, "center": "inf"', "a, b, c and center must be finite"),
        ('"QuadraticLogit", "a": 1, "b": 0, "c": 0, "scale": "inf"', "scale must be positive and finite"),
        ('"Cosines", "coefficients": ["inf", "-inf"], "low": 0, "high": 1', "coefficients must be finite"),
        ('"Cosines", "coefficients": [1e308, 1e308], "low": 0, "high": 1', "coefficients must be finite"),
        ('"Cosines", "coefficients": [0.5], "low": "-inf", "high": 1', "low and high must be finite"),
        ('"Cosines", "coefficients": [0.5], "low": 1, "high": 0', "low < high"),
        ('"Parzen", "centers": [0, 1], "positive": [1, -1e-9], "negative": [1, 1], "width": 1', "not be negative"),
        ('"Parzen", "centers": [0, "inf"], "positive": [1, 1], "negative": [1, 1], "width": 1', "centers must be"),
        ('"Parzen", "centers": [0, 1], "positive": [1, "inf"], "negative": [1, 1], "width": 1', "weights must be"),
        ('"Parzen", "centers": [0], "positive": [1], "negative": [1], "width": "inf"', "width and reach must be"),
        ('"Parzen", "centers": [0], "positive": [1], "negative": [1], "width": 1, "reach": 1e9', "reach at most 1000"),
        ('"Parzen", "centers": [0, 9], "positive": [1, 1], "negative": [1, 1], "width": 1e-200', "within 1e.150"),
        ('"BetaClasses", "pieces": [{"kind": "BetaPiece", "transport": null, "shift": "inf"}, '
         '{"kind": "BetaPiece", "transport": null}]', "shift of a piece must lie in"),
        ('"BetaCdf", "a1": "inf", "b1": 1, "a2": 1, "b2": 1', "BetaCdf needs positive numbers"),
        (f'"ClassMap", "scheme": "ovo", "maps": [{ONE}, {ONE}]', "maps must hold .* 'ovo' .*; got 2"),
        (f'"ClassMap", "scheme": "binary", "maps": [{ONE}, {ONE}]', "maps must hold .* 'binary' .*; got 2"),
        (f'"ClassMap", "scheme": "ovr", "maps": [{ONE}]', "maps must hold .* 'ovr' .*; got 1"),
        (f'"ClassMap", "scheme": "binary", "maps": [{ONE}], "power": "inf"', "positive power"),
        (f'"ClassMap", "scheme": "binary", "maps": [{{"kind": "ClassMap", "scheme": "binary", "maps": [{ONE}]}}]',
         r"maps\[0\] must be a map of one column"),
        (f'"Linked", "link": "expit", "inner": {{"kind": "ClassMap", "scheme": "binary", "maps": [{ONE}]}}',
         "inner must be a map of one column"),
        ('"MatrixMap", "kind_": "odds", "inner": {"kind": "Clip"}', "kind must be one of"),
        ('"TwoClassMap", "kind_": "odds", "inner": {"kind": "Clip"}', "kind must be one of"),
        (f'"TwoClassMap", "kind_": "logit", "inner": {PIECE}', "inner must be a map"),
        (f'"MatrixMap", "kind_": "margin", "domain": "any", "inner": {PIECES}', "domain must be one of unit, real"),
        (f'"MatrixMap", "kind_": "margin", "clip": 0.1, "inner": {PIECES}', "clip must be between .* else 0; got 0.1"),
        (f'"MatrixMap", "kind_": "probability", "domain": "real", "inner": {PIECES}', "clip must be between 0 and 1/2"),
        (f'"MatrixMap", "kind_": "logit", "scale": 2.0, "inner": {PIECES}', "scale must be positive for margins"),
        ('"MatrixMap", "kind_": "margin", "inner": {"kind": "Clip"}', "inner must be a map of all memberships"),
        ('"MatrixMap", "kind_": "margin", "scheme": "ovr", "inner": {"kind": "Clip"}', "scheme must be one of matrix"),
    ],
)  # fmt: skip
def test_contradictory_records_are_refused(tmp_path, text, message):
    (tmp_path / "map.json").write_text(document(text))
    with pytest.raises(ValueError, match=f"not a calibrant map: .*{message}"):
        calibrant.load(tmp_path / "map.json")


def test_a_steep_sigmoid_remains_a_map(tmp_path):
    steep = Sigmoid(-np.inf, 0.0)
    np.testing.assert_array_equal(there_and_back(steep, tmp_path)([-np.inf, -1, 0, 1, np.inf]), [0, 0, 0.5, 1, 1])


VALUES = st.one_of(
    st.sampled_from([None, True, False, "inf", "-inf", "nan", 0, -1, 1, 2, 1e308, -1e308, 5e-324, 1e-300, 10**400]),
    st.sampled_from([[], {}, [0.5], [[0.5]], "Clip", "logit", json.loads(ONE), float("inf"), float("nan")]),
    st.floats(),
    st.text(max_size=3),
)


def places(value):
    """Yield every container of a document with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from places(item)


def spoil(data, value):
    """Change, drop or repeat something in a document."""
    container, key = data.draw(st.sampled_from(list(places(value))))
    what = data.draw(st.sampled_from(["change", "change", "drop", "repeat"]))
    if what == "drop":
        del container[key]
    elif what == "repeat" and isinstance(container, list):
        container.insert(key, container[key])
    else:
        container[key] = deepcopy(data.draw(VALUES))


GRID = np.array([-np.inf, -1e308, -1e5, -1.5, -1.0, -1e-300, 0.0, 5e-324, 1e-9, 0.3, 0.5, 1.0, 2.0, 1e5, 1e308, np.inf])


def unconfined(value):
    """Return whether a cosine series in it may leave [0, 1], as its record says."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and value.get("clip") is False) or any(map(unconfined, inside))


def count_classes(record):
    """Return how many classes a record of all of them has, 3 where it takes any number."""
    if isinstance(record, AutoClasses):
        return max((count_classes(each.map) for each in record.members if each.classes), default=3)
    fields = ("pieces", "bias", "rest")
    return next((len(getattr(record, field)) for field in fields if hasattr(record, field)), 3)


def shaped(mapping, grid):
    """Return a grid, ending in NaN, as the scores of a map: for several classes in as many columns, turned about."""
    if not isinstance(mapping, (ClassMap, MatrixMap, TwoClassMap)):
        return np.append(grid, np.nan)
    k = 2
    if isinstance(mapping, ClassMap):
        k = len(mapping.maps)
    elif isinstance(mapping, MatrixMap):
        k = count_classes(mapping.inner)
    return np.stack([np.append(np.roll(grid, 5 * column), np.nan) for column in range(k)], axis=1)


def refused(function, *arguments):
    """Return a function's value and None, or None and the sentence of its ValueError."""
    try:
        return function(*arguments), None
    except ValueError as error:
        return None, str(error)


@pytest.mark.parametrize("name", sorted(set(store.RECORDS) - {"BetaPiece", "GivenClasses"}))
@given(data=st.data())
@settings(max_examples=70)
def test_a_spoilt_file_is_refused_or_a_map_of_probabilities(name, data, tmp_path_factory):
    value = to_dict(data.draw(RECORDS[name]))
    for _ in range(data.draw(st.integers(1, 3))):
        spoil(data, value)
    path = tmp_path_factory.getbasetemp() / "spoilt.json"
    path.write_text(json.dumps(value))
    found, message = refused(calibrant.load, path)
    if message is not None:
        assert message.startswith(f"{path} is not a calibrant map: ")
        assert len(message) < 1000
        return
    if hasattr(found, "groups"):
        found = found[found.groups[0]]
    p, message = refused(found, shaped(found, GRID))
    if message is not None and "scores must be probabilities" in message:
        p, message = refused(found, shaped(found, GRID[(GRID >= 0) & (GRID <= 1)]))
    if message is not None:  # a map of three memberships, or of logits that become probabilities twice
        assert "memberships as a matrix" in message or "scores must be probabilities" in message
    elif not unconfined(to_dict(found)):
        assert ((p[:-1] >= 0) & (p[:-1] <= 1)).all()
        assert np.isnan(p[-1]).all()


# Files ----------------------------------------------------------------------------------------------------------------


class TestFiles:
    def test_a_file_keeps_its_mode(self, tmp_path):
        path = tmp_path / "map.json"
        calibrant.save(Clip(), path)
        path.chmod(0o600)
        calibrant.save(Clip(0.1, 0.9), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert calibrant.load(path) == Clip(0.1, 0.9)

    def test_what_replaces_a_private_file_is_private_from_the_start(self, tmp_path):
        path = tmp_path / "secret"
        path.write_bytes(b"old")
        path.chmod(0o640)
        with replace_file(path) as temporary:
            assert stat.S_IMODE(temporary.stat().st_mode) & 0o077 == 0
            temporary.write_bytes(b"new")
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o640)

    @pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may give files away")
    def test_a_file_keeps_its_owner(self, tmp_path):
        path = tmp_path / "map.json"
        calibrant.save(Clip(), path)
        os.chown(path, 12345, 23456)
        calibrant.save(Clip(0.1, 0.9), path)
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)

    def test_an_owner_who_cannot_be_kept_is_no_reason_to_fail(self, tmp_path, monkeypatch):
        path = tmp_path / "map.json"
        calibrant.save(Clip(), path)
        own = os.stat(path)
        other = os.stat_result((own.st_mode, *own[1:4], own.st_uid + 1, own.st_gid + 1, *own[6:]))
        monkeypatch.setattr("calibrant.files._status", lambda _: other)
        monkeypatch.setattr("os.chown", lambda *_: (_ for _ in ()).throw(PermissionError("no")))
        calibrant.save(Clip(0.1, 0.9), path)
        assert calibrant.load(path) == Clip(0.1, 0.9)

    def test_a_new_file_has_the_mode_of_any_new_file_and_nobody_sees_another_umask(self, tmp_path, monkeypatch):
        monkeypatch.setattr("os.umask", lambda _: pytest.fail("the mask is that of the whole process"))
        (tmp_path / "plain").write_bytes(b"")
        calibrant.save(Clip(), tmp_path / "map.json")
        modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "map.json")]
        assert modes[0] == modes[1]

    @pytest.mark.parametrize("there", [True, False])
    def test_a_link_is_followed(self, tmp_path, there):
        (tmp_path / "far").mkdir()
        target, link, second = tmp_path / "far" / "map.json", tmp_path / "link.json", tmp_path / "second.json"
        link.symlink_to(Path("far") / "map.json")
        second.symlink_to(link)
        if there:
            calibrant.save(Clip(), target)
        calibrant.save(Clip(0.1, 0.9), second)
        assert second.is_symlink()
        assert link.is_symlink()
        assert not target.is_symlink()
        assert calibrant.load(target) == Clip(0.1, 0.9)
        assert len(list(tmp_path.rglob("*"))) == 4

    def test_a_command_asks_for_the_folder_behind_a_link(self, tmp_path):
        (tmp_path / "link.json").symlink_to(Path("nowhere") / "map.json")
        with pytest.raises(ValueError, match="nowhere' does not"):
            require_place(tmp_path / "link.json")
        (tmp_path / "nowhere").mkdir()
        require_place(tmp_path / "link.json")

    def test_links_in_a_circle(self, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(OSError, match="symbolic links"):
            calibrant.save(Clip(), tmp_path / "a")

    def test_a_folder_is_not_a_file(self, tmp_path):
        with pytest.raises(IsADirectoryError):
            calibrant.save(Clip(), tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_a_long_name(self, tmp_path):
        path = tmp_path / ("ü" * 120 + ".json")
        assert there_and_back(Clip(), path.parent) == Clip()
        calibrant.save(Clip(), path)
        assert calibrant.load(path) == Clip()

    def test_a_pipe_gets_the_content_and_stays_a_pipe(self, tmp_path):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with ThreadPoolExecutor() as pool:
            read = pool.submit(calibrant.load, pipe)
            calibrant.save(Clip(0.1, 0.9), pipe)
            assert read.result() == Clip(0.1, 0.9)
        assert stat.S_ISFIFO(pipe.stat().st_mode)

    def test_a_device_stays_a_device(self):
        calibrant.save(Clip(), os.devnull)
        assert stat.S_ISCHR(os.stat(os.devnull).st_mode)

    @pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no such device here")
    def test_what_stdout_is_redirected_to_is_not_replaced(self, tmp_path):
        code = "import calibrant; print('before', flush=True); calibrant.save(calibrant.maps.Clip(), '/dev/stdout')"
        for path in (tmp_path / "out", None):
            with path.open("w") if path else nullcontext(subprocess.PIPE) as out:
                run = subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
            lines = (path.read_bytes() if path else run.stdout).decode().split("\n", 1)
            assert lines[0] == "before"
            assert from_dict(json.loads(lines[1])) == Clip()

    def test_a_failure_leaves_a_device_alone(self, tmp_path):
        started = []

        def fail():
            with replace_file(tmp_path / "pipe") as temporary:
                temporary.write_bytes(b"half")
                started.append(temporary)
                msg = "halfway"
                raise ValueError(msg)

        os.mkfifo(tmp_path / "pipe")  # which would wait for a reader
        with pytest.raises(ValueError, match="halfway"):
            fail()
        assert not started[0].exists()

    @pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
    def test_a_file_without_end(self, monkeypatch):
        monkeypatch.setattr("calibrant.maps.store.LARGEST", 2**22)
        with pytest.raises(ValueError, match="/dev/zero must have at most 4,194,304 bytes; it has more"):
            calibrant.load("/dev/zero")

    def test_the_limit_holds_for_both_sides_and_to_the_byte(self, tmp_path, monkeypatch):
        path = tmp_path / "map.json"
        calibrant.save(Clip(), path)
        monkeypatch.setattr("calibrant.maps.store.LARGEST", path.stat().st_size)
        assert there_and_back(Clip(), tmp_path) == Clip()
        with pytest.raises(ValueError, match="at most"):
            calibrant.save(Clip(0.001, 0.999), path)
        path.write_bytes(path.read_bytes() + b" ")
        with pytest.raises(ValueError, match="must have at most"):
            calibrant.load(path)

    def test_a_million_steps_are_far_from_the_limit(self):
        number = json.dumps(-1.2345678901234567e-300, indent=1)
        assert 2 * 1_000_000 * (len(number) + len("  ,\n")) < LARGEST / 2


def test_what_cannot_be_stored_is_named_shortly_with_what_to_do():
    class Mine:
        def __repr__(self):
            return "x" * 10_000

    with pytest.raises(ValueError, match=r"got Mine x.*x: pickle it, or fit a method of calibrant\.METHODS") as caught:
        to_dict(Mine())
    assert len(str(caught.value)) < 300


def test_a_missing_folder_is_named_as_it_was_given(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        calibrant.save(Sigmoid(-1.0, 0.5), tmp_path / "no" / "such" / "map.json")
    assert caught.value.filename == str(tmp_path / "no" / "such")
