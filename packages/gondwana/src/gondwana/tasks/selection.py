"""Selecting: waiting at several channels at once."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, TypeAlias

from gondwana.errors import UsageError
from gondwana.tasks import scheduler
from gondwana.tasks.channel import Channel, ChannelClosed

Case: TypeAlias = Channel[Any] | tuple[Channel[Any], Any]
"""A channel, to take from, or a channel and an item, to put."""

_MISSING: Any = object()


class Selected(NamedTuple):
    """The result of a selection.

    Attributes:
        case: place of the case among the arguments; None: none was possible, and there was a default.
        item: the taken item; None after a put; the default.
    """

    case: int | None
    item: Any


def select(*cases: Case, timeout: float | None = None, default: Any = _MISSING) -> Selected:
    """Do the first of several takes and puts that is possible; wait until one is. Local; blocks; user-level progress.

    If several are possible, the first in the order of the arguments is done. Channels to take from that are closed and
    empty are passed over.

    Args:
        cases: each a channel, to take from, or a tuple `(channel, item)`, to put.
        timeout: seconds; None: no limit.
        default: value returned if no case is possible at once; without it the call waits.

    Raises:
        ChannelClosed: a channel to put into is closed, or all channels to take from are, and there are no others.
        TimeoutError: no case has become possible after `timeout` seconds.
        ProgressError: called inside a callback when it must wait.
        UsageError: no case is given, or one is neither a channel nor a channel with an item.

    Example:
        >>> import gondwana as gw
        >>> numbers, words = gw.Channel(1), gw.Channel(1)
        >>> words.put("one")
        >>> gw.select(numbers, words)
        Selected(case=1, item='one')
        >>> gw.select(numbers, (words, "two"))
        Selected(case=1, item=None)
        >>> gw.select(numbers, default=0)
        Selected(case=None, item=0)
    """
    selection = _Selection(cases)
    found = selection.try_all()
    if found is not None:
        return found
    if default is not _MISSING:
        return Selected(None, default)
    return selection.wait(timeout)


class _One:
    """A case that waits at its channel."""

    __slots__ = ("channel", "error", "index", "item", "puts", "selection")

    def __init__(self, selection: _Selection, index: int, channel: Channel[Any], item: Any, *, puts: bool) -> None:
        self.selection, self.index, self.channel, self.item, self.puts = selection, index, channel, item, puts
        self.error: BaseException | None = None

    def __call__(self) -> None:
        """End the selection with this case, or continue without it if its channel is closed."""
        self.selection.end(self)


class _Selection:
    """The cases of one call of `select`: the registry of its strand while it waits."""

    def __init__(self, cases: tuple[Case, ...]) -> None:
        self._cases = [self._case(index, case) for index, case in enumerate(cases)]
        self._strand: scheduler.Strand | None = None
        if not cases:
            raise UsageError("select without a case: give channels to take from, or tuples (channel, item) to put")

    @property
    def local(self) -> bool:
        """Whether only this rank can end the wait."""
        return all(case.channel.local for case in self._cases)

    def try_all(self) -> Selected | None:
        """Do the first case that is possible at once."""
        closed = [case for case in self._cases if not case.puts and case.channel.closed and not case.channel.ready]
        for case in self._cases:
            if case.puts:
                if case.channel.put_nowait(case.item):
                    return Selected(case.index, None)
            elif case.channel.ready:
                return Selected(case.index, case.channel.take())
        if len(closed) == len(self._cases):
            raise _all_closed()
        self._cases = [case for case in self._cases if case not in closed]
        return None

    def wait(self, timeout: float | None) -> Selected:
        """Wait until a case is possible."""
        me = self._strand = scheduler.register(self, deque())
        for case in self._cases:
            case.channel.enter(case, puts=case.puts)
        me.home.pause_for(me, repr(self), timeout)
        done: Selected = me.item
        me.item = None
        return done

    def forget(self, strand: object) -> bool:
        """Leave all channels; return whether the selection was still waiting."""
        waiting = self._strand is strand
        for case in self._cases:
            case.channel.forget(case)
        self._strand = None
        return waiting

    def end(self, case: _One) -> None:
        """Do a case whose turn has come, or drop one whose channel has been closed."""
        strand = self._strand
        if strand is None:
            return
        self._cases.remove(case)
        if case.error is not None and not case.puts and self._cases:
            return
        self.forget(strand)
        strand.error = case.error if case.puts or case.error is None else _all_closed()
        strand.item = Selected(case.index, None if case.puts else case.item)
        strand()

    def _case(self, index: int, case: Case) -> _One:
        if isinstance(case, Channel):
            return _One(self, index, case, None, puts=False)
        if not isinstance(case, tuple) or len(case) != 2 or not isinstance(case[0], Channel):
            raise UsageError(f"case {index} of a select is {case!r}: give a channel to take from, or (channel, item)")
        return _One(self, index, case[0], case[1], puts=True)

    def __repr__(self) -> str:
        return f"one of {len(self._cases)} channels"


def _all_closed() -> ChannelClosed:
    return ChannelClosed("all channels of a select are closed and empty")
