"""`gw.capture`: launches that are captured once and replayed at little cost."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from gondwana.errors import UsageError
from gondwana.gpu.device import Device, opened
from gondwana.gpu.interface import CudaError


class Captured:
    """Captured launches: calling the object launches them again. Local; asynchronous on a device.

    Attributes:
        on_device: whether the graph is one of a device; if not, a call calls the function.
    """

    def __init__(self, function: Callable[[], object], device: Device | None, graph: int) -> None:
        self._function = function  # keeps the arrays that the graph uses
        self._device = device
        self._graph = graph
        if device is not None:
            weakref.finalize(self, _free, device, graph).atexit = False

    @property
    def on_device(self) -> bool:
        """Whether it is a graph of a device."""
        return self._device is not None

    def __call__(self) -> None:
        """Launch everything again."""
        if self._device is None:
            self._function()
            return
        self._device.activate()
        self._device.driver.replay(self._graph, self._device.compute)


def capture(function: Callable[[], object]) -> Captured:
    """Capture the launches that a function makes, to replay them all by one call. Local; nothing is launched yet.

    For short kernels that are repeated: a replay costs about as much as one launch. It captures launches of
    `foreach` kernels and fused pairs, fills, and ghosts that come from the rank itself, on one device, with the values
    that their arguments have now. Everything else is an error: reductions, elements that the host reads or writes,
    copies to wait for, ghosts of other ranks. Call the function once before, so that its kernels are compiled. A rank
    that uses no device gets an object that calls the function.

    Args:
        function: takes no arguments; its result is ignored. It is kept, so that the arrays it uses live on.

    Raises:
        UsageError: the function does something that cannot be replayed, or this rank uses several devices.

    Example:
        >>> import gondwana as gw
        >>> a = gw.Array.zeros(gw.RectDomain(0, 4))
        >>> @gw.foreach
        ... def increment(p, a):
        ...     a[p] += 1.0
        >>> twice = gw.capture(lambda: (increment(a.domain, a), increment(a.domain, a)))
        >>> twice(), twice(), a[0]
        (None, None, 4.0)
    """
    devices = opened()
    if not devices:
        return Captured(function, None, 0)
    if len(devices) > 1:
        raise UsageError(f"capture: this rank uses {len(devices)} devices; launches of one can be captured")
    one = devices[0]
    if one.capturing:
        raise UsageError("capture: this rank is capturing already")
    one.activate()
    one.driver.begin_capture(one.compute)
    one.capturing = True
    try:
        function()
    except CudaError as error:
        _abandon(one)
        raise UsageError(
            f"capture: the function does more than launch kernels, which cannot be replayed ({error}): leave out "
            "reductions, reads and writes of elements, waits, and ghosts of other ranks"
        ) from error
    except BaseException:
        _abandon(one)
        raise
    finally:
        one.capturing = False
    return Captured(function, one, one.driver.end_capture(one.compute))


def is_capturing() -> bool:
    """Return whether launches are being captured instead of run. Local."""
    return any(one.capturing for one in opened())


def _abandon(one: Device) -> None:
    """Drop the capture."""
    try:
        one.driver.free_graph(one.driver.end_capture(one.compute))
    except CudaError:  # an invalidated capture has no graph
        return


def _free(device: Device, graph: int) -> None:
    device.activate()
    device.driver.free_graph(graph)
