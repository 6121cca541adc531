"""The order of copies and kernels on a device: what a copy waits for there, and what waits for the copy."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple, Protocol, SupportsIndex, TypeAlias, runtime_checkable

from gondwana.errors import UsageError
from gondwana.gpu.device import Device, Event, device, opened
from gondwana.runtime import progress


@runtime_checkable
class HasStream(Protocol):
    """A stream of another library."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of this protocol and the handle of the stream."""


class Order(NamedTuple):
    """What a copy waits for on a device, and what waits for it.

    Attributes:
        stream: Stream that the copy waits for, and that waits for the copy; None: no such stream.
        after: Event that it waits for rather than for all kernels that this rank has launched.
    """

    stream: int | None = None
    after: Event | None = None

    def begin(self, device: Device, own: Sequence[Device]) -> None:
        """Have the stream of copies of a device wait for what is before. Local.

        Args:
            device: Device that makes the copy.
            own: Devices of this rank with memory at an end.
        """
        if self.after is not None:
            self.after.block(device.transfers)
        else:
            for one in own:
                if one is device:
                    one.after_kernels()
                else:
                    one.record(one.compute).block(device.transfers)
        device.activate()
        if self.stream is not None:
            device.after(self.stream)

    def end(self, device: Device) -> None:
        """Have the stream wait for the copies so far. Local."""
        if self.stream is not None:
            device.before(self.stream)

    def wait(self) -> None:
        """Return when a copy that no driver makes may start. Local; blocks; user-level progress."""
        event = self.after
        if self.stream is not None:
            one = next(iter(opened()), None) or device(0)
            event = one.record(self.stream)
        if event is not None:
            progress.wait_until(event.reached, "the stream that a copy is to come behind")


DEFAULT = Order()
"""Behind the kernels that this rank has launched."""

Stream: TypeAlias = SupportsIndex | HasStream | Order


def order_of(stream: Stream | None) -> Order:
    """Return the order that a caller asks for by `stream=`. Local.

    Raises:
        UsageError: it is no stream.
    """
    if stream is None:
        return DEFAULT
    if isinstance(stream, Order):
        return stream
    if isinstance(stream, HasStream):
        return Order(int(stream.__cuda_stream__()[1]))
    try:
        return Order(operator.index(stream))
    except TypeError:
        raise UsageError(
            f"stream={stream!r}: give the handle of a CUDA stream, or an object with __cuda_stream__, as CuPy's have"
        ) from None
