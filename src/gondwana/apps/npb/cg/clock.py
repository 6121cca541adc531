"""The time, in compiled code too: sections of a compiled loop are measured inside it."""

from __future__ import annotations

import time

from gondwana.jit.handles import extend

extend("gondwana.apps.npb.cg.compiled_clock")


def now() -> float:
    """Return seconds since some moment in the past. Local; callable in compiled code."""
    return time.perf_counter()
