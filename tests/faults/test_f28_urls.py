"""F28: credentials that were put into a URL are refused or used, and never repeated in a message."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from daskfs.cli import main
from daskfs.errors import DaskfsError, hide_secrets, redact
from daskfs.store.places.options import StorageOptions

SECRET = "wJalrXUtnFEMIbPxRfiCYEXAMPLEKEY"  # as long as Amazon's
URLS = [
    "s3://me:{}@bucket/x",
    "s3://{}@bucket/x",
    "s3://me:with/{}/slashes@bucket/x",
    "gs://me:{}@bucket/x",
    "az://{}.blob/x",
    "az://me:{}@account.blob/x",
    "abfs://box:{}@account.dfs/x",
    "github://{}/x",
    "github://me:{}@org/x",
    "ftp://me:{}@127.0.0.1:9/x",
    "sftp://me:{}@127.0.0.1:9/x",
    "nonsense://me:{}@host/x",
    "simplecache::s3://me:{}@bucket/x",
    "http://me:{}@127.0.0.1:9/x",
    "http://127.0.0.1:9/x?sig={}",
]
COMMANDS = {
    "show": ["show", "{url}"],
    "report": ["report", "{url}"],
    "info": ["info", "{url}"],
    "verify": ["verify", "{url}"],
    "ingest": ["ingest", "{url}", "out.zarr", "-f", "csv", "--label", "y"],
    "ingest to": ["ingest", "x.svm", "{url}", "-f", "svmlight"],
    "select": ["select", "{url}", "-k", "1", "--out", "run"],
    "select to": ["select", "x.svm", "-k", "1", "--out", "{url}", "--serial"],
    "plan": ["plan", "{url}", "-k", "1"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_f28_secrets_in_urls_are_not_repeated(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("daskfs.store.places.retries.BUDGET", 0.2)
    (tmp_path / "x.svm").write_text("".join(f"{i % 2} {i % 2 + 1}:1 3:{i}\n" for i in range(20)))
    for url in URLS:
        done = CliRunner().invoke(main, [word.format(url=url.format(SECRET)) for word in command])
        said = done.output + done.stderr + str(done.exception)
        assert SECRET not in said, (url, said)
        assert isinstance(done.exception, SystemExit), (url, done.exception)
        assert done.exit_code in (2, 75), (url, said)


def test_f28_known_secrets_are_hidden_wherever_they_are_quoted(monkeypatch):
    monkeypatch.setenv("MY_STORE_TOKEN", "from-the-environment")
    monkeypatch.setenv("MY_STORE_NAME", "no secret by its name")
    StorageOptions({"key": "me", "client_kwargs": {"secret_access_key": "from-the-options"}, "region": "eu-central-1"})
    hide_secrets("https://me:from-the-url@host/x?sig=from-the-query")
    text = "'from-the-environment', 'from-the-options', 'from-the-url', 'from-the-query', 'no secret by its name', 'me'"
    assert redact(text) == "'…', '…', '…', '…', 'no secret by its name', 'me'"
    assert "from-the" not in str(DaskfsError(text))
    assert redact("eu-central-1 and s3://bucket/k@17/x and http://host:80/a@b") == (
        "eu-central-1 and s3://bucket/k@17/x and http://host:80/a@b"
    )
