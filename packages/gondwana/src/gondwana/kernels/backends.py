"""The backends of kernels: the place of the arrays decides which one runs a kernel."""

from __future__ import annotations

import math
import types as pytypes
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gondwana.compiler.types.footprint import Footprint
from gondwana.domains import IndexSet
from gondwana.kernels.cpu import launch as cpu
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.variant import Variant

Table = Any
"""A domain, prepared for the launches of a backend."""


class Loaded(Protocol):
    """A compiled kernel, ready to run."""

    @property
    def footprints(self) -> dict[int, Footprint]:
        """Its accesses to each array that it uses, by slot."""

    @property
    def result(self) -> str:
        """The dtype of a reduction's numbers, "" for other kernels."""

    def table(self, rows: bytes, count: int, points: int) -> Table:
        """Prepare the boxes of a domain (see `variant.box_table`). Local."""

    def run(self, table: Table, data: bytes, name: str, flags: int) -> None:
        """Run the kernel over a domain. Local."""

    def prepared(
        self, table: Table, data: bytes, name: str, flags: int, anew: Callable[..., None] | None = None
    ) -> Callable[..., None]:
        """Return what does the same as `run`, at less cost for small domains. Local; see `Foreach.prepared`."""

    def results(self, table: Table, data: bytes, name: str, flags: int) -> npt.NDArray[np.int64]:
        """Run a reduction over a domain and return the result of each part, a row of words each. Local; blocks."""


class Target(NamedTuple):
    """The place where kernels run, and the shape of their launches.

    Attributes:
        device: number of the device, None for the host.
        shape: shape of the launches on a device.
    """

    device: int | None = None
    shape: Shape | None = None


HOST = Target()


def target(device: int | None, variant: Variant, domain: IndexSet) -> Target:
    """Return the target of a kernel over a domain. Local."""
    if device is None:
        return HOST
    from gondwana.kernels.cuda.tuner import shape_for

    return Target(device, shape_for(variant, extents(variant, domain)))


def extents(variant: Variant, domain: IndexSet) -> tuple[int, ...]:
    """Return the number of points of a domain along each loop, outermost first. Local."""
    shape = max((rect.shape for rect in domain.rects), key=math.prod, default=(0,) * domain.ndim)
    return shape if variant.order == "C" else shape[::-1]


def load(function: pytypes.FunctionType, variant: Variant, where: Target) -> Loaded:
    """Return a kernel, ready to run. Local."""
    if where.device is None or where.shape is None:
        return cpu.load(function, variant)
    from gondwana.gpu.device import device
    from gondwana.kernels.cuda import launch as cuda

    return cuda.load(function, variant, where.shape, device(where.device))
