"""F20: labels of every kind are kept as they are, and what they mean is stored with the dataset."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from faults.samples import small_blocks

import daskfs
from daskfs.errors import BadLineError, SourceError

NUMBERS = {
    "0 and 1": (["0", "1", "1", "0"], (0.0, 1.0)),
    "-1 and 1": (["-1", "+1", "1", "-1.0"], (-1.0, 1.0)),
    "three": (["5", "-2", "7e0", "5"], (-2.0, 5.0, 7.0)),
    "one class": (["1", "1", "1", "1"], (1.0,)),
    "real": (["0.5", "1", "-3.25", "1"], None),
    "large whole numbers": (["1e15", "3", "1e15", "3"], (3.0, 1e15)),
}
STRINGS = {
    "words": (["spam", "ham", "ham", "spam"], ("ham", "spam")),
    "one class": (["spam", "spam", "spam", "spam"], ("spam",)),
    "not ASCII": (["ja", "não", "нет", "ja"], ("ja", "não", "нет")),
    "numbers with letters": (["1a", "2b", "1a", "3c"], ("1a", "2b", "3c")),
}
ALL = {f"numbers: {name}": case for name, case in NUMBERS.items()}
ALL |= {f"strings: {name}": case for name, case in STRINGS.items()}
ROWS = {"svmlight": "{} {}:1", "vw": "{} |a {}"}
FORMS = {"dense": np.eye(4), "sparse": sp.eye_array(4, format="csr")}


def check(ds: daskfs.Dataset, labels: list[str], classes: tuple | None) -> None:
    y = np.concatenate([target.copy() for target in ds.targets()])
    assert ds.classes == ds.meta.classes == classes
    if classes is None:
        assert y.tolist() == [float(label) for label in labels]
        with pytest.raises(ValueError, match="no classes"):
            ds.meta.class_codes(y)
        return
    given = labels if isinstance(classes[0], str) else [float(label) for label in labels]
    assert [classes[code] for code in ds.meta.class_codes(y)] == given
    assert y.tolist() == (given if isinstance(given[0], float) else [classes.index(label) for label in given])


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("part_bytes", [1 << 26, 5], ids=["one piece", "many pieces"])
@pytest.mark.parametrize(("labels", "classes"), ALL.values(), ids=ALL)
@pytest.mark.parametrize("kind", ROWS)
def test_f20_labels_of_text(tmp_path, kind, labels, classes, part_bytes):
    """In many pieces, most lack most classes."""
    path = tmp_path / "x.txt"
    path.write_text("\n".join(ROWS[kind].format(label, i) for i, label in enumerate(labels)), encoding="utf-8")
    with small_blocks(part_bytes=part_bytes):
        check(daskfs.ingest(path, tmp_path / "x.zarr", kind), labels, classes)


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize(("labels", "classes"), NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("kind", ["f8", "f4", ">f8", "list"])
@pytest.mark.parametrize("form", FORMS)
def test_f20_numbers_of_arrays(tmp_path, form, kind, labels, classes):
    y = [float(label) for label in labels] if kind == "list" else np.array(labels, float).astype(kind)
    daskfs.write_dataset(tmp_path / "x.zarr", FORMS[form], y)
    exact = [str(float(x)) for x in np.asarray(y)]  # 1e15 is no float32
    kept = None if classes is None else tuple(sorted({float(x) for x in np.asarray(y)}))
    check(daskfs.open_dataset(tmp_path / "x.zarr"), exact, kept)


STRING_KINDS = {
    "U": lambda labels: np.array(labels),
    "O": lambda labels: np.array(labels, object),
    "S": lambda labels: np.array([label.encode() for label in labels]),
    "T": lambda labels: np.array(labels, np.dtypes.StringDType()),
    "list": list,
}


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize(("labels", "classes"), STRINGS.values(), ids=STRINGS)
@pytest.mark.parametrize("make", STRING_KINDS.values(), ids=STRING_KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_f20_strings_of_arrays(tmp_path, form, make, labels, classes):
    daskfs.write_dataset(tmp_path / "x.zarr", FORMS[form], make(labels))
    check(daskfs.open_dataset(tmp_path / "x.zarr"), labels, classes)


@pytest.mark.parametrize("form", FORMS)
def test_f20_booleans(tmp_path, form):
    daskfs.write_dataset(tmp_path / "x.zarr", FORMS[form], np.array([True, False, False, True]))
    check(daskfs.open_dataset(tmp_path / "x.zarr"), ["1", "0", "0", "1"], (0.0, 1.0))


@pytest.mark.parametrize("y", [np.array([1, "a", 2, 3], object), np.ones(4) * 1j, np.array(4 * ["2020"], "M8[D]")])
def test_f20_labels_that_are_neither_numbers_nor_strings(tmp_path, y):
    with pytest.raises(TypeError, match="labels are numbers or strings"):
        daskfs.write_dataset(tmp_path / "x.zarr", FORMS["dense"], y)


@pytest.mark.parametrize("kind", ROWS)
def test_f20_a_label_that_is_no_number_among_numbers_is_reported(tmp_path, kind):
    """Rather than all of them taken for words."""
    path = tmp_path / "x.txt"
    labels = ["1", "-1", "l", "-1"]
    path.write_text("\n".join(ROWS[kind].format(label, i) for i, label in enumerate(labels)))
    with pytest.raises(BadLineError, match=r"x\.txt:3: the label is not a number \(string labels: --labels strings\)"):
        daskfs.ingest(path, tmp_path / "x.zarr", kind)
    check(daskfs.ingest(path, tmp_path / "s.zarr", kind, labels="strings"), labels, ("-1", "1", "l"))


@pytest.mark.parametrize("kind", ROWS)
def test_f20_a_class_beyond_the_first_lines(tmp_path, kind):
    labels = 150 * ["a"] + ["b"] + 150 * ["a"]
    path = tmp_path / "x.txt"
    path.write_text("\n".join(ROWS[kind].format(label, i) for i, label in enumerate(labels)))
    with small_blocks(part_bytes=300):
        ds = daskfs.ingest(path, tmp_path / "x.zarr", kind)
    assert ds.n_blocks() > 2
    check(ds, labels, ("a", "b"))


@pytest.mark.parametrize("kind", ROWS)
def test_f20_more_labels_than_can_be_classes(tmp_path, kind):
    path = tmp_path / "x.txt"
    path.write_text("\n".join(ROWS[kind].format(f"w{i}", i) for i in range(10_001)))
    with pytest.raises(SourceError, match="more than 10000 different string labels"):
        daskfs.ingest(path, tmp_path / "x.zarr", kind)
    path.write_text("\n".join(ROWS[kind].format(i, i) for i in range(1001)))
    assert daskfs.ingest(path, tmp_path / "y.zarr", kind).classes is None
