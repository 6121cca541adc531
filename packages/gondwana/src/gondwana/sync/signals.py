"""Signals: counters by which ranks notify each other that data have arrived, or that they may continue."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from gondwana.compiler.mpi import table
from gondwana.compiler.native import Native
from gondwana.compiler.types.arguments import Described, describe_handle
from gondwana.errors import UsageError
from gondwana.futures import needs_progress
from gondwana.memory.segment import Segment
from gondwana.runtime import cores, ordering, progress
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.tracing import Route, counted, traced
from gondwana.runtime.watching import waits
from gondwana.sync import delivery
from gondwana.teams import SUM, Team

F = TypeVar("F", bound=Callable[..., Any])

_MODULE = "gondwana.sync.signals_native"
_take_soon = Native(_MODULE, "take_soon", 3, brief=True)
_take = Native(_MODULE, "take" if ordering.log is None else "take_in_step", 4, brief=True)
_add_for = Native(_MODULE, "add_for", 4, brief=True)
_count = Native(_MODULE, "count", 1, brief=True)

_FAR, _SPINS, _CHANNEL = 64, 136, 256  # bytes, as in `signals_native`
_PATIENCE = 1000
"""Polls before a waiting rank makes progress, or in compiled code yields the processor: some ten microseconds."""
_FEW = 20
"""Polls between later calls of progress."""
_MANY = 100
"""Polls with MPI, where there are other nodes, before a waiting rank makes progress: about as long as a round trip."""

_SHOWN = 8
"""The most channels whose counters the text of a signal shows."""

MOST = 2**31 - 1
"""The largest number of arrivals of one call: the counters of 64 bits then never overflow."""


_known: weakref.WeakSet[Signal] = weakref.WeakSet()


def _route(_: object, target: Signal, rank: int, *_rest: int, **_more: int) -> Route:
    """The way of a signal, which has no data."""
    return None, target.team.world_ranks[rank], 0


def _reported(add: F) -> F:
    """Have the arrivals that a call adds be reported, before it adds them."""
    if reporter is None:
        return add
    one = reporter

    @functools.wraps(add)
    def report(target: Signal, rank: int, n: int = 1, channel: int = 0) -> None:
        if 0 <= rank < target.team.size:
            one.add(Kind.ADD, target.segment.key, target.team.world_ranks[rank], channel, n)
            one.flush()
        add(target, rank, n, channel)

    return report  # type: ignore[return-value]


def _reported_wait(wait: F) -> F:
    """Have the arrivals that a call has consumed be reported."""
    if reporter is None:
        return wait
    one = reporter

    @functools.wraps(wait)
    def report(source: Signal, n: int = 1, channel: int = 0, timeout: float | None = None) -> None:
        own = source.team.world_ranks[source.team.rank]
        one.flush()
        wait(source, n, channel, timeout)
        one.add(Kind.WAIT, source.segment.key, own, channel, n, site=one.site("wait for a signal"))

    return report  # type: ignore[return-value]


class Signal:
    """Counters of arrivals, one for each rank and channel: any rank adds, the owner waits for them and consumes them.

    Collective over team to create (blocking). `add`, `ready` and `wait` are local. Arrivals are never lost and need no
    reset: a wait for `n` consumes `n`, from whatever ranks, and leaves the rest for the next.

    Memory order: what a rank wrote by loads and stores on its node (`put`, `local`, arrays) before `add` is visible to
    the owner after the `wait` that consumes it. Data put to a rank of *another* node must be complete before:
    `gw.put(...).wait()`, then `add`; `notify=signal` of `gw.put` and `gw.copy` does both, by messages for up to
    64 KiB. One thread of the owner waits on a channel. Python and compiled code (`gw.signal`, `gw.wait`, `notify=` of
    `gw.put`) work on the same counters.

    Args:
        team: the ranks that signal each other.
        channels: independent counters of each rank.

    Raises:
        UsageError: `channels` is not positive, or differs between ranks.

    Example:
        >>> import gondwana as gw
        >>> signal = gw.Signal(gw.world)
        >>> signal.add((gw.world.rank + 1) % gw.world.size)  # to the right neighbour ...
        >>> signal.wait()                                    # ... and from the left one
    """

    def __init__(self, team: Team, channels: int = 1) -> None:
        if channels < 1:
            raise UsageError(f"Signal with {channels} channels: give 1 or more")
        self.team = team
        self.channels = channels
        self.segment = Segment(team, channels * _CHANNEL)
        everywhere = [self.segment.nbytes_of(rank) // _CHANNEL for rank in range(team.size)]
        if min(everywhere) < max(everywhere):
            raise UsageError(
                f"the ranks of {team.name} make a Signal with {min(everywhere)} and with {max(everywhere)} channels: "
                "give the same number on every rank"
            )
        self.segment.typed(team.rank, np.dtype(np.int64))[_SPINS // 8 :: _CHANNEL // 8] = (
            0 if cores.crowded() else _PATIENCE
        )
        self._patience = _FEW if self.segment.window or cores.crowded() else _PATIENCE
        bases = self.segment.bases
        self._own = bases[team.rank]
        order = () if ordering.log is None else (ordering.log.address,)
        self._words = np.array([team.size, channels, team.rank, *bases, *order], np.int64)
        self._table: int = self._words.ctypes.data
        _known.add(self)

    @_reported
    @counted("signal", _route, "signal")
    def add(self, rank: int, n: int = 1, channel: int = 0) -> None:
        """Add arrivals for a rank. Local, does not wait for the owner; internal progress.

        On the node it is an atomic addition, which is complete when this returns. To another node it is a message,
        which the owner receives while it waits or makes progress.

        Args:
            rank: of the team, may be this one.
            n: how many, 0 to 2**31 - 1.
            channel: of that rank.

        Raises:
            UsageError: there is no such rank or channel, or `n` is illegal.
        """
        try:
            if _add_for.call(self._table, rank, n, channel):
                return
        except OverflowError:
            pass  # no integer of 64 bits, which is illegal
        if not 0 <= rank < self.team.size or not 0 <= channel < self.channels or not 0 <= n <= MOST:
            raise UsageError(f"{self.label} has no rank {rank} with channel {channel} to add {n} to{self._legal()}")
        self._add_far(rank, n, channel)

    @_reported_wait
    @ordering.caught_up
    @traced("wait", "wait for a signal")
    def wait(self, n: int = 1, channel: int = 0, timeout: float | None = None) -> None:
        """Wait for `n` arrivals at this rank, and consume them. Blocks; user-level progress.

        Args:
            n: how many, 0 to 2**31 - 1; a wait for 0 returns immediately.
            channel: of this rank.
            timeout: seconds; None: no limit.

        Raises:
            TimeoutError: there are fewer after `timeout` seconds; none is consumed.
            ProgressError: called inside a callback when there are fewer.
            UsageError: there is no such channel, or `n` is illegal.
        """
        try:
            if _take.call(self._table, n, channel, self._patience):
                return
        except OverflowError:
            pass  # no integer of 64 bits, which is illegal
        line, carrier = self._line(n, channel), delivery.opened()
        if carrier is not None:
            if needs_progress():  # the other rank may wait for a copy of this one
                progress.advance()
            if carrier.take_soon(line, n, _MANY):
                return

        def ready() -> bool:
            if carrier is not None:
                return carrier.take_soon(line, n, _FEW)
            return bool(_take_soon.call(line, n, _FEW))

        try:
            progress.wait_until(ready, self._what(n, channel), timeout, why=lambda: self._standing(n, channel))
        except TimeoutError:
            raise TimeoutError(
                f"{self._what(n, channel)}: only {_count.call(line)} after {timeout:g} s; check that every rank that "
                "should add to it reaches its call, or give a longer timeout="
            ) from None

    def ready(self, n: int = 1, channel: int = 0) -> bool:
        """Return whether `wait` would return immediately. Local; receives what other nodes have sent, no progress else.

        Raises:
            UsageError: there is no such channel, or `n` is illegal.
        """
        line, carrier = self._line(n, channel), delivery.opened()
        if carrier is not None and _count.call(line) < n:
            carrier.apply()
        return bool(_count.call(line) >= n)

    def at(self, rank: int, channel: int = 0) -> SignalAt:
        """Return one counter of one rank, for `notify=`, in compiled code too. Local."""
        return SignalAt(self, rank, channel)

    def address_of(self, rank: int, channel: int) -> int:
        """Return where a counter lies in the process of its owner. Local.

        Raises:
            UsageError: there is no such rank or channel.
        """
        if not 0 <= rank < self.team.size or not 0 <= channel < self.channels:
            raise UsageError(f"{self.label} has no rank {rank} with channel {channel}{self._legal()}")
        return self.segment.address_of(rank) + channel * _CHANNEL

    def _line(self, n: int, channel: int) -> int:
        """Return the address of a channel of this rank."""
        if not 0 <= channel < self.channels or not 0 <= n <= MOST:
            raise UsageError(f"{self.label} has no channel {channel} to wait on for {n}{self._legal()}")
        return self._own + channel * _CHANNEL

    def _add_far(self, rank: int, n: int, channel: int) -> None:
        window, carrier, line = self.segment.window, delivery.opened(), self.address_of(rank, channel)
        if window is None:
            self.segment.view(rank)  # raises: the memory of the rank could not be mapped
        elif carrier is None or carrier.send(self.team.world_ranks[rank], 0, 0, line, line, n) is None:
            window.accumulate(rank, channel * _CHANNEL + _FAR, np.array([n], np.int64), SUM).wait()

    def _legal(self) -> str:
        return f": legal are ranks 0 to {self.team.size - 1}, channels 0 to {self.channels - 1} and counts 0 to {MOST}"

    def _standing(self, n: int, channel: int) -> waits.Wait:
        found = _count.call(self._line(n, channel))
        others = tuple(rank for rank in self.team.world_ranks if rank != self.team.world_ranks[self.team.rank])
        return waits.Wait(f"for {self._what(n, channel)}, which has {found}", waits.SIGNAL, others)

    def _what(self, n: int, channel: int) -> str:
        return f"{n} arrivals on channel {channel} of {self.label}"

    @property
    def label(self) -> str:
        """A name in messages, the same on all ranks that make their signals in the same order."""
        return f"Signal {self.segment.key & 0xFFFFFFFF} of {self.team.name}"

    def __repr__(self) -> str:
        if self.segment.closed:
            return f"<{self.label}, closed>"
        shown = range(min(self.channels, _SHOWN))
        arrived = ", ".join(str(_count.call(self._own + channel * _CHANNEL)) for channel in shown)
        return f"<{self.label}, arrived here: {arrived}{', ...' if self.channels > _SHOWN else ''}>"

    def __gondwana_argument__(self) -> Described:
        """Spec and words for compiled code: the segment's table, channels."""
        table.link_delivery()
        spans_nodes = self.segment.window is not None
        words = self.segment.table_address, self.channels
        return describe_handle("signal", ("nodes" if spans_nodes else "node",), words)


@dataclass(frozen=True)
class SignalAt:
    """One counter of a signal. Local.

    Attributes:
        signal: the signal.
        rank: the owner, a rank of the signal's team.
        channel: of the owner.
    """

    signal: Signal
    rank: int
    channel: int = 0

    def add(self, n: int = 1) -> None:
        """Add arrivals: see `Signal.add`."""
        self.signal.add(self.rank, n, self.channel)


class AnnouncedSignal(SignalAt):
    """One counter of a signal whose next arrival has been reported already, as that of a copy under way. Local."""

    def add(self, n: int = 1) -> None:
        """Add arrivals: see `Signal.add`."""
        getattr(Signal.add, "__wrapped__", Signal.add)(self.signal, self.rank, n, self.channel)


def signal(target: Signal, rank: int, n: int = 1, channel: int = 0) -> None:
    """Add arrivals for a rank: `target.add`, callable in compiled code too. Local.

    Example:
        >>> import gondwana as gw
        >>> done = gw.Signal(gw.world)
        >>> @gw.jit
        ... def ping_myself(done, me, times):
        ...     for _ in range(times):
        ...         gw.signal(done, me)
        ...         gw.wait(done)
        >>> ping_myself(done, gw.world.rank, 1000)
    """
    target.add(rank, n, channel)


def _describe(line: int, n: int, _: int) -> waits.Wait | None:
    """Describe what compiled code waits for by the address of the channel."""
    for one in list(_known):
        channel, rest = divmod(line - one._own, _CHANNEL)
        if rest == 0 and 0 <= channel < one.channels:
            return one._standing(n, channel)
    return None


waits.describe_by(waits.SIGNAL, _describe)


def wait(source: Signal, n: int = 1, channel: int = 0) -> None:
    """Wait for `n` arrivals and consume them: `source.wait`, callable in compiled code too. Blocks.

    In compiled code it makes no user-level progress: remote calls of other ranks wait meanwhile. Between nodes MPI
    makes progress, and puts with signals that arrive here are applied.
    """
    source.wait(n, channel)
