"""What the tests of the emulated GPU have in common."""

from __future__ import annotations

import pytest

from gondwana_emulator import driver


@pytest.fixture(autouse=True)
def _not_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave NVIDIA's assembler out: it takes all these texts, as runs without this fixture show, and time for each."""
    monkeypatch.setattr(driver, "assemble", lambda ptx, capability: (ptx, {}))
