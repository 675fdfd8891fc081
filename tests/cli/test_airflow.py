"""`daskfs airflow export` copies the DAGs that come with daskfs and loses nobody's changes."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from daskfs.cli import main

DAGS = Path(__file__).parents[2] / "pipelines" / "airflow"


def export(folder: Path, *flags: str) -> Result:
    return CliRunner().invoke(main, ["airflow", "export", str(folder), *flags])


def test_the_dags_arrive_as_they_are(tmp_path):
    assert export(tmp_path / "new" / "dags").exit_code == 0
    copied = {path.name: path.read_bytes() for path in (tmp_path / "new" / "dags").iterdir()}
    assert copied == {path.name: path.read_bytes() for path in DAGS.glob("*.py")}
    assert "daskfs_job.py" in copied
    assert export(tmp_path / "new" / "dags").exit_code == 0  # once more, nothing has changed


def test_a_file_that_was_changed_stays_unless_asked_for(tmp_path):
    export(tmp_path)
    (tmp_path / "daskfs_job.py").write_text("# mine\n")
    (tmp_path / "daskfs_jobs.py").unlink()
    refused = export(tmp_path)
    assert refused.exit_code == 2
    assert "daskfs_job.py differs from the one that comes with daskfs: --overwrite replaces it" in refused.stderr
    assert (tmp_path / "daskfs_job.py").read_text() == "# mine\n"
    assert not (tmp_path / "daskfs_jobs.py").exists()  # all or nothing
    assert export(tmp_path, "--overwrite").exit_code == 0
    assert (tmp_path / "daskfs_job.py").read_bytes() == (DAGS / "daskfs_job.py").read_bytes()
