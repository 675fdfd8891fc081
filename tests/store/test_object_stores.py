"""Options of object stores in fsspec's words and in obstore's, and which way each URL goes; no request is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from s3_server import KEY, SECRET

from daskfs.errors import OptionError
from daskfs.store.places import connections
from daskfs.store.places.fsspec import FsspecFolder
from daskfs.store.places.location import Location
from daskfs.store.places.object_folder import ObjectFolder

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
        real = getattr(connections.stores, name)

        def spy(bucket: str, real=real, **given: object) -> object:
            asked.append({"bucket": bucket, **given})
            return real(bucket, **given)

        monkeypatch.setattr(connections.stores, name, spy)
    monkeypatch.setattr(connections, "_stores", {})
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


def test_options_that_only_s3fs_knows_go_to_s3fs(monkeypatch):
    asked, options = {}, {**KEYS, "config_kwargs": {"signature_version": "s3"}}
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda url, **given: asked.update(given) or (None, "bucket/x"))
    assert isinstance(Location("s3://bucket/x", options).folder, FsspecFolder)
    assert asked == options


def files_of_amazon(monkeypatch, folder: Path, credentials: str, config: str = "") -> None:
    for name, text in (("credentials", credentials), ("config", config)):
        (folder / name).write_text(text)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))


def test_keys_of_a_profile_are_those_of_its_files(opened, monkeypatch, tmp_path):
    keys = "[default]\naws_access_key_id = d\naws_secret_access_key = s\n[me]\naws_access_key_id = m\n"
    files_of_amazon(monkeypatch, tmp_path, keys + "aws_secret_access_key = s\n", "[profile me]\nregion = here\n")
    for options, expected in ({}, "d"), ({"profile": "me"}, "m"):
        assert isinstance(Location("s3://bucket/x", options).folder, ObjectFolder)
        assert opened[-1]["credential_provider"]()["access_key_id"] == expected
    assert opened[-1]["region"] == "here"
    assert isinstance(Location("s3://bucket/x", KEYS).folder, ObjectFolder)
    assert opened[-1]["access_key_id"] == "k"


def test_a_profile_that_is_not_there_is_named(monkeypatch, tmp_path):
    files_of_amazon(monkeypatch, tmp_path, "[default]\n")
    with pytest.raises(OptionError, match=r"The config profile \(nobody\) could not be found; see ~/.aws"):
        _ = Location("s3://bucket/x", {"profile": "nobody"}).folder


def test_a_real_store_by_a_profile(s3, monkeypatch, tmp_path):
    """With its endpoint; and as everywhere with obstore, of several who create a thing one succeeds."""
    files_of_amazon(
        monkeypatch,
        tmp_path,
        f"[me]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n",
        f"[profile me]\nregion = us-east-1\nendpoint_url = {s3.endpoint}\n",
    )
    monkeypatch.setenv("AWS_PROFILE", "me")
    place = Location(s3.url("d"))
    assert isinstance(place.folder, ObjectFolder)
    with place.one_writer():
        assert place.create("x", b"1")
        assert not place.create("x", b"2")
    assert Location(place.url).read("x") == b"1"


def test_without_obstore_everything_goes_to_fsspec(s3, monkeypatch):
    monkeypatch.setattr(connections, "stores", None)
    place = Location(s3.url("d"), s3.options)
    assert isinstance(place.folder, FsspecFolder)
    place.write("x", b"12", b"3")
    assert place.read("x", 1) == b"23"
    assert not place.create("x", b"4")
    assert place.replace_if("x", b"5", b"123")
    assert Location(place.url, s3.options).read("x") == b"5"
