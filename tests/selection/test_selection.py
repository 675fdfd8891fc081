"""Selection as a model: scores, labels, columns and their quality, over everything an X can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray
from faults.samples import small_blocks
from selections import selection_of
from sklearn.metrics import balanced_accuracy_score, r2_score

import daskfs
from daskfs.errors import OptionError

RNG = np.random.default_rng(5)
X = np.where(RNG.random((50, 12)) < 0.6, RNG.normal(size=(50, 12)), 0).astype(np.float32)
FEATURES = [7, 0, 11, 4]  # neither ascending nor descending
GENES = [f"gene{i}" for i in range(12)]

ONE_SCORE = {"weights": [1.5, -2.0, 0.25, 3.0], "intercept": [0.5]}
THREE_SCORES = {"weights": RNG.normal(size=(4, 3)), "intercept": [0.1, -0.2, 0.3]}
MODELS: dict[str, dict[str, Any]] = {
    "a real target": ONE_SCORE,
    "two classes": ONE_SCORE | {"classes": (-1.0, 1.0)},
    "two words": ONE_SCORE | {"classes": ("ham", "spam")},
    "three classes": THREE_SCORES | {"classes": (2.0, 5.0, 9.0)},
    "three words": THREE_SCORES | {"classes": ("blue", "green", "red")},
}


def scores_by_hand(model: dict[str, Any]) -> np.ndarray:
    scores = np.array(
        [
            np.asarray(model["intercept"])
            + sum(x[f] * np.asarray(w) for f, w in zip(FEATURES, model["weights"], strict=True))
            for x in X.astype(float)
        ]
    )
    return scores[:, 0] if scores.shape[1] == 1 else scores


def labels_by_hand(model: dict[str, Any]) -> list[Any]:
    scores, classes = scores_by_hand(model), model.get("classes")
    if classes is None:
        return scores.tolist()
    return [classes[int(score > 0) if score.shape == () else int(score.argmax())] for score in scores]


def target_of(model: dict[str, Any]) -> list[Any]:
    """Labels that agree with the model in most rows."""
    truth = labels_by_hand(model)
    return truth[:35] + truth[:15]


ARRAYS = {
    "numpy": X,
    "float64": X.astype(np.float64),
    "Fortran order": np.asfortranarray(X),
    "a list": X.tolist(),
    "csr": sp.csr_array(X),
    "csc": sp.csc_array(X),
    "coo": sp.coo_array(X),
    "csr_matrix": sp.csr_matrix(X),
    "dask, in rows": dask.array.from_array(X, chunks=(7, 12)),
    "dask, in columns": dask.array.from_array(X, chunks=(50, 5)),
    "xarray": xarray.DataArray(X, dims=("sample", "feature")),
    "xarray over dask": xarray.DataArray(X, dims=("sample", "feature")).chunk(sample=13),
    "xarray with names": xarray.DataArray(
        X, dims=("sample", "feature"), coords={"feature": [f"x{i}" for i in range(12)]}
    ),
    "DataFrame": pd.DataFrame(X),
    "DataFrame with names": pd.DataFrame(X, columns=[f"x{i}" for i in range(12)]),
}
SPARSE = {"csr", "csc", "coo", "csr_matrix"}
DATASETS = ["columns", "rows", "both", "sparse rows", "sparse columns"]


def write(folder: Path, kind: str, y: Any, names: list[str] | None = None) -> daskfs.Dataset:
    matrix = sp.csr_array(X) if kind.startswith("sparse") else X
    layout = "columns" if kind.startswith("sparse") else kind
    with small_blocks(entries=30):
        daskfs.write_dataset(folder, matrix, y, names, layout, chunk_bytes=500)
        if kind == "sparse columns":
            folder.rename(folder.with_name("rows.zarr"))
            daskfs.transpose(folder.with_name("rows.zarr"), folder, block_entries=60)
    return daskfs.open_dataset(folder)


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("form", ARRAYS)
def test_arrays_of_every_kind(form, model):
    selection = selection_of(FEATURES, **model)
    np.testing.assert_allclose(selection.decision_function(ARRAYS[form]), scores_by_hand(model), rtol=1e-6, atol=1e-6)
    predicted = selection.predict(ARRAYS[form]).tolist()
    assert predicted == (pytest.approx(labels_by_hand(model)) if "classes" not in model else labels_by_hand(model))


@pytest.mark.parametrize("form", ARRAYS)
def test_transform_gives_the_columns_in_order(form):
    columns = selection_of(FEATURES).transform(ARRAYS[form])
    if form in SPARSE:
        assert columns.format == "csr"
        columns = columns.toarray()
    assert isinstance(columns, np.ndarray)
    assert columns.dtype.kind == "f"
    np.testing.assert_array_equal(columns, X[:, FEATURES])


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("kind", DATASETS)
def test_datasets_of_every_kind(tmp_path, kind, model):
    dataset = write(tmp_path / "d.zarr", kind, target_of(model))
    assert dataset.n_blocks() > 2
    selection = selection_of(FEATURES, **model)
    for given in (dataset, tmp_path / "d.zarr", str(tmp_path / "d.zarr")):
        np.testing.assert_allclose(selection.decision_function(given), scores_by_hand(model), rtol=1e-6, atol=1e-6)
    columns = selection.transform(dataset)
    np.testing.assert_array_equal(columns.toarray() if dataset.kind == "sparse" else columns, X[:, FEATURES])
    expected = labels_by_hand(model)
    assert selection.predict(dataset).tolist() == (
        pytest.approx(expected, rel=1e-5) if "classes" not in model else expected
    )
    quality = balanced_accuracy_score if "classes" in model else r2_score
    assert selection.score(dataset) == pytest.approx(quality(target_of(model), expected), rel=1e-5)
    assert selection.score(X, target_of(model)) == pytest.approx(selection.score(tmp_path / "d.zarr"), rel=1e-5)


def test_a_dataset_on_s3(s3):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, X, np.arange(50) % 2, chunk_bytes=500, storage_options=s3.options)
    dataset = daskfs.open_dataset(url, s3.options)
    selection = selection_of(FEATURES, **ONE_SCORE)
    np.testing.assert_allclose(selection.decision_function(dataset), scores_by_hand(ONE_SCORE), rtol=1e-6, atol=1e-6)


def test_only_the_chunks_that_hold_selected_columns_are_read(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, np.arange(50), chunk_bytes=X.itemsize * 50)
    for column in set(range(12)) - set(FEATURES):
        (tmp_path / f"d.zarr/X/c/0/{column}").unlink()
    columns = selection_of(FEATURES).transform(tmp_path / "d.zarr")
    np.testing.assert_array_equal(columns, X[:, FEATURES])


def test_hashed_features_wherever_they_stand(tmp_path):
    """Ids up to 2^63, of which a new dataset need not hold every one."""
    lines = ["1 |n a:1 b:2 c:3", "-1 |n b:5", "1 |n d:7 a:2", "-1 |n c"]
    (tmp_path / "train.vw").write_text("\n".join(lines))
    (tmp_path / "test.vw").write_text("1 |n c:4 e:9\n-1 |n a:8\n")
    train = daskfs.ingest(tmp_path / "train.vw", tmp_path / "train.zarr", "vw")
    found = dict(zip(train.names(train.read(0).ids), train.read(0).ids.tolist(), strict=True))
    names = ["n^c", "n^a", "n^d"]
    selection = selection_of([found[name] for name in names], names=names, classes=(-1.0, 1.0))
    assert selection.transform(train).toarray().tolist() == [[3, 1, 0], [0, 0, 0], [0, 2, 7], [1, 0, 0]]
    test = daskfs.ingest(tmp_path / "test.vw", tmp_path / "test.zarr", "vw")
    assert selection.transform(test).toarray().tolist() == [[4, 0, 0], [0, 8, 0]]
    assert selection.transform(daskfs.transpose(test, tmp_path / "c.zarr")).toarray().tolist() == [[4, 0, 0], [0, 8, 0]]
    assert selection.decision_function(test).tolist() == [4.5, 16.5]


def test_ids_of_a_sparse_dataset_beyond_what_it_holds(tmp_path):
    (tmp_path / "x.svm").write_text(f"1 0:1 3:2\n-1 {2**63 - 1}:4\n")
    daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight")
    features = [2**63 - 1, 3, 2**62, 0]
    selection = selection_of(features, names=[str(feature) for feature in features])
    assert selection.transform(tmp_path / "x.zarr").toarray().tolist() == [[0, 2, 0, 1], [4, 0, 0, 0]]
    (tmp_path / "y.svm").write_text("1 1:1\n-1 2:1\n")
    daskfs.ingest(tmp_path / "y.svm", tmp_path / "y.zarr", "svmlight")
    assert selection.transform(tmp_path / "y.zarr").toarray().tolist() == [[0, 0, 0, 0], [0, 0, 0, 0]]
    for name in ("x", "y"):
        turned = daskfs.transpose(tmp_path / f"{name}.zarr", tmp_path / f"{name}-columns.zarr")
        expected = selection.transform(tmp_path / f"{name}.zarr").toarray()
        np.testing.assert_array_equal(selection.transform(turned).toarray(), expected)


def test_no_features_are_a_constant():
    empty = selection_of([], np.empty(0))
    assert empty.predict(X).tolist() == [0.5] * 50
    assert empty.transform(X).shape == (50, 0)
    assert empty.transform(sp.csr_array(X)).shape == (50, 0)


@pytest.mark.parametrize("kind", DATASETS)
def test_no_features_of_a_dataset(tmp_path, kind):
    dataset = write(tmp_path / "d.zarr", kind, np.arange(50))
    assert selection_of([], np.empty(0)).predict(dataset).tolist() == [0.5] * 50
    assert selection_of([], np.empty(0)).transform(dataset).shape == (50, 0)


@pytest.mark.parametrize("kind", DATASETS)
def test_data_that_calls_a_feature_by_another_name_is_refused(tmp_path, kind):
    dataset = write(tmp_path / "d.zarr", kind, np.arange(50) % 2, GENES)
    selection_of(FEATURES, names=[GENES[feature] for feature in FEATURES]).predict(dataset)
    swapped = ["gene7", "gene11", "gene0", "gene4"]
    with pytest.raises(OptionError, match="feature 0 is 'gene0' there and 'gene11' in the selection"):
        selection_of(FEATURES, names=swapped).predict(dataset)


def test_so_is_a_labelled_array():
    array = xarray.DataArray(X, {"g": GENES}, ("s", "g"))
    assert selection_of([3], names=["gene3"]).predict(array).shape == (50,)
    with pytest.raises(OptionError, match="X: feature 3 is 'gene3' there and 'gene4' in the selection"):
        selection_of([3], names=["gene4"]).predict(array)


def test_columns_of_a_frame_are_found_by_name():
    frame = pd.DataFrame(X, columns=GENES)
    np.testing.assert_array_equal(selection_of([3], names=["gene4"]).transform(frame)[:, 0], X[:, 4])


def test_numbers_for_names_are_no_vocabulary(tmp_path):
    """A matrix in memory calls feature 3 x3, a svmlight file calls it 3."""
    write(tmp_path / "d.zarr", "sparse rows", np.arange(50))
    selection_of([3], names=["3"]).predict(tmp_path / "d.zarr")
    with pytest.raises(OptionError, match="feature 3 is 'x3' there and '4'"):
        selection_of([3], names=["4"]).predict(tmp_path / "d.zarr")


def test_a_selection_of_another_kind_of_data(tmp_path):
    (tmp_path / "x.vw").write_text("1 | a b\n-1 | c\n")
    daskfs.ingest(tmp_path / "x.vw", tmp_path / "x.zarr", "vw")
    with pytest.raises(OptionError, match=r"x\.zarr: its features are hashed strings, and 3 is not the hash of 'x3'"):
        selection_of([3]).predict(tmp_path / "x.zarr")
    (tmp_path / "x.fa").write_text(">1\nACGTACGT\n>-1\nACGTT\n")
    daskfs.ingest(tmp_path / "x.fa", tmp_path / "k.zarr", "fasta", k=(3,), label="header:(.*)")
    with pytest.raises(OptionError, match=r"k\.zarr: 3 is not the id of a k-mer"):
        selection_of([3]).predict(tmp_path / "k.zarr")


def with_cell(row: int, column: int, value: float) -> np.ndarray:
    changed = X.copy()
    changed[row, column] = value
    return changed


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (X[:, :5], "feature 11 .'x11'. is beyond the 5 columns of X"),
        (sp.csr_array(X[:, :5]), "feature 11 .'x11'. is beyond the 5 columns of X"),
        (X[0], "give rows and columns"),
        (with_cell(3, 7, np.nan), r"X\[3\] has a value of 'x7' that is not finite"),
        (sp.csr_array(with_cell(3, 7, np.inf)), r"X\[3\] has a value of 'x7' that is not finite"),
        (np.ma.masked_equal(X, 0), "masked values"),
        (dask.array.from_array(X)[dask.array.from_array(X)[:, 0] > 0], "compute_chunk_sizes"),
    ],
)
def test_arrays_that_cannot_be_used(given, reason):
    with pytest.raises(OptionError, match=reason):
        selection_of(FEATURES).decision_function(given)


def test_what_is_not_selected_may_be_anything():
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(12)]).assign(x3="word", x1=np.nan)
    np.testing.assert_array_equal(selection_of(FEATURES).transform(frame), X[:, FEATURES])
    with pytest.raises(OptionError, match="column 'x3' is not what it was in the data"):
        selection_of([3]).transform(frame)


def test_a_dense_dataset_with_too_few_columns(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X[:, :5], np.arange(50))
    with pytest.raises(OptionError, match=r"d\.zarr: has 5 columns, none of them feature 7 .'x7'."):
        selection_of(FEATURES).predict(tmp_path / "d.zarr")


def test_score_counts_labels_nobody_told_it_about():
    selection = selection_of([0], [1.0], intercept=[0.0], classes=("ham", "spam"))
    values, labels = np.array([[1.0], [-1.0], [1.0]]), ["spam", "ham", "eggs"]
    assert selection.score(values, labels) == pytest.approx(balanced_accuracy_score(labels, ["spam", "ham", "spam"]))
    assert selection.score(values[:1], ["spam"]) == 1.0  # a class that does not occur counts for nothing


@pytest.mark.parametrize(
    ("classes", "y", "reason"),
    [
        (("ham", "spam"), [0, 1] * 25, "none of the selection's classes"),
        (None, ["ham", "spam"] * 25, "predicts numbers"),
        (None, None, "which brings its labels"),
        (None, np.arange(49), r"labels of shape \(49,\)"),
    ],
)
def test_labels_that_do_not_fit(classes, y, reason):
    with pytest.raises(OptionError, match=reason):
        selection_of(FEATURES, classes=classes).score(X, y)


def test_datasets_whose_labels_do_not_fit(tmp_path):
    words, reals = tmp_path / "w.zarr", tmp_path / "r.zarr"
    daskfs.write_dataset(words, X, ["ham", "spam"] * 25)
    daskfs.write_dataset(reals, X, X[:, 0])
    with pytest.raises(OptionError, match="predicts numbers"):
        selection_of(FEATURES).score(words)
    with pytest.raises(OptionError, match=r"r\.zarr: its labels are real numbers"):
        selection_of(FEATURES, classes=("ham", "spam")).score(reals)
    with pytest.raises(OptionError, match="which brings its labels"):
        selection_of(FEATURES).score(reals, X[:, 0])


def test_words_are_numbered_anew_in_every_dataset(tmp_path):
    """A test set without "blue" numbers "green" 0; the selection numbered it 1."""
    model = MODELS["three words"]
    truth = np.array(labels_by_hand(model))
    rows = truth != "blue"
    daskfs.write_dataset(tmp_path / "d.zarr", X[rows], truth[rows])
    assert daskfs.open_dataset(tmp_path / "d.zarr").classes == ("green", "red")
    assert selection_of(FEATURES, **model).score(tmp_path / "d.zarr") == 1.0


@pytest.mark.parametrize("labels", [[0, 1], [-1, 1], [3, 5, 9]])
def test_labels_that_are_whole_numbers_are_integers(tmp_path, labels):
    y = np.array(labels)[np.arange(50) % len(labels)]
    daskfs.select(X, daskfs.OnlineSubstitution(2), y).save(tmp_path / "run")
    selection = daskfs.load_selection(tmp_path / "run")
    assert [(label, type(label)) for label in selection.classes] == [(label, int) for label in labels]
    assert selection.predict(X).dtype.kind == "i"
    assert f'"classes": {labels}'.replace(" ", "") in (tmp_path / "run/selection.json").read_text().replace(" ", "")
    selection.write_predictions(X, tmp_path / "predicted.zarr")
    written = xarray.open_zarr(tmp_path / "predicted.zarr").prediction.values
    assert written.tolist() == selection.predict(X).tolist()


def test_whole_numbers_may_be_a_real_target(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, np.arange(50) % 5)
    scores = selection_of(FEATURES).decision_function(X)
    assert selection_of(FEATURES).score(tmp_path / "d.zarr") == pytest.approx(r2_score(np.arange(50) % 5, scores))


@pytest.mark.parametrize("scores", [[2.0, 2.0], [2.0, 3.0]])
def test_a_constant_target(scores):
    selection = selection_of([0], [1.0], intercept=[0.0])
    assert selection.score(np.array(scores)[:, None], [2.0, 2.0]) == r2_score([2.0, 2.0], scores)


def test_the_scores_of_a_large_dataset_are_all_that_is_held(tmp_path):
    """40 MB of features in blocks of 200 kB, 100 columns selected: no array of rows x selected is made."""
    import tracemalloc

    big = np.random.default_rng(0).normal(size=(50_000, 200)).astype(np.float32)
    for layout in ("columns", "rows"):
        daskfs.write_dataset(tmp_path / layout, big, big[:, 0], layout=layout, chunk_bytes=200_000)
        selection = selection_of(range(0, 200, 2))
        dataset = daskfs.open_dataset(tmp_path / layout)
        selection.decision_function(dataset)
        tracemalloc.start()
        scores = selection.decision_function(dataset)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 6_000_000, layout
        np.testing.assert_allclose(scores, 0.5 + big[:, ::2] @ np.arange(1.0, 101), rtol=1e-4, atol=1e-3)
