"""Python's collector of reference cycles, and a pause of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Keep the collector from running, on all threads. Local.

    While much is made that stays, such as modules and what a compiler knows, it looks through all of it again and
    again, and finds nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
