"""Copies and elements as the race detector sees them.

Copies are operations beside the program, from their start until they are waited for. Elements of arrays that Python
reads and writes by an index are seen; views as ndarrays are not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from gondwana.futures import DONE, Following, Future
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.races.sending import Reporter
from gondwana.sync.signals import AnnouncedSignal
from gondwana.transfer.box import MEMORY, StridedBox, moved
from gondwana.transfer.completion import Notify, counter_of
from gondwana.transfer.plans.pairs import boxes_of

F = TypeVar("F", bound=Callable[..., Any])


class Reported:
    """A copy under way. Local.

    Args:
        source: its source.
        target: its target.
        notify: what follows it.

    Attributes:
        notify: the same; what raises a signal does not report it again.
    """

    def __init__(self, source: StridedBox, target: StridedBox, notify: Notify | None) -> None:
        assert reporter is not None
        one = self._one = reporter
        site = one.site()
        self._target_stream = one.operation(site)
        self._source_stream: int | None = None
        if source.reach == target.reach == MEMORY:  # then the source may be changed when the call returns
            _access(one, Kind.READ, source, site, None)
        else:
            self._source_stream = one.operation(site)
            _access(one, Kind.READ, source, site, self._source_stream)
        _access(one, Kind.WRITE, target, site, self._target_stream)
        self._under_way = {self._target_stream, self._source_stream} - {None}
        self.notify = notify
        if notify is None:
            return
        if isinstance(notify, tuple):
            name = one.new_name()
            one.post(name, self._target_stream)
            self.notify = (_notified, name, *notify)
        else:
            counter = counter_of(notify, target)
            self.notify = AnnouncedSignal(counter.signal, counter.rank, counter.channel)
            owner = counter.signal.team.world_ranks[counter.rank]
            one.add(Kind.ADD, counter.signal.segment.key, owner, counter.channel, 1, stream=self._target_stream)
            one.flush()

    def futures(
        self, operation: Future[None], source: Future[None], remote: Future[None] | None
    ) -> tuple[Future[None], Future[None], Future[None] | None]:
        """Return the futures of the completions; whoever waits for one of them reports it. Local."""
        reading = self._source_stream
        return (
            Following(operation, self._joined),
            DONE if reading is None else Following(source, lambda: self._join(reading)),
            None if remote is None else Following(remote, self._joined),
        )

    def _joined(self) -> None:
        for stream in (self._source_stream, self._target_stream):
            self._join(stream)

    def _join(self, stream: int | None) -> None:
        if stream is not None and stream in self._under_way:  # its number may be that of a later copy already
            self._under_way.remove(stream)
            self._one.joined(stream, self._one.site())


def _access(one: Reporter, kind: int, box: StridedBox, site: int, stream: int | None) -> None:
    for part in boxes_of(box):
        one.access(kind, part, site, stream)


def _notified(name: tuple[int, int], function: Any, *arguments: Any) -> None:
    """Run the function of a notification, behind the copy."""
    assert reporter is not None
    reporter.take(name)
    function(*arguments)


def reads(method: F) -> F:
    """Have a method report that it reads the elements at a position: a decorator. Local."""
    return _reported(method, Kind.READ, lambda array, position: position)


def writes(method: F) -> F:
    """Have a method report that it writes the elements at an index: a decorator. Local."""
    return _reported(method, Kind.WRITE, lambda array, index, _value: array._position(index))


def writes_all(method: F) -> F:
    """Have a method report that it writes all elements: a decorator. Local."""
    return _reported(method, Kind.WRITE, lambda array, _value: ())


def _reported(method: F, kind: int, position: Callable[..., tuple[Any, ...]]) -> F:
    one = reporter
    if one is None:
        return method

    @functools.wraps(method)
    def report(array: Any, *args: Any) -> Any:
        if array._anchor is not None:
            part = array._data[(*position(array, *args), ...)]
            pointer, address = array._anchor
            there = moved(pointer, part.ctypes.data - address).cast(part.dtype)
            site = one.site()
            for box in boxes_of(StridedBox(there, part, part.dtype, part.shape, part.strides)):
                one.access(kind, box, site)
        return method(array, *args)

    return report  # type: ignore[return-value]
