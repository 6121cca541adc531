"""Python's collector of reference cycles, and a way to pause it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Keep the collector from running, on all threads. Local.

    While many objects are made that stay, such as modules and tables of a compiler, the collector scans all of them
    again and again, and finds nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
