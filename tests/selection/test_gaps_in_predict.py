"""A selection fills missing values of new data as those of its dataset were filled."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daskfs
from daskfs.errors import OptionError


def data(tmp_path, missing, **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)).round(3) + 5
    gaps = rng.random(X.shape) < 0.1
    gaps[:, 4] = False
    y = X[:, 1] - 2 * X[:, 3] + X[:, 4] + 3 * gaps[:, 1]
    X[gaps] = np.nan
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame.assign(y=y).to_csv(tmp_path / "x.csv", index=False)
    dataset = daskfs.ingest(
        tmp_path / "x.csv", tmp_path / f"{missing}.zarr", "csv", label="y", missing=missing, dtype="float64", **options
    )
    return frame, dataset


@pytest.mark.parametrize("missing", ["auto", "mean", "median", "indicator", "zero"])
def test_an_array_with_gaps_is_predicted_as_the_dataset_of_the_same_rows(tmp_path, missing):
    frame, dataset = data(tmp_path, missing)
    selection = daskfs.select(dataset, daskfs.OnlineSubstitution(4, loss="squared"))
    assert ("b=(missing)" in selection.names) == (missing == "indicator")
    selection.save(tmp_path / "run")
    expected = selection.decision_function(dataset)
    assert np.isfinite(expected).all()
    for sel in (selection, daskfs.load_selection(tmp_path / "run")):
        np.testing.assert_allclose(sel.decision_function(frame), expected)
        np.testing.assert_allclose(sel.decision_function(frame.to_numpy()), expected)
        if missing != "indicator":
            np.testing.assert_allclose(sel.decision_function(sp.csr_array(frame.to_numpy())), expected, rtol=1e-5)
        np.testing.assert_allclose(sel.transform(frame), sel.transform(dataset))


def test_random_features_fill_their_inputs(tmp_path):
    frame, dataset = data(tmp_path, "mean", layout="rows")
    waves = daskfs.select(dataset, daskfs.SparseRandomFeatures(penalty=0.01, rounds=1, per_round=20))
    np.testing.assert_allclose(waves.decision_function(frame), waves.decision_function(dataset), rtol=1e-5)


def test_a_gap_where_there_was_none_is_an_error_that_names_the_column(tmp_path):
    frame, dataset = data(tmp_path, "auto")
    selection = daskfs.select(dataset, daskfs.OnlineSubstitution(6, loss="squared"))
    frame.loc[7, "e"] = np.nan
    with pytest.raises(OptionError, match=r"X\[7\] has a value of 'e' that is not finite"):
        selection.predict(frame)
    explicit = daskfs.select(data(tmp_path, "mean")[1], daskfs.OnlineSubstitution(6, loss="squared"))
    filled = frame.fillna({"e": float(frame["e"].drop(7).mean())})
    assert explicit.predict(frame)[7] == pytest.approx(explicit.predict(filled)[7], rel=1e-2)
