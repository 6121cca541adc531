"""Steppers of Gray-Scott on a device: our kernels, and CUDA C."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod

import gondwana as gw
from gondwana import Device
from gondwana_apps.grayscott.kernels import react_and_diffuse
from gondwana_bench.gpu.devices import on_device
from gondwana_bench.gpu.fields import RATES, RATES_OF_ONE, Fields, around, noise_of
from gondwana_bench.native.cuda_sweeps import NAIVE, SHAPES, CudaSweeps, Shape, possible
from gondwana_bench.stencil import gray_scott_one

ONE_SWEEP, FUSED, CUDA_C, CUDA_C_MARCHING = "one sweep", "two steps fused", "CUDA C", "CUDA C, marching"

_TRIALS = 3


class Stepper(ABC):
    """A way to compute steps.

    Attributes:
        name: name of this way.
        steps: number of steps of a sweep.
    """

    name: str
    steps = 1

    @abstractmethod
    def start(self, fields: Fields, step: int) -> None:
        """Start the steps from a number on, from the old values to the new. Local; does not wait."""

    def prepare(self, fields: Fields) -> None:  # noqa: B027  (most have no choice)
        """Choose how to launch it over these fields. Local; blocks."""


class OneSweep(Stepper):
    """The application's kernel, or that of one variable."""

    name = ONE_SWEEP

    def __init__(self, noise: bool, variables: int = 2) -> None:
        self._noise = noise
        self._variables = variables

    def start(self, fields: Fields, step: int) -> None:
        """Start a step. Local; does not wait."""
        if self._variables == 1:
            gray_scott_one(fields.domain, *fields.arrays[::2], *RATES_OF_ONE)
        else:
            react_and_diffuse(fields.domain, *fields.arrays, RATES, noise_of(step) if self._noise else None)


class TwoSteps(Stepper):
    """The same kernel, twice in one sweep."""

    name = FUSED
    steps = 2

    def __init__(self, dtype: str, noise: bool, variables: int = 2) -> None:
        self._u, self._v = gw.Intermediate(dtype), gw.Intermediate(dtype)
        self._noise = noise
        self._variables = variables

    def start(self, fields: Fields, step: int) -> None:
        """Start two steps. Local; does not wait."""
        u_next, v_next, u, v = fields.arrays
        if self._variables == 1:
            one = (gray_scott_one, self._u, u, *RATES_OF_ONE), (gray_scott_one, u_next, self._u, *RATES_OF_ONE)
            gw.fused(fields.domain, *one)
            return
        first, second = (noise_of(step), noise_of(step + 1)) if self._noise else (None, None)
        gw.fused(
            fields.domain,
            (react_and_diffuse, self._u, self._v, u, v, RATES, around(first, fields.size)),
            (react_and_diffuse, u_next, v_next, self._u, self._v, RATES, second),
        )


class CudaC(Stepper):
    """A kernel of `gray_scott.cu`.

    Args:
        name: its name in the benchmark.
        entry: its name in the source.
        sweeps: the compiled kernels.
        device: the device of the fields.
        shape: shape of its launches.
        noise: whether it adds noise.
    """

    def __init__(self, name: str, entry: str, sweeps: CudaSweeps, device: Device, shape: Shape, noise: bool) -> None:
        self.name = name
        self._entry = entry
        self._sweeps = sweeps
        self._device = device
        self._shape = shape
        self._noise = noise

    def start(self, fields: Fields, step: int) -> None:
        """Start a step. Local; does not wait."""
        rates = RATES.Du, RATES.Dv, RATES.F, RATES.k, RATES.dt
        self._sweeps.step(self._entry, self._shape, fields.native(), rates, noise_of(step)[:3] if self._noise else ())

    def prepare(self, fields: Fields) -> None:
        """Take the fastest of the marching kernels and their shapes, if it is one. Local; blocks."""
        if self._entry == "naive":
            return
        run = on_device(self._device, lambda: self.start(fields, 1))

        def seconds(choice: tuple[str, Shape]) -> float:
            self._entry, self._shape = choice
            run(1)
            return run(_TRIALS)

        cells = fields.native()[0].cells
        entries = ("march", "pairs") if cells[0] % 2 == 0 else ("march",)  # rows begin on lines
        choices = itertools.product(entries, (shape for shape in SHAPES if possible(shape, cells)))
        self._entry, self._shape = min(choices, key=seconds)


def ours(dtype: str, noise: bool, variables: int = 2) -> list[Stepper]:
    """Return our steppers of U and V, or of U alone. Local."""
    return [OneSweep(noise, variables), TwoSteps(dtype, noise, variables)]


def rivals(device: Device, dtype: str, noise: bool, variables: int = 2) -> list[Stepper]:
    """Return the steppers in CUDA C. Local.

    Raises:
        UsageError: CUDA C cannot be compiled here.
    """
    sweeps = CudaSweeps(device, dtype, noise, variables)
    return [
        CudaC(CUDA_C, "naive", sweeps, device, NAIVE, noise),
        CudaC(CUDA_C_MARCHING, "march", sweeps, device, SHAPES[0], noise),
    ]
