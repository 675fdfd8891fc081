"""What `import daskfs` offers: everything it names, and only when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import daskfs


@pytest.mark.parametrize("name", daskfs.__all__)
def test_every_name_is_there(name):
    assert getattr(daskfs, name) is not None
    assert name in dir(daskfs)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'selekt'"):
        _ = daskfs.selekt


def test_importing_the_package_is_quick():
    code = "import sys, daskfs; print('numpy' in sys.modules, 'dask' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200).stdout
    assert shown.split() == ["False", "False"]
