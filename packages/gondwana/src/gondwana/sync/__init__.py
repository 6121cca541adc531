"""Synchronisation of ranks through memory: signals, atomic operations, locks.

Below these are `rings`, in which messages of the library lie, and `delivery`, the wire that carries the rings between
nodes, and puts with their signals.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gondwana.runtime import later as _later

if _TYPE_CHECKING:
    from gondwana.sync.atomics import AtomicDomain as AtomicDomain
    from gondwana.sync.locks import Lock as Lock
    from gondwana.sync.signals import Signal as Signal, signal as signal, wait as wait

__getattr__, __dir__ = _later.later(
    __name__,
    {
        "gondwana.sync.atomics": "AtomicDomain",
        "gondwana.sync.locks": "Lock",
        "gondwana.sync.signals": "Signal signal wait",
    },
)
