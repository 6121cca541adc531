"""The time, in compiled code too: parts of a compiled loop are measured inside it."""

from __future__ import annotations

import time

from gondwana.jit.handles import extend

extend("gondwana.jit.compiled_clock")


def nanoseconds() -> int:
    """Return the nanoseconds of the monotonic clock. Local; callable in compiled code.

    Example:
        >>> nanoseconds() <= nanoseconds()
        True
    """
    return time.monotonic_ns()
