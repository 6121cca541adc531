"""A round of a plan in host memory: handshakes and stores on the node, messages between nodes. Imports Numba.

Python source that is compiled once, for Python and for compiled code.
"""

from __future__ import annotations

import numpy as np

from gondwana.compiler.inlining import called, inlined
from gondwana.compiler.memory_order import fetch_add_word, load_acquire, pause, sched_yield, store_release
from gondwana.compiler.mpi.mpi_overloads import mpi_call, mpi_constant
from gondwana.compiler.types.buffers import load_like, on_stack
from gondwana.transfer.host_copies_native import execute_rows, word_at
from gondwana.transfer.plans.host import HEAD, LINK, MESSAGE

_WORD = 8
_INT = np.int32(0)
_mpi_start, _mpi_test, _status = mpi_call("Start"), mpi_call("Test"), mpi_constant("STATUS")

_SPINS_BEFORE_YIELD = 500
_SPINS_WITH_MESSAGES = 20
"""Most polls in a row of neighbours where there are messages to poll, too."""


@called
def _copy(plan: int, first: int, last: int) -> None:
    """Execute rows of the plan."""
    execute_rows(word_at(plan, HEAD.rows_at), first, last)


@inlined
def _push(plan: int, current: int, first: int) -> int:
    """Write to the neighbours that are ready for this round; return how many are not yet.

    From neighbour -1 on: what stays here is copied, too.
    """
    waiting = 0
    for n in range(first, word_at(plan, HEAD.links)):
        link = word_at(plan, HEAD.links_at) + n * len(LINK) * _WORD
        rows, end = 0, word_at(plan, HEAD.own)
        if n >= 0:
            if word_at(link, LINK.pushed) == current:
                continue
            if load_acquire(word_at(link, LINK.enter_in)) < current:
                waiting += 1
                continue
            rows, end = word_at(link, LINK.first), word_at(link, LINK.last)
        _copy(plan, rows, end)
        if n >= 0:
            store_release(word_at(link, LINK.ready_out), current)
            store_release(link + LINK.pushed * _WORD, current)
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
def _start_messages(plan: int) -> int:
    """Start to receive, then pack and send; return MPI's error code."""
    for number in range(word_at(plan, HEAD.messages)):
        message = _message(plan, number)
        if number >= word_at(plan, HEAD.received):
            _copy(plan, word_at(message, MESSAGE.first), word_at(message, MESSAGE.last))
        error = _mpi_start(message)
        if error != 0:
            return error  # type: ignore[no-any-return]
    return 0


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
def _unpack(plan: int, current: int) -> None:
    """Bring what has arrived to its destinations, once: they may have been changed since."""
    if word_at(plan, HEAD.unpacked) != current:
        for number in range(word_at(plan, HEAD.received)):
            _copy(plan, word_at(_message(plan, number), MESSAGE.first), word_at(_message(plan, number), MESSAGE.last))
        store_release(plan + HEAD.unpacked * _WORD, current)


@inlined
def _give_back(plan: int) -> None:
    count = word_at(plan, HEAD.lent)
    if count != 0:
        store_release(plan + HEAD.lent * _WORD, 0)
        fetch_add_word(count, -1)


def advance(plan: int, spins: int) -> int:
    """Go on with a round until all is written and all has arrived: 1, or until `spins` polls have failed: 0.

    With 0 spins, begin a round: let the neighbours know, start the messages, copy what stays here, write to those who
    are ready. A negative number is minus the error code of MPI.
    """
    current, first, left, complete = word_at(plan, HEAD.round), 0, spins, 0
    if spins == 0:
        current, first = current + 1, -1
        _enter(plan, current)
        complete = -_start_messages(plan)
    elif word_at(plan, HEAD.messages) == 0:
        complete = 1
    else:
        left = min(spins, _SPINS_WITH_MESSAGES)
        complete = _poll_messages(plan)
    if complete < 0:
        return complete
    while True:
        waiting = _push(plan, current, first)
        if left > 0 and waiting == 0 and _arrived(plan, current):
            if complete == 1:
                _unpack(plan, current)
                _give_back(plan)
            return complete
        left -= 1
        if left <= 0:
            if spins != 0 and complete == 0:
                sched_yield()  # another rank may need this core to send
            return 0
        if spins - left < _SPINS_BEFORE_YIELD:
            pause()
        else:
            sched_yield()
