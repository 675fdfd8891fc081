"""Keys in Amazon's files: obstore does not read them, and so botocore does, which comes with s3fs."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

from daskfs.errors import OptionError

_FRESH = timedelta(minutes=10)  # after which botocore is asked again; it knows when keys end, and gets new ones


def has_files() -> bool:
    """True where there is a profile, or a file of keys, and somebody to read it."""
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", os.path.expanduser("~/.aws/credentials"))
    return find_spec("botocore") is not None and ("AWS_PROFILE" in os.environ or os.path.exists(file))


def settings_of(profile: str | None) -> dict[str, Any] | None:
    """What a profile says, by default that of the environment, in obstore's words; None if it has no keys.

    Roles, single sign-on and programs that print keys are botocore's affair.
    """
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    session = Session(profile=profile)
    try:
        keys, told = session.get_credentials(), session.get_scoped_config()
    except BotoCoreError as error:
        raise OptionError(f"{error}; see ~/.aws and AWS_PROFILE") from None
    if keys is None:
        return None
    settings = {"region": session.get_config_variable("region"), "endpoint": told.get("endpoint_url")}
    return {"credential_provider": _provider(keys), **{name: value for name, value in settings.items() if value}}


def _provider(keys: Any) -> Callable[[], Any]:
    def fresh() -> dict[str, Any]:
        now = keys.get_frozen_credentials()
        identity = {"access_key_id": now.access_key, "secret_access_key": now.secret_key, "token": now.token}
        return {**identity, "expires_at": datetime.now(UTC) + _FRESH}

    return fresh
