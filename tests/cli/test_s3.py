"""The whole way on the command line, from s3:// to s3://, with environment variables alone."""

from __future__ import annotations

import json

import numpy as np
import obstore
import pytest
import xarray
import zarr
from click.testing import CliRunner, Result
from obstore.store import S3Store
from s3_server import KEY, SECRET

import daskfs
from daskfs.cli import main


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "150"}).invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def put(s3, monkeypatch):
    """Puts an object, by a client that is not daskfs; and the environment that reaches the store."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    store = S3Store(s3.bucket, endpoint=s3.endpoint, access_key_id=KEY, secret_access_key=SECRET, region="us-east-1",
                    client_options={"allow_http": True})  # fmt: skip

    def one(url: str, data: bytes) -> None:
        obstore.put(store, url.removeprefix(f"s3://{s3.bucket}/"), data)

    return one


def csv(seed: int) -> bytes:
    X = np.random.default_rng(seed).normal(size=(200, 6))
    y = X[:, 1] > X[:, 4]
    rows = [",".join([*(f"{cell:.6f}" for cell in row), str(int(label))]) for row, label in zip(X, y, strict=True)]
    return ("a,b,c,d,e,f,y\n" + "\n".join(rows) + "\n").encode()


def test_from_s3_to_s3(s3, put, tmp_path):
    base = s3.url("")[:-1]
    for number in range(3):
        put(f"{base}/raw/part-{number}.csv", csv(number))
    put(f"{base}/raw/.hidden", b"not a table")
    put(f"{base}/raw/other.txt", b"neither")
    data, runs, out = f"{base}/d.zarr", f"{base}/run", f"{base}/predicted.zarr"
    for command in (
        ("ingest", f"{base}/raw/part-*.csv", data, "-f", "csv", "--label", "y"),
        ("verify", data),
        ("select", data, "-a", "substitution", "-k", 2, "--loss", "logistic", "--out", runs),
        ("evaluate", runs, data),
        ("predict", runs, data, "--out", out),
        ("info", data),
    ):
        result = run(*command)
        assert result.exit_code == 0, result.output
        assert SECRET not in result.output
    shown = json.loads(run("show", runs, "--json").stdout)
    assert {feature["name"] for feature in shown["features"]} == {"b", "e"}
    assert daskfs.load_selection(runs).score(data) > 0.9
    ds = daskfs.open_dataset(data)
    assert ds.n_samples == 600
    predictions = xarray.open_zarr(daskfs.store.places.location.Location(out).zarr_store(), chunks=None)
    assert (predictions.prediction.values == daskfs.load_selection(runs).predict(data)).all()
    again = run("select", data, "-a", "substitution", "-k", 2, "--loss", "logistic", "--out", runs)
    assert again.exit_code == 2
    assert "holds this run, finished" in again.output
    local = run("ingest", f"{base}/raw/part-*.csv", tmp_path / "d.zarr", "-f", "csv", "--label", "y")
    assert local.exit_code == 0, local.output
    assert daskfs.open_dataset(tmp_path / "d.zarr").digest == ds.digest


def test_one_command_from_files_or_foreign_zarr_in_a_bucket(s3, put, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = s3.url("")[:-1]
    for number in range(3):
        put(f"{base}/raw/part-{number}.csv", csv(number))
    done = run("select", f"{base}/raw/part-*.csv", "-k", 2, "--label", "y", "--out", f"{base}/job")
    assert done.exit_code == 0, done.output
    assert "on 120 rows held back" in done.output
    assert set(daskfs.load_selection(f"{base}/job").names) == {"b", "e"}
    assert not list(tmp_path.iterdir())
    table = np.loadtxt(csv(0).decode().splitlines(), delimiter=",", skiprows=1)
    group = zarr.open_group(store=tmp_path / "local.zarr", mode="w")
    group.create_array("X", data=table[:, :6], chunks=(50, 3))
    group.create_array("y", data=table[:, 6].astype(int))
    for path in (tmp_path / "local.zarr").rglob("*"):
        if path.is_file():
            put(f"{base}/foreign.zarr/{path.relative_to(tmp_path / 'local.zarr')}", path.read_bytes())
    done = run("select", f"{base}/foreign.zarr", "-k", 2, "--out", "result", "--processes", 2)
    assert done.exit_code == 0, done.output
    assert set(daskfs.load_selection("result").names) == {"x1", "x4"}
    assert SECRET not in done.output


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wrong-secret", "check the credentials"),
        ("AWS_ACCESS_KEY_ID", "nobody", "check the credentials"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(s3, put, monkeypatch, variable, value, says):
    monkeypatch.setenv(variable, value)
    result = run("info", s3.url("d.zarr"))
    assert result.exit_code == 2
    assert says in result.output
    assert value not in result.output
    assert result.output.count("\n") == 1


@pytest.mark.usefixtures("put")
@pytest.mark.parametrize("what", ["ingest", "select"])
def test_a_bucket_that_is_not_there_is_not_made(s3, tmp_path, what):
    (tmp_path / "d.csv").write_bytes(csv(0))
    daskfs.ingest(tmp_path / "d.csv", tmp_path / "d.zarr", format="csv", label="y")
    commands = {
        "ingest": ("ingest", tmp_path / "d.csv", "s3://nowhere/d.zarr", "-f", "csv", "--label", "y"),
        "select": (
            "select",
            tmp_path / "d.zarr",
            "-a",
            "substitution",
            "-k",
            2,
            "--serial",
            "--out",
            "s3://nowhere/run",
        ),
    }
    for _ in range(2):  # the first has not made one
        done = run(*commands[what])
        assert done.exit_code == 2, done.output
        assert "nowhere" in done.stderr
        assert done.stderr.count("\n") <= 2  # the error, and for a selection the memory it would take
