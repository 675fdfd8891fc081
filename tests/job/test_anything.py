"""daskfs.select takes data as people have them, and finds the same features in all of their forms."""

from __future__ import annotations

import shutil
import warnings
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr

import daskfs
from daskfs.errors import OptionError

N, P = 300, 40
NAMES = [f"g{i}" for i in range(P)]
TRUE = {"g5", "g17"}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def cells() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, P)).astype(np.float32)


@pytest.fixture(scope="module")
def sick(cells) -> np.ndarray:
    return np.where(cells[:, 5] - cells[:, 17] > 0, "yes", "no")


def forms(X: np.ndarray, y: np.ndarray) -> dict:
    """The same data and target in every form; the names of columns where the form has them."""
    frame = pd.DataFrame(X, columns=NAMES)
    array = xr.DataArray(X, dims=("cell", "gene"), coords={"gene": NAMES, "sick": ("cell", y)})
    anndata = SimpleNamespace(X=X, obs=pd.DataFrame({"sick": y}), var_names=pd.Index(NAMES))
    return {
        "numpy": (X, y),
        "list": (X.tolist(), y.tolist()),
        "fortran": (np.asfortranarray(X, np.float64), y),
        "sparse": (sp.csr_array(X), y),
        "frame": (frame.assign(sick=y), "sick"),
        "frame, y beside it": (frame, pd.Series(y)),
        "frame of nullable numbers": (frame.astype("Float32").assign(sick=y), "sick"),
        "arrow": (polars.from_pandas(frame.assign(sick=y)).to_arrow(), "sick"),
        "dask, tiles": (da.from_array(X, chunks=(70, 12)), y),
        "dask, irregular": (da.from_array(X, chunks=((100, 20, 180), (30, 10))), y),
        "dask frame": (dd.from_pandas(frame.assign(sick=y), npartitions=3), "sick"),
        "xarray array": (array, "sick"),
        "xarray dataset": (array.to_dataset(name="expr"), "sick"),
        "anndata": (anndata, "sick"),
        "anndata, sparse": (SimpleNamespace(X=sp.csc_matrix(X), obs=anndata.obs, var_names=anndata.var_names), "sick"),
    }


@pytest.mark.parametrize("form", list(forms(np.zeros((N, P), np.float32), np.zeros(N))))
def test_every_form_gives_the_same_features(form, cells, sick):
    data, y = forms(cells, sick)[form]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of copies
        selection = daskfs.select(data, 2, y=y)
    named = form not in ("numpy", "list", "fortran", "sparse", "dask, tiles", "dask, irregular")
    assert set(selection.names) == (TRUE if named else {"x5", "x17"})
    assert selection.classes == ("no", "yes")
    np.testing.assert_allclose(selection.decision_function(cells), reference(cells, sick), rtol=2e-3, atol=2e-3)
    assert not list(Path().iterdir())  # nothing is left behind


def reference(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    daskfs.write_dataset("reference.zarr", X, y)
    scores = daskfs.select("reference.zarr", daskfs.OnlineSubstitution(2)).decision_function(X)
    shutil.rmtree("reference.zarr")
    return scores


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("chunks", [(N, 7), (40, P), (64, 12)])
@pytest.mark.parametrize("algorithm", [daskfs.OnlineSubstitution(2), daskfs.Mission(2)])
def test_foreign_zarr_in_place(zarr_format, chunks, algorithm, cells, sick):
    labels = sick == "yes"
    dataset = xr.Dataset({"expr": (("cell", "gene"), cells), "sick": ("cell", labels)}, coords={"gene": np.arange(P)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of zarr on its own format
        dataset.to_zarr("foreign.zarr", zarr_format=zarr_format, encoding={"expr": {"chunks": chunks}})
    before = {path: path.stat().st_mtime_ns for path in Path("foreign.zarr").rglob("*")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selection = daskfs.select("foreign.zarr", algorithm)
        beside = daskfs.select("foreign.zarr", algorithm, y=labels.astype(int))
        group = daskfs.select(zarr.open_group("foreign.zarr", mode="r"), algorithm, y="sick")
    assert set(selection.names) == {"5", "17"}
    assert selection.names == beside.names == group.names
    assert {path: path.stat().st_mtime_ns for path in Path("foreign.zarr").rglob("*")} == before
    layout = "columns" if algorithm.axis == "columns" else "rows"
    daskfs.write_dataset("ours.zarr", cells, labels, feature_names=[str(i) for i in range(P)], layout=layout)
    ours = daskfs.select("ours.zarr", algorithm)
    assert ours.names == selection.names
    np.testing.assert_allclose(ours.weights, selection.weights, rtol=1e-6)


def test_every_chunk_is_read_once_in_a_pass(cells, sick):
    source = Counting(cells, chunks=(64, 12))
    daskfs.select(source, daskfs.Mission(2, passes=1, refit=0), y=sick)
    assert len(source.reads) == 5 * 4
    assert set(source.reads.values()) == {1}
    source = Counting(cells, chunks=(64, 12))
    passes = daskfs.select(source, daskfs.OnlineSubstitution(2), y=sick).history.sizes["step"]
    assert set(source.reads.values()) <= {passes - 1, passes}  # the last row of the history is the final fit


class Counting:
    """An array that counts how often its chunks are read."""

    def __init__(self, cells: np.ndarray, chunks: tuple[int, int]) -> None:
        self._cells, self.shape, self.dtype, self.chunks = cells, cells.shape, cells.dtype, chunks
        self.reads: dict[tuple[int, int], int] = {}

    def __getitem__(self, key):
        cells = self._cells[key]
        if cells.size > 64:  # smaller are the corners, which the digest looks at
            sides = zip(self.shape, key, self.chunks, strict=True)
            rows, columns = (np.unique(np.arange(size)[part] // chunk) for size, part, chunk in sides)
            for chunk in product(rows.tolist(), columns.tolist()):
                self.reads[chunk] = self.reads.get(chunk, 0) + 1
        return cells


def test_a_copy_is_announced(cells, sick):
    odd = da.from_array(cells, chunks=((100, 20, 180), (30, 10)))
    with pytest.warns(
        UserWarning, match="a copy is written to .* since its chunks do not make up blocks of whole columns"
    ):
        daskfs.select(odd, 2, y=sick)


def test_gaps_are_filled_in_a_copy(cells, sick):
    holes = cells.copy()
    holes[3, 8] = np.nan
    in_memory = daskfs.select(holes, 2, y=sick)
    with pytest.warns(UserWarning, match="since it has gaps"):
        in_place = daskfs.select(da.from_array(holes, chunks=(N, 10)), 2, y=sick)
    assert set(in_place.names) == {"x5", "x17"}
    np.testing.assert_allclose(in_place.weights, in_memory.weights, rtol=1e-5)
    with pytest.raises(daskfs.DaskfsError, match=r"column 'x8', row 3: is missing; missing='mean' fills gaps"):
        daskfs.select(da.from_array(holes, chunks=(N, 10)), 2, y=sick, missing="error")


def test_a_table_with_categories_dates_and_identifiers():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "customer_id": [f"C{i}" for i in range(N)],
            "age": rng.integers(18, 90, N),
            "country": rng.choice(["uk", "fr", "de"], N),
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
        }
    )
    frame["clicked"] = (frame.age > 50) ^ (frame.country == "fr") & (rng.random(N) < 0.9)
    frame.to_csv("table.csv", index=False)
    for data in (frame, "table.csv", polars.from_pandas(frame)):
        with pytest.warns(UserWarning, match="left out, as identifiers of rows: customer_id; drop them"):
            selection = daskfs.select(data, 2, y="clicked")
        assert set(selection.names) == {"age", "country=fr"}


def test_a_polars_table_with_gaps_in_texts():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(18, 90, N), "device": rng.choice(["phone", "desk", None], N)})
    frame["clicked"] = np.where(frame.age > 50, "yes", "no")
    table = polars.from_pandas(frame)
    selection = daskfs.select(table, 2, y="clicked")
    assert selection.names == daskfs.select(frame, 2, y="clicked").names
    assert list(selection.predict(table)) == list(selection.predict(frame))


def test_npy_files(cells, sick):
    np.save("X.npy", cells)
    np.save("y.npy", sick == "yes")
    assert set(daskfs.select("X.npy", 2, y="y.npy").names) == {"x5", "x17"}


@pytest.mark.parametrize(
    ("data", "y", "message"),
    [
        (np.zeros((3, 2)), None, "y: pass the target of the rows"),
        (np.zeros((3, 2)), [0, 1], "3 rows, and 2 labels in y"),
        (np.zeros(3), [0, 1, 1], r"the data have shape \(3,\): give rows and columns"),
        (pd.DataFrame({"a": [1.0], "b": [2.0]}), "bb", r"y='bb': no such column \(did you mean 'b'\?\)"),
    ],
)
def test_mistakes(data, y, message):
    with pytest.raises(OptionError, match=message):
        daskfs.select(data, 1, y=y)


def test_the_number_of_features_is_a_number(cells, sick):
    with pytest.raises(OptionError, match="number of features"):
        daskfs.select(cells, 0, y=sick)
