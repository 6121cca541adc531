"""Geometric multigrid for operators on cells: V-cycles that smooth on a sequence of ever coarser levels.

Trottenberg, Oosterlee and Schueller, Multigrid (2001), chapters 2, 4 and 5; the over-relaxation of red-black sweeps as in
Yavneh, SIAM J. Sci. Comput. 17 (1996) 180.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from gondwana.arrays.array import Array
from gondwana.arrays.create import zeros_like
from gondwana.arrays.divided import slices_of
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.layout import Layout
from gondwana.arrays.walls.conditions import Dirichlet, Neumann, Reflect, named
from gondwana.compiler.function import jit
from gondwana.domains import RectDomain, X, Y, Z
from gondwana.errors import UsageError
from gondwana.kernels.foreach_kernels import foreach
from gondwana.solvers import vectors
from gondwana.solvers.krylov import Callback, Solution, System
from gondwana.solvers.multigrid_kernels import Stencil, stencil, transfer
from gondwana.teams import Team

_DIRECT = 64
"""Most cells of a level that is solved directly."""
_SHARED = 4096
"""Fewest cells of a level that is divided over ranks: smaller ones are solved by each rank for itself."""
_ANISOTROPY = 1.5
"""Axes whose cells are longer than the shortest ones by this factor are not coarsened yet."""
_RELAXATION = 1.2
"""Factor of the corrections of red-black sweeps."""
_SPECTRUM = 0.25, 2.0
"""The eigenvalues of the operator, scaled by its diagonal, that Chebyshev's smoothing damps: none is larger than 2 where
no row has a diagonal smaller than the sum of the absolute values of its other elements."""
_HOMOGENEOUS = Dirichlet(0), Neumann(0), Reflect(1), Reflect(-1)

Smoother = Literal["red-black", "chebyshev"]


class Multigrid:
    """A geometric multigrid solver of A x = b. Collective over the team of `like`, as are its methods; blocks.

    The operator is minus the Laplacian plus `shift`, or any other that takes a cell and its nearest neighbours along the
    axes. On coarser levels it is the same function, with longer cells. The boundary conditions are those of the array:
    `gw.Dirichlet(0)`, `gw.Neumann(0)`, `gw.Reflect` or periodic, for all faces. Any number of cells works: n cells
    become (n + 1) // 2 of equal length. Axes along which cells are longer are coarsened later. Levels of few cells are
    solved by all ranks, each for itself.

    If A of a constant is zero, as with Neumann or periodic walls without a shift, b must have the mean 0: what it has
    is subtracted, and the solution of mean 0 is returned.

    An instance is a preconditioner, too: `solvers.cg(mg.apply, b, M=mg)`. Its cycles are symmetric if A is.

    Args:
        like: array like b: real floats, 1 to 3 axes, one ghost or more, whose conditions are homogeneous.
        operator: function for `gw.jit`, called as `operator(p, x, h, *coefficients)`, that returns the cell p of A x
            from x at p and its nearest neighbours along the axes; h[a] is the length of a cell along axis a. Default:
            minus the Laplacian plus `shift`.
        h: length of a cell, one or one for each axis.
        shift: number that the default operator adds to minus the Laplacian, 0 or more.
        coefficients: further arguments of the operator: numbers, and global arrays with the division of `like` and
            ghosts. Arrays are averaged for coarser levels; their ghosts are exchanged here, once.
        smoother: "red-black" (Gauss-Seidel, over-relaxed) or "chebyshev" (polynomial of the second degree).

    Raises:
        UsageError: an argument is illegal; raised by every rank.

    Example:
        >>> import gondwana as gw
        >>> from gondwana import solvers
        >>> b = gw.ones((40, 30), ghost=1, boundary=gw.Dirichlet(0))
        >>> mg = solvers.Multigrid(b, h=1 / 40)
        >>> found = mg.solve(b, rtol=1e-8)
        >>> found.converged, found.iterations < 10, round(found.x.max(), 3)
        (True, True, 0.052)
    """

    def __init__(
        self,
        like: GlobalArray,
        operator: Callable[..., Any] | None = None,
        *,
        h: float | Sequence[float] = 1.0,
        shift: float = 0.0,
        coefficients: Sequence[Any] = (),
        smoother: Smoother = "red-black",
    ) -> None:
        lengths = _check(like, operator, h, shift, coefficients, smoother)
        if operator is None:
            operator, coefficients = _LAPLACIANS[like.ndim], (float(shift),)
        kernels = stencil(operator if hasattr(operator, "py_func") else jit(operator), like.ndim)
        factor = _RELAXATION if smoother == "red-black" else 1.0
        self._like, self._smooth = like, self._relax if smoother == "red-black" else self._polynomial
        level = _Level(like, lengths, tuple(coefficients), kernels)
        self._levels = [level]
        while level.like.size > _DIRECT:
            level.invert(factor)
            level = level.coarser()
            self._levels.append(level)
        matrix = level.matrix()
        self._inverse = np.linalg.pinv(matrix, rcond=1e-10)
        self._is_singular = bool(np.abs(matrix.sum(1)).max() <= 1e-6 * np.abs(matrix).max())

    def solve(
        self,
        b: GlobalArray,
        x: GlobalArray | None = None,
        *,
        rtol: float = 1e-5,
        atol: float = 0.0,
        maxiter: int | None = 100,
        callback: Callback | None = None,
    ) -> Solution:
        """Solve A x = b by V-cycles. Collective over team; blocks. Arguments, result and errors as for `solvers.cg`."""
        self._check_like(b, x)
        right = self._centred(b)
        system = System(self.apply, right, x, None, rtol, atol, maxiter, callback, exact=False)
        r = system.start()
        while system.goes_on():
            self._cycle(0, system.x, right, symmetric=False)
            self._levels[0].residual(r, right, system.x)
            system.iterated(system.products.norm(r))
        return system.solution()._replace(x=self._centred(system.x, in_place=True))

    def __call__(self, r: GlobalArray, z: GlobalArray) -> None:
        """Set z to the result of a symmetric V-cycle for A z = r from z = 0: an approximation. Collective; blocks."""
        self._check_like(r, z)
        z.fill(0.0)
        self._cycle(0, z, self._centred(r), symmetric=True)
        self._centred(z, in_place=True)

    def apply(self, x: GlobalArray, y: GlobalArray) -> None:
        """Set y to A x, an operator for other solvers. Collective over team; blocks."""
        self._check_like(x, y)
        self._levels[0].apply(y, x)

    def _cycle(self, number: int, x: GlobalArray, b: GlobalArray, *, symmetric: bool) -> None:
        """Improve x by a V-cycle from a level on."""
        level = self._levels[number]
        if number == len(self._levels) - 1:
            return _put(x, (self._inverse @ b.to_numpy().ravel()).reshape(b.shape))
        coarse = self._levels[number + 1]
        if coarse.like.shape == level.like.shape:  # gathered by each rank
            _put(coarse.b, b.to_numpy())
            _put(coarse.x, x.to_numpy())
            self._cycle(number + 1, coarse.x, coarse.b, symmetric=symmetric)
            return _put(x, coarse.x.to_numpy())
        self._smooth(level, x, b, (0, 1))
        level.residual(level.r, b, x)
        level.restrict(coarse.b, level.r, level.volume)
        coarse.x.fill(0.0)
        self._cycle(number + 1, coarse.x, coarse.b, symmetric=symmetric)
        level.prolong(x, coarse.x)
        return self._smooth(level, x, b, (1, 0) if symmetric else (0, 1))

    def _relax(self, level: _Level, x: GlobalArray, b: GlobalArray, colours: tuple[int, int]) -> None:
        """Solve the equations of the cells of one colour after those of the other, and go further by a factor.

        A ghost at a wall depends on the cell beside it only, which no cell of the other colour reads: it may wait.
        """
        for number, colour in enumerate(colours):
            if number == 0 or level.is_coupled:
                x.exchange().wait()
            level.kernels.relax(level.halves, x, b, level.inverse, level.ends, colour, level.h, level.coefficients)

    def _polynomial(self, level: _Level, x: GlobalArray, b: GlobalArray, colours: tuple[int, int]) -> None:
        """Damp the errors of a part of the spectrum by Chebyshev's polynomial of the second degree (Saad, 12.3.2)."""
        centre, radius = sum(_SPECTRUM) / 2.0, (_SPECTRUM[1] - _SPECTRUM[0]) / 2.0
        old = new = radius / centre
        for number, _ in enumerate(colours):
            level.residual(level.r, b, x)
            if number == 0:
                _advance(x.owned, x, level.d, level.r, level.inverse, 0.0, 1.0 / centre)
            else:
                new = 1.0 / (2.0 * centre / radius - old)
                _advance(x.owned, x, level.d, level.r, level.inverse, new * old, 2.0 * new / radius)
            old = new

    def _centred(self, x: GlobalArray, *, in_place: bool = False) -> GlobalArray:
        """Return x without its mean, if A of a constant is zero."""
        if not self._is_singular:
            return x
        result = x if in_place else self._levels[0].b
        _subtract(x.owned, result, x, float(x.sum()) / x.size)
        return result

    def _check_like(self, *arrays: GlobalArray | None) -> None:
        for array in arrays:
            if array is not None and not (isinstance(array, GlobalArray) and _kind(array) == _kind(self._like)):
                raise UsageError(f"{array!r}: give an array like that of the solver, as gw.zeros_like makes it")


class _Level:
    """A level: its arrays, and the kernels on it. Collective over the team of `like`, as is all else.

    Args:
        like: array like those of the level.
        h: length of a cell along each axis.
        coefficients: further arguments of the operator.
        kernels: kernels of the operator.

    Attributes:
        like: one of the arguments.
        h: one of the arguments.
        coefficients: one of the arguments.
        kernels: one of the arguments.
        halves: cells that this rank owns, the pairs of neighbours along the last axis taken for one.
        ends: first and end coordinate of its cells along the last axis, None if they are whole pairs.
        is_coupled: whether ghosts depend on cells of the other colour.
        volume: volume of a fine cell relative to a coarse one.
    """

    def __init__(self, like: GlobalArray, h: tuple[float, ...], coefficients: tuple[Any, ...], kernels: Stencil) -> None:
        self.like, self.h, self.coefficients, self.kernels = like, h, coefficients, kernels
        for one in coefficients:
            if isinstance(one, GlobalArray):
                one.exchange().wait()
        low, high = like.owned.lo, like.owned.hi
        self.halves = RectDomain((*low[:-1], low[-1] // 2), (*high[:-1], (high[-1] + 1) // 2))
        self.ends = (low[-1], high[-1]) if low[-1] % 2 or high[-1] % 2 else None
        self.is_coupled = like.team.size > 1 or any(like.periodic)
        shortest = min((x for x, n in zip(h, like.shape, strict=True) if n > 1), default=0.0)
        self._sizes = tuple(
            (n + 1) // 2 if x < _ANISOTROPY * shortest else n for x, n in zip(h, like.shape, strict=True)
        )
        pad = (0,) * (3 - like.ndim)
        self._first, self._cells = (*pad, *like.domain.lo), (*pad, *like.shape)
        each = [(new, old) for new, old in zip(self._sizes, like.shape, strict=True)]
        self._ratios = tuple(np.float64(new / old) for new, old in [(1, 1)] * len(pad) + each)
        self.volume = float(np.prod(self._ratios))
        self._transfer = transfer(like.ndim, tuple(ratio == 0.5 for ratio in self._ratios))

    @functools.cached_property
    def x(self) -> GlobalArray:
        """The unknowns."""
        return zeros_like(self.like)

    @functools.cached_property
    def b(self) -> GlobalArray:
        """The right-hand side."""
        return zeros_like(self.like)

    @functools.cached_property
    def r(self) -> GlobalArray:
        """The residual, with the ghosts that restriction needs."""
        layout = self.like.layout
        ghost = tuple(min(2, n) if cut > 1 else 1 for n, cut in zip(self.like.shape, layout.grid, strict=True))
        return _on(self.like, dataclasses.replace(layout, ghost=ghost))

    @functools.cached_property
    def d(self) -> GlobalArray:
        """The last step of Chebyshev's iteration."""
        return zeros_like(self.like)

    @functools.cached_property
    def inverse(self) -> GlobalArray:
        """The inverse of the diagonal of A, times a factor."""
        return zeros_like(self.like)

    def apply(self, y: GlobalArray, x: GlobalArray) -> None:
        """Set y to A x."""
        x.exchange().wait()
        self.kernels.apply(y.owned, y, x, self.h, self.coefficients)

    def residual(self, r: GlobalArray, b: GlobalArray, x: GlobalArray) -> None:
        """Set r to b - A x."""
        x.exchange().wait()
        self.kernels.residual(r.owned, r, b, x, self.h, self.coefficients)

    def restrict(self, coarse: GlobalArray, fine: GlobalArray, scale: float) -> None:
        """Set the coarse array to the transpose of the prolongation of the fine one, times a scale."""
        fine.exchange(corners=True).wait()
        self._transfer.restrict(coarse.owned, coarse, fine, self._ratios, self._first, scale)

    def prolong(self, fine: GlobalArray, coarse: GlobalArray) -> None:
        """Add the prolongation of the coarse array to the fine one."""
        coarse.exchange(corners=True).wait()
        self._transfer.prolong(fine.owned, fine, coarse, self._ratios, self._first)

    def invert(self, factor: float) -> None:
        """Set `inverse`. Cells of one of three colours show their diagonal: they are no neighbours of each other."""
        for colour in range(3):
            self._transfer.paint(self.r.owned, self.r, colour, self._first, self._cells)
            self.r.exchange().wait()
            self.kernels.invert(
                self.r.owned, self.inverse, self.r, factor, colour, self._first, self._cells, self.h, self.coefficients
            )

    def matrix(self) -> np.ndarray[Any, Any]:
        """Return A."""
        rows = []
        for unit in np.eye(self.like.size):
            _put(self.x, unit.reshape(self.like.shape))
            self.apply(self.b, self.x)
            rows.append(self.b.to_numpy().ravel())
        return np.array(rows, float).T

    def coarser(self) -> _Level:
        """Return the next level: of fewer cells, or, where it is too small to be divided, of all cells on each rank."""
        layout = self._coarse_layout()
        if self.like.team.size > 1 and (layout is None or self.like.size < _SHARED):
            alone = self.like.team.split(self.like.team.rank)
            return self._made(lambda one: _gathered(one, alone), self.like, self.h)
        h = tuple(x * n / new for x, n, new in zip(self.h, self.like.shape, self._sizes, strict=True))
        return self._made(lambda one: self._averaged(one, layout), _on(self.like, layout), h)

    def _made(self, change: Callable[[GlobalArray], GlobalArray], like: GlobalArray, h: tuple[float, ...]) -> _Level:
        coefficients = tuple(change(one) if isinstance(one, GlobalArray) else one for one in self.coefficients)
        return _Level(like if like is not self.like else change(like), h, coefficients, self.kernels)

    def _averaged(self, array: GlobalArray, layout: Layout) -> GlobalArray:
        """Return the weighted means of the cells of an array on the next level."""
        fine, sums, weights = _on(array, self.r.layout), _on(array, layout), _on(array, layout)
        vectors.copy(fine.owned, fine, array)
        self.restrict(sums, fine, 1.0)
        vectors.set_to(fine.owned, fine, 1.0)
        self.restrict(weights, fine, 1.0)
        vectors.divide(sums.owned, sums, weights)
        return sums

    def _coarse_layout(self) -> Layout | None:
        """Return the layout of the next level, None if a rank with cells would have none there.

        A coarse cell belongs to the owner of its centre, so that prolongation needs one ghost, and restriction two.
        """
        fine, cuts = self.like.layout, []
        for axis, (n, new) in enumerate(zip(fine.domain.shape, self._sizes, strict=True)):
            ends = np.cumsum([0, *fine.widths(axis)])
            coarse = np.diff(np.searchsorted((2 * np.arange(new) + 1) * n // (2 * new), ends))
            if np.any(np.diff(ends)[coarse == 0]):
                return None
            cuts.append(tuple(coarse.tolist()))
        return dataclasses.replace(
            fine, domain=RectDomain.from_shape(self._sizes), ghost=(1,) * len(cuts), cuts=tuple(cuts)
        )


def _on(array: GlobalArray, layout: Layout) -> GlobalArray:
    """Return an array of zeros with another layout."""
    return GlobalArray(layout, array.dtype, array.team, array.kind, array.faces)


def _gathered(array: GlobalArray, alone: Team) -> GlobalArray:
    """Return a copy of all cells for this rank."""
    layout = Layout.divide(array.shape, 1, ghost=1, periodic=array.periodic, order=array.order)
    copy = GlobalArray(layout, array.dtype, alone, array.kind, array.faces)
    _put(copy, array.to_numpy())
    return copy


def _put(array: GlobalArray, cells: np.ndarray[Any, Any]) -> None:
    """Set the cells of this rank to theirs among all."""
    own = np.ascontiguousarray(cells[slices_of(array.part(array.team.rank))], array.dtype)
    array.block(array.team.rank).copy_from(Array(own, array.owned))


@foreach
def _advance(p: Any, x: Any, d: Any, r: Any, inverse: Any, last: Any, step: Any) -> None:
    d[p] = last * d[p] + step * inverse[p] * r[p]
    x[p] += d[p]


@foreach
def _subtract(p: Any, y: Any, x: Any, mean: Any) -> None:
    y[p] = x[p] - mean


@jit
def _along(x: Any, p: Any, step: Any, h: Any) -> Any:
    """Return minus the second derivative along an axis."""
    return (2.0 * x[p] - x[p - step] - x[p + step]) * (1.0 / (h * h))


_LAPLACIANS = {
    1: jit(lambda p, x, h, shift: shift * x[p] + _along(x, p, X, h[0])),
    2: jit(lambda p, x, h, shift: shift * x[p] + _along(x, p, X, h[0]) + _along(x, p, Y, h[1])),
    3: jit(
        lambda p, x, h, shift: (
            shift * x[p] + _along(x, p, X, h[0]) + _along(x, p, Y, h[1]) + _along(x, p, Z, h[2])
        )
    ),
}


def _kind(array: GlobalArray) -> tuple[object, ...]:
    """What arrays like each other have in common."""
    return array.layout, array.dtype, array.team, array.faces


def _check(
    like: Any, operator: Any, h: Any, shift: Any, coefficients: Any, smoother: object
) -> tuple[float, ...]:
    """Refuse what has no levels; return the length of a cell along each axis."""
    _check_array("like", like)
    if like.ndim > 3:
        raise UsageError(f"like has {like.ndim} axes: multigrid takes 1 to 3")
    if operator is not None and not callable(operator):
        raise UsageError(f"operator={operator!r}: give a function for gw.jit, operator(p, x, h, *coefficients)")
    try:
        lengths = tuple(float(x) for x in (h if isinstance(h, Sequence) else (h,) * like.ndim))
    except (TypeError, ValueError):
        lengths = ()
    if len(lengths) != like.ndim or not all(0.0 < x < np.inf for x in lengths):
        raise UsageError(f"h={h!r}: give the length of a cell, or one for each of the {like.ndim} axes")
    if not isinstance(shift, int | float | np.number) or not 0.0 <= shift < np.inf or (shift and operator):
        raise UsageError(f"shift={shift!r}: give a number, 0 or more, and only without an operator")
    if not isinstance(coefficients, Sequence) or (coefficients and operator is None):
        raise UsageError(f"coefficients={coefficients!r}: give a sequence of arguments of an operator")
    for one in coefficients:
        if isinstance(one, GlobalArray):
            _check_array("a coefficient", one)
            if one._division != like._division or one.periodic != like.periodic:
                raise UsageError(f"the coefficient {one!r} has another division than {like!r}")
    if smoother not in get_args(Smoother):
        raise UsageError(f"smoother={smoother!r}: legal are {' and '.join(map(repr, get_args(Smoother)))}")
    return lengths


def _check_array(name: str, array: Any) -> None:
    if not isinstance(array, GlobalArray) or array.dtype.kind != "f":
        raise UsageError(f"{name} is {array!r}: give a global array of real floats")
    walls = [
        condition for faces, closed in zip(array.faces, array.periodic, strict=True) if not closed for condition in faces
    ]
    if min(array.ghost) < 1 or not all(condition in _HOMOGENEOUS for condition in walls):
        raise UsageError(
            f"{name} has ghost={array.ghost} and boundary={array.boundary}: give one ghost or more, and for each face "
            "gw.Dirichlet(0), gw.Neumann(0), gw.Reflect(), or gw.periodic"
        )
