"""Signalled puts in compiled code: whom `notify=` names, and the one message to another node. Imports Numba."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import overload

from gondwana.compiler.inlining import INLINED, called, inlined
from gondwana.compiler.memory_order import call_at, load_word
from gondwana.compiler.mpi.mpi_overloads import mpi_constant
from gondwana.compiler.mpi.table import DELIVERY
from gondwana.compiler.types.handle_types import handle_word, is_handle
from gondwana.memory.segment import TABLE_HEAD
from gondwana.sync.delivery import LARGEST_COMPILED, STATE
from gondwana.sync.rings_native import at
from gondwana.sync.signals_native import CHANNEL

_WORD = 8
_delivery = mpi_constant(DELIVERY)


def _entry(word: int) -> Any:
    """A function for compiled code that calls the machine code whose address is at a word of the state.

    Its first argument is the state.
    """

    @inlined
    def call(*args: int) -> int:
        return call_at(at(args[0], word), *args)  # type: ignore[no-any-return]

    return call


_poll, _send, _complete = _entry(STATE.poll), _entry(STATE.send), _entry(STATE.complete)


@inlined
def apply_what_arrives() -> None:
    """Receive what other nodes send by `delivery`; MPI makes progress with all else.

    The machine code for it is loaded with the first team, signal or active message that compiled code gets.
    """
    state = _delivery()
    if state != 0 and at(state, STATE.poll) != 0 and _poll(state) < 0:
        raise RuntimeError(
            "MPI failed to receive a signalled put, an active message or a call; a wait in Python says more"
        )


@inlined
def has_other_nodes() -> bool:
    """Return whether the job has several nodes, so that signalled puts may arrive while this rank waits in MPI."""
    return _delivery() != 0  # type: ignore[no-any-return]


def completer(name: str) -> Any:
    """Return a function that waits for the request of MPI at an address, and applies what arrives meanwhile.

    It is for jobs with other nodes.

    Args:
        name: of what the request does, for the message of the RuntimeError that is raised if MPI returns an error.
    """
    message = f"MPI_{name} failed; the same operation called from Python says more"

    @inlined
    def complete(request: int) -> None:
        if _complete(_delivery(), request) < 0:
            raise RuntimeError(message)

    return complete


def is_notice(kind: Any) -> bool:
    """Tell whether a Numba type is that of a signal, or of one of its counters as `signal.at` returns it. Local."""
    return is_handle(kind, "signal") or _is_counter(kind)


def spans_nodes(kind: Any) -> bool:
    """Tell whether the team of the signal of a `notify=` has ranks on several nodes. Local."""
    return bool((kind[0] if _is_counter(kind) else kind).parameters == ("nodes",))


def _is_counter(kind: Any) -> bool:
    return isinstance(kind, types.BaseTuple) and len(kind) == 3 and is_handle(kind[0], "signal")


@inlined
def _in_world(table: int, rank: int) -> int:
    """The rank in the world of a rank of the team of a segment."""
    return load_word(load_word(table + 3 * _WORD) + rank * _WORD)  # type: ignore[no-any-return]


@called
def _owner_in(signal_table: int, table: int, rank: int) -> int:
    """The rank in the team of a signal of the owner of memory, a rank of the team of another segment."""
    if load_word(signal_table + 3 * _WORD) == load_word(table + 3 * _WORD):
        return rank
    owner = _in_world(table, rank)
    for place in range(load_word(signal_table)):
        if _in_world(signal_table, place) == owner:
            return place
    raise ValueError("put with notify=: the owner of the memory is not in the team of the signal")


def counter_of(ptr: Any, notify: Any) -> Any:
    """Return the signal, the rank and the channel that `notify=` of a put to where a pointer points means."""
    raise NotImplementedError  # in compiled code only


@overload(counter_of, jit_options=INLINED)
def _counter_of(ptr: Any, notify: Any) -> Any:
    def named(ptr: Any, notify: Any) -> Any:
        return notify

    def of_owner(ptr: Any, notify: Any) -> Any:
        return notify, _owner_in(handle_word(notify, 0), handle_word(ptr, 0), handle_word(ptr, 1)), 0

    return named if _is_counter(notify) else of_owner


@called
def _send_far(
    table: int, rank: int, offset: int, address: int, nbytes: int, signal_table: int, signal_rank: int, channel: int,
    arrivals: int,
) -> bool:  # fmt: skip
    state, owner, ranks = _delivery(), _in_world(table, rank), load_word(table)
    if state == 0 or nbytes > LARGEST_COMPILED or _in_world(signal_table, signal_rank) != owner:
        return False
    size = load_word(table + (TABLE_HEAD + ranks + rank) * _WORD)
    base = load_word(table + (TABLE_HEAD + 2 * ranks + rank) * _WORD)
    if load_word(table + _WORD) == 0 or base == 0 or offset < 0 or offset > size - nbytes:
        return False  # there is no window, or MPI refuses such a put
    line = load_word(signal_table + (TABLE_HEAD + 2 * load_word(signal_table) + signal_rank) * _WORD)
    number = _send(state, owner, address, nbytes, base + offset, line + channel * CHANNEL, arrivals, 0)
    if number < 0:
        raise RuntimeError("MPI failed to send a signal, of notify= or alone; the same call from Python says more")
    return number > 0  # type: ignore[no-any-return]


@inlined
def send_arrivals(table: int, rank: int, channel: int, n: int) -> bool:
    """Send another node arrivals of the signal of a segment in a message; return whether that was possible."""
    return _send_far(table, rank, 0, 0, 0, table, rank, channel, n)  # type: ignore[no-any-return]


@inlined
def send_put(ptr: Any, address: int, nbytes: int, signal: Any, rank: int, channel: int) -> bool:
    """Send bytes and a signal to another node in one message; return whether that was possible."""
    table, owner, offset = handle_word(ptr, 0), handle_word(ptr, 1), handle_word(ptr, 2)
    return _send_far(table, owner, offset, address, nbytes, handle_word(signal, 0), rank, channel, 1)  # type: ignore[no-any-return]


@inlined
def send_nothing(ptr: Any, address: int, nbytes: int, signal: Any, rank: int, channel: int) -> bool:
    """Return False: the owner of the signal is on this node."""
    return False
