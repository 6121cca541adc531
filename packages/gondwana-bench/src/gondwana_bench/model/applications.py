"""The work of a step of each application, from its size and the number of ranks, divided as the application divides it.

A step is a time step of `heat` and `gray-scott`, an iteration of the NAS benchmarks, and an iteration of conjugate
gradients of `hpcg`. Sizes are `64` or `64x64x128` cells for `heat`, `64` for the cube of `gray-scott`, a class for the
NAS benchmarks, and points along a side of a rank, `64` or `64x64x64`, for `hpcg`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from gondwana.errors import UsageError
from gondwana.inputs import whole_number
from gondwana_bench.model.work import Collective, Exchange, Sweep, Work

if TYPE_CHECKING:
    from gondwana import Layout

P = TypeVar("P")

DOUBLE, COMPLEX = 8, 16

STORED = 2
"""Number of times that a stored line moves: it is read first."""

HEAT_OPERATIONS = 13
"""Operations of a cell: six neighbours, the sum of the mean, conduction and the step."""

GRAY_SCOTT_OPERATIONS = 80
"""Operations of a cell: two Laplacians and reactions, and a random number of ten rounds of two products."""

MG_OPERATIONS = 58
"""Operations of a cell of a level and iteration (NAS-95-020): residual, smoother, restriction and interpolation."""

FT_PASSES = 5
"""Number of times that an iteration reads or writes the box, by the application's own bound."""

CG_ENTRY = 10
"""Bytes of an element of the matrix: a value, and a column number of 16 bits within a panel."""

HPCG_OPERATIONS_A_ROW = 2 * 27
"""Operations of a row: each entry is multiplied and added."""

LARGEST_SIDE = 10**7


def work(app: str, size: str, ranks: int) -> Work:
    """Return the work of the busiest rank in a step. Local.

    Args:
        app: a name of `NAMES`.
        size: see the module.
        ranks: number of ranks, one thread each.

    Raises:
        UsageError: the application has no such size, or cannot be divided so.

    Example:
        >>> work("heat", "64", 1).exchanges[0].sizes
        ()
        >>> work("heat", "64", 8).exchanges[0].sizes
        (16384.0, 8192.0, 16384.0)
    """
    if app not in NAMES:
        raise UsageError(f"--app {app}: legal are {', '.join(NAMES)}")
    if ranks < 1:
        raise UsageError(f"{ranks} ranks: give at least 1")
    return _COUNTS[app](size, ranks)


def weak(app: str, size: str, ranks: int) -> str:
    """Return the size that gives each rank about as much as `size` gives one rank alone. Local.

    Cubes stay cubes: their side grows with the cube root of the ranks, rounded.

    Raises:
        UsageError: the application's sizes are classes.

    Example:
        >>> weak("heat", "64", 8), weak("hpcg", "64", 8)
        ('128', '64')
    """
    if app.startswith("npb"):
        raise UsageError(f"--weak: {app} has classes of fixed size; leave --weak out")
    if app == "hpcg":
        return size
    return "x".join(str(round(side * ranks ** (1 / 3))) for side in _shape(app, size))


def _heat(size: str, ranks: int) -> Work:
    from gondwana_apps.heat.division import layout
    from gondwana_apps.heat.settings import Settings

    x, y, z = (_shape("heat", size) * 3)[:3]
    divided = layout(Settings(X=x, Y=y, Z=z), ranks)
    cells = _largest(divided)
    sweep = Sweep((1 + STORED) * DOUBLE * cells, 2 * DOUBLE * cells, HEAT_OPERATIONS * cells)
    return Work((sweep,), _faces(divided, DOUBLE), (Collective("allreduce", DOUBLE, ranks),), ranks)


def _gray_scott(size: str, ranks: int) -> Work:
    from gondwana import Layout

    (side,) = _shape("gray-scott", size)
    divided = Layout.divide((side,) * 3, ranks, ghost=1, periodic=True, order="F")
    cells = _largest(divided)
    if divided.owned(ranks - 1).is_empty:
        raise UsageError(f"gray-scott: a cube of {side} cells a side has none for some of {ranks} ranks: enlarge it")
    sweep = Sweep(2 * (1 + STORED) * DOUBLE * cells, 4 * DOUBLE * cells, GRAY_SCOTT_OPERATIONS * cells)
    return Work((sweep,), _faces(divided, 2 * DOUBLE), (), ranks)


def _mg(size: str, ranks: int) -> Work:
    from gondwana_apps.npb.mg.division import Division, Plan
    from gondwana_apps.npb.mg.problem import PROBLEMS

    problem = _class("npb-mg", size, PROBLEMS)
    plan = Plan.of(problem.levels, ranks, MG_SIDE)
    sweeps, exchanges = [], []
    for level in range(problem.levels, 0, -1):
        alone = plan.ranks > 1 and level <= plan.coarsest
        division = Division(1 << level, (1, 1, 1) if alone else plan.grid, 2 if alone else 1 << plan.coarsest)
        shape = division.owned(0).shape
        cells = math.prod(shape)
        sweeps.append(Sweep((2 + 2 * STORED) * DOUBLE * cells, 3 * DOUBLE * cells, MG_OPERATIONS * cells))
        if not alone and plan.ranks > 1:
            exchanges.append(_of_blocks(shape, plan.grid, DOUBLE, times=3))
    fan = Collective("fan", DOUBLE * _cells_of_share(plan.coarsest, plan.grid), plan.ranks)
    return Work(tuple(sweeps), tuple(exchanges), (fan,) if plan.ranks > 1 else (), ranks)


def _ft(size: str, ranks: int) -> Work:
    from gondwana_apps.npb.ft.layout import choose
    from gondwana_apps.npb.ft.problem import PROBLEMS

    problem = _class("npb-ft", size, PROBLEMS)
    layout = choose(problem, ranks, None, None)
    points = problem.points / ranks
    transform = 5 * points * math.log2(problem.points) + 2 * points
    sweep = Sweep(FT_PASSES * COMPLEX * points, 3 * COMPLEX * points, transform)
    transposes = [
        Collective("alltoall", COMPLEX * points / parts, parts, stride)
        for parts, stride in ((layout.np1, layout.np2), (layout.np2, 1))
        if parts > 1
    ]
    return Work((sweep,), (), (*transposes, Collective("allreduce", COMPLEX, ranks)), ranks)


def _cg(size: str, ranks: int) -> Work:
    from gondwana_apps.npb.cg.grid import Grid
    from gondwana_apps.npb.cg.problem import PROBLEMS, STEPS

    problem = _class("npb-cg", size, PROBLEMS)
    grid = Grid(problem.n, 0, ranks)
    if grid.columns > problem.n:
        raise UsageError(f"npb-cg: class {problem.letter} has {problem.n} columns, too few for {ranks} ranks")
    entries, part = problem.expected_nonzeros() / ranks, -(-problem.n // grid.columns)
    products = STEPS + 1
    product = Sweep(products * CG_ENTRY * entries, CG_ENTRY * entries, 2 * products * entries)
    vectors = Sweep(10 * products * DOUBLE * part, 5 * DOUBLE * part, 10 * products * part)
    if ranks == 1:
        return Work((product, vectors), (), (), ranks)
    distances = tuple(max(1, column * max(1, ranks // grid.columns**2)) for column in range(1, grid.columns + 1))
    pieces = Exchange((DOUBLE * part,) * grid.columns, distances, products)
    scalars = Exchange((float(DOUBLE),) * (grid.columns - 1), tuple(range(1, grid.columns)), 2 * STEPS + 3)
    return Work((product, vectors), (pieces, scalars), (), ranks)


def _hpcg(size: str, ranks: int) -> Work:
    from gondwana_apps.hpcg.grid import choose_grid
    from gondwana_apps.hpcg.model import moved_bytes
    from gondwana_apps.hpcg.problem import LEVELS

    sides = (_shape("hpcg", size) * 3)[:3]
    if any(side % 8 or side < 16 for side in sides):
        raise UsageError(f"hpcg: --size {size}: sides are multiples of 8, at least 16")
    grid = choose_grid(ranks)
    shapes = [tuple(side >> level for side in sides) for level in range(LEVELS)]
    rows = [math.prod(shape) for shape in shapes]
    # The product, and three sweeps over the entries on each level but the coarsest, where it is two.
    entries = rows[0] + sum(2 * 2 * n for n in rows[:-1]) + 2 * rows[-1] + sum(rows[:-1])
    sweep = Sweep(moved_bytes(rows, rows[1:]), rows[0] * 27 * 12, HPCG_OPERATIONS_A_ROW * entries)
    exchanges = [
        _of_blocks(shape[::-1], grid[::-1], DOUBLE, times=3 if level == 0 else 2, corners=True)
        for level, shape in enumerate(shapes[:-1])
    ]
    sums = Collective("allreduce", DOUBLE, ranks, times=3)
    return Work((sweep,), tuple(e for e in exchanges if e.sizes), (sums,), ranks)


_COUNTS: dict[str, Callable[[str, int], Work]] = {
    "heat": _heat,
    "gray-scott": _gray_scott,
    "npb-mg": _mg,
    "npb-ft": _ft,
    "npb-cg": _cg,
    "hpcg": _hpcg,
}
NAMES = tuple(_COUNTS)


def _faces(divided: Layout, itemsize: int) -> tuple[Exchange, ...]:
    """The messages of a rank in the second place along each axis: the most neighbours, and a large block."""
    rank = divided.rank(tuple(min(1, parts - 1) for parts in divided.grid))
    pieces = [piece for piece in divided.pieces(rank, corners=False) if piece.owner != rank]
    sizes = tuple(float(itemsize * math.prod(piece.target.shape)) for piece in pieces)
    return (Exchange(sizes, tuple(abs(piece.owner - rank) for piece in pieces)),)


def _largest(divided: Layout) -> int:
    """Cells of the first rank: the first blocks are the largest."""
    return math.prod(divided.owned(0).shape)


def _of_blocks(
    shape: tuple[int, ...], grid: tuple[int, ...], itemsize: int, times: int, *, corners: bool = False
) -> Exchange:
    """The messages of a block inside the grid, the slowest axis first.

    Args:
        shape: cells of the block along each axis.
        grid: blocks along each axis.
        itemsize: bytes of a cell.
        times: number of exchanges in a step.
        corners: HPCG's exchange: also with the neighbours at edges and corners, in a box that is not periodic.
    """
    sides = [(0,) if parts == 1 else (0, 1) if parts == 2 and corners else (0, -1, 1) for parts in grid]
    sizes, distances = [], []
    for offset in itertools.product(*sides):
        if not any(offset) or (sum(map(abs, offset)) > 1 and not corners):
            continue
        sizes.append(float(itemsize * math.prod(n for n, out in zip(shape, offset, strict=True) if not out)))
        distances.append(abs(sum(out * math.prod(grid[axis + 1 :]) for axis, out in enumerate(offset))))
    return Exchange(tuple(sizes), tuple(distances), times)


MG_SIDE = 4
"""Cells along a side from which on MG divides a level, its default."""


def _cells_of_share(level: int, grid: tuple[int, ...]) -> float:
    """Cells of a rank on the coarsest divided level, with ghosts."""
    return math.prod(-(-(1 << level) // parts) + 2 for parts in grid)


def _shape(app: str, size: str) -> tuple[int, ...]:
    """The sides of the box: one number, or three for `heat` and `hpcg`."""
    sides = [whole_number(text) for text in size.split("x")]
    shape = tuple(side for side in sides if side is not None and 1 <= side <= LARGEST_SIDE)
    if len(shape) != len(sides) or len(shape) not in ((1,) if app == "gray-scott" else (1, 3)):
        raise UsageError(f"{app}: --size {size}: legal is a whole number such as 64, or 64x64x128 but for gray-scott")
    return shape


def _class(app: str, size: str, problems: dict[str, P]) -> P:
    if size not in problems:
        raise UsageError(f"{app}: --size {size}: legal are the classes {', '.join(problems)}")
    return problems[size]
