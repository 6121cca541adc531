"""The backends of kernels: where the arrays lie decides which one runs a kernel."""

from __future__ import annotations

import types as pytypes
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gondwana.domains import IndexSet
from gondwana.jit.footprint import Footprint
from gondwana.kernels.cpu import launch as cpu
from gondwana.kernels.variant import Variant

Table = Any
"""A domain, prepared for the launches of a backend."""


class Loaded(Protocol):
    """A compiled kernel, ready to run."""

    @property
    def footprints(self) -> dict[int, Footprint]:
        """What it touches of each array that it uses, by slot."""

    @property
    def result(self) -> str:
        """The dtype of the numbers that a reduction leaves, "" if there are none."""

    def table(self, rows: bytes, count: int, points: int) -> Table:
        """Prepare the boxes of a domain (see `boxes.table`). Local."""

    def run(self, table: Table, data: bytes, name: str, flags: int) -> None:
        """Run the kernel over a domain. Local."""

    def results(self, table: Table, data: bytes, name: str, flags: int) -> npt.NDArray[np.int64]:
        """Run a reduction over a domain and return what each part left, a row of words each. Local; blocks."""


def load(function: pytypes.FunctionType, variant: Variant, device: int | None, domain: IndexSet) -> Loaded:
    """Return a kernel, ready to run on a device, or on the host (None). Local."""
    if device is None:
        return cpu.load(function, variant)
    from gondwana.cuda.device import device as opened
    from gondwana.kernels.cuda import launch as cuda
    from gondwana.kernels.cuda.tuner import shape_for

    box = domain.bounding_box
    extents = box.shape if variant.order == "C" else box.shape[::-1]
    return cuda.load(function, variant, shape_for(variant, extents), opened(device))
