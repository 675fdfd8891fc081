"""Options of object stores in fsspec's words and in obstore's, and which way each URL goes; no request is made."""

from __future__ import annotations

import pytest

from daskfs.store import object_stores
from daskfs.store.fsspec_folder import FsspecFolder
from daskfs.store.location import Location
from daskfs.store.object_folder import ObjectFolder

KEYS = {"key": "k", "secret": "s"}


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


@pytest.fixture
def opened(monkeypatch) -> list[dict]:
    """What obstore is asked for."""
    asked: list[dict] = []
    for name in ("S3Store", "GCSStore", "AzureStore"):
        real = getattr(object_stores.stores, name)

        def spy(bucket: str, real=real, **given: object) -> object:
            asked.append({"bucket": bucket, **given})
            return real(bucket, **given)

        monkeypatch.setattr(object_stores.stores, name, spy)
    monkeypatch.setattr(object_stores, "_opened", {})
    return asked


@pytest.mark.parametrize(
    "options",
    [
        {**KEYS, "token": "t", "client_kwargs": {"endpoint_url": "http://h:1", "region_name": "r"}},
        {**KEYS, "token": "t", "endpoint_url": "http://h:1", "client_kwargs": {"region_name": "r"}},
        {
            "access_key_id": "k",
            "secret_access_key": "s",
            "session_token": "t",
            "endpoint": "http://h:1",
            "region": "r",
            "skip_instance_cache": True,
        },
        {
            "config": {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_session_token": "t"},
            "endpoint": "http://h:1",
            "region": "r",
        },
    ],
)
def test_the_same_in_other_words(opened, options):
    assert isinstance(Location("s3://bucket/x", options).folder, ObjectFolder)
    for asked in opened:
        assert (asked["access_key_id"], asked["secret_access_key"], asked["session_token"]) == ("k", "s", "t")
        assert (asked["bucket"], asked["endpoint"], asked["region"]) == ("bucket", "http://h:1", "r")
        assert asked["client_options"]["allow_http"]


def test_keys_are_not_mixed_with_a_token_of_the_environment(opened, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-somebody-else")
    assert isinstance(Location("s3://bucket/x", KEYS).folder, ObjectFolder)
    identity = opened[0]["credential_provider"]()
    assert (identity["access_key_id"], identity["secret_access_key"], identity["token"]) == ("k", "s", None)
    assert "allow_http" not in opened[0]["client_options"]


def test_plain_http_is_allowed_where_the_environment_says_so(opened, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://h:1")
    assert isinstance(Location("s3://bucket/x").folder, ObjectFolder)
    assert opened[0]["client_options"]["allow_http"]
    assert "credential_provider" not in opened[0]


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("gs://bucket/x", {"anon": True}),
        ("gs://bucket/x", {"token": "anon", "project": "p"}),
        ("az://container/x", {"account_name": "a", "account_key": "aGk=", "skip_instance_cache": True}),
        ("az://container/x", {"account_name": "a", "sas_token": "sv=1&sig=x"}),
    ],
)
def test_other_clouds(opened, url, options):
    assert isinstance(Location(url, options).folder, ObjectFolder)
    assert opened


@pytest.mark.parametrize("options", [{**KEYS, "config_kwargs": {"signature_version": "s3"}}, {"profile": "me"}])
def test_options_that_only_s3fs_knows_go_to_s3fs(options, monkeypatch):
    asked = {}
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda url, **given: asked.update(given) or (None, "bucket/x"))
    assert isinstance(Location("s3://bucket/x", options).folder, FsspecFolder)
    assert asked == options


def test_keys_in_a_file_are_read_by_s3fs(monkeypatch, tmp_path):
    (tmp_path / "credentials").write_text("[default]\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda url, **given: (None, "bucket/x"))
    assert isinstance(Location("s3://bucket/x").folder, FsspecFolder)
    assert isinstance(Location("s3://bucket/x", KEYS).folder, ObjectFolder)


def test_without_obstore_everything_goes_to_fsspec(s3, monkeypatch):
    monkeypatch.setattr(object_stores, "stores", None)
    place = Location(s3.url("d"), s3.options)
    assert isinstance(place.folder, FsspecFolder)
    place.write("x", b"12", b"3")
    assert place.read("x", 1) == b"23"
    assert not place.create("x", b"4")
    assert place.replace_if("x", b"5", b"123")
    assert Location(place.url, s3.options).read("x") == b"5"
