"""Tests that need a GPU. Without one all are skipped, for one reason; GONDWANA_CUDA=emulated tries them without."""

from __future__ import annotations

import functools

import pytest

from gondwana.errors import UsageError
from gondwana.gpu.device import Device, device
from gondwana.gpu.driver import driver


@functools.cache
def reason() -> str:
    """Why no GPU can be used, "" if one can."""
    try:
        driver()
    except UsageError as error:
        return f"no GPU: {error}"
    return ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    # Raised here and not in a fixture: so the summary has one line for all tests.
    if reason():
        pytest.skip(reason())


@pytest.fixture(scope="session")
def gpu() -> Device:
    """The first device, as this process uses it."""
    return device(0)
