"""Active messages: numbers that are sent to another rank and run a compiled function there."""

from __future__ import annotations

import contextlib
import os
import struct
import types as pytypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.calls import handlers, mailbox, rings
from gondwana.calls.endpoints import world_rank
from gondwana.compiler import cache, linker
from gondwana.compiler.fingerprint import fingerprint
from gondwana.compiler.function import HEADER_WORDS, JitFunction, obtain, parameters
from gondwana.compiler.types.arguments import (
    Described,
    HandleSpec,
    ScalarSpec,
    Spec,
    TupleSpec,
    describe,
    dtype_name,
    intern,
)
from gondwana.compiler.types.handles import describe_handle, extend
from gondwana.errors import UsageError
from gondwana.runtime import progress
from gondwana.teams import MAX, Team, world

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

extend("gondwana.calls.active_messages_overloads")


class ActiveMessage:
    """A compiled function that other ranks run by sending its arguments; a round trip takes about a microsecond.

    Collective over team to create; blocking. The function is called as `function(source, *context, *arguments)` inside
    user-level progress of the receiver, in Python or in compiled code, where `gw.progress()` runs only such handlers.
    `source` is the rank in the team that sent the message. A handler must be short, since progress waits for it. It
    cannot send, wait or make progress; it may send one message back to its source, by `reply` of an active message in
    its context. An exception in it is raised on the receiver, by the call that makes progress there.

    Messages arrive exactly once; those between two ranks of a node in the order in which they were sent.

    Args:
        function: a plain function or a `@gw.jit` function.
        arguments: dtypes of the numbers that are sent, 8 or 16 bytes each and at most 128 bytes in total.
        context: further arguments from the receiver: arrays, pointers, numbers, active messages. They are bound when
            the active message is created; arrays are shared with the function.
        team: the senders and receivers.

    Raises:
        UsageError: the arguments are too long, or `context` has an active message inside a tuple.
        KernelError: the function cannot be compiled.

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
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[npt.DTypeLike] = (),
        context: Sequence[Any] = (),
        team: Team = world,
    ) -> None:
        self.team = team
        self.name = getattr(function, "__qualname__", repr(function))
        self._handlers = handlers.own()
        self._rings = mailbox.own().rings
        self._dtypes = tuple(dtype_name(np.dtype(argument)) for argument in arguments)
        self._packer = struct.Struct("=" + "".join(_FORMATS[name] for name in self._dtypes))
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
                f"{rings.ARGUMENTS * rings.WORD}: put data into a segment and send their location"
            )
        plain = function.py_func if isinstance(function, JitFunction) else function
        if not isinstance(plain, pytypes.FunctionType):
            raise UsageError(f"ActiveMessage({function!r}): give a plain Python function or a @gw.jit function")
        expected = 1 + len(context) + len(self._dtypes)
        if len(parameters(plain)) != expected:
            raise UsageError(
                f"{self.name} has {len(parameters(plain))} parameters, but is called with {expected}: the source, "
                f"{len(context)} of the context and {len(self._dtypes)} arguments"
            )
        described = [item._argument(REPLY) if isinstance(item, ActiveMessage) else describe(item) for item in context]
        specs = tuple(spec for spec, _ in described)
        if any(_holds_message(spec) for spec in specs if isinstance(spec, TupleSpec)):
            raise UsageError(f"{self.name}: an active message inside a tuple of the context: pass it as an item")
        self._context = tuple(context)
        self._block = np.frombuffer(bytes(HEADER_WORDS * rings.WORD) + b"".join(d for _, d in described), np.int64)
        self._block = self._block.copy()

        def build() -> cache.ObjectCode:
            from gondwana.calls.handlers_native import compile_handler

            return compile_handler(plain, specs, self.argument_specs)

        code = obtain(("message", fingerprint(plain), repr((specs, self._dtypes))), build)
        return linker.link(code)

    @property
    def argument_specs(self) -> tuple[Spec, ...]:
        """The types of the numbers in compiled code."""
        return tuple(intern(ScalarSpec(name)) for name in self._dtypes)

    def _handled(self, entry: int) -> handlers.Handled:
        """Return the receiver's description of the handler, after connecting to all ranks for compiled code."""
        ranks = self.team.world_ranks
        self._places = np.array([self._rings.place.get(rank, -1 - rank) for rank in ranks], np.int64)
        for rank in ranks:
            if rank in self._rings.place:
                self._rings.connect(rank)
        sources = {rank: place for place, rank in enumerate(ranks)}
        return handlers.Handled(self.name, entry, self._block, sources, self._context)

    def send(self, rank: int, *arguments: Any) -> None:
        """Send a message. Local; without room, makes progress until there is, or in a callback queues the message.

        The method works in compiled code too; there the receiver must be on the same node, and only compiled handlers
        run meanwhile.

        Args:
            rank: the receiver, in the team of this active message.
            arguments: numbers, one for each dtype.

        Raises:
            UsageError: there is no such rank, or the numbers do not fit the dtypes.
        """
        target = world_rank(self.team, rank)
        data = self._pack(arguments)
        active, number = self._handlers, self._number
        if active.post(target, number, data):
            return
        if not progress.in_callback():
            progress.wait_until(lambda: active.post(target, number, data), f"room for a message to rank {rank}")
        elif target in self._rings.place:
            # Compiled handlers need no progress that a callback prevents.
            while not active.post(target, number, data):
                active.serve_node()
                os.sched_yield()
        else:
            active.send_later(target, number, data)

    def _pack(self, arguments: tuple[Any, ...]) -> bytes:
        if len(arguments) != len(self._dtypes):
            raise UsageError(f"{self.name}.send takes {len(self._dtypes)} numbers, not {len(arguments)}")
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
        words = (self._rings.state, self._number, self._places.ctypes.data, len(self._places))
        return describe_handle(family, self._dtypes, words)

    def __gondwana_argument__(self) -> Described:
        """Spec and words for compiled code: the mailbox, the number, the places of the ranks and their number."""
        return self._argument(SEND)

    def __repr__(self) -> str:
        return f"ActiveMessage({self.name}, {self._dtypes}, {self.team.name})"


def word_bytes(name: str) -> int:
    """Return the bytes that a number of a dtype takes in a message. Local."""
    return max(rings.WORD, np.dtype(name).itemsize)


def _holds_message(spec: Spec) -> bool:
    if isinstance(spec, TupleSpec):
        return any(_holds_message(item) for item in spec.items)
    return isinstance(spec, HandleSpec) and spec.family == SEND
