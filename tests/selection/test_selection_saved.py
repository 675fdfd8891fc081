"""Selections on disk: what is saved comes back, as the same bytes every time, and people can read it."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import fsspec
import numpy as np
import pytest
import xarray
from hypothesis import given
from hypothesis import strategies as st
from selections import HISTORY, selection_of

import daskfs
from daskfs.errors import DaskfsError, OptionError, SelectionError, StorageError, public_url
from daskfs.protocol import Result
from daskfs.selection.selection import Selection


def assert_same(one: Selection, other: Selection) -> None:
    for field in fields(Selection):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, strict=True)
        elif field.name == "steps":
            xarray.testing.assert_identical(one.history, other.history)
        else:
            assert a == b
            assert type(a) is type(b)


finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
classes_of = {
    None: st.none(),
    2: st.sampled_from([(-1.0, 1.0), (0.0, 1.0), ("ham", "spam"), ("", "\x1b[2J")]),
    3: st.sampled_from([(2.0, 5.0, 9.0), ("a", "b", "ż")]),
}


@st.composite
def selections(draw) -> Selection:
    ids = draw(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=5))
    n_classes = draw(st.sampled_from([None, 2, 3]))
    wide = n_classes == 3
    weights = [[draw(finite) for _ in range(3)] if wide else draw(finite) for _ in ids]
    records = st.fixed_dictionaries({"objective": st.floats()}, optional={"held_back": finite, "p95": finite})
    return selection_of(
        ids,
        np.array(weights, np.float64).reshape(len(ids), *([3] if wide else [])),
        intercept=[draw(finite) for _ in range(3 if wide else 1)],
        classes=draw(classes_of[n_classes]),
        names=[draw(texts) for _ in ids],
        history=draw(st.lists(records, max_size=4)),
    )


@given(selections())
def test_what_is_saved_comes_back(tmp_path_factory, selection):
    folder = tmp_path_factory.mktemp("run")
    selection.save(folder)
    assert_same(daskfs.load_selection(folder), selection)
    raw = (folder / "selection.json").read_bytes()
    selection.save(folder)
    assert (folder / "selection.json").read_bytes() == raw
    xarray.testing.assert_equal(xarray.open_zarr(folder / "history.zarr").load(), selection.history.drop_vars("step"))


def test_the_file_is_for_people_and_for_jq(tmp_path):
    names = ["gene3", 'quo"te', "ż\n"]
    selection_of([3, 2**63 + 1, 0], [1.5, -0.25, 1e-300], names=names, classes=("ham", "spam")).save(tmp_path / "run")
    text = (tmp_path / "run/selection.json").read_text()
    share = 1.5 / 1.75
    assert f'\n{{"id": 3, "importance": {share}, "name": "gene3", "rank": 1, "weight": 1.5}},\n' in text
    assert json.loads(text) == {
        "version": 1,
        "algorithm": {"name": "OnlineSubstitution", "n_select": 3, "ridge": "auto", "loss": "squared"},
        "seed": 3,
        "source": {"url": "data/genes.zarr", "digest": "ab" * 32, "n_samples": 50, "n_features": 12},
        "chosen": {},
        "classes": ["ham", "spam"],
        "intercept": 0.5,
        "features": [
            {"rank": 1, "id": 3, "name": "gene3", "weight": 1.5, "importance": share},
            {"rank": 2, "id": 2**63 + 1, "name": 'quo"te', "weight": -0.25, "importance": 0.25 / 1.75},
            {"rank": 3, "id": 0, "name": "ż\n", "weight": 1e-300, "importance": pytest.approx(0)},
        ],
    }
    assert list(json.loads(text)) == sorted(json.loads(text))


def test_what_differs_from_run_to_run_is_not_in_the_model_file(tmp_path):
    slow = [{**record, "seconds": 99.0} for record in HISTORY]
    selection_of([3]).save(tmp_path / "a")
    selection_of([3], history=slow).save(tmp_path / "b")
    assert (tmp_path / "a/selection.json").read_bytes() == (tmp_path / "b/selection.json").read_bytes()
    assert daskfs.load_selection(tmp_path / "b").history.seconds.values.tolist() == [99, 99]


def test_history_has_one_row_a_step_and_gaps_where_nothing_was_recorded():
    history = selection_of([3], history=[{"objective": 2.0}, {"objective": 1.0, "held_back": 0.5}]).history
    assert history.sizes == {"step": 2}
    assert history.objective.values.tolist() == [2, 1]
    assert math.isnan(history.held_back[0])
    assert history.held_back[1] == 0.5
    assert selection_of([3], history=[]).history.objective.shape == (0,)


def test_on_s3(s3):
    url, selection = s3.url("run"), selection_of([3, 1], classes=("ham", "spam"))
    selection.save(url, s3.options)
    assert_same(daskfs.load_selection(url, s3.options), selection)
    other = selection_of([5], history=[])
    other.save(url, s3.options)
    assert_same(daskfs.load_selection(url, s3.options), other)
    with pytest.raises(SelectionError, match="no selection here"):
        daskfs.load_selection(s3.url("nothing"), s3.options)
    with pytest.raises(StorageError, match="check the credentials") as caught:
        daskfs.load_selection(url, {**s3.options, "secret": "wrong"})
    assert "wrong" not in str(caught.value)
    fs = fsspec.filesystem("s3", skip_instance_cache=True, **s3.options)
    stored = b"".join(fs.cat_file(key) for key in fs.find(url))
    assert b"OnlineSubstitution" in stored
    assert s3.options["secret"].encode() not in stored
    assert s3.options["key"].encode() not in stored


@pytest.mark.parametrize(
    "url", ["s3://AKIA:CANARY@bucket/d.zarr", "https://host/d.zarr?signature=CANARY&x=1", "a::s3://:CANARY@b/d"]
)
def test_f28_no_secret_of_a_url_is_kept(tmp_path, url):
    selection = selection_of([3], url=url)
    selection.save(tmp_path / "run")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"CANARY" not in kept
    assert "CANARY" not in repr(selection) + str(selection.to_xarray().attrs)


@pytest.mark.parametrize("url", ["/data/who?@me:1.zarr", "runs/a.zarr", "s3://bucket/key@2x.zarr", "memory://a/b"])
def test_other_urls_are_kept_as_they_are(url):
    assert public_url(url) == url


def test_f28_only_what_is_known_of_the_source_is_kept():
    known = {"url": "u", "digest": "d", "n_samples": np.int64(2), "n_features": 3}
    result = Result(np.array([1], np.uint64), np.ones(1), np.zeros(1), None, [{"objective": 0.0}])
    algorithm = {"name": "Mission", "k": np.int32(4), "lengths": (1, 2)}
    selection = Selection.from_result(
        result, ["a"], algorithm, known | {"storage_options": {"secret": "CANARY"}}, seed=0
    )
    assert selection.source == known
    assert selection.algorithm == {"name": "Mission", "k": 4, "lengths": [1, 2]}


def test_saving_again_replaces(tmp_path):
    selection_of([3, 1], history=[{"objective": 1.0, "held_back": 2.0}]).save(tmp_path)
    other = selection_of([5], history=[{"objective": 7.0}])
    other.save(tmp_path)
    assert_same(daskfs.load_selection(tmp_path), other)
    assert not (tmp_path / "history.zarr/held_back").exists()


@pytest.mark.parametrize("writes", range(5))
def test_a_save_that_is_cut_short_leaves_no_mixture(tmp_path, monkeypatch, writes):
    """Killed before each of its five writes in turn, over an older selection."""
    from daskfs.store.places.location import Location

    selection_of([3, 1]).save(tmp_path)
    done = []
    write = Location.write

    def dying(self, key, *parts):
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(key)
        write(self, key, *parts)

    monkeypatch.setattr(Location, "write", dying)
    with pytest.raises(KeyboardInterrupt):
        selection_of([5, 6], history=[{"objective": 0.5, "held_back": 1.0}]).save(tmp_path)
    with pytest.raises(SelectionError, match="no selection here"):
        daskfs.load_selection(tmp_path)
    monkeypatch.undo()
    selection_of([5, 6]).save(tmp_path)
    assert daskfs.load_selection(tmp_path).features.tolist() == [5, 6]


def test_places_where_no_selection_can_be(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(SelectionError, match="file: is a file"):
        selection_of([3]).save(tmp_path / "file")
    for place in ("file", "nowhere", "."):
        with pytest.raises(SelectionError, match="no selection here"):
            daskfs.load_selection(tmp_path / place)
    (tmp_path / "checkpoint").mkdir()  # of a run that was refused
    with pytest.raises(SelectionError, match="no selection here"):
        daskfs.load_selection(tmp_path)
    (tmp_path / "checkpoint" / "checkpoint").write_bytes(b"a state")
    with pytest.raises(SelectionError, match="an unfinished run; daskfs select --resume"):
        daskfs.load_selection(tmp_path)


def test_to_xarray():
    two = selection_of([7, 2], [0.5, -1.5], classes=("ham", "spam")).to_xarray()
    assert two.weights.sel(feature=2).item() == -1.5
    assert two.name.values.tolist() == ["x7", "x2"]
    assert (two.intercept.item(), two.attrs["seed"]) == (0.5, 3)
    assert two.objective.sel(step=2).item() == 1.25
    three = selection_of([7, 2], np.arange(6).reshape(2, 3), intercept=[1, 2, 3], classes=("a", "b", "c")).to_xarray()
    assert three.weights.sel({"feature": 7, "class": "c"}).item() == 2
    assert three.intercept.sel({"class": "b"}).item() == 2


def test_repr_is_short_and_harmless():
    assert repr(selection_of([3, 1])) == "<daskfs.Selection data/genes.zarr: 2 of 12 features, x3, x1>"
    hostile = repr(selection_of([1, 2, 3, 4], names=["\x1b[2J", "<b>" * 1000, "a\nb", "c"]))
    assert hostile.isprintable()
    assert len(hostile) < 250
    assert hostile.endswith(", …>")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"names": ["a"]}, "2 features, 1 names"),
        ({"features": np.array([3, 3], np.uint64)}, "twice"),
        ({"weights": np.ones(3)}, "3 weights"),
        ({"weights": np.ones((2, 3))}, "do not tell None classes apart"),
        ({"classes": ("a", "b", "c")}, "do not tell 3 classes apart"),
        ({"classes": ("a",)}, "do not tell 1 classes apart"),
        ({"intercept": np.ones(2)}, "intercept"),
        ({"weights": np.array([1, np.nan])}, "not finite"),
        ({"steps": {}}, "no objective"),
    ],
)
def test_parts_that_do_not_belong_together(change, reason):
    with pytest.raises(OptionError, match=reason) as caught:
        replace(selection_of([3, 1]), **change)
    assert isinstance(caught.value, DaskfsError)
