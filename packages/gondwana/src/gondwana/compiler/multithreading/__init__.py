"""Threads of a rank: the pool that runs kernels, and teams of threads that run a compiled function together."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gondwana.runtime import later as _later

if _TYPE_CHECKING:
    from gondwana.compiler.multithreading.pool import set_threads as set_threads, threads as threads
    from gondwana.compiler.multithreading.team import ThreadTeam as ThreadTeam, parallel as parallel

__getattr__, __dir__ = _later.later(
    __name__,
    {
        "gondwana.compiler.multithreading.pool": "set_threads threads",
        "gondwana.compiler.multithreading.team": "ThreadTeam parallel",
    },
)
