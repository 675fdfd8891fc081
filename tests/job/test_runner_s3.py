"""A job from bucket to bucket, on a real S3 server, and what is told of a bucket that is not there."""

from __future__ import annotations

import json
from pathlib import Path

import fsspec
import pytest
from click.testing import CliRunner, Result

import daskfs
from daskfs.cli import main

JOB = """
out = "{out}"

[ingest]
sources = ["{source}"]
format = "svmlight"

[split]
test = 0.25

[select]
algorithm = "mission"
k = 3
width = 256

[cluster]
serial = true

[storage]
endpoint_url = "{endpoint}"
key = "${{BUCKET_KEY}}"
secret = "${{BUCKET_SECRET}}"
"""
LINES = "".join(f"{1 if i % 3 else -1} {1 if i % 3 else 2}:1 {3 + i % 9}:1\n" for i in range(400))


@pytest.fixture
def bucket(s3, tmp_path, monkeypatch):
    """A source in a bucket, and a job file beside which nothing may be written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BUCKET_KEY", s3.options["key"])
    monkeypatch.setenv("BUCKET_SECRET", s3.options["secret"])
    source, out = s3.url("lines.svm"), s3.url("job")
    with fsspec.open(source, "w", **s3.options) as file:
        file.write(LINES)
    endpoint = s3.options["client_kwargs"]["endpoint_url"]
    Path("job.toml").write_text(JOB.format(out=out, source=source, endpoint=endpoint))
    return out


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", "job.toml", *arguments])


def test_from_bucket_to_bucket(bucket, s3):
    done = run("--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["run"].startswith(f"{bucket}/runs/")
    assert {"1", "2"} <= {name.removeprefix("x") for name in daskfs.load_selection(bucket, s3.options).names}
    fs = fsspec.filesystem("s3", skip_instance_cache=True, **s3.options)
    stored = {key: fs.cat_file(key) for key in fs.find(bucket)}
    assert any(key.endswith("/report.html") for key in stored)
    for secret in (s3.options["key"], s3.options["secret"]):
        assert not any(secret.encode() in raw for raw in stored.values())
        assert secret not in done.stderr
    assert [path.name for path in Path().iterdir()] == ["job.toml"]
    again = run()
    assert "select: there already" in again.stderr


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('out = "s3://daskfs/', 'out = "s3://nobody-has-this/', "nobody-has-this"),
        ("${BUCKET_SECRET}", "${WRONG_SECRET}", "refused"),
    ],
    ids=["missing bucket", "wrong credentials"],
)
def test_what_cannot_be_reached_is_one_line(bucket, monkeypatch, old, new, reason):
    monkeypatch.setenv("WRONG_SECRET", "this-is-wrong")
    text = Path("job.toml").read_text()
    assert old in text
    Path("job.toml").write_text(text.replace(old, new))
    done = run()
    assert done.exit_code == 2, done.output
    assert reason in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "this-is-wrong" not in done.output
