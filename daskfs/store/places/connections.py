"""Connections to object stores through obstore: one for each bucket and set of options, shared by all threads.

Options are those of the user, in fsspec's words or in obstore's; without any, the environment variables that everybody
uses (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL`` and so on) do it, or the files of Amazon's tools (`aws_profile`). What
none of them settles is left to fsspec.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from daskfs.errors import OptionError
from daskfs.store.places import aws_profile
from daskfs.store.places.options import StorageOptions
from daskfs.store.places.retries import BUDGET, READ_TIMEOUT

try:
    import obstore.store as stores
    from obstore.exceptions import BaseError
except ImportError:  # an extra
    stores = None  # type: ignore[assignment]

SCHEMES = ("s3", "gs", "az")
_FSSPEC_ALONE = {"skip_instance_cache", "use_listings_cache", "listings_expiry_time", "default_fill_cache"}
_FSSPEC_ALONE |= {"default_block_size", "default_cache_type", "asynchronous", "project"}
_WORDS = {
    "s3": {
        "key": "access_key_id",
        "secret": "secret_access_key",
        "token": "session_token",
        "aws_access_key_id": "access_key_id",
        "aws_secret_access_key": "secret_access_key",
        "aws_session_token": "session_token",
        "endpoint_url": "endpoint",
        "region_name": "region",
        "anon": "skip_signature",
        "requester_pays": "request_payer",
    },
    "gs": {"anon": "skip_signature", "service_account_path": "service_account"},
    "az": {"anon": "skip_signature", "sas_token": "sas_key"},
}
_IDENTITY = ("access_key_id", "secret_access_key", "session_token")
_ENVIRONMENT = ("AWS_", "GOOGLE_", "AZURE_")
_opened: dict[Any, Any] = {}
_lock = threading.Lock()


def split_url(url: str) -> tuple[str, str, str]:
    """Scheme, bucket and path of a URL; OptionError for one with secrets in it, without a word of them.

    >>> split_url("s3://bucket/some/where")
    ('s3', 'bucket', 'some/where')
    """
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    if "@" in bucket:
        public = bucket.rsplit("@", 1)[1]
        raise OptionError(f"{scheme}://{public}/{path}: a URL is no place for credentials; use storage_options")
    return scheme, bucket, path.strip("/")


def object_store(url: str, options: StorageOptions, retries: int = 0) -> Any | None:
    """The store of a URL's bucket; None if it is fsspec's to open.

    Requests are tried again by whoever makes them, except where one call makes several: then the store should.
    """
    scheme = url.partition("://")[0]
    if stores is None or scheme not in SCHEMES:
        return None
    bucket = split_url(url)[1]
    settings = tuple(sorted(item for item in os.environ.items() if item[0].startswith(_ENVIRONMENT)))
    key = (scheme, bucket, options.token, retries, settings)
    with _lock:
        if key not in _opened:
            _opened[key] = _new_store(scheme, bucket, options.plain_values(), retries)
        return _opened[key]


def _new_store(scheme: str, bucket: str, options: Mapping[str, Any], retries: int) -> Any | None:
    client: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=READ_TIMEOUT),
        "timeout": timedelta(hours=1),  # of a whole answer, however slow: a stall is what matters
    }
    config = _translated(scheme, options, client)
    if config is None:
        return None
    if scheme == "s3":
        config = _with_profile(config)
    if _endpoint(scheme, config).startswith("http://"):
        client["allow_http"] = True
    identity = {name: config.pop(name) for name in _IDENTITY if name in config} if scheme == "s3" else {}
    opened = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}[scheme]
    if "access_key_id" in identity and "session_token" not in identity and os.environ.get("AWS_SESSION_TOKEN"):
        config["credential_provider"] = _provider(identity)
    else:
        config |= identity
    patience = {"max_retries": retries, "retry_timeout": timedelta(seconds=BUDGET)}
    try:
        return opened(bucket, client_options=client, retry_config=patience, **config)
    except (BaseError, TypeError, ValueError):  # options that only fsspec may understand, and complain of
        return None


def _translated(scheme: str, options: Mapping[str, Any], client: dict[str, Any]) -> dict[str, Any] | None:
    """Options in obstore's words, those of the connection put into `client`; None if they are fsspec's alone."""
    given = {name: value for name, value in options.items() if name not in _FSSPEC_ALONE and value is not None}
    config: dict[str, Any] = {}
    for nested in (given.pop("client_kwargs", {}), given.pop("config", {}), given):
        config |= {_WORDS[scheme].get(name, name): value for name, value in nested.items()}
    client |= config.pop("client_options", {})
    if config.pop("verify", True) is False:
        client["allow_invalid_certificates"] = True
    if scheme == "gs" and "token" in config:
        token = config.pop("token")
        if isinstance(token, dict):
            config["service_account_key"] = json.dumps(token)
        elif isinstance(token, str) and os.path.isfile(token):
            config["service_account"] = token
        elif token == "anon":
            config["skip_signature"] = True
        else:
            return None
    return config


def _endpoint(scheme: str, config: Mapping[str, Any]) -> str:
    if given := config.get("endpoint"):
        return str(given)
    if scheme != "s3":
        return ""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _with_profile(config: dict[str, Any]) -> dict[str, Any]:
    """The same with the keys of a profile, where one is named, or no other keys are there."""
    profile = config.pop("profile", None)
    has_keys = {"access_key_id", "skip_signature"} & config.keys() or os.environ.get("AWS_ACCESS_KEY_ID")
    if profile is None and (has_keys or not aws_profile.has_files()):
        return config
    settings = aws_profile.settings_of(profile) or {}
    if _endpoint("s3", config):  # what is given here, or in the environment, comes first
        settings.pop("endpoint", None)
    return settings | config


def _provider(identity: Mapping[str, str]) -> Callable[[], Any]:
    """Just these keys: obstore would add the session token of the environment, which belongs to other keys."""
    credential = {
        "access_key_id": identity["access_key_id"],
        "secret_access_key": identity.get("secret_access_key", ""),
        "token": None,
        "expires_at": None,
    }
    return lambda: credential
