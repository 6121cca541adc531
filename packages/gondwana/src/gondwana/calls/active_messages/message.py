"""Active messages: numbers and an array that are sent to another rank and run a compiled function there."""

from __future__ import annotations

import contextlib
import os
import struct
import types as pytypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.calls import mailbox
from gondwana.calls.active_messages import handlers
from gondwana.calls.endpoints import world_rank
from gondwana.compiler import cache, linker
from gondwana.compiler.cache import fingerprint
from gondwana.compiler.function import HEADER_WORDS, JitFunction, obtain, parameters
from gondwana.compiler.mpi import table
from gondwana.compiler.types.arguments import (
    Described,
    HandleSpec,
    NdarraySpec,
    ScalarSpec,
    Spec,
    TupleSpec,
    describe,
    describe_handle,
    dtype_name,
    intern,
)
from gondwana.errors import UsageError
from gondwana.runtime import progress
from gondwana.runtime.races import reporter
from gondwana.sync import rings
from gondwana.teams import MAX, Team, world
from gondwana.teams.buffers import as_buffer, in_order

SEND, REPLY = "active_message", "active_message_reply"
"""Families of handles: messages can be sent outside of handlers, and sent back inside."""

_FORMATS = {
    "int8": "b7x",
    "int16": "h6x",
    "int32": "i4x",
    "int64": "q",
}
_FORMATS |= {f"u{name}": _FORMATS[name].upper().replace("X", "x") for name in ("int8", "int16", "int32", "int64")}
_FORMATS |= {"bool": "?7x", "float32": "f4x", "float64": "d", "complex64": "ff", "complex128": "dd"}


class ActiveMessage:
    """A compiled function that other ranks run by sending its arguments; a round trip takes about a microsecond.

    Collective over team to create; blocking. The function is called as `function(source, *context, *arguments)`, or
    with a payload as `function(source, *context, *arguments, data)`, inside user-level progress of the receiver, in
    Python or in compiled code, where `gw.progress()` runs only such handlers. `source` is the rank in the team that
    sent the message; `data` is a one-dimensional array, which exists only while the handler runs. A handler must be
    short, since progress waits for it. It cannot send, wait or make progress; it may send one message back to its
    source, by `reply` of an active message in its context. An exception in it is raised on the receiver, by the call
    that makes progress there.

    Messages arrive exactly once. From one rank to another they arrive in the order in which they were sent, and so do
    replies; between a message and a reply there is no order.

    Args:
        function: a plain function or a `@gw.jit` function.
        arguments: dtypes of the numbers that are sent, 8 or 16 bytes each and at most 128 bytes in total.
        context: further arguments from the receiver: arrays, pointers, numbers, active messages. They are bound when
            the active message is created; arrays are shared with the function.
        team: the senders and receivers.
        payload: dtype of the array that each message carries besides, of any length up to `max_payload`; None: none.

    Attributes:
        max_payload: elements that a payload has at most: about 32 KiB. Compiled code can read it, too. Without a
            payload, 0.

    Raises:
        UsageError: the arguments are too long, or `context` has an active message inside a tuple.
        KernelError: the function cannot be compiled, or not work on elements of a dtype.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> counts = np.zeros(2, np.int64)
        >>> def add(source, counts, index, value):
        ...     counts[index] += value
        >>> adding = gw.ActiveMessage(add, ("i8", "i8"), context=(counts,))
        >>> adding.send(gw.world.rank, 1, 5)
        >>> gw.quiesce(gw.world)
        >>> counts.tolist()
        [0, 5]

        >>> bins = np.zeros(4, np.int64)
        >>> def count(source, bins, samples):
        ...     for sample in samples:
        ...         bins[int(4 * sample)] += 1
        >>> counting = gw.ActiveMessage(count, context=(bins,), payload="f8")
        >>> counting.send(gw.world.rank, np.array([0.1, 0.3, 0.9, 0.95]))
        >>> gw.quiesce(gw.world)
        >>> bins.tolist()
        [1, 1, 0, 2]
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[npt.DTypeLike] = (),
        context: Sequence[Any] = (),
        team: Team = world,
        *,
        payload: npt.DTypeLike | None = None,
    ) -> None:
        self.team = team
        self.name = getattr(function, "__qualname__", repr(function))
        self._handlers = handlers.own()
        self._rings = mailbox.own().rings
        self._dtypes = tuple(dtype_name(np.dtype(argument)) for argument in arguments)
        self._payload = None if payload is None else np.dtype(payload)
        self._packer = struct.Struct("=" + "".join(_FORMATS[name] for name in self._dtypes))
        room = rings.LONGEST_MESSAGE - self._packer.size
        self.max_payload = 0 if self._payload is None else room // max(1, self._payload.itemsize)
        problem: Exception | None = None
        try:
            entry = self._compile(function, context)
        except Exception as error:
            problem = error
        team.agree(problem)
        self._number = team.allreduce(self._handlers.free, MAX)
        self._handlers.enter(self._number, self._handled(entry))
        team.barrier()

    def _compile(self, function: Callable[..., Any], context: Sequence[Any]) -> int:
        """Compile the handler and bind its context; return the address of the entry."""
        if self._packer.size > rings.ARGUMENTS * rings.WORD:
            raise UsageError(
                f"{self.name}: arguments of {self._packer.size} bytes, but a message has at most "
                f"{rings.ARGUMENTS * rings.WORD} of them: send the data as an array, payload=dtype"
            )
        plain = function.py_func if isinstance(function, JitFunction) else function
        if not isinstance(plain, pytypes.FunctionType):
            raise UsageError(f"ActiveMessage({function!r}): give a plain Python function or a @gw.jit function")
        arguments, payload = self.argument_specs, self.payload_specs
        sent = arguments + payload
        expected = 1 + len(context) + len(sent)
        if len(parameters(plain)) != expected:
            raise UsageError(
                f"{self.name} has {len(parameters(plain))} parameters, but is called with {expected}: the source, "
                f"{len(context)} of the context and {self._sent('argument')}"
            )
        described = [item._argument(REPLY) if isinstance(item, ActiveMessage) else describe(item) for item in context]
        specs = tuple(spec for spec, _ in described)
        if any(_holds_message(spec) for spec in specs if isinstance(spec, TupleSpec)):
            raise UsageError(f"{self.name}: an active message inside a tuple of the context: pass it as an item")
        self._context = tuple(context)
        self._longest_reply = max((item.nbytes for item in context if isinstance(item, ActiveMessage)), default=-1)
        self._block = np.frombuffer(bytes(HEADER_WORDS * rings.WORD) + b"".join(d for _, d in described), np.int64)
        self._block = self._block.copy()

        def build() -> cache.ObjectCode:
            from gondwana.calls.active_messages.message_native import compile_handler

            return compile_handler(plain, specs, arguments, payload)

        made_by = "gondwana.calls.active_messages.message_native.compile_handler"
        code = obtain(("message", fingerprint(plain), repr((specs, arguments, payload))), build, made_by)
        return linker.link(code)

    @property
    def argument_specs(self) -> tuple[Spec, ...]:
        """The types of the numbers in compiled code."""
        return tuple(intern(ScalarSpec(name)) for name in self._dtypes)

    @property
    def payload_specs(self) -> tuple[Spec, ...]:
        """The type of the payload in compiled code, if there is one."""
        if self._payload is None:
            return ()
        return (intern(NdarraySpec(dtype_name(self._payload), 1, "C", readonly=False)),)

    @property
    def nbytes(self) -> int:
        """The bytes of the longest message."""
        return self._packer.size + (self.max_payload * self._payload.itemsize if self._payload is not None else 0)

    def _sent(self, noun: str) -> str:
        """Say what a message has: so many of a noun, and perhaps an array."""
        count = len(self._dtypes)
        array = "" if self._payload is None else f" and an array of {self._payload}"
        return f"{count} {noun}{'' if count == 1 else 's'}{array}"

    def _handled(self, entry: int) -> handlers.Handled:
        """Return the receiver's description of the handler, after connecting to all ranks for compiled code."""
        ranks = self.team.world_ranks
        self._places = np.array([self._rings.place[rank] for rank in ranks], np.int64)
        for rank in ranks:
            self._rings.connect(rank)
        sources = {rank: place for place, rank in enumerate(ranks)}
        return handlers.Handled(self.name, entry, self._block, sources, self._context, self._longest_reply)

    def send(self, rank: int, *arguments: Any) -> None:
        """Send a message. Local; without room, makes progress until there is, in a callback by compiled handlers only.

        The method works in compiled code too, where only compiled handlers run meanwhile.

        Args:
            rank: the receiver, in the team of this active message.
            arguments: numbers, one for each dtype; then the payload, if it has one: a contiguous array of its dtype,
                whose elements arrive in the order of their indices; one in Fortran's order is copied before, and
                refused in compiled code. It may change when the call returns.

        Raises:
            UsageError: there is no such rank, the numbers do not fit the dtypes, or the payload is longer than
                `max_payload`, not contiguous, or of another dtype. Nothing has been sent.
        """
        target = world_rank(self.team, rank)
        array = None if self._payload is None else self._array(arguments)
        data = self._pack(arguments if array is None else arguments[:-1])
        active, number = self._handlers, self._number
        if reporter is not None:
            handlers.report(rings.MESSAGE, self._rings.place[target], True)
        if active.post(target, number, data, array):
            return
        if not progress.in_callback():
            progress.wait_for_room(
                lambda: active.post(target, number, data, array), f"room for a message to rank {rank}"
            )
            return
        while not active.post(target, number, data, array):
            active.serve_alone()
            os.sched_yield()

    def _array(self, arguments: tuple[Any, ...]) -> npt.NDArray[Any]:
        """Return the payload among arguments."""
        if len(arguments) != len(self._dtypes) + 1:
            raise UsageError(f"{self.name}.send takes {self._sent('number')}, not {len(arguments)} arguments")
        try:
            array = as_buffer(in_order(arguments[-1]), "the payload")
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.name}.send: {error}") from None
        if array.dtype != self._payload:
            raise UsageError(f"{self.name}.send: the payload has elements of {array.dtype}: give {self._payload}")
        if array.size > self.max_payload:
            raise UsageError(
                f"{self.name}.send: a payload of {array.size} elements, but at most {self.max_payload} fit a message "
                "(max_payload): send several, or put the data into a segment and send their location"
            )
        return array

    def _pack(self, arguments: tuple[Any, ...]) -> bytes:
        if len(arguments) != len(self._dtypes):
            raise UsageError(f"{self.name}.send takes {self._sent('number')}, not {len(arguments)}")
        with contextlib.suppress(struct.error):
            return self._packer.pack(*arguments)
        try:
            flat: list[Any] = []
            for name, value in zip(self._dtypes, arguments, strict=True):
                flat += (value.real, value.imag) if name.startswith("complex") else (value,)
            return self._packer.pack(*flat)
        except (struct.error, AttributeError) as error:
            raise UsageError(
                f"{self.name}.send with {arguments}: give numbers of types ({', '.join(self._dtypes)}): {error}"
            ) from None

    def reply(self, source: int, *arguments: Any) -> None:
        """Send a message back to the source of the message being handled; only in compiled handlers.

        The active message must be part of the context of the handler, and a handler may reply once.

        Raises:
            UsageError: called from Python.
        """
        raise UsageError(f"{self.name}.reply: only a compiled handler that has it in its context can reply: use send")

    def _argument(self, family: str) -> Described:
        table.link_delivery()
        words = (self._rings.state, self._number, self._places.ctypes.data, len(self._places), self.max_payload)
        payload = "" if self._payload is None else dtype_name(self._payload)
        return describe_handle(family, (*self._dtypes, payload), words)

    def __gondwana_argument__(self) -> Described:
        """Spec and words for compiled code: the mailbox, the number, the ranks' places and how many, `max_payload`."""
        return self._argument(SEND)

    def __repr__(self) -> str:
        payload = "" if self._payload is None else f", payload={self._payload}"
        return f"ActiveMessage({self.name}, {self._dtypes}{payload}, {self.team.name})"


def word_bytes(name: str) -> int:
    """Return the bytes that a number of a dtype takes in a message. Local."""
    return max(rings.WORD, np.dtype(name).itemsize)


def _holds_message(spec: Spec) -> bool:
    if isinstance(spec, TupleSpec):
        return any(_holds_message(item) for item in spec.items)
    return isinstance(spec, HandleSpec) and spec.family == SEND
