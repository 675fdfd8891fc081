"""Connections to object stores through obstore: one per bucket and set of options, shared by all threads.

Storage options have the names that fsspec or obstore uses. Without options, credentials come from environment variables
(such as ``AWS_ACCESS_KEY_ID``) or from Amazon's files in ``~/.aws``. As obstore does not read Amazon's files, botocore
(a dependency of s3fs) reads them. Stores that obstore cannot open are opened with fsspec.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

from daskfs.errors import OptionError, public_url
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
_BUCKETS = {"s3": r"[\w.-]{3,255}", "gs": r"[a-z0-9._-]{3,222}", "az": r"\$?[a-z0-9-]{3,63}"}
"""The names that buckets, or containers, of each kind of store can have."""
_IDENTITY = ("access_key_id", "secret_access_key", "session_token")
_ENVIRONMENT = ("AWS_", "GOOGLE_", "AZURE_")
_FRESH = timedelta(minutes=10)  # after which botocore is asked for keys again
_stores: dict[Any, Any] = {}
_lock = threading.Lock()


def split_url(url: str) -> tuple[str, str, str]:
    """Return scheme, bucket and path of a URL. Raise OptionError if the URL contains credentials.

    >>> split_url("s3://bucket/some/where")
    ('s3', 'bucket', 'some/where')
    """
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    if (public := public_url(url)) != url.split("?")[0]:
        raise OptionError(f"{public}: a URL is no place for credentials; use storage_options")
    if scheme in _BUCKETS and not re.fullmatch(_BUCKETS[scheme], bucket):  # perhaps a key, so it is not repeated
        raise OptionError(f"{scheme}://…/{path}: what follows {scheme}:// is no name of a bucket or container")
    return scheme, bucket, path.strip("/")


def object_store(url: str, options: StorageOptions, retries: int = 0) -> Any | None:
    """Return the obstore store of a URL's bucket, or None if only fsspec can open the URL.

    `retries` is how often the store itself repeats each failed HTTP request, for calls that make several requests.
    """
    scheme = url.partition("://")[0]
    if stores is None or scheme not in SCHEMES:
        return None
    bucket = split_url(url)[1]
    settings = tuple(sorted(item for item in os.environ.items() if item[0].startswith(_ENVIRONMENT)))
    key = (scheme, bucket, options.token, retries, settings)
    with _lock:
        if key not in _stores:
            _stores[key] = _new_store(scheme, bucket, options.plain_values(), retries)
        return _stores[key]


def _new_store(scheme: str, bucket: str, options: Mapping[str, Any], retries: int) -> Any | None:
    client: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=READ_TIMEOUT),
        "timeout": timedelta(hours=1),  # of a whole response: only a stall is a failure
    }
    config = _translate_options(scheme, options, client)
    if config is None:
        return None
    if scheme == "s3":
        config = _with_profile(config)
    if _endpoint(scheme, config).startswith("http://"):
        client["allow_http"] = True
    identity = {name: config.pop(name) for name in _IDENTITY if name in config} if scheme == "s3" else {}
    kind = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}[scheme]
    if "access_key_id" in identity and "session_token" not in identity and os.environ.get("AWS_SESSION_TOKEN"):
        # A provider of keys keeps obstore from adding the session token of the environment.
        keys = {"secret_access_key": "", **identity, "token": None, "expires_at": None}
        config["credential_provider"] = lambda: keys
    else:
        config |= identity
    retry_config = {"max_retries": retries, "retry_timeout": timedelta(seconds=BUDGET)}
    try:
        return kind(bucket, client_options=client, retry_config=retry_config, **config)
    except (BaseError, TypeError, ValueError):  # fsspec may understand these options, or has a better error
        return None


def _translate_options(scheme: str, options: Mapping[str, Any], client: dict[str, Any]) -> dict[str, Any] | None:
    """Return options under obstore's names, or None if only fsspec knows an option; put HTTP settings into `client`."""
    named = {name: value for name, value in options.items() if name not in _FSSPEC_ALONE and value is not None}
    config: dict[str, Any] = {}
    for nested in (named.pop("client_kwargs", {}), named.pop("config", {}), named):
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
    if endpoint := config.get("endpoint"):
        return str(endpoint)
    if scheme != "s3":
        return ""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _with_profile(config: dict[str, Any]) -> dict[str, Any]:
    """Add the access keys of an Amazon profile if a profile is named or if no other keys are configured."""
    profile = config.pop("profile", None)
    has_keys = {"access_key_id", "skip_signature"} & config.keys() or os.environ.get("AWS_ACCESS_KEY_ID")
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", os.path.expanduser("~/.aws/credentials"))
    has_files = find_spec("botocore") is not None and ("AWS_PROFILE" in os.environ or os.path.exists(file))
    if profile is None and (has_keys or not has_files):
        return config
    settings = _profile_settings(profile) or {}
    if _endpoint("s3", config):  # options and the environment take precedence
        settings.pop("endpoint", None)
    return settings | config


def _profile_settings(profile: str | None) -> dict[str, Any] | None:
    """Return the settings of an Amazon profile under obstore's names, or None if the profile has no keys.

    botocore handles roles, single sign-on, programs that print keys, and the renewal of keys that expire.
    """
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    session = Session(profile=profile)
    try:
        keys, scoped = session.get_credentials(), session.get_scoped_config()
    except BotoCoreError as error:
        raise OptionError(f"{error}; see ~/.aws and AWS_PROFILE") from None
    if keys is None:
        return None

    def credential() -> dict[str, Any]:
        now = keys.get_frozen_credentials()
        identity = {"access_key_id": now.access_key, "secret_access_key": now.secret_key, "token": now.token}
        return {**identity, "expires_at": datetime.now(UTC) + _FRESH}

    settings = {"region": session.get_config_variable("region"), "endpoint": scoped.get("endpoint_url")}
    return {"credential_provider": credential, **{name: value for name, value in settings.items() if value}}
