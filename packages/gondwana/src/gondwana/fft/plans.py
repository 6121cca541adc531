"""`Plan`: transforms between arrays of one division and their spectra, with the buffers in between."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.arrays.divided import Divided, ready, start_copy
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.layout import Layout
from gondwana.compiler.types.records import spelled
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.fft.lines import transform
from gondwana.fft.routes import Route, Stage
from gondwana.teams import Team


@dataclass(frozen=True)
class Problem:
    """What is transformed.

    Attributes:
        space: layout of the arrays in space, without ghosts.
        natural: layout of their spectra with the same axes, grid and cuts.
        dtype: type of an element in space.
        team: the ranks that share the arrays.
        axes: axes that are transformed.
        scales: factors of the forward and of the inverse transform.
        transposed: whether the spectrum stays where the last transform leaves it.
    """

    space: Layout
    natural: Layout
    dtype: np.dtype[Any]
    team: Team
    axes: tuple[int, ...]
    scales: tuple[float, float]
    transposed: bool

    @property
    def real(self) -> bool:
        """Whether the elements in space are real."""
        return self.dtype.kind == "f"


@dataclass(frozen=True)
class _Place:
    """A stage with its division.

    Attributes:
        layout: layout of complex arrays, whose axes are in the order of memory.
        order: these axes.
        axes: axes that are transformed.
        home: whether the division is that of the array in space.
    """

    layout: Layout
    order: tuple[int, ...]
    axes: tuple[int, ...]
    home: bool

    def view(self, array: GlobalArray) -> Divided:
        """The array with its axes as in space."""
        return array if self.home else array.permute(np.argsort(self.order).tolist())

    def block(self, array: GlobalArray) -> npt.NDArray[Any]:
        """The elements of this rank with the axes as in space."""
        return array.values if self.home else array.values.transpose(np.argsort(self.order))


class Plan:
    """Fourier transforms of arrays that are divided like one, and back, again and again. Made by `gw.fft.plan`.

    Attributes:
        route: divisions that the forward transform goes through, with the axes that are transformed on each; the
            inverse goes through them backwards.
        order: axes in space in the order in which the spectrum has them.
        spectrum: layout of the spectrum.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> T = gw.from_function(lambda x, y: np.cos(2 * np.pi * x / 8) + 0 * y, (8, 6))
        >>> plan = gw.fft.plan(T, transposed=True)
        >>> F = plan.forward(T)
        >>> kx, ky = plan.frequencies(1 / 8)
        >>> F.values *= np.exp(-(kx**2))
        >>> bool(abs(plan.inverse(F) - np.exp(-1) * T).max() < 1e-15)
        True
    """

    def __init__(self, problem: Problem, route: Route) -> None:
        self._problem, self.route = problem, route
        self._places = [self._place(stage) for stage in route]
        last = self._places[-1]
        # The stage whose result is the spectrum, None if it is another division.
        homes = [index for index, place in enumerate(self._places) if place.home]
        self._end = len(route) - 1 if problem.transposed else homes[0] if homes else None
        self.order = last.order if problem.transposed else tuple(range(problem.space.domain.ndim))
        self.spectrum = last.layout if problem.transposed else problem.natural
        self._buffers: dict[tuple[int, str], GlobalArray] = {}

    def forward(self, array: GlobalArray, out: GlobalArray | None = None) -> GlobalArray:
        """Return the spectrum of an array. Collective over team; blocks.

        Args:
            array: array in space, divided like that of the plan; ghosts are not read.
            out: array of the layout `spectrum` that gets the spectrum, such as the result of an earlier call, or the
                array itself if it is complex and has that layout; default: a new one.

        Raises:
            UsageError: an array has another division, dtype or kind of memory.
        """
        problem = self._problem
        self._check("an array in space", array, problem.space, problem.dtype)
        new, out = out is None, self._result(out, "the spectrum", self.spectrum, complex_of(problem.dtype))
        at: Divided = array
        for index, place in enumerate(self._places):
            to = out if index == self._end else self._buffer(index)
            if index == 0 and place.home:
                source = array.values
            else:
                held = self._buffer(0, real=True) if index == 0 and problem.real else to
                start_copy(at, place.view(held)).wait()
                source = place.block(held)
            is_last = index == len(self._places) - 1
            transform(source, place.block(to), place.axes, -1, problem.scales[0] if is_last else 1.0)
            at = place.view(to)
        if to is not out:
            start_copy(at, out).wait()
        return ready(out) if new else out

    def inverse(self, spectrum: GlobalArray, out: GlobalArray | None = None) -> GlobalArray:
        """Return the array in space that has a spectrum. Collective over team; blocks.

        Args:
            spectrum: a result of `forward`, or another array of the layout `spectrum`; it stays as it is. Of a real
                array only the part that such a spectrum can have counts, as in `numpy.fft.irfftn`.
            out: array in space that gets the result, perhaps with ghosts, which stay; default: a new one.

        Raises:
            UsageError: an array has another division, dtype or kind of memory.
        """
        problem = self._problem
        self._check("a spectrum", spectrum, self.spectrum, complex_of(problem.dtype))
        new, out = out is None, self._result(out, "the result", problem.space, problem.dtype)
        at: Divided = spectrum
        for index, place in reversed([*enumerate(self._places)]):
            to, axes = out if place.home and not problem.real else self._buffer(index), place.axes
            if index == self._end == len(self._places) - 1:
                source = place.block(spectrum)
            else:
                start_copy(at, place.view(to)).wait()
                source = place.block(to)
            if index == 0 and problem.real:
                if at is spectrum and len(axes) > 1:  # the transform to real numbers would destroy it
                    transform(source, place.block(to), axes[:1], 1)
                    source, axes = place.block(to), axes[1:]
                to = out if place.home else self._buffer(0, real=True)
            transform(source, place.block(to), axes, 1, 1.0 if index else problem.scales[1])
            at = place.view(to)
        if to is not out:
            start_copy(at, out).wait()
        return ready(out) if new else out

    def frequencies(self, d: float = 1.0) -> list[npt.NDArray[np.float64]]:
        """Return the frequencies of this rank's part of the spectrum, as `numpy.fft.fftfreq` does. Local.

        Args:
            d: distance of two elements in space; times the number of elements of an axis, 1 / n, for wave numbers.

        Returns:
            An array for each axis that is transformed, in the order of `axes`, which NumPy broadcasts to the shape of
            `values` of the spectrum. Along the last one of a real array they are those of `numpy.fft.rfftfreq`.
        """
        problem, found = self._problem, []
        owned = self.spectrum.owned(problem.team.rank)
        for axis in problem.axes:
            n, place = problem.space.domain.shape[axis], self.order.index(axis)
            make = np.fft.rfftfreq if problem.real and axis == problem.axes[-1] else np.fft.fftfreq
            first = owned.lo[place] - self.spectrum.domain.lo[place]
            own = make(n, d)[first : first + owned.shape[place]].astype(np.float64, copy=False)
            found.append(own.reshape([-1 if other == place else 1 for other in range(len(self.order))]))
        return found

    def close(self) -> None:
        """Release the buffers of this rank, which the next call makes anew. Local."""
        for buffer in self._buffers.values():
            buffer.close()
        self._buffers.clear()

    def _place(self, stage: Stage) -> _Place:
        natural = self._problem.natural
        if stage.grid == self._problem.space.grid and (natural.domain.ndim > 1 or natural.grid == (1,)):
            return _Place(natural, tuple(range(natural.domain.ndim)), stage.axes, True)
        return _Place(_divided(natural.domain, stage), stage.order, stage.axes, False)

    def _buffer(self, index: int, *, real: bool = False) -> GlobalArray:
        """The array of a stage. Collective at first."""
        problem = self._problem
        dtype = problem.dtype if real else complex_of(problem.dtype)
        if (index, dtype.char) not in self._buffers:
            layout = _divided(problem.space.domain, self.route[index]) if real else self._places[index].layout
            self._buffers[index, dtype.char] = GlobalArray(layout, dtype, problem.team)
        return self._buffers[index, dtype.char]

    def _result(self, out: GlobalArray | None, what: str, layout: Layout, dtype: np.dtype[Any]) -> GlobalArray:
        if out is None:
            return GlobalArray(layout, dtype, self._problem.team)
        self._check(f"out, {what},", out, layout, dtype)
        return out

    def _check(self, what: str, array: object, layout: Layout, dtype: np.dtype[Any]) -> None:
        given = checked_array(array)
        division = self._problem.team, layout.domain.axes, layout.grid, layout.division, layout.cuts
        if given.dtype != dtype or given._division != division:
            raise UsageError(
                f"{what} is {array!r}: this plan takes {spelled(dtype)} on {layout.domain!r}, grid={layout.grid}, "
                f"cuts={layout.cuts}, of {self._problem.team.name}; give such an array, or make a plan for this one"
            )


def complex_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex dtype of the same precision. Local."""
    return np.result_type(dtype, np.complex64)


def checked_array(array: object) -> GlobalArray:
    """Return an array if Fourier transforms take it. Local.

    Raises:
        UsageError: they do not.
    """
    if not isinstance(array, GlobalArray):
        raise UsageError(
            f"gw.fft of a {type(array).__name__}: give a global array, such as gw.array(view) or gw.from_numpy(a)"
        )
    if array.dtype.char not in "fdFD":
        raise UsageError(
            f"gw.fft of {spelled(array.dtype)} elements: give float32, float64, complex64 or complex128, such as "
            "gw.array(1.0 * T)"
        )
    if not array.in_host_memory:
        raise UsageError(
            f"gw.fft of {array!r}: transforms run in host memory: copy the elements to an array there, "
            "H = gw.empty(T.shape, T.dtype); gw.copy(T, H).wait()"
        )
    return array


def _divided(domain: RectDomain, stage: Stage) -> Layout:
    """The layout of a stage, with its axes in the order of memory."""
    ranks = math.prod(stage.grid)
    cuts = [[domain.size, *[0] * (ranks - 1)]] if domain.ndim == 1 else None
    return Layout.divide(domain.permute(stage.order), ranks, grid=[stage.grid[axis] for axis in stage.order], cuts=cuts)
