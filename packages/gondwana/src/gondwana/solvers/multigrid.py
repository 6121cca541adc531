"""Geometric multigrid for operators on cells: V-cycles that smooth on a sequence of ever coarser levels.

Trottenberg, Oosterlee and Schueller, Multigrid (2001), chapters 2, 4 and 5; over-relaxed red-black sweeps: Yavneh, SIAM
J. Sci. Comput. 17 (1996) 180; Chebyshev's polynomial: Saad, Iterative Methods for Sparse Linear Systems, 12.3.2.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from gondwana.arrays.array import Array
from gondwana.arrays.create import zeros_like
from gondwana.arrays.divided import slices_of
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.layout import Layout
from gondwana.arrays.walls.conditions import Dirichlet, Neumann, Reflect
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.kernels.foreach_kernels import Foreach
from gondwana.solvers.krylov import Callback, Solution, System
from gondwana.solvers.multigrid_kernels import laplacian, stencils, transfers
from gondwana.teams import Team

_DIRECT = 64
"""Most cells of a level that is solved directly."""
_SHARED = 4096
"""Fewest cells of a level that is divided over ranks: smaller ones are solved by each rank for itself."""
_ANISOTROPY = 1.5
"""Axes whose cells are longer than the shortest ones by this factor are not coarsened yet."""
_RELAXATION = 1.3
"""Factor of the corrections of red-black sweeps."""
_CENTRE, _RADIUS = 1.125, 0.875
"""Of the eigenvalues of the operator, scaled by its diagonal, that the polynomial damps: 2 is the largest one if
no row has a diagonal smaller than the sum of the absolute values of its other elements."""
_HOMOGENEOUS = Dirichlet(0), Neumann(0), Reflect(1), Reflect(-1)
_ALONE: weakref.WeakKeyDictionary[Team, Any] = weakref.WeakKeyDictionary()
"""The team of this rank alone, by the team of which it was split off: there are few communicators."""
_NUMBER = int | float | np.number

Smoother = Literal["red-black", "chebyshev"]


class Multigrid:
    """A geometric multigrid solver of A x = b. Collective over the team of `like`, as are its methods; blocks.

    The operator is minus the Laplacian plus `shift`, or any other that takes a cell and its nearest neighbours along
    the axes. On coarser levels it is the same function, with longer cells. The boundary conditions are those of the
    array: `gw.Dirichlet(0)`, `gw.Neumann(0)`, `gw.Reflect` or periodic, for all faces. Any number of cells works: n
    become (n + 1) // 2 of equal length. Axes along which cells are longer are coarsened later. Levels of few cells are
    solved by all ranks, each for itself.

    If A of a constant is zero, as with Neumann or periodic walls without a shift, b must have the mean 0: what it has
    is subtracted, and the solution of mean 0 is returned.

    An instance is a preconditioner, too: `solvers.cg(mg.apply, b, M=mg)`. Its cycles are symmetric if A is.

    Args:
        like: array like b: real floats, 1 to 3 axes, one ghost or more, whose conditions are homogeneous.
        operator: function of `gw.jit`, called as `operator(p, x, h, *coefficients)`, that returns the cell p of A x
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
        (True, True, 0.053)
    """

    def __init__(
        self, like: GlobalArray, operator: Callable[..., Any] | None = None, *, h: float | Sequence[float] = 1.0,
        shift: float = 0.0, coefficients: Sequence[Any] = (), smoother: Smoother = "red-black",
    ) -> None:  # fmt: skip
        lengths = _check(like, operator, h, shift, coefficients, smoother)
        self._like, self._smooth = like, self._relax if smoother == "red-black" else self._polynomial
        alone = _ALONE[like.team] = _ALONE.get(like.team) or like.team.split(like.team.rank)
        is_constant = smoother == "red-black" and operator is None
        of = lengths, *((float(shift),) if operator is None else coefficients)
        level = _Level(like, operator or laplacian, of, alone, is_constant=is_constant)
        self._levels = [level]
        while level.like.size > _DIRECT:
            level.factors = level.inverse(_RELAXATION if smoother == "red-black" else 1.0)
            level = level.coarser()
            level.is_coarse = True
            self._levels.append(level)
        matrix = level.matrix()
        self._inverse = np.linalg.pinv(matrix, rcond=1e-10)
        self._is_singular = bool(np.abs(matrix.sum(1)).max() <= 1e-6 * np.abs(matrix).max())

    def solve(
        self, b: GlobalArray, x: GlobalArray | None = None, *, rtol: float = 1e-5, atol: float = 0.0,
        maxiter: int | None = 100, callback: Callback | None = None,
    ) -> Solution:  # fmt: skip
        """Solve A x = b by V-cycles. Collective over team; blocks. Arguments, result and errors as for `solvers.cg`."""
        self._check_like(b, x)
        right = self._centred(b)
        system = System(self.apply, right, x, None, rtol, atol, maxiter, callback, exact=False)
        level = self._levels[0]
        system.norm = level.norm(right, system.x)
        while system.goes_on():
            self._cycle(0, system.x, right, symmetric=False)
            system.iterated(level.norm(right, system.x))
        return system.solution()._replace(x=self._centred(system.x, system.x))

    def __call__(self, r: GlobalArray, z: GlobalArray) -> None:
        """Set z to the result of a symmetric V-cycle for A z = r from z = 0: an approximation. Collective; blocks."""
        self._check_like(r, z)
        z.fill(0.0)
        self._cycle(0, z, self._centred(r), symmetric=True)
        self._centred(z, z)

    def apply(self, x: GlobalArray, y: GlobalArray) -> None:
        """Set y to A x, an operator for other solvers. Collective over team; blocks."""
        self._check_like(x, y)
        self._levels[0].apply(y, x)

    def _cycle(self, number: int, x: GlobalArray, b: GlobalArray, *, symmetric: bool) -> None:
        """Improve x by a V-cycle from a level on."""
        level = self._levels[number]
        if number == len(self._levels) - 1:
            return _put(x, (self._inverse @ np.asarray(b.to_numpy()).ravel()).reshape(b.shape))
        coarse = self._levels[number + 1]
        if coarse.like.shape == level.like.shape:  # of all cells on each rank
            _put(coarse.b, np.asarray(b.to_numpy()))
            _put(coarse.x, np.asarray(x.to_numpy()))
            self._cycle(number + 1, coarse.x, coarse.b, symmetric=symmetric)
            return _put(x, np.asarray(coarse.x.to_numpy()))
        self._smooth(level, x, b, (0, 1))
        level.residual(level.r, b, x)
        level.restrict(coarse.b, level.r, level.volume)
        coarse.x.fill(0.0)
        self._cycle(number + 1, coarse.x, coarse.b, symmetric=symmetric)
        level.prolong(x, coarse.x)
        return self._smooth(level, x, b, (1, 0) if symmetric else (0, 1))

    def _relax(self, level: _Level, x: GlobalArray, b: GlobalArray, colours: tuple[int, int]) -> None:
        """Solve the equations of the cells of one colour after those of the other, and go further by a factor.

        A ghost at a wall depends on the cell beside it only, and no other one reads it: it may wait.
        """
        for number, colour in enumerate(colours):
            if number == 0 or level.is_coupled:
                x.exchange().wait()
            level.relax(x, b, colour)

    def _polynomial(self, level: _Level, x: GlobalArray, b: GlobalArray, colours: tuple[int, int]) -> None:
        """Multiply the error by Chebyshev's polynomial of the operator, scaled by its diagonal."""
        last, step, old = 0.0, 1.0 / _CENTRE, _RADIUS / _CENTRE
        for _ in colours:
            level.residual(level.r, b, x)
            level.d[...] = last * level.d + step * level.factors * level.r
            x += level.d
            new = 1.0 / (2.0 * _CENTRE / _RADIUS - old)
            last, step, old = new * old, 2.0 * new / _RADIUS, new

    def _centred(self, x: GlobalArray, into: GlobalArray | None = None) -> GlobalArray:
        """Return x without its mean, if A of a constant is zero."""
        if not self._is_singular:
            return x
        result = self._levels[0].b if into is None else into
        result[...] = x - x.sum() / x.size
        return result

    def _check_like(self, *arrays: GlobalArray | None) -> None:
        for one in arrays:
            if one is not None and not (isinstance(one, GlobalArray) and _kind(one) == _kind(self._like)):
                raise UsageError(f"{one!r}: give an array like that of the solver, as gw.zeros_like makes it")


class _Level:
    """A level: its arrays, and the kernels on it. Collective over the team of `like`, as is all else.

    Args:
        like: array like those of the level.
        operator: the operator.
        of: its arguments after the array; the first one has the lengths of a cell along the axes.
        alone: team of this rank.
        is_constant: whether its coefficients are the same everywhere, so that few factors suffice.

    Attributes:
        like: one of the arguments.
        is_coarse: whether all arrays that are given to it are its own or those of the next levels.
        is_coupled: whether ghosts depend on cells of the other colour.
        x: the unknowns, in memory that is not there until it is used, as the next two.
        b: the right-hand side.
        d: the last step of Chebyshev's iteration.
        r: the residual, with the ghosts that restriction needs.
        rows: sums of rows of cells, halfway to the next level.
        factors: what `inverse` has returned.
        volume: volume of a fine cell relative to a coarse one.
    """

    factors: GlobalArray
    rows: GlobalArray

    def __init__(self, like: GlobalArray, operator: Any, of: tuple[Any, ...], alone: Any, *, is_constant: bool) -> None:
        self.like, self._operator, self._of, self._alone, self._is_constant = like, operator, of, alone, is_constant
        n, layout, self.is_coarse = np.array(like.shape), like.layout, False
        self._launches: dict[tuple[int, ...], tuple[Callable[[], None], tuple[Any, ...]]] = {}
        for one in of:
            if isinstance(one, GlobalArray):
                one.exchange().wait()
        self.is_coupled = like.team.size > 1 or any(like.periodic)
        self.x, self.b, self.d = (zeros_like(like) for _ in range(3))
        ghost = np.where(np.array(layout.grid) > 1, np.minimum(n, 2), 1)
        self.r = _on(like, dataclasses.replace(layout, ghost=tuple(ghost.tolist())))
        shortest = min((length for length, cells in zip(of[0], n, strict=True) if cells > 1), default=0)
        long = np.array(of[0]) >= _ANISOTROPY * shortest
        self._sizes, pad = tuple(np.where(long, n, (n + 1) // 2).tolist()), (1,) * (3 - like.ndim)
        self._first, self._cells = (0,) * len(pad) + tuple(layout.domain.lo), pad + like.shape
        self._ratios = (*map(np.float64, pad), *(self._sizes / n))
        self.volume = float(np.prod(self._ratios))
        low, high = like.owned.lo, like.owned.hi
        self._pairs = RectDomain((*low[:-1], low[-1] // 2), (*high[:-1], (high[-1] + 1) // 2))
        self._ends = (low[-1], high[-1]) if low[-1] % 2 or high[-1] % 2 else None
        halved = tuple(bool(ratio == 0.5) for ratio in self._ratios)
        self._in_pairs = halved[2] and self._ends is None and self._first[2] % 2 == 0
        self._add_rows, self._restrict, self._prolong = transfers(like.ndim, halved, self._in_pairs)
        *self._stencils, self._squares = stencils(operator, like.ndim, is_constant)

    def apply(self, y: GlobalArray, x: GlobalArray) -> None:
        """Set y to A x."""
        x.exchange().wait()
        self._run(self._stencils[0], y.owned, y, x, self._of)

    def residual(self, r: GlobalArray, b: GlobalArray, x: GlobalArray) -> None:
        """Set r to b - A x."""
        x.exchange().wait()
        self._run(self._stencils[1], r.owned, r, b, x, self._of)

    def norm(self, b: GlobalArray, x: GlobalArray) -> float:
        """Return the norm of b - A x."""
        x.exchange().wait()
        return float(np.sqrt(self._squares.all(x.team, x.owned, b, x, self._of)))

    def relax(self, x: GlobalArray, b: GlobalArray, colour: int) -> None:
        """Add to the cells of a colour their residuals times the factors."""
        given = x, b, self.factors, self._ends, colour, self._first, self._cells, self._of
        self._run(self._stencils[2], self._pairs, *given)

    def restrict(self, coarse: GlobalArray, fine: GlobalArray, scale: float) -> None:
        """Set the coarse array to the transpose of the prolongation of the fine one, times a scale."""
        fine.exchange(corners=True).wait()
        given = self.rows, fine, self._first, self._ratios, scale
        self._run(self._add_rows, self.rows.layout.held(fine.team.rank), *given)
        self._run(self._restrict, coarse.owned, coarse, self.rows, self._first, self._ratios)

    def prolong(self, fine: GlobalArray, coarse: GlobalArray) -> None:
        """Add the prolongation of the coarse array to the fine one."""
        coarse.exchange(corners=True).wait()
        cells = self._pairs if self._in_pairs else fine.owned
        self._run(self._prolong, cells, fine, coarse, self._first, self._ratios)

    def _run(self, kernel: Foreach, domain: RectDomain, *args: Any) -> None:
        """Run a kernel. Arrays of coarse levels stay the same, and so do the launches, which are prepared once."""
        if not self.is_coarse:
            return kernel(domain, *args)
        key = id(kernel), *map(id, args)
        if key not in self._launches:
            self._launches[key] = kernel.prepared(domain, *args), args  # the second, so that it keeps its identity
        return self._launches[key][0]()

    def inverse(self, factor: float) -> GlobalArray:
        """Return the inverse of the diagonal, times a factor; constant coefficients: of a box with the same walls.

        Cells of one of two colours show their diagonal, since they are no neighbours but around a periodic axis.
        """
        layout, faces = self.like.layout, self.like.faces
        if self._is_constant:
            shape = *(min(n, 3) for n in self.like.shape[:-1]), self.like.shape[-1]
            layout = Layout.divide(shape, 1, ghost=1, periodic=layout.periodic, order=layout.order)
            box = GlobalArray(layout, self.like.dtype, self._alone, self.like.kind, faces)
            return _Level(box, self._operator, self._of, self._alone, is_constant=False).inverse(factor)
        closed = tuple(n == 1 and around for n, around in zip(self.like.shape, layout.periodic, strict=True))
        own, total, of = self.like.owned, zeros_like(self.like), dataclasses.replace(layout, periodic=closed)
        for parity in (0, 1):
            colour = _on(self.like, of)
            cells: Any = (sum(np.ix_(*own.axes)) + parity) % 2
            colour.block(colour.team.rank).copy_from(Array(cells.astype(colour.dtype), own))
            self.apply(self.x, colour)
            total += colour * self.x
        total[...] = factor / total
        return total

    def matrix(self) -> np.ndarray[Any, Any]:
        """Return A."""
        rows = []
        for unit in np.eye(self.like.size):
            _put(self.x, unit.reshape(self.like.shape))
            self.apply(self.b, self.x)
            rows.append(np.asarray(self.b.to_numpy()).ravel())
        return np.array(rows, float).T

    def coarser(self) -> _Level:
        """Return the next level: of fewer cells, or, where it is too small to be divided, of all cells on each rank."""
        layout, like, lengths = self._coarse_layout(), self.like, self._of[0]
        if like.team.size > 1 and (layout is None or like.size < _SHARED):
            made = functools.partial(_gathered, alone=self._alone)
            like = made(like)
        else:
            lengths = tuple((np.array(lengths) * like.shape / self._sizes).tolist())
            fine = like.layout
            whole = RectDomain((*layout.domain.lo[:-1], fine.domain.lo[-1]), (*self._sizes[:-1], fine.domain.hi[-1]))
            widths, ghost = (*layout.cuts[:-1], tuple(fine.widths(-1))), (*(0,) * (like.ndim - 1), self.r.ghost[-1])
            of_rows = dataclasses.replace(layout, domain=whole, cuts=widths, ghost=ghost)
            self.rows = GlobalArray(of_rows, like.dtype, like.team, like.kind)
            like, made = _on(like, layout), functools.partial(self._averaged, layout=layout)
        of = lengths, *(made(one) if isinstance(one, GlobalArray) else one for one in self._of[1:])
        return _Level(like, self._operator, of, self._alone, is_constant=self._is_constant)

    def _averaged(self, array: GlobalArray, layout: Layout) -> GlobalArray:
        """Return the weighted means of the cells of an array on the next level."""
        fine, sums, weights = _on(array, self.r.layout), _on(array, layout), _on(array, layout)
        fine[...] = array
        self.restrict(sums, fine, 1.0)
        fine.fill(1.0)
        self.restrict(weights, fine, 1.0)
        sums /= weights
        return sums

    def _coarse_layout(self) -> Any:
        """Return the layout of the next level, None if a rank with cells would have none there.

        A coarse cell belongs to the owner of its centre, so that prolongation needs one ghost, and restriction two.
        """
        cuts = []
        for axis, (n, new) in enumerate(zip(self.like.shape, self._sizes, strict=True)):
            ends = np.cumsum([0, *self.like.layout.widths(axis)])
            coarse = np.diff(np.searchsorted((2 * np.arange(new) + 1) * n // (2 * new), ends))
            if np.any(np.diff(ends)[coarse == 0]):
                return None
            cuts.append(tuple(coarse.tolist()))
        domain = RectDomain.from_shape(self._sizes)
        return dataclasses.replace(self.like.layout, domain=domain, ghost=(1,) * len(cuts), cuts=tuple(cuts))


def _on(array: GlobalArray, layout: Layout) -> GlobalArray:
    """Return an array of zeros with another layout."""
    return GlobalArray(layout, array.dtype, array.team, array.kind, array.faces)


def _gathered(array: GlobalArray, alone: Any) -> GlobalArray:
    """Return a copy of all cells for this rank."""
    layout = Layout.divide(array.shape, 1, ghost=1, periodic=array.periodic, order=array.order)
    copy = GlobalArray(layout, array.dtype, alone, array.kind, array.faces)
    _put(copy, np.asarray(array.to_numpy()))
    return copy


def _put(array: GlobalArray, cells: np.ndarray[Any, Any]) -> None:
    """Set the cells of this rank to theirs among all."""
    own = np.ascontiguousarray(cells[slices_of(array.part(array.team.rank))], array.dtype)
    array.block(array.team.rank).copy_from(Array(own, array.owned))


def _kind(array: GlobalArray) -> tuple[object, ...]:
    """What arrays like each other have in common."""
    return array.layout, array.dtype, array.team, array.faces


def _check(like: Any, operator: Any, h: Any, shift: Any, coefficients: Any, smoother: Any) -> tuple[float, ...]:
    """Refuse what has no levels; return the length of a cell along each axis."""
    _check_array("like", like)
    if like.ndim > 3:
        raise UsageError(f"like has {like.ndim} axes: multigrid takes 1 to 3")
    if operator is not None and not hasattr(operator, "py_func"):
        raise UsageError(f"operator={operator!r}: give a function of gw.jit, operator(p, x, h, *coefficients)")
    lengths = tuple(h) if isinstance(h, Sequence) else (h,) * like.ndim
    if len(lengths) != like.ndim or not all(isinstance(x, _NUMBER) and 0.0 < x < np.inf for x in lengths):
        raise UsageError(f"h={h!r}: give the length of a cell, or one for each of the {like.ndim} axes")
    if not isinstance(shift, _NUMBER) or not 0.0 <= shift < np.inf or (shift and operator):
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
    return tuple(map(float, lengths))


def _check_array(name: str, array: Any) -> None:
    if not isinstance(array, GlobalArray) or array.dtype.kind != "f":
        raise UsageError(f"{name} is {array!r}: give a global array of real floats")
    walls = [one for pair, closed in zip(array.faces, array.periodic, strict=True) if not closed for one in pair]
    if min(array.ghost) < 1 or not all(one in _HOMOGENEOUS for one in walls):
        raise UsageError(
            f"{name} has ghost={array.ghost} and boundary={array.boundary}: give one ghost or more, and for each face "
            "gw.Dirichlet(0), gw.Neumann(0), gw.Reflect(), or gw.periodic"
        )
