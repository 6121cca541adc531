"""The driver of the emulated GPU."""

from __future__ import annotations

from gondwana.cuda.driver import Driver


class EmulatedDriver(Driver):
    """The driver of the emulated GPU."""
