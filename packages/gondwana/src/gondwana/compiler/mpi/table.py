"""The table through which compiled code finds MPI: addresses of its functions, handles and constants.

Machine code refers to the table by one external symbol and knows the offsets in it, so an object in the cache is valid
in every process and with every MPI library. Importing this module loads neither Numba nor MPI.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from gondwana.compiler.types.records import DTYPES
from gondwana.runtime.tracing import recorder
from gondwana.runtime.watching import waits
from gondwana.teams import Op, addresses, mpi

SYMBOL = "gondwana_mpi"
"""The name by which machine code refers to the table."""

FUNCTIONS = {
    "Accumulate": 9,
    "Allreduce": 6,
    "Barrier": 1,
    "Bcast": 5,
    "Cancel": 1,
    "Compare_and_swap": 7,
    "Fetch_and_op": 7,
    "Get": 8,
    "Get_accumulate": 12,
    "Get_count": 3,
    "Iallgather": 8,
    "Iallreduce": 7,
    "Ibarrier": 2,
    "Ibcast": 6,
    "Improbe": 6,
    "Iprobe": 5,
    "Irecv": 7,
    "Isend": 7,
    "Mrecv": 5,
    "Put": 8,
    "Recv": 7,
    "Send": 6,
    "Sendrecv": 12,
    "Start": 1,
    "Test": 3,
    "Wait": 2,
    "Win_flush": 2,
    "Win_flush_local": 2,
    "Win_sync": 1,
}
"""The functions in the table, without MPI_, and their numbers of arguments."""

OPERATIONS = ("SUM", "PROD", "MAX", "MIN", "LAND", "LOR", "LXOR", "BAND", "BOR", "BXOR", "REPLACE", "NO_OP")
OF_REALS = {"MAX": "MAX_OF_REALS", "MIN": "MIN_OF_REALS"}
"""Places of the operations that replace MPI's if elements may be NaN."""
CONSTANTS = ("IN_PLACE", "ANY_SOURCE")

UNUSED_TAG = "UNUSED_TAG"
"""Place of a tag that no message has: a probe for it makes MPI progress, and never finds anything."""

STATUS = "STATUS"
"""Place of the address of a block that calls may give as their MPI_Status. It is never read: MPI_STATUS_IGNORE would
do, but its value differs between libraries and mpi4py does not know it."""

MAILBOX = "MAILBOX"
"""Place of the address of this rank's mailbox, for compiled code that makes progress; 0 until there is one."""

DELIVERY = "DELIVERY"
"""Place of the address of this rank's end of the wire between nodes; 0 on a single node."""

TURN = "TURN"
"""Place of the address of the word by which threads of compiled code take turns in one-sided operations of MPI."""

RECORDS = "RECORDS"
"""Place of the address of this process's trace records, for compiled code that records as well."""

LOANS = "LOANS"
"""Place of the address of the count of compiled code's requests that use memory of Python's objects (`objects`)."""

WAITS = "WAITS"
"""Place of the address at which compiled code says what it waits for (`runtime.watching.waits`)."""

_STATUS_BYTES = 256

_NAMES = [
    *(*FUNCTIONS, *OPERATIONS, *OF_REALS.values(), *sorted(DTYPES), *CONSTANTS),
    *(UNUSED_TAG, STATUS, TURN, MAILBOX, DELIVERY, RECORDS, LOANS, WAITS),
]
SLOTS = {name: place for place, name in enumerate(_NAMES)}
"""Place of every entry in the table, by its name."""

_table = np.zeros(len(_NAMES), np.int64)
_status = np.zeros(_STATUS_BYTES, np.uint8)
_turn = np.zeros(1, np.int64)
_registered = False
_link_delivery: Callable[[], None] | None = None


def register() -> None:
    """Register the table with the linker, and fill it if MPI runs. Local.

    Without MPI the entries are 0: machine code for one rank refers to the table and never calls through it.
    """
    global _registered
    if not _registered:
        from llvmlite import binding

        binding.add_symbol(SYMBOL, _table.ctypes.data)
        _registered = True
    _follow_recorder()
    _table[SLOTS[WAITS]] = waits.ADDRESS
    if _table[0] == 0 and mpi.is_running():
        _table[: SLOTS[MAILBOX]] = _entries()


def _follow_recorder() -> None:
    """Store the address of the records of this process, which may be a forked copy of a rank by now."""
    if recorder is not None:
        _table[SLOTS[RECORDS]] = recorder.address


os.register_at_fork(after_in_child=_follow_recorder)


def set_mailbox(address: int) -> None:
    """Store the address of the mailbox of this rank for compiled code. Local."""
    _table[SLOTS[MAILBOX]] = address


def set_loans(address: int) -> None:
    """Store the address at which compiled code counts requests from now on. Local."""
    _table[SLOTS[LOANS]] = address


def set_delivery(address: int, link: Callable[[], None] | None = None) -> None:
    """Store the address of the end of the wire between nodes for compiled code, 0 for none. Local.

    Args:
        address: address of the state.
        link: loads the machine code that compiled code calls through the state.
    """
    global _link_delivery
    _table[SLOTS[DELIVERY]], _link_delivery = address, link


def link_delivery() -> None:
    """Load the machine code that compiled code calls to receive. Local; cheap after the first time."""
    global _link_delivery
    link, _link_delivery = _link_delivery, None  # before, since that machine code uses the table, too
    if link is not None:
        link()


def _entries() -> list[int]:
    return [
        *[addresses.function(f"MPI_{name}") for name in FUNCTIONS],
        *[addresses.operation(name) for name in OPERATIONS],
        *[addresses.handle(mpi.extreme_of_reals(Op[name])) for name in OF_REALS],
        *[addresses.datatype(dtype) for dtype in sorted(DTYPES)],
        *[addresses.constant(name) for name in CONSTANTS],
        mpi.largest_tag(),
        _status.ctypes.data,
        _turn.ctypes.data,
    ]
