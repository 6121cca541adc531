"""NVTX: spans as ranges in NVIDIA's profilers, where the package nvtx is installed. The one file that imports it.

A range is closed by its identifier: spans of tasks that take turns in a thread end in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from gondwana.runtime.tracing.recorders import recorder

P = ParamSpec("P")
R = TypeVar("R")

DOMAIN = "gondwana"
"""What profilers show the ranges of this library under."""

try:
    if recorder is None:
        raise ImportError
    import nvtx
except ImportError:
    nvtx = None


def begin(name: str) -> Any:
    """Open a range, and return what `end` takes: None without the package or a profiler. Local.

    Args:
        name: name of the range.
    """
    return None if nvtx is None else nvtx.start_range(name, domain=DOMAIN)


def end(opened: Any) -> None:
    """Close a range. Local."""
    if opened is not None:
        nvtx.end_range(opened)


def ranged(function: Callable[P, R], name: str | Callable[..., str]) -> Callable[P, R]:
    """Return a function whose calls are ranges, the same function without the package. Local.

    Args:
        function: the function.
        name: name of the ranges, or a function that returns it for the arguments of a call.
    """
    if nvtx is None:
        return function

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        opened = begin(name if isinstance(name, str) else name(*args, **kwargs))
        try:
            return function(*args, **kwargs)
        finally:
            end(opened)

    return call
