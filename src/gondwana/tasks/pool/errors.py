"""What goes wrong with the workers of a pool."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor

from gondwana.errors import GondwanaError


class WorkerLostError(GondwanaError, BrokenExecutor):
    """A worker ended while it had a task; the message names both. The pool goes on."""


class PoolBrokenError(GondwanaError, BrokenExecutor):
    """A pool has no workers any more and cannot start others: their initializer fails, or they end as they start."""


class PoolClosedError(GondwanaError, RuntimeError):
    """A task was submitted to a pool that is shut down."""
