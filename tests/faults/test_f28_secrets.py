"""F28: keys of a store are in no graph, log, run record, error or repr; and reach the workers all the same."""

from __future__ import annotations

import json
import os
import pickle
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cloudpickle
import fsspec
import numpy as np
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster
from fsspec.implementations.memory import MemoryFileSystem
from s3_server import KEY, SECRET
from toy_runs import local_cluster, wait_until

import daskfs
from daskfs.cli import main
from daskfs.engine.events.listener import RunListener
from daskfs.errors import BadLineError, ChunkError, DaskfsError, OptionError, StorageError
from daskfs.observe.describe import describe
from daskfs.store.ingest.sources import find_sources
from daskfs.store.places.location import Location
from daskfs.store.places.options import StorageOptions

CANARIES = KEY.encode(), SECRET.encode()
LINES = b"".join(b"%d |n f%d:0.5 g%d h%d\n" % (i % 2, i % 7, i % 5, i % 2) for i in range(400))
WAIT_SECONDS = 60


def assert_clean(*found: object) -> None:
    for one in found:
        data = one if isinstance(one, bytes) else str(one).encode()
        for canary in CANARIES:
            assert canary not in data, f"{canary!r} in {data[max(data.find(canary) - 200, 0) :][:400]!r}"


class Cluster:
    """`dask scheduler` and `dask worker` as users start them, saying all they can; no keys in their environment."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, []
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        where = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
        self.start("scheduler", *where, "--port", str(port))

    def start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment["DASK_LOGGING__DISTRIBUTED"] = "debug"
        with open(self.folder / f"{kind}{len(self.processes)}.log", "wb") as log:
            command = [sys.executable, "-m", "dask", kind, *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.folder)
        self.processes.append(process)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        where = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--no-nanny", "--nthreads", "1"]
        return self.start("worker", self.address, *where)

    def logs(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.folder.glob("*.log"))


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    started = Cluster(tmp_path)
    try:
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.wait(WAIT_SECONDS)


@contextmanager
def recorded_graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Every task that is submitted, as it is pickled."""
    sent: list[bytes] = []
    submit = Client.submit

    def recording(self: Client, function: object, *arguments: object, **options: object) -> object:
        plain = [one for one in arguments if type(one).__module__.split(".")[0] != "distributed"]  # no futures
        sent.append(cloudpickle.dumps((function, plain)))
        return submit(self, function, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Client, "submit", recording)
        yield sent


@pytest.mark.slow
def test_ingest_select_and_errors_on_a_cluster(s3, cluster, monkeypatch, caplog, capfd):
    for name in s3.environment:
        monkeypatch.delenv(name, raising=False)
    source, out, run = s3.url("source.vw"), s3.url("d.zarr"), s3.url("run")
    fs = fsspec.filesystem("s3", skip_instance_cache=True, **s3.options)
    fs.pipe_file(source, LINES)
    first = cluster.worker()
    with Client(cluster.address, timeout="60s") as client, recorded_graphs(monkeypatch) as graphs, caplog.at_level(0):
        ds = daskfs.ingest(source, out, "vw", client=client, storage_options=s3.options, source_options=s3.options)
        cluster.worker()  # one that comes later, and stays alone
        client.wait_for_workers(2, timeout=WAIT_SECONDS)
        first.kill()
        selection = daskfs.select(
            ds, daskfs.Mission(2), client=client, checkpoint=s3.url("c"), storage_options=s3.options
        )
        selection.save(run, s3.options)
        assert set(selection.names) == {"n^h0", "n^h1"}
        Location(out, s3.options).delete("ids/c/0/0")
        with pytest.raises(ChunkError, match="ids/c/0/0: missing") as caught:
            daskfs.select(daskfs.open_dataset(out, s3.options), daskfs.Mission(2), client=client)
    assert len(graphs) > 3
    assert any(b"daskfs.store.places.location" in graph for graph in graphs)
    assert_clean(*graphs, repr(ds), repr(selection), repr(caught.value), caplog.text, *capfd.readouterr())
    assert_clean(*(fs.cat_file(key) for place in (out, run) for key in fs.find(place)))
    logs = cluster.logs()
    assert b"ids/c/0/0" in logs  # they do say what failed
    assert_clean(logs)


def test_pickles_and_reprs(s3):
    url, source = s3.url("d.zarr"), s3.url("x.svm")
    X = np.random.default_rng(0).normal(size=(40, 4))
    daskfs.write_dataset(url, X, X[:, 1] > 0, storage_options=s3.options)
    fsspec.filesystem("s3", **s3.options).pipe_file(source, b"1 2:3\n")
    ds, location = daskfs.open_dataset(url, s3.options), Location(url, s3.options)
    things = [ds, location, location.options, ds.to_xarray(), find_sources([source], s3.options), location.zarr_store()]
    for one in things:
        assert_clean(cloudpickle.dumps(one), repr(one), str(one))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ds.to_xarray())).X.values, X)
    assert pickle.loads(pickle.dumps(location)).read("zarr.json") == location.read("zarr.json")


def test_a_process_that_has_not_learned_the_options_says_what_to_do(s3):
    raw = pickle.dumps(StorageOptions({"key": "a", "secret": "b"}))
    script = "import pickle, sys; print(dict(pickle.loads(sys.stdin.buffer.read())))"
    end = subprocess.run([sys.executable, "-c", script], input=raw, capture_output=True, timeout=WAIT_SECONDS)
    assert b"StorageError: the storage options have not reached this process" in end.stderr


@pytest.mark.parametrize(
    "change", [{"secret": f"{SECRET}-"}, {"key": f"{KEY}-"}, {"client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}}]
)
def test_errors(s3, monkeypatch, change):
    monkeypatch.setattr("daskfs.store.places.retries.BUDGET", 0.3)
    options = {**s3.options, **change}
    for call in (
        lambda: daskfs.open_dataset(s3.url("d.zarr"), options),
        lambda: daskfs.write_dataset(s3.url("d.zarr"), np.eye(3), [0, 1, 1], storage_options=options),
        lambda: daskfs.ingest(
            s3.url("x.svm"), s3.url("d"), "svmlight", storage_options=options, source_options=options
        ),
        lambda: daskfs.load_selection(s3.url("run"), options),
    ):
        with pytest.raises(StorageError) as caught:
            call()
        assert_clean(str(caught.value), repr(caught.value))
        assert "\n" not in str(caught.value)
        assert re.match(r"s3://daskfs/", str(caught.value))


def test_a_url_is_no_place_for_secrets():
    with pytest.raises(DaskfsError, match=r"s3://bucket/d: a URL is no place for credentials") as caught:
        daskfs.open_dataset(f"s3://{KEY}:{SECRET}@bucket/d")
    assert_clean(str(caught.value))


class Vault(MemoryFileSystem):
    """Stands for sftp and others, whose URLs may hold a user and a password: one of this process."""

    protocol = "vault"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.rpartition("@")[2] if "://" in path else path)


@pytest.fixture
def vault() -> Iterator[str]:
    """A URL with a password in it that works all the same."""
    fsspec.register_implementation("vault", Vault, clobber=True)
    Vault.store.clear()
    yield f"vault://{KEY}:{SECRET}@host"
    Vault.store.clear()


def test_a_password_in_a_url_is_in_no_event_warning_error_or_repr(vault, caplog):
    url, X = f"{vault}/d.zarr", np.random.default_rng(0).normal(size=(60, 4))
    daskfs.write_dataset(url, X, X[:, 1] > 0, layout="rows")
    ds, place = daskfs.open_dataset(url), Location(url)
    with local_cluster(1, processes=False) as client, caplog.at_level(0):
        with pytest.warns(UserWarning, match="features of the 9 asked for") as warned:
            daskfs.select(ds, daskfs.Mission(9), client=client, checkpoint=f"{vault}/c")
        place.delete("X/c/0/0")
        with pytest.raises(ChunkError, match=r"^vault://host/d\.zarr: chunk X/c/0/0: missing") as caught:
            daskfs.select(daskfs.open_dataset(url), daskfs.Mission(2), client=client)
        wait_until(lambda: "ended" in str(client.get_events("daskfs")[-1:]))
        events = client.get_events("daskfs")
    assert "vault://host/d.zarr" in str(events)
    assert "ChunkError: vault://host/d.zarr: chunk X/c/0/0" in str(events)
    fsspec.filesystem("vault").pipe_file("host/x.svm", b"1 2:3\n")
    things = ds, place, place.below("a"), place.zarr_store(), find_sources([f"{vault}/x.svm"]), caught.value
    assert_clean(events, caplog.text, *(one.message for one in warned), *map(repr, things), *map(str, things))
    assert_clean(json.dumps(describe(daskfs.open_dataset(url))))


def test_a_password_in_a_url_is_in_no_record_of_a_command(vault, monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 4))
    daskfs.write_dataset(f"{vault}/d.zarr", X, X[:, 1] > 0, layout="rows")
    here = {"host": "127.0.0.1", "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, silence_logs=60, **here) as cluster:
        flags = "--out", f"{vault}/run", "--performance-report", f"{vault}/p.html", "--scheduler"
        command = ["select", f"{vault}/d.zarr", "-a", "mission", "-k", "2", *flags, cluster.scheduler_address]
        monkeypatch.setattr(sys, "argv", ["daskfs", *command])
        done = CliRunner().invoke(main, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    fs = fsspec.filesystem("vault")
    assert b"vault://host/p.html" in fs.cat_file("host/run/run.json")
    assert_clean(done.output, *(fs.cat_file(key) for key in fs.find("host")))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"sftp://me:{SECRET}@host/x: gone", "sftp://host/x: gone"),
        (f"sftp://me:a@{SECRET}@host/x: gone", "sftp://host/x: gone"),
        (f"az://c/x.vw?se=2030-01-01T00:00:00Z&sig={SECRET}:12: bad", "az://c/x.vw?…:12: bad"),
        ("s3://bucket/key@2x.zarr: is this it?", "s3://bucket/key@2x.zarr: is this it?"),
    ],
)
def test_errors_are_discreet_whoever_prints_them(said, shown):
    for error in (OptionError(said), pickle.loads(pickle.dumps(StorageError(said)))):
        assert str(error) == shown
        assert_clean(repr(error))


def test_errors_of_lines_and_chunks_name_places_without_passwords():
    place = f"sftp://me:{SECRET}@host/x?sig={SECRET}"
    for error in (BadLineError(place, 12, "no label", "row"), ChunkError(place, "X/c/0", f"{place}: gone")):
        assert str(error).startswith("sftp://host/x:")
        assert_clean(str(error), repr(error), pickle.dumps(error))


def test_watchers_hear_of_no_password_that_others_put_into_their_errors(vault):
    daskfs.write_dataset(f"{vault}/d.zarr", np.eye(4), [0, 1, 1, 0])
    told: list[object] = []
    watch = RunListener(daskfs.open_dataset(f"{vault}/d.zarr"), daskfs.Mission(2), told.append)
    watch.failed(OSError(f"{'far ' * 20}{vault}/d.zarr is away"))  # where the text is cut, in the midst of it
    assert_clean(*told)
    assert told
