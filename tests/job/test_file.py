"""Job files: what they may say, and the one line that comes of what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from daskfs.algorithms.mission import Mission
from daskfs.algorithms.substitution import OnlineSubstitution
from daskfs.errors import JobError
from daskfs.job.file import load_job

WHOLE = """
out = "s3://bucket/runs/clicks"

[ingest]
sources = ["logs/part-*.csv"]
format = "csv"
label = "clicked"
categorical = ["country"]
shuffle = true

[split]
test = 0.2

[select]
algorithm = "mission"
k = 1000
passes = 2
width = 4096
seed = 3

[evaluate]
sizes = true

[stability]
seeds = 2

[publish]
at_least = {roc_auc = 0.7}

[cluster]
processes = 2

[storage]
endpoint = "http://127.0.0.1:9000"
secret = "${BUCKET_SECRET}"
"""
LEAST = 'out = "run"\n[data]\ntrain = "d.zarr"\n[select]\nalgorithm = "substitution"\nn_select = 5\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


def test_a_whole_job(tmp_path, monkeypatch):
    monkeypatch.setenv("BUCKET_SECRET", "canary")
    job = load_job(written(tmp_path, WHOLE))
    assert job.name == "job"
    assert job.out == "s3://bucket/runs/clicks"
    assert job.ingest.sources == [f"{tmp_path}/logs/part-*.csv"]
    assert job.ingest.options["label"] == "clicked"
    assert job.select.params == Mission(1000, passes=2, width=4096)
    assert (job.select.seed, job.split.test, job.publish.at_least) == (3, 0.2, {"roc_auc": 0.7})
    assert job.storage["secret"] == "canary"
    assert "canary" not in str(job.record)


def test_a_record_has_no_secrets_of_urls(tmp_path, monkeypatch):
    monkeypatch.setenv("BUCKET_SECRET", "canary")
    text = WHOLE.replace('"logs/part-*.csv"', '"https://me:${BUCKET_SECRET}@host/part.csv?signature=${BUCKET_SECRET}"')
    job = load_job(written(tmp_path, text))
    assert "canary" in job.ingest.sources[0]
    assert job.record["ingest"]["sources"] == ["https://host/part.csv"]


def test_the_least(tmp_path):
    job = load_job(written(tmp_path, LEAST))
    assert job.select.params == OnlineSubstitution(5)
    assert job.data.train == str(tmp_path / "d.zarr")
    assert job.out == str(tmp_path / "run")


@pytest.mark.parametrize("key", ["select.k", "select.n_select"])
def test_changes_from_the_command_line(tmp_path, key):
    job = load_job(written(tmp_path, LEAST), {key: 7, "out": "other", "cluster.serial": True})
    assert job.select.params.n_select == 7
    assert (Path(job.out).name, job.cluster.serial) == ("other", True)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('out = "run"', 'outt = "run"', "job.toml:1: outt: no such key (did you mean 'out'?)"),
        ('out = "run"', "", "job.toml: out: must be given"),
        ('algorithm = "substitution"', 'algoritm = "x"', "select.algorithm: must be given (is it 'algoritm' that you"),
        ("[data]", '[publish]\nto = "current"\n[data]', "job.toml:3: publish: to: "),
        (
            'out = "run"',
            'out = "run"\nnmae = "x"',
            "job.toml:2: nmae: no such key (did you mean 'name'?)",
        ),
        ("[data]", "[dat]", "job.toml:2: dat: no such key (did you mean 'data'?)"),
        ('train = "d.zarr"', 'trian = "d.zarr"', "job.toml:3: data.trian: no such key (did you mean 'train'?)"),
        ('train = "d.zarr"', 'train = "d"\ntset = "e"', "job.toml:4: data.tset: no such key (did you mean 'test'?)"),
        ("n_select = 5", "n_selekt = 5", "job.toml:6: select: n_selekt: no such key (did you mean 'n_select'?)"),
        ("n_select = 5", "n_select = 5\nk = 6", "select: k and n_select: give one of them"),
        ("n_select = 5", "", "job.toml:4: select: substitution: 'n_select' must be given"),
        ("n_select = 5", "n_select = 0", "job.toml:6: select: n_select=0: must be a whole number"),
        ("n_select = 5", "n_select = 5\nseed = -1", "job.toml:7: select.seed: input should be greater than or equal"),
        ('"substitution"', '"substitutoin"', "random-features, univariate (did you mean 'substitution'?)"),
        ('"substitution"', "7", "job.toml:5: select.algorithm: input should be a valid string"),
        ("[data]", "[split]\ntest = 1.5\n[data]", "job.toml:3: split.test: input should be less than 1"),
        ("[data]", "[evaluate]\n[data]", "job.toml:2: evaluate: on what? give test data, or [split]"),
        ("[data]", "[publish]\nat_least = {r2 = 0.5}\n[data]", "publish.at_least: there is no score without test data"),
        ('[data]\ntrain = "d.zarr"', "", "give either [ingest], for sources, or [data]"),
        ('[data]\ntrain = "d.zarr"', "data = 5", "job.toml: data: must be a table"),
        (
            '[data]\ntrain = "d.zarr"',
            '[ingest]\nsources = []\nformat = "csv"',
            "job.toml:3: ingest.sources: list",
        ),
        ('[data]\ntrain = "d.zarr"', '[ingest]\nsources = ["a"]\nformat = "cvs"', "(did you mean 'csv'?)"),
        (
            '[data]\ntrain = "d.zarr"',
            '[ingest]\nsources = ["a"]\nformat = "csv"\nlabl = "x"',
            "job.toml:5: ingest: labl: no such key (did you mean 'label'?)",
        ),
        (
            '[data]\ntrain = "d.zarr"',
            '[ingest]\nsources = ["a"]\nformat = "csv"\nignore = "id"',
            "job.toml:5: ingest: ignore='id': must be a list, such as ['id']",
        ),
        (
            "[data]",
            "[cluster]\nserial = true\nprocesses = 2\n[data]",
            "job.toml:2: cluster: scheduler, serial,",
        ),
        ("[data]", "[cluster]\nworkers = 2\n[data]", "are for a class to start"),
        ("[data]", '[storage]\nsecret = "abc"\n[data]', "storage.secret: no secrets in a file"),
        ("[data]", '[storage]\nclient = {token = "abc"}\n[data]', "storage.client.token: no secrets in a file"),
        (
            "[data]",
            '[cluster]\nstart = "distributed.SSHCluster"\narguments = {connect_options = {password = "abc"}}\n[data]',
            "cluster.arguments.connect_options.password: no secrets in a file",
        ),
        (
            "[data]",
            '[cluster]\nstart = "x.Y"\narguments = {env = [{name = "AWS_SECRET_ACCESS_KEY", value = "abc"}]}\n[data]',
            "cluster.arguments.env.AWS_SECRET_ACCESS_KEY: no secrets in a file",
        ),
        (
            "[data]",
            "[publish]\nat_least = {roc_acu = 0.5}\n[data]",
            "job.toml:3: publish: at_least: roc_acu: no such score (did you mean 'roc_auc'?)",
        ),
        ("[data]", "[publish]\nat_least = {mse = 0.5}\n[data]", "at_least: mse: no such score; there are accuracy"),
        ('out = "run"', 'out = "${NOWHERE_SET}/run"', "job.toml: out: ${NOWHERE_SET} is not set in the environment"),
        ("[data]", "[data", "job.toml: is not TOML: "),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, old, new, line):
    assert old in LEAST
    with pytest.raises(JobError) as caught:
        load_job(written(tmp_path, LEAST.replace(old, new)))
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "abc" not in str(caught.value)


def test_there_must_be_a_file(tmp_path):
    with pytest.raises(JobError, match=r"none\.toml: cannot be read: No such file"):
        load_job(tmp_path / "none.toml")
