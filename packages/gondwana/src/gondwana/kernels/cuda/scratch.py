"""Memory of a device for the results of reductions: allocation would cost more than most of them."""

from __future__ import annotations

from gondwana.gpu.device import Device

_LEAST = 1 << 16
_held: dict[int, tuple[int, int]] = {}
"""Address and bytes, by number of the device; grows, and is used by one reduction at a time."""


def scratch(device: Device, nbytes: int) -> int:
    """Return the address of memory that the next reduction on the device may use. Local; one thread at a time."""
    address, size = _held.get(device.number, (0, 0))
    if size < nbytes:
        device.activate()
        if size:
            device.driver.free(address)
        size = max(_LEAST, 2 * nbytes)
        address = device.driver.allocate(size)
        _held[device.number] = address, size
    return address
