"""Names of hashed features: staged in runs, merged on disk, looked up a chunk at a time."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash

import daskfs
from daskfs.errors import DatasetError
from daskfs.jit import kernel
from daskfs.store.dataset.hashing_kernels import id_of_name
from daskfs.store.dataset.name_runs import MergedNames, NameRun, sort_names
from daskfs.store.dataset.names_kernels import (
    COUNT,
    FEWEST_SLOTS,
    FULL,
    KEYS,
    SLOTS,
    clear,
    forget,
    hand_over,
    intern,
    name_list,
    new_name_set,
    order_of_hashes,
    remember_all,
)
from daskfs.store.places.location import Location


@kernel
def intern_one(names, key, text):
    return intern(names, key, text, 0, len(text))


@kernel
def remember_these(names, ids, text, stops):
    return remember_all(names, ids, 0, text, stops, len(ids), np.zeros(len(ids), np.int64))


@kernel
def forget_back_to(names, count):
    forget(names, count)


def remember_words(names, words) -> bool:
    """All at once, end to end, with some bytes behind them that nobody asked for."""
    ids = np.array([xxhash.xxh64_intdigest(word) >> 1 for word in words], np.uint64)
    text = np.frombuffer(b"".join(words) + b"#" * 5, np.uint8).copy()
    return bool(remember_these(names, ids, text, np.cumsum([len(word) for word in words])))


def fill(names, words):
    for word in words:
        text = np.frombuffer(word, np.uint8)
        yield intern_one(names, np.uint64(xxhash.xxh64_intdigest(word) >> 1), text)


@pytest.mark.parametrize("limit", [1, 3, 1 << 20, 1 << 63])
def test_hashes_are_sorted_as_by_numpy(limit):
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 3, 10, 1000):
        ids = rng.integers(0, limit, n, dtype=np.uint64)
        np.testing.assert_array_equal(order_of_hashes(ids), np.argsort(ids, kind="stable"))
    few = np.sort(rng.integers(0, 5, 100, dtype=np.uint64))[::-1] << np.uint64(60)  # far from evenly spread
    np.testing.assert_array_equal(order_of_hashes(few), np.argsort(few, kind="stable"))


def stored_run(location: Location, key: str, names) -> NameRun:
    count, file = sort_names(names)
    location.write(key, file)
    return NameRun(key, count)


def pairs(merged) -> list[tuple[int, bytes]]:
    return [
        (int(feature), batch.text[start : start + length].tobytes())
        for batch in merged
        for feature, start, length in zip(batch.ids, batch.starts, batch.lengths, strict=True)
    ]


@pytest.mark.kernels
def test_a_set_numbers_names_in_order_and_knows_them_again():
    names = new_name_set(10, 100)
    assert list(fill(names, [b"b", b"a", b"b", b"", b"a"])) == [0, 1, 0, 2, 1]
    assert name_list(names) == [b"b", b"a", b""]
    clear(names)
    assert list(fill(names, [b"c"])) == [0]


@pytest.mark.kernels
@pytest.mark.parametrize(("entries", "text_bytes"), [(2, 100), (10, 5)])
def test_a_full_set_says_so_and_stays_sound(entries, text_bytes):
    names = new_name_set(entries, text_bytes)
    assert list(fill(names, [b"ab", b"cd", b"efg", b"cd"])) == [0, 1, FULL, 1]
    assert name_list(names) == [b"ab", b"cd"]


@pytest.mark.kernels
def test_many_at_once_are_remembered_as_one_by_one():
    rng = np.random.default_rng(0)
    words = [b"name%d" % i * int(rng.integers(1, 4)) for i in rng.integers(0, 8000, 20_000)]
    at_once, one_by_one = new_name_set(20_000, 1 << 20), new_name_set(20_000, 1 << 20)
    assert all(remember_words(at_once, words[i : i + 100]) for i in range(0, len(words), 100))
    list(fill(one_by_one, words))
    assert name_list(at_once) == name_list(one_by_one)
    assert at_once.used[SLOTS] > FEWEST_SLOTS  # or this says nothing of a table that grows


@pytest.mark.kernels
def test_many_at_once_that_do_not_fit():
    names = new_name_set(3, 100)
    assert not remember_words(names, [b"a", b"b", b"a", b"c", b"d"])
    assert name_list(names) == [b"a", b"b", b"c"]


@pytest.mark.kernels
def test_what_is_forgotten_after_the_table_grew_is_gone_and_the_rest_is_not():
    names = new_name_set(2 * FEWEST_SLOTS, 1 << 20)
    kept, gone = [b"kept%d" % i for i in range(1000)], [b"gone%d" % i for i in range(FEWEST_SLOTS)]
    list(fill(names, kept + gone))
    forget_back_to(names, len(kept))
    assert name_list(names) == kept
    assert list(fill(names, [kept[7], gone[7], kept[999], gone[7]])) == [7, 1000, 999, 1000]


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(5))
def test_names_handed_over_stay_known_as_the_table_grows(seed):
    """Whatever is looked up, collected, taken back or handed over between: as a Python set has it."""
    rng = np.random.default_rng(seed)
    names, known, new = new_name_set(4000, 1 << 20, known=20_000), set(), []
    while names.used[SLOTS] < 4 * FEWEST_SLOTS:
        words = [b"w%d" % i for i in rng.integers(0, 30_000, rng.integers(1, 200))]
        before = len(new)
        assert remember_words(names, words)
        new += dict.fromkeys(word for word in words if word not in known and word not in new)
        assert name_list(names) == new
        if rng.random() < 0.2:
            forget_back_to(names, before)
            new = new[:before]
        if rng.random() < 0.1 or len(new) > 3000:
            hand_over(names)
            known, new = known | set(new), []
        assert names.used[KEYS] == len(known) + len(new)
    assert remember_words(names, sorted(known))
    assert name_list(names) == new


@pytest.mark.kernels
def test_a_set_that_knows_enough_is_full_until_it_is_cleared():
    names = new_name_set(4, 100, known=8)
    for words in ([b"a", b"b", b"c", b"d"], [b"e", b"f", b"g", b"h"]):
        assert remember_words(names, words)
        hand_over(names)
    assert remember_words(names, [b"a", b"h"])
    assert not remember_words(names, [b"i"])
    clear(names)
    assert remember_words(names, [b"i", b"a"])
    assert name_list(names) == [b"i", b"a"]


def test_runs_merge_to_every_name_once_in_order(tmp_path):
    words = [b"word%d" % i for i in range(3000)]
    rng = np.random.default_rng(0)
    location, runs = Location(tmp_path), []
    for number in range(5):
        names = new_name_set(2000, 1 << 20)
        list(fill(names, [words[i] for i in rng.integers(0, 3000, 1500)]))
        runs.append(stored_run(location, f"run{number}", names))
        assert runs[-1].size == names.used[COUNT]
    merged = pairs(MergedNames(location, runs))
    ids = [feature for feature, _ in merged]
    assert ids == sorted(set(ids))
    assert all(feature == xxhash.xxh64_intdigest(name) >> 1 for feature, name in merged)
    assert {name for _, name in merged} <= set(words)


def test_two_names_of_one_id_are_counted(tmp_path):
    location, runs = Location(tmp_path), []
    for number, word in enumerate([b"first", b"other", b"first"]):
        names = new_name_set(2, 100)
        intern_one(names, np.uint64(7), np.frombuffer(word, np.uint8))
        runs.append(stored_run(location, f"run{number}", names))
    merged = MergedNames(location, runs)
    assert pairs(merged) == [(7, b"first")]
    assert merged.collisions >= 1


def test_a_hundred_thousand_names_come_back(tmp_path):
    """Several chunks of the table, and sets of names so small that many runs are needed."""
    words = [f"w{i}" for i in range(100_000)]
    lines = [f"1 | {' '.join(words[i : i + 100])}" for i in range(0, len(words), 100)]
    (tmp_path / "x.vw").write_text("\n".join(lines))
    ds = daskfs.ingest(tmp_path / "x.vw", tmp_path / "x.zarr", "vw", memory="118MB")
    assert ds.n_features == 100_000
    assert ds.arrays["names/name"].n_chunks > 3
    picked = words[::777]
    assert ds.names(np.array([id_of_name(word) for word in picked], np.uint64)) == picked
    with pytest.raises(DatasetError, match="has no name here"):
        ds.names([12345])
