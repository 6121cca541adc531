"""The clock, for Python and compiled code alike."""

from __future__ import annotations

import time


def clock() -> int:
    """Return the nanoseconds since a fixed moment of this machine's past. Local; callable in compiled code.

    The clock is monotonic and the same for all processes of a node, in Python and in compiled code: differences are
    durations. A call takes some tens of nanoseconds.

    Example:
        >>> import gondwana as gw
        >>> start = gw.clock()
        >>> gw.clock() - start >= 0
        True
    """
    return time.monotonic_ns()
