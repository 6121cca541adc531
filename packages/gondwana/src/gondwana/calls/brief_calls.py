"""Brief calls: those of named functions with plain arguments, by machine code.

They go through the rings as other calls do. But machine code that CPython calls looks the function up, marshals the
arguments and writes the message; and at the receiver takes it, calls the function and sends the result, for many
messages in turn. What it leaves, errors included, goes the general path of `endpoints`.

A function has a number, which its sender chooses, one series for each receiver. The first call goes by the name of the
function and says which number it has from then on: messages of a ring arrive in the order in which they are sent.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.calls import names, wire
from gondwana.calls.inbox import Inbox
from gondwana.compiler.native import Native
from gondwana.runtime import tracing
from gondwana.runtime.races import reporter
from gondwana.sync import rings

NUMBERED, ALONE, NUMBER_SHIFT = 16, 32, 8
"""Bits of a tag: the number of the function stands for its name; the call has no arguments, hence no payload. From the
shift on, the number of the function plus one; in calls by name it is the one that the function has from then on."""
MOST_NUMBERS = 2**15 - 1
"""Functions that have a number at one receiver: a tag has 24 bits with its sign."""
_KEPT = 1024
"""Function objects that are remembered for a receiver."""

# Words of the block that machine code gets.
STATE, FUNCTIONS, KINDS, OUTCOME, SERVED, PEER, NUMBER, WORDS = range(8)
# Words of the table of addresses of objects: None, then types.
NONE, FUNCTION, BUILTIN_FUNCTION, TUPLE, VALUES = range(5)
_VALUE_TYPES = (int, float, str, type(None), bool, bytes, complex)
assert frozenset(_VALUE_TYPES) == wire.BUILTIN_TYPES
END_OF_KINDS = VALUES + len(_VALUE_TYPES)

# What machine code reports: nothing has come, or is left; something that it leaves has; a call has returned something
# that it does not send; a call has failed.
NOTHING, OTHER, VALUE, FAILED = range(4)

_MODULE = "gondwana.calls.brief_calls_native"

Send = Callable[[int, Any, tuple[Any, ...]], int]
"""Takes the number of a call, a function and its arguments; returns 1, or 0: it was not sent."""


senders: dict[int, Send] = {}
os.register_at_fork(after_in_child=senders.clear)  # a copy of a rank would write between the messages of the rank
"""What sends a brief call to a rank of the world, for those to which this rank has sent any call."""


class Block:
    """What machine code gets to serve calls, and where it reports. Local.

    Args:
        state: of the rings.
        functions: that other ranks mean by numbers.
        kinds: addresses of types.

    Attributes:
        address: of its words.
        report: they.
    """

    __slots__ = ("_words", "address", "report")

    def __init__(self, state: int, functions: object, kinds: npt.NDArray[np.int64]) -> None:
        self._words = np.zeros(WORDS, np.int64)
        self._words[[STATE, FUNCTIONS, KINDS]] = state, id(functions), kinds.ctypes.data
        self.address: int = self._words.ctypes.data
        self.report = self._words.data


class _Receiver:
    """What this rank has agreed with a rank that it calls.

    Attributes:
        functions: of functions that a module holds and that have a number: its namespace, the name there, the number.
        numbers: of references.
    """

    def __init__(self) -> None:
        self.functions: dict[Any, tuple[dict[str, Any], str, int]] = {}
        self.numbers: dict[str, int] = {}


class BriefCalls:
    """The brief calls of this rank. Local.

    Args:
        inbox: the rings.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._receivers: dict[int, _Receiver] = {}
        self._introducing = threading.Lock()
        self._functions: list[list[tuple[dict[str, Any], str, str]]] = [[] for _ in inbox.ranks]
        things = (None, FunctionType, BuiltinFunctionType, tuple, *_VALUE_TYPES)
        self._kinds = np.array([id(thing) for thing in things], np.int64)
        self._own = self.block()

    # -- sending -------------------------------------------------------------------------------------------------

    def post(self, rank: int, function: Any, tag: int, number: int, data: bytes) -> bool:
        """Send a call by name if there is room, with the number that the function has from now on. Local."""
        push, queue = self._inbox.push_one, rings.CALL
        known = (
            None
            if tracing.recorder is not None or reporter is not None or tag != wire.BUILTIN
            else names.known(function)
        )
        if known is None or not self._introducing.acquire(False):  # a finalizer, or another thread, introduces one
            return push(rank, queue, tag, number, data)
        try:
            receiver = self._receivers.get(rank)
            if receiver is None:
                receiver = self._meet(rank)
            namespace, name, reference = known
            chosen = receiver.numbers.get(reference)
            if chosen is None and len(receiver.numbers) < MOST_NUMBERS:
                chosen = len(receiver.numbers)
                if not push(rank, queue, tag | (chosen + 1) << NUMBER_SHIFT, number, data):
                    return False
                receiver.numbers[reference] = chosen
            elif not push(rank, queue, tag, number, data):
                return False
            if chosen is not None:
                if len(receiver.functions) >= _KEPT:
                    receiver.functions.clear()
                receiver.functions[function] = namespace, name, chosen
            return True
        finally:
            self._introducing.release()

    def _meet(self, rank: int) -> _Receiver:
        self._inbox.connect(rank)
        receiver = self._receivers[rank] = _Receiver()
        send = Native(_MODULE, "send_call", 6, objects=2).call
        tables = id(receiver.functions), self._kinds.ctypes.data
        if reporter is None:  # else each call is one that carries names
            senders[rank] = functools.partial(send, self._inbox.outs[rings.CALL][rank], *tables)
        return receiver

    # -- receiving -----------------------------------------------------------------------------------------------

    def learn(self, source: int, number: int, reference: str) -> None:
        """Remember which function a rank means by a number plus one. Local."""
        # The next number, or the last one again, if an exception of a signal handler kept its sender from noting it.
        self._functions[self._inbox.place[source]][number - 1 : number] = [names.place_of(reference)]

    def reference(self, source: int, number: int) -> str:
        """Return the name of the function that a rank means by a number plus one. Local."""
        return self._functions[self._inbox.place[source]][number - 1][2]

    def block(self) -> Block:
        """Return a block for the calls that a thread serves. Local."""
        return Block(self._inbox.state, self._functions, self._kinds)

    @functools.cached_property
    def serve(self) -> Callable[[int, int], Any]:
        """Machine code that runs brief calls, from a block and a limit: see `brief_calls_native.serve_calls`."""
        return Native(_MODULE, "serve_calls", 2, makes_object=True).call  # type: ignore[no-any-return]

    @functools.cached_property
    def take_reply(self) -> Callable[[int], Any]:
        """Machine code that takes a reply within a number of polls: see `brief_calls_native.take_reply`."""
        if reporter is not None:  # replies are taken where that is reported
            return lambda polls: None
        return functools.partial(Native(_MODULE, "take_reply", 2, makes_object=True).call, self._own.address)
