"""The package that is tested is the one that was installed."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

import pytest

import mklref


@pytest.mark.skipif(os.environ.get("MKLREF_REQUIRE_NATIVE", "false") in ("", "0", "false"), reason="core not required")
def test_the_compiled_core_is_there_where_it_is_required():
    assert mklref.native.AVAILABLE, mklref.native.WHY


def test_the_version_is_that_of_the_installed_package():
    try:
        installed = version("mklref")
    except PackageNotFoundError:
        pytest.skip("tests run on the source tree")
    assert mklref.__version__ == installed
