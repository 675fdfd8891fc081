"""Storage options on their way to the workers."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest

from daskfs.engine.cluster.plugin import StorageAccess
from daskfs.errors import OptionError
from daskfs.store.places import options as table
from daskfs.store.places.options import StorageOptions


def test_options_travel_as_masked_json(monkeypatch):
    options = StorageOptions({"secret": "a canary", "retries": 3, "client": {"proxy": None, "hosts": ["a", "b"]}})
    pickled = pickle.dumps(StorageAccess(options))
    assert b"canary" not in pickled
    there: dict[str, Any] = {}
    monkeypatch.setattr(table, "_values", there)
    pickle.loads(pickled).setup(None)
    assert there[options.token] == {"secret": "a canary", "retries": 3, "client": {"proxy": None, "hosts": ["a", "b"]}}


def test_what_arrives_is_read_as_json_and_never_unpickled():
    """A plugin is only as trusted as whoever can reach the scheduler, but there is no need for a second pickle."""
    plugin = StorageAccess(StorageOptions({"secret": "a canary"}))
    hostile = pickle.dumps({"secret": "another"})
    plugin._mask, plugin._masked = bytes(len(hostile)), hostile
    with pytest.raises(ValueError, match=r"utf-8|Expecting value"):
        plugin.setup(None)


@pytest.mark.parametrize("value", [timedelta(seconds=1), b"bytes", {1: "a"}, (1, 2), float("nan"), object()])
def test_an_option_that_json_would_change_is_refused_by_its_name_alone(value):
    with pytest.raises(OptionError, match=r"storage_options: 'timeout' is a \w+ and cannot be sent") as caught:
        StorageAccess(StorageOptions({"secret": "a canary", "timeout": value}))
    assert "canary" not in str(caught.value)
