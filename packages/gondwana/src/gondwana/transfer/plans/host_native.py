"""A round of a plan in host memory: handshakes and stores on the node, messages between nodes. Imports Numba.

Python source that is compiled once, for Python and for compiled code.
"""

from __future__ import annotations

import numpy as np

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import (
    call_at,
    fetch_add_word,
    load_acquire,
    load_word,
    pause,
    sched_yield,
    store_release,
)
from gondwana.compiler.mpi.mpi_overloads import mpi_call, mpi_constant
from gondwana.compiler.types.buffers import load_like, on_stack
from gondwana.transfer.host_copies_native import execute_rows, word_at
from gondwana.transfer.plans.host import HEAD, KERNEL, LINK, MESSAGE, RAISED

_WORD = 8
_INT = np.int32(0)
_mpi_start, _mpi_test, _status = mpi_call("Start"), mpi_call("Test"), mpi_constant("STATUS")

_SPINS_BEFORE_YIELD = 500
_MESSAGES_BEFORE_YIELD = 20
"""Polls before the processor is yielded between them, without messages and with some."""
_SPINS_WITH_MESSAGES = 100
"""Most polls in a row where there are messages to poll, too: about as long as a round trip."""


@inlined
def _carry_out(plan: int, current: int, first: int, last: int, unpacking: bool) -> int:
    """Carry out some parts of a round; return how many neighbours are not ready, or minus MPI's error code.

    From neighbour 0 on, write to those that are ready for this round. Before them, neighbour -1, what stays here is
    copied, and before that, messages are started, or those that have arrived are unpacked. There is one place that
    executes rows: each is compiled anew.
    """
    waiting, messages = 0, word_at(plan, HEAD.messages)
    for n in range(first, last):
        link = word_at(plan, HEAD.links_at) + n * len(LINK) * _WORD
        message = _message(plan, n + 1 + messages)
        rows, end = 0, word_at(plan, HEAD.own)
        if n >= 0:
            if word_at(link, LINK.pushed) == current:
                continue
            if load_acquire(word_at(link, LINK.enter_in)) < current:
                waiting += 1
                continue
            rows, end = word_at(link, LINK.first), word_at(link, LINK.last)
        elif n < -1:
            is_packed = unpacking or n + 1 + messages >= word_at(plan, HEAD.received)
            rows, end = word_at(message, MESSAGE.first), word_at(message, MESSAGE.last) if is_packed else 0
        execute_rows(word_at(plan, HEAD.rows_at), rows, end)
        if n >= 0:
            store_release(word_at(link, LINK.ready_out), current)
            store_release(link + LINK.pushed * _WORD, current)
        elif n < -1 and not unpacking:
            error = _mpi_start(message)
            if error != 0:
                return -error  # type: ignore[no-any-return]
    return waiting


@inlined
def _enter(plan: int, current: int) -> None:
    """Begin a round: let the neighbours know."""
    store_release(plan + HEAD.round * _WORD, current)
    for n in range(word_at(plan, HEAD.links)):
        link = word_at(plan, HEAD.links_at) + n * len(LINK) * _WORD
        store_release(word_at(link, LINK.enter_out), current)


@inlined
def _arrived(plan: int, current: int) -> bool:
    for n in range(word_at(plan, HEAD.links)):
        link = word_at(plan, HEAD.links_at) + n * len(LINK) * _WORD
        if load_acquire(word_at(link, LINK.ready_in)) < current:
            return False
    return True


@inlined
def _message(plan: int, number: int) -> int:
    return word_at(plan, HEAD.messages_at) + number * len(MESSAGE) * _WORD  # type: ignore[no-any-return]


@inlined
def _poll_messages(plan: int) -> int:
    """Return 1 if no message is under way, else 0, or minus MPI's error code."""
    complete = 1
    for number in range(word_at(plan, HEAD.messages)):
        done = on_stack(0)
        error = _mpi_test(_message(plan, number), done, _status())
        if error != 0:
            return -error  # type: ignore[no-any-return]
        if load_like(done, _INT) == 0:
            complete = 0
    return complete


@inlined
def _give_back(plan: int) -> None:
    count = word_at(plan, HEAD.lent)
    if count != 0:
        store_release(plan + HEAD.lent * _WORD, 0)
        fetch_add_word(count, -1)


@inlined
def _run_kernels(plan: int, first: int, last: int) -> bool:
    """Run some kernels of the round; return whether none of them raised."""
    compiled = word_at(plan, HEAD.lent) != 0
    for n in range(first, last):
        kernel = word_at(plan, HEAD.kernels_at) + n * len(KERNEL) * _WORD
        if word_at(kernel, KERNEL.kept) != 0 and not compiled:
            continue
        if word_at(kernel, KERNEL.time_at) != 0:
            store_release(word_at(kernel, KERNEL.time_at), word_at(plan, HEAD.time))
        call_at(word_at(kernel, KERNEL.entry), word_at(kernel, KERNEL.block), 0, 1)
        if load_word(word_at(kernel, KERNEL.block)) != 0:
            return False
    return True


def advance(plan: int, spins: int) -> int:
    """Go on with a round until all is written and all has arrived: 1, or until `spins` polls have failed: 0.

    With 0 spins, begin a round: let the neighbours know, start the messages, copy what stays here, write to those who
    are ready, run the first kernels. A negative number is `RAISED`, or minus the error code of MPI.
    """
    current, left, complete, unpacking = word_at(plan, HEAD.round), spins, 0, False
    first, last, messages = 0, word_at(plan, HEAD.links), word_at(plan, HEAD.messages)
    patience = _SPINS_BEFORE_YIELD if messages == 0 else _MESSAGES_BEFORE_YIELD
    if spins == 0:
        current, first = current + 1, -1 - messages
        _enter(plan, current)
    elif messages == 0:
        complete = 1
    else:
        spins = left = spins if spins < _SPINS_WITH_MESSAGES else _SPINS_WITH_MESSAGES
        complete = _poll_messages(plan)
    while complete >= 0:
        waiting = _carry_out(plan, current, first, last, unpacking)
        if waiting < 0:
            return waiting  # type: ignore[no-any-return]
        if complete == 1 and left > 0 and waiting == 0 and _arrived(plan, current):
            if messages != 0 and word_at(plan, HEAD.unpacked) != current:
                # Once: the destinations may be changed afterwards.
                store_release(plan + HEAD.unpacked * _WORD, current)
                first, last, unpacking = -1 - messages, word_at(plan, HEAD.received) - 1 - messages, True
                continue
            raised = False
            if word_at(plan, HEAD.filled) != current:  # once, too
                store_release(plan + HEAD.filled * _WORD, current)
                if word_at(plan, HEAD.lent) != 0:
                    store_release(plan + HEAD.whole * _WORD, current)
                raised = not _run_kernels(plan, word_at(plan, HEAD.early), word_at(plan, HEAD.kernels))
            _give_back(plan)
            return RAISED if raised else 1
        if spins == 0:
            return 0 if _run_kernels(plan, 0, word_at(plan, HEAD.early)) else RAISED
        left -= 1
        if left <= 0:
            return 0
        if complete == 0:
            complete = _poll_messages(plan)
        if spins - left < patience:
            pause()
        else:
            sched_yield()
    return complete
