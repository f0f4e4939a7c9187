"""Maps on disk."""

import json

import pytest

import calibrant
from calibrant.maps import Linked, Sigmoid, Steps
from calibrant.store import from_dict, to_dict

SIGMOID = to_dict(Sigmoid(-1.0, 0.5))


def test_file_names_the_formula(tmp_path):
    calibrant.save(Sigmoid(-1.0, 0.5), tmp_path / "map.json")
    document = json.loads((tmp_path / "map.json").read_text())
    assert document["format"] == 1
    assert document["kind"] == "Sigmoid"
    assert (document["a"], document["b"]) == (-1.0, 0.5)
    assert calibrant.load(tmp_path / "map.json") == Sigmoid(-1.0, 0.5)


def test_a_file_of_format_one_loads_for_ever():
    inner = '{"kind": "Sigmoid", "a": -2, "b": 0.25, "center": 0.0, "level": 0.25, "errors": null}'
    text = '{"format": 1, "kind": "Linked", "link": "logit", "inner": ' + inner + "}"
    assert from_dict(json.loads(text)) == Linked("logit", Sigmoid(-2.0, 0.25))


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
        (b'{"format": 1, "kind": "QuadraticLogit", "a": 1, "b": 1, "c": 1, "scale": 0}', "scale must be positive"),
        (b'{"format": 1, "kind": "Clip", "low": 1' + b"0" * 400 + b', "high": 1}', "not a calibrant map"),
        (b'{"format": 1, "kind": "ClassMap", "scheme": "bogus", "maps": []}', "known scheme"),
        (b'{"format": 1, "kind": "ClassMap", "scheme": "ovo", "maps": []}', "a map a column"),
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
