"""F5, F7 on object storage: one writer at a time, by a lease; real processes, really killed, stopped and woken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import fsspec
import pytest

import daskfs
from daskfs.errors import DatasetError, Interrupted
from daskfs.store.places import lease
from daskfs.store.places.location import Location
from daskfs.store.places.object_folder import ObjectFolder
from daskfs.store.places.options import StorageOptions
from daskfs.store.places.retries import TransientError

LIFETIME, RENEWAL = 3.0, 0.3
WAIT_SECONDS = 60

# A writer that holds the lease and writes again and again until it is told to end, or may not any more.
WRITER = f"""
import sys, time
from daskfs.errors import Interrupted
from daskfs.store.places import lease
from daskfs.store.places.location import Location

lease.LIFETIME, lease.RENEWAL = {LIFETIME}, {RENEWAL}
place = Location(sys.argv[1])
try:
    with place.one_writer():
        for number in range(10_000):
            place.write("mine", str(number).encode())
            print(number, flush=True)
            time.sleep(0.05)
except Interrupted as stop:
    print(stop, flush=True)
    sys.exit(75)
"""
# The command itself, with leases as short as ours and every write a little slow, so that a kill lands in the middle.
COMMAND = f"""
import sys, time
import daskfs.store.ingest.plan
from daskfs.cli import main
from daskfs.store.places import lease
from daskfs.store.places.location import Location

lease.LIFETIME, lease.RENEWAL = {LIFETIME}, {RENEWAL}
daskfs.store.ingest.plan.PART_BYTES = 1000
pause, write = float(sys.argv[1]), Location.write

def slow_write(*arguments):
    time.sleep(pause)
    write(*arguments)

Location.write = slow_write
main(sys.argv[2:])
"""


@pytest.fixture(autouse=True)
def short_leases(monkeypatch, s3):
    monkeypatch.setattr(lease, "LIFETIME", LIFETIME)
    monkeypatch.setattr(lease, "RENEWAL", RENEWAL)
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", *command], stdout=-1, stderr=-1, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WAIT_SECONDS)


def until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not happens():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def epoch(place: Location) -> int:
    return int(json.loads(place.read(lease.KEY))["epoch"])


def test_a_second_writer_is_refused_while_the_first_lives(s3):
    place = Location(s3.url("d"))
    with running(WRITER, place.url) as first:
        assert first.stdout.readline() == "0\n"
        refusal = rf"{place.url}: another process is writing here \(.*process {first.pid}\); wait"
        with pytest.raises(DatasetError, match=refusal), place.one_writer():
            pytest.fail("two writers")
        assert first.poll() is None
        assert epoch(place) == 1
        before = place.read("mine")
        until(lambda: place.read("mine") != before)  # it goes on undisturbed


def test_the_lease_of_a_killed_writer_is_taken_over(s3):
    place = Location(s3.url("d"))
    with running(WRITER, place.url) as first:
        assert first.stdout.readline() == "0\n"
        first.send_signal(signal.SIGKILL)
        first.wait(WAIT_SECONDS)
        with place.one_writer():
            assert epoch(place) == 2
            place.write("ours", b"1")
    assert sorted(place.members()) == ["mine", "ours"]
    with place.one_writer():  # released: at once, and from the beginning
        assert epoch(place) == 1


def test_a_writer_that_was_stopped_writes_nothing_once_another_has_taken_over(s3):
    place = Location(s3.url("d"))
    with running(WRITER, place.url) as first:
        assert first.stdout.readline() == "0\n"
        first.send_signal(signal.SIGSTOP)
        with place.one_writer():
            place.write("mine", b"the second's")
            first.send_signal(signal.SIGCONT)
            said = first.communicate(timeout=WAIT_SECONDS)[0]
            assert first.returncode == 75
            assert f"{place.url}: another process has taken over here; this one writes nothing more" in said
            assert place.read("mine") == b"the second's"
            assert epoch(place) == 2


def test_many_who_reach_for_it_at_once(s3):
    """All but one are refused, or come after it: never two at a time."""
    place = Location(s3.url("d"))
    script = WRITER.replace("range(10_000)", "range(20)")
    with running(script, place.url) as a, running(script, place.url) as b, running(script, place.url) as c:
        ends = [one.communicate(timeout=WAIT_SECONDS) for one in (a, b, c)]
    codes = [one.returncode for one in (a, b, c)]
    assert 0 in codes
    for code, (_, errors) in zip(codes, ends, strict=True):
        assert code == 0 or "another process is writing here" in errors
    assert place.members() == ["mine"]


@pytest.mark.slow
def test_a_killed_ingest_goes_on_and_two_at_once_do_not(s3, tmp_path):
    text = b"".join(b"%d |n f%d:0.5 g%d\n" % (i % 2, i % 7, i % 5) for i in range(400))
    source, out = s3.url("source.vw"), s3.url("d.zarr")
    fs = fsspec.filesystem("s3", **s3.options)
    fs.pipe_file(source, text)
    (tmp_path / "source.vw").write_bytes(text)
    arguments = "ingest", "-f", "vw", "--workers", "1", source, out
    unfinished = Location(out).below("_unfinished")
    with running(COMMAND, "0.1", *arguments) as first:
        until(lambda: len(unfinished.members()) > 3 or first.poll() is not None)
        with running(COMMAND, "0", *arguments) as second:
            assert "another process is writing here" in second.communicate(timeout=WAIT_SECONDS)[1]
            assert second.returncode == 2
        assert first.poll() is None
        os.kill(first.pid, signal.SIGKILL)
        first.wait(WAIT_SECONDS)
    with pytest.raises(DatasetError, match="incomplete"):
        daskfs.open_dataset(out)
    with running(COMMAND, "0", *arguments) as third:
        third.communicate(timeout=WAIT_SECONDS)
        assert third.returncode == 0
    again = daskfs.ingest(tmp_path / "source.vw", tmp_path / "d.zarr", "vw", workers=1)
    made = daskfs.open_dataset(out)
    assert made.n_samples == again.n_samples == 400
    assert daskfs.verify_dataset(out) == []
    fs.invalidate_cache()
    assert not [key for key in fs.find(out) if "_writer" in key or "_unfinished" in key]


def test_a_write_that_is_tried_again_looks_at_the_lease_again(s3, monkeypatch):
    """Between two attempts another may have taken over."""
    place = Location(s3.url("d"))
    with place.one_writer():
        attempts = []

        def put(self, path, parts):
            attempts.append(path)
            lease._held[-1]._lost = True  # as a renewal finds out
            raise TransientError("no answer")

        monkeypatch.setattr(ObjectFolder, "_put", put)
        with pytest.raises(Interrupted, match="another process has taken over here"):
            place.write("published.json", b"the older copy's")
        assert len(attempts) == 1
    assert not place.exists("published.json")


def test_a_lease_that_is_too_large_is_not_read(s3):
    """Of a hostile or broken writer: nobody renews it, so that it is taken over."""
    place = Location(s3.url("d"))
    place.write(lease.KEY, b"x" * (1 << 20))
    folder = ObjectFolder(place.url, StorageOptions())
    assert folder.tagged(lease.KEY, 4096)[0] is None
    assert folder.tagged(lease.KEY, 1 << 20)[0] == b"x" * (1 << 20)
    with lease.hold_lease(folder):
        assert epoch(place) == 1
