"""The time, in compiled code too: parts of a compiled loop are measured inside it."""

from __future__ import annotations

import time

from gondwana.compiler.types.handles import extend

extend("gondwana.compiler.clock_overloads")


def nanoseconds() -> int:
    """Return the nanoseconds of the monotonic clock. Local; callable in compiled code.

    Example:
        >>> nanoseconds() <= nanoseconds()
        True
    """
    return time.monotonic_ns()
