"""docs/clusters.md: the job files in it are valid, and so is what is deployed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from distributed.security import Security

import daskfs
from daskfs.job.file import load_job

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "clusters.md").read_text()
SIDES = ("scheduler", "worker", "client")
JOBS = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("text", JOBS, ids=[tomllib.loads(text)["cluster"]["start"] for text in JOBS])
def test_a_job_file_can_be_read(tmp_path, text):
    (tmp_path / "job.toml").write_text(text)
    job = load_job(tmp_path / "job.toml")
    assert job.cluster.start
    assert job.cluster.arguments


def test_every_kind_of_cluster_has_one():
    starts = {tomllib.loads(text)["cluster"]["start"].split(".")[0] for text in JOBS}
    assert starts == {"distributed", "dask_jobqueue", "dask_kubernetes", "dask_gateway"}


def test_dask_reads_its_configuration():
    """Every key of the TLS configuration is one that Dask knows."""
    (text,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    comm = yaml.safe_load(text)["distributed"]["comm"]
    tls = comm["tls"]
    security = Security(
        require_encryption=comm["require-encryption"],
        tls_ca_file=tls["ca-file"],
        **{
            f"tls_{who}_{what}": tls[who][what] for who in ("scheduler", "worker", "client") for what in ("cert", "key")
        },
    )
    assert set(tls) == {"ca-file", *SIDES}
    assert security.tls_client_key.endswith("key.pem")


def test_scheduler_and_workers_run_the_image_of_this_version():
    values = yaml.safe_load((ROOT / "deploy" / "values.yaml").read_text())
    image = {"repository": "registry.example.org/daskfs", "tag": daskfs.__version__}
    assert values["scheduler"]["image"] == values["worker"]["image"] == image
    assert f"{image['repository']}:{image['tag']}" in (ROOT / "deploy" / "Dockerfile").read_text()
    assert TEXT.count(f'image = "{image["repository"]}:{image["tag"]}"') == 2


def test_all_that_the_image_is_made_of_is_there():
    for line in re.findall(r"^COPY (.*) \S+$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE):
        for source in line.split():
            assert (ROOT / source).exists(), source
