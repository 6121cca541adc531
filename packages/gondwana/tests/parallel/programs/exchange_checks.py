"""What global arrays must do, each check by all ranks against NumPy on one rank. Prints one JSON line per check."""

# ruff: noqa: N803, N806 - fields are called T and U, as in physics

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import os
import pickle
import time
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.teams import world

DTYPES = ("float64", "float32", "int16", "bool", "complex128", "uint8")
STALE = 77


def grids(ranks: int, ndim: int) -> list[tuple[int, ...]]:
    return [grid for grid in itertools.product(range(1, ranks + 1), repeat=ndim) if math.prod(grid) == ranks]


def random_cuts(rng: np.random.Generator, shape: Any, grid: tuple[int, ...]) -> list[list[int] | None]:
    """Widths of the blocks along some of the axes, often 0."""
    bounds = [[0, *sorted(rng.integers(0, n + 1, parts - 1)), n] for n, parts in zip(shape, grid, strict=True)]
    return [np.diff(bound).tolist() if rng.integers(2) else None for bound in bounds]


def random_array(rng: np.random.Generator, ndim: int | None = None) -> gw.GlobalArray:
    """An array whose layout is the same on all ranks, by the same random numbers."""
    ndim = int(rng.integers(1, 4)) if ndim is None else ndim
    base = rng.integers(-6, 7, ndim)
    shape = rng.integers(1, (20, 11, 8)[ndim - 1], ndim)
    box = gw.RectDomain(tuple(base), tuple(base + shape))
    choices = grids(world.size, ndim)
    grid = choices[int(rng.integers(len(choices)))]
    return gw.zeros(
        box,
        str(rng.choice(DTYPES)),
        ghost=rng.integers(0, 4, ndim).tolist(),
        periodic=[bool(flag) for flag in rng.integers(0, 2, ndim)],
        grid=grid,
        cuts=random_cuts(rng, shape, grid),
        order="CF"[int(rng.integers(2))],
    )


def whole_data(T: gw.GlobalArray, key: int) -> np.ndarray:
    """All cells of an array in one round, known to every rank."""
    return np.random.default_rng(key).integers(0, 2 if T.dtype == bool else 70, T.domain.shape).astype(T.dtype)


def set_cells(T: gw.GlobalArray, whole: np.ndarray) -> None:
    T.local.restrict(T.owned).numpy()[...] = whole[window(T, T.owned)]


def window(T: gw.GlobalArray, part: gw.RectDomain) -> tuple[slice, ...]:
    return tuple(slice(a - c, b - c) for a, b, c in zip(part.lo, part.hi, T.domain.lo, strict=True))


def expected(T: gw.GlobalArray, whole: np.ndarray, before: np.ndarray, corners: bool) -> np.ndarray:
    """This rank's cells and ghosts after an exchange: `before` where nothing may arrive."""
    index, there, outside = [], np.array(True), np.array(0)
    for axis, coordinates in enumerate(T.local.domain.axes):
        x = np.array(coordinates, int)
        low, n = T.domain.lo[axis], T.domain.shape[axis]
        shape = [-1 if a == axis else 1 for a in range(T.ndim)]
        index.append((x - low) % n)
        there = there & (np.ones(len(x), bool) if T.periodic[axis] else (x >= low) & (x < low + n)).reshape(shape)
        outside = outside + ((x < T.owned.lo[axis]) | (x >= T.owned.hi[axis])).reshape(shape)
    filled = there & ((outside <= 1) | corners)
    return np.where(filled, whole[np.ix_(*index)], before)


def check_random_layouts():
    rng = np.random.default_rng([world.size, world.node_count])  # others in each job: together, a hundred
    for key in range(14):
        T = random_array(rng)
        assert math.prod(T.grid) == world.size
        assert sum(T.owned_of(rank).size for rank in range(world.size)) == T.domain.size
        for corners in (False, True):
            for number in range(2):
                T.fill(STALE)
                before = T.local.numpy().copy()
                whole = whole_data(T, 10 * key + number)
                set_cells(T, whole)
                T.exchange(corners=corners).wait()
                assert np.array_equal(T.local.numpy(), expected(T, whole, before, corners)), (T, corners)
                # A neighbour fills these ghosts again as soon as this rank starts the next round.


def check_many_rounds_with_delays():
    rng = np.random.default_rng(100 + world.size)
    delays = np.random.default_rng(1000 * world.rank)
    for ndim, corners in ((1, False), (2, True), (3, False)):
        shape = (23, 9, 6)[:ndim]
        T = gw.zeros(shape, ghost=1, periodic=bool(ndim % 2), order="CF"[ndim % 2])
        T.fill(STALE)
        before = T.local.numpy().copy()
        for _ in range(50):
            whole = whole_data(T, int(rng.integers(2**30)))
            set_cells(T, whole)
            ghosts = T.exchange(corners=corners)
            if delays.random() < 0.2:
                time.sleep(delays.random() * 2e-3)
            ghosts.wait()
            assert np.array_equal(T.local.numpy(), expected(T, whole, before, corners)), (T, corners)
            if delays.random() < 0.2:
                time.sleep(delays.random() * 2e-3)


def check_several_arrays_in_one_call():
    rng = np.random.default_rng(200 + world.size)
    for key in range(4):
        arrays = [random_array(rng) for _ in range(3)]
        for number in range(4):
            data, before = [], []
            for place, T in enumerate(arrays):
                T.fill(STALE)
                before.append(T.local.numpy().copy())
                data.append(whole_data(T, 100 * key + 10 * number + place))
                set_cells(T, data[-1])
            gw.exchange(*arrays, corners=True).wait()
            for T, whole, stale in zip(arrays, data, before, strict=True):
                assert np.array_equal(T.local.numpy(), expected(T, whole, stale, True)), T


def check_exchanges_in_turns_without_handshakes():
    arrays = [gw.zeros((17, 8), ghost=1, periodic=(True, False)) for _ in range(2)]
    for T in arrays:
        T.fill(STALE)
    before = arrays[0].local.numpy().copy()
    world.barrier()
    delays = np.random.default_rng(world.rank)
    for key in range(60):
        T = arrays[key % 2]
        whole = whole_data(T, key)
        set_cells(T, whole)
        T.exchange(corners=True, ready=True).wait()
        if delays.random() < 0.1:
            time.sleep(delays.random() * 2e-3)
        assert np.array_equal(T.local.numpy(), expected(T, whole, before, True)), key


def check_that_ready_ghosts_are_filled_before_their_rank_calls():
    T = gw.zeros(4 * world.size, ghost=1, periodic=True)
    neighbours = [(world.rank - 1) % world.size, (world.rank + 1) % world.size]
    T.exchange(ready=True).wait()
    world.barrier()
    T.local.restrict(T.owned).fill(world.rank)
    ghosts = T.exchange(ready=True) if world.rank % 2 == 0 else None
    world.barrier()
    if ghosts is None:
        if world.node_count == 1:
            assert T.local.numpy()[[0, -1]].tolist() == neighbours
        ghosts = T.exchange(ready=True)
    ghosts.wait()
    assert T.local.numpy()[[0, -1]].tolist() == neighbours


def check_two_exchanges_under_way():
    T, U = (gw.zeros((11, 7), ghost=1, periodic=True, dtype=dtype) for dtype in ("float64", "int16"))
    for key in range(10):
        whole_t, whole_u = whole_data(T, key), whole_data(U, 50 + key)
        set_cells(T, whole_t)
        set_cells(U, whole_u)
        under_way = [T.exchange(corners=True), U.exchange(corners=True)]
        if world.rank % 2:
            under_way.reverse()
        for one in under_way:
            one.wait()
        assert np.array_equal(T.local.numpy(), expected(T, whole_t, T.local.numpy(), True))
        assert np.array_equal(U.local.numpy(), expected(U, whole_u, U.local.numpy(), True))


def check_asking_instead_of_waiting():
    T = gw.zeros((9, 10), ghost=2, periodic=True)
    for key in range(10):
        whole = whole_data(T, key)
        set_cells(T, whole)
        ghosts = T.exchange(corners=True)
        while not ghosts.test():
            time.sleep(1e-5)
        assert ghosts.test()
        ghosts.wait()
        assert np.array_equal(T.local.numpy(), expected(T, whole, T.local.numpy(), True))


def check_kernels_while_ghosts_travel():
    @gw.foreach
    def average(p, new, old):
        new[p] = old[p - gw.X] + old[p + gw.X] + old[p - 2 * gw.Y] + old[p + 2 * gw.Y]

    T = gw.zeros((13, 10), ghost=(1, 2), periodic=(True, False), order="F")
    new = gw.zeros_like(T)
    for key in range(10):
        whole = whole_data(T, key)
        set_cells(T, whole)
        ghosts = T.exchange()
        average(T.inner, new, T)
        ghosts.wait()
        average(T.rim, new, T)
        padded = np.pad(whole, ((0, 0), (2, 2)))
        result = np.roll(whole, 1, 0) + np.roll(whole, -1, 0) + padded[:, :-4] + padded[:, 4:]
        assert np.array_equal(new.local.restrict(T.owned).numpy(), result[window(T, T.owned)])


def check_blocks_of_peers():
    T = gw.zeros((12, 5), ghost=1)
    T.fill(float(world.rank))
    world.barrier()
    near = set(T.team.node.allgather(T.team.rank))
    for rank in range(world.size):
        assert T.block(rank).domain == T.layout.held(rank)
        assert isinstance(T.block(rank), gw.Array if rank in near else gw.RemoteArray)
        assert (T.block(rank).pointer.rank, T.block(rank).pointer.kind) == (rank, gw.host)
        assert rank not in near or (T.block(rank).numpy() == rank).all()
    raises(UsageError, T.block, world.size)
    world.barrier()
    if len(near) > 1 and not T.owned.is_empty:
        # Titanium's ghost update, one-sided: the intersection of the domains decides what is copied.
        for rank in near - {world.rank}:
            T.block(rank).restrict(T.owned).copy_from(T.local.restrict(T.owned))
    world.barrier()
    for p in T.local.domain & T.domain:
        owner = next(rank for rank in range(world.size) if p in T.owned_of(rank))
        assert T.local[p] == (owner if owner in near else world.rank)


def check_whole_arrays():
    rng = np.random.default_rng(300 + world.size)
    for key in range(6):
        T = random_array(rng)
        whole = whole_data(T, key)
        set_cells(T, whole)
        assert np.array_equal(T.to_numpy(), whole)
        root = key % world.size
        gathered = T.to_numpy(root)
        assert (gathered is None) == (world.rank != root)
        assert gathered is None or np.array_equal(gathered, whole)
        U = gw.from_numpy(whole, T.domain, ghost=T.ghost, grid=T.grid, order=T.order, periodic=T.periodic)
        assert U.dtype == T.dtype
        assert np.array_equal(U.local.restrict(U.owned).numpy(), whole[window(U, U.owned)])
        like = gw.zeros_like(U, "float32")
        assert (like.grid, like.ghost, like.periodic, like.order, like.dtype) == (*attributes(U), np.float32)
        assert not like.local.numpy().any()
        for like, value, dtype in (
            (gw.full_like(U, 1), 1, U.dtype),
            (gw.full_like(U, 3, "int32"), 3, np.int32),
            (gw.zeros_like(U), 0, U.dtype),
        ):
            assert (like.layout, like.dtype, like.team) == (U.layout, dtype, U.team)
            assert (like.local.numpy() == value).all()
        like = gw.empty_like(U, "complex64")
        assert (like.layout, like.dtype) == (U.layout, np.complex64)
    assert (gw.full((5, 5), 2, ghost=1).local.numpy() == 2).all()
    ones = gw.ones((5, 5), "int8", ghost=1, periodic=True, order="F")
    assert (ones.local.numpy() == 1).all()
    assert ones.layout == gw.Layout.divide((5, 5), world.size, ghost=1, periodic=True, order="F")
    assert "root=9" in raises(UsageError, T.to_numpy, 9)


def attributes(T: gw.GlobalArray) -> tuple[Any, ...]:
    return T.grid, T.ghost, T.periodic, T.order


def check_reductions():
    @gw.reduce(op="fsum")
    def total(p, a):
        return a[p]

    @gw.reduce(op="max")
    def largest(p, a):
        return a[p]

    @gw.foreach
    def draw(p, a):
        a[p] = gw.random(5, p, 3) * 10.0 ** (p[0] % 30)

    sums = set()
    for grid in grids(world.size, 3):
        T = gw.zeros((9, 5, 2), grid=grid)
        draw(T.owned, T)
        sums.add(total.all(T.team, T.owned, T))
        whole = T.to_numpy()
        assert sums == {math.fsum(whole.ravel())}
        assert largest.all(T.team, T.owned, T) == whole.max()
        sample = gw.Point(8, 4, 1)
        assert whole[sample] == gw.random(5, sample, 3) * 10.0**8


def check_sums_and_extremes_of_whole_arrays():
    # How an element is read and added does not depend on the axes: one type of each way has three.
    box = (4, 3, 2)
    sums_and_extremes({"float64": [(1,), (13,), box], "uint64": [box], "bool": [box], "complex64": [box]})


def sums_and_extremes(shapes: dict[str, list[tuple[int, ...]]]) -> None:
    """Compare sums, norms and extremes of random arrays of some types and shapes with those of Python's numbers."""
    rng = np.random.default_rng(900)  # the same arrays on any number of ranks
    for dtype in shapes:
        for shape in shapes[dtype]:
            whole = random_cells(rng, shape, np.dtype(dtype))
            grid = grids(world.size, len(shape))[-1]
            T = gw.full(shape, 1, dtype, ghost=1, periodic=True, grid=grid)  # ghosts do not count
            set_cells(T, whole)
            flat = whole.ravel().tolist()
            assert T.sum() == oracle_sum(flat, T.dtype)
            squares = [np.float64(part) ** 2 for part in flat] if T.dtype.kind != "c" else complex_squares(whole)
            assert T.norm() == math.sqrt(math.fsum(squares))
            if T.dtype.kind == "c":
                assert "no order" in raises(UsageError, T.min)
                continue
            assert (T.min(), T.max()) == (min(flat), max(flat))
            assert type(T.min()) is type(T.max()) is type(flat[0])


def random_cells(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    scaled = rng.uniform(-1, 1, shape) * 10.0 ** rng.integers(-12, 12, shape)
    return (scaled + 1j * rng.uniform(-1, 1, shape)).astype(dtype) if dtype.kind == "c" else scaled.astype(dtype)


def complex_squares(whole: np.ndarray) -> list[float]:
    return (whole.real.astype(float) ** 2 + whole.imag.astype(float) ** 2).ravel().tolist()


def oracle_sum(cells: list[Any], dtype: np.dtype) -> Any:
    if dtype.kind in "iub":
        return sum(map(int, cells))
    if dtype.kind == "f":
        return math.fsum(cells)
    return complex(math.fsum(cell.real for cell in cells), math.fsum(cell.imag for cell in cells))


def check_sums_and_extremes_of_special_numbers():
    T = gw.zeros(7)
    place = {0: math.inf, 6: -math.inf}
    for at, value in place.items():
        if gw.Point(at) in T.owned:
            T.local[at] = value
    assert (T.min(), T.max(), T.norm()) == (-math.inf, math.inf, math.inf)
    assert math.isnan(T.sum())
    if gw.Point(3) in T.owned:
        T.local[3] = math.nan
    assert all(map(math.isnan, (T.sum(), T.min(), T.max(), T.norm())))
    zeros = gw.zeros(6)
    if gw.Point(2) in zeros.owned:
        zeros.local[2] = -0.0
    assert all(math.copysign(1, number) == 1 for number in (zeros.min(), zeros.max(), zeros.sum()))


def check_reductions_along_axes():
    rng = np.random.default_rng(901)
    for number, dtype in enumerate(("float64", "float32", "int16", "uint64", "bool", "complex64")):
        whole = rng.integers(0, 2 if dtype == "bool" else 90, (5, 4, 3)).astype(dtype)
        choices = grids(world.size, 3)
        T = gw.full((5, 4, 3), 1, dtype, ghost=1, grid=choices[-number % len(choices)])  # ghosts do not count
        set_cells(T, whole)
        for axis in (0, -1, (0, 2), (2, 1, 0)):
            assert same(T.sum(axis), whole.sum(axis)), (dtype, T.grid, axis)
            if dtype == "complex64":
                assert "no order" in raises(UsageError, T.min, axis)
                continue
            for found, wanted in ((T.min(axis), whole.min(axis)), (T.max(axis), whole.max(axis))):
                assert same(found, wanted), (dtype, T.grid, axis)
                assert found.dtype == whole.dtype
        np.testing.assert_allclose(T.mean(1), whole.mean(1, complex if dtype == "complex64" else float))
    T = gw.zeros((4, 3))
    if gw.Point(2, 1) in T.owned:
        T.local[2, 1] = math.nan
    for found in (T.sum(0), T.min(0), T.max(0), T.mean(0)):
        assert np.isnan(found).tolist() == [False, True, False]
    for axis in (2, -3, (0, 0), "x"):
        assert "axes 0 to 1" in raises(UsageError, T.sum, axis)


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    return np.shape(found) == np.shape(wanted) and bool((found == wanted).all())


def check_functions_of_numpy():
    whole = np.arange(20.0).reshape(5, 4) - 7
    T = gw.from_numpy(whole, ghost=1)
    assert (np.sum(T), np.min(T), np.max(T), np.mean(T)) == (whole.sum(), -7.0, 12.0, whole.mean())
    assert (np.amin(T), np.amax(T), T.mean()) == (-7.0, 12.0, whole.mean())
    assert np.linalg.norm(T) == T.norm() == math.sqrt((whole**2).sum())
    assert same(np.sum(T, axis=1), whole.sum(1))
    assert same(np.max(T, axis=(0,)), whole.max(0))
    assert np.sum(T, axis=None) == whole.sum()
    assert gw.full(3, 2 + 1j).mean() == 2 + 1j
    assert gw.full(4, True).mean() == 1.0
    for refused, what in (
        (np.asarray, "np.asarray"),
        (np.array, "np.asarray"),
        (list, "list(T)"),
        (np.frexp, "numpy.frexp"),
        (np.add.reduce, "numpy.add.reduce"),
        (np.sort, "numpy.sort"),
        (np.median, "numpy.median"),
        (lambda T: np.ones(4) + T, "numpy.add"),
        (lambda T: np.sum(T, dtype="f4"), "numpy.sum with dtype="),
        (lambda T: np.max(T, keepdims=True), "numpy.max with keepdims="),
        (lambda T: np.linalg.norm(T, 1), "numpy.linalg.norm with ord="),
        (lambda T: np.linalg.norm(T, axis=0), "numpy.linalg.norm with axis="),
        (lambda T: np.copyto(np.zeros((5, 4)), T), "numpy.copyto"),
    ):
        message = raises(TypeError, refused, T)
        assert what in message, message
        assert "T.local" in message
        assert "T.to_numpy()" in message


def check_functions_of_coordinates():
    box = gw.RectDomain((-3, 2), (6, 9))
    x, y = np.meshgrid(np.arange(-3.0, 6), np.arange(2.0, 9), indexing="ij")
    for grid in grids(world.size, 2):
        T = gw.from_function(lambda x, y: np.sin(x) * y, box, ghost=1, periodic=True, grid=grid, order="F")
        assert T.dtype == np.float64
        assert (T.grid, T.ghost, T.periodic, T.order) == (grid, (1, 1), (True, True), "F")
        assert same(T.to_numpy(), np.sin(x) * y)
    shapes = []
    gw.from_function(lambda x, y: shapes.append((x.shape, y.shape)) or x, box)
    owned = gw.Layout.divide(box, world.size).owned(world.rank)
    assert shapes == [(owned.shape, owned.shape)]
    assert same(gw.from_function(lambda i, j: i > j, box).to_numpy(), x > y)
    assert same(gw.from_function(lambda x, y: x + 1j * y, box, "complex64").to_numpy(), (x + 1j * y).astype("c8"))
    assert same(gw.from_function(lambda x: 7, 5).to_numpy(), np.full(5, 7))
    assert same(gw.from_function(lambda x: x, 5, "float32").to_numpy(), np.arange(5, dtype="f4"))
    assert "complex128, which does not fit dtype=float64" in raises(
        UsageError, gw.from_function, lambda x: 1j * x, 5, float
    )
    assert "one value for each cell" in raises(UsageError, gw.from_function, lambda x: np.ones(77), 5)
    assert "read-only" in raises(ValueError, gw.from_function, lambda x: np.add(x, 1, out=x), 5 * world.size)


def check_arrays_of_a_layout():
    size = gw.world.size
    layout = gw.Layout.divide((5 * size + 1, 4), size, ghost=(1, 0), periodic=True, grid=(size, 1), division="ceil")
    T = gw.from_function(lambda x, y: x + 100.0 * y, layout)
    assert T.owned.shape[0] == (6 if gw.world.rank < (5 * size + 1) // 6 else (5 * size + 1) % 6)
    T.exchange().wait()
    if not T.owned.is_empty:
        wanted = [x % (5 * size + 1) for x in range(T.owned.lo[0] - 1, T.owned.hi[0] + 1)]
        assert T.local[:, 2].numpy().tolist() == [x + 200.0 for x in wanted]
    with_more = raises(UsageError, gw.zeros, layout, ghost=1)
    assert "a layout says ghost, periodic, grid and order" in with_more, with_more
    other = gw.Layout.divide((9,), size + 1)
    assert f"has {size + 1} blocks and the team has {size} ranks" in raises(UsageError, gw.zeros, other)


def check_ranks_that_disagree():
    if world.size == 1:
        return
    odd = world.rank == world.size - 1
    for name, value, other in (
        ("order", "C", "F"),
        ("periodic", True, False),
        ("ghost", 1, 2),
        ("dtype", "f4", "f8"),
        ("grid", (world.size, 1), (1, world.size)),
    ):
        message = raises(UsageError, gw.zeros, (8, 6), **{name: value if odd else other})
        assert f"different global arrays: {name} is" in message, message
        assert f"on rank {world.size - 1}" in message
    assert "domain is" in raises(UsageError, gw.zeros, (8 + odd, 6))
    assert "value is" in raises(UsageError, gw.full, 4, 1.0 + odd)
    assert "value is" in raises(UsageError, gw.full_like, gw.zeros(4), 1.0 + odd)
    for value in (1.5, np.float64(1.5)):  # the same number, of other types
        gw.full(4, np.float32(1.5) if odd else value, float)
    gw.full(4, math.nan)


def check_data_that_differ_between_ranks():
    record = np.zeros((3, 4), np.dtype([("a", "i1"), ("b", "f8")], align=True))
    record["b"] = np.arange(4)
    lines = np.arange(12.0).reshape(3, 4)
    for data in (lines, np.asfortranarray(lines), lines[:, ::2], lines > 3, lines * 1j, record):
        mine = data.copy("C" if world.rank == 0 or data is record else "F")
        if data is record:  # what lies between the fields is no part of the data
            mine.view(np.uint8).reshape(3, 4, -1)[..., 1:8] = world.rank
        assert (gw.from_numpy(mine).to_numpy() == data).all()
        if world.size == 1:
            continue
        other = data.copy()
        if world.rank == world.size - 1:
            other[2, 1] = other[0, 0] if data.dtype != bool else not other[2, 1]
        message = raises(UsageError, gw.from_numpy, other)
        assert "data is an ndarray of checksum" in message, message
        assert f"on rank {world.size - 1}" in message
    if world.size > 1:
        assert "is" in raises(UsageError, gw.from_numpy, np.zeros(3 + world.rank))


def check_orders_of_arrays_that_differ_between_ranks():
    """The first exchange of arrays compares them; later ones are right in any order."""
    names = "UVW"
    T = {name: gw.zeros((9, 8), ghost=1, periodic=True, dtype="f4" if name == "V" else "f8") for name in names}

    def fill(step):
        for number, name in enumerate(names):
            T[name].fill(-1)
            T[name].local.restrict(T[name].owned).fill(10 * step + number)

    def all_filled(step):
        inside = gw.RectDomain((0, -1), (9, 9)) if world.size == 1 else T["U"].owned.accrete(1)
        faces = [inside & T["U"].owned.accrete(gw.Point(*unit)) for unit in ((1, 0), (0, 1))]
        return all(
            (T[name].local.restrict(face).numpy() == 10 * step + number).all()
            for number, name in enumerate(names)
            for face in faces
        )

    odd = world.rank == world.size - 1
    if world.size > 1:
        message = raises(UsageError, gw.exchange, *(T[name] for name in (names[::-1] if odd else names)))
        for what in ("different exchanges: arrays is ['array", "on rank 0 and ['array", "of (9, 8) float32"):
            assert what in message, message
        assert "arrays is" in raises(UsageError, gw.exchange, T["U"], T["W" if odd else "V"])
        assert "corners is" in raises(UsageError, T["U"].exchange, corners=odd)
        made = {}
        for name in reversed(names) if odd else names:
            made[name] = gw.zeros(5)
        assert "arrays is" in raises(UsageError, gw.exchange, made["U"])
    gw.exchange(*T.values()).wait()
    for step, order in enumerate(itertools.permutations(names)):
        world.barrier()
        fill(step)
        world.barrier()
        gw.exchange(*(T[name] for name in (names if odd else order))).wait()
        assert all_filled(step), (step, order)


def check_use_after_closing():
    T = gw.zeros((8, 6), ghost=1, periodic=True)
    kept = T.local
    peers = gw.zeros((8, 6))
    segment = gw.Segment(world, 64)
    pointer = segment.pointer(dtype="f8")
    world.barrier()
    start = time.monotonic()
    for close in (T.close, peers.close, segment.close):
        close()
        close()
    other = (world.rank + 1) % world.size
    uses = [lambda: T.local, lambda: T.fill(1.0), lambda: peers.block(other)]
    for use in (*uses, T.exchange, T.to_numpy, T.sum, T.norm):
        message = raises(UsageError, use)
        assert "was closed" in message, message
        assert "GlobalArray" in message
    for use in (
        lambda: gw.put(1.0, pointer),
        lambda: gw.put(1.0, pointer.on(other)),
        lambda: gw.get(pointer.on(other)),
        lambda: gw.copy(np.zeros(3), pointer.on(other)),
        lambda: pointer.local(),
        lambda: segment.view(other if other in segment.peers else world.rank),
        lambda: stored(pointer),
    ):
        message = raises(UsageError, use)
        assert "Segment(64 bytes of host, world) was closed" in message, message
    assert time.monotonic() - start < 20  # a failing rank would be waited for at each use, 2.5 s
    kept.fill(3.0)
    assert (kept.numpy() == 3.0).all()


@gw.jit
def stored(pointer):
    gw.put(1.0, pointer)


class Velocity(NamedTuple):
    x: float
    y: float


class Parcel(NamedTuple):
    mass: np.float32
    velocity: Velocity
    count: int


@gw.foreach
def gather_parcels(p, T, U):
    U[p] = T[p + gw.X]
    U[p].count += T[p - gw.Y].count
    U[p]["velocity"].x = T[p].mass
    U[p].velocity["y"] = 0.5 * T[p - gw.X].velocity.y


@gw.reduce
def count_of(p, T):
    return T[p].count


def check_records():
    T = gw.zeros(gw.RectDomain((-1, 2), (6, 9)), Parcel, ghost=1, periodic=True)
    U = gw.zeros_like(T)
    whole = np.zeros(T.domain.shape, T.dtype)
    whole["mass"] = np.arange(whole.size).reshape(whole.shape)
    whole["velocity"]["y"] = -whole["mass"]
    whole["count"] = 3 * whole["mass"]
    set_cells(T, whole)
    T.exchange(corners=True).wait()
    gather_parcels(T.owned, T, U)
    wanted = np.roll(whole, -1, 0)
    wanted["count"] += np.roll(whole["count"], 1, 1)
    wanted["velocity"]["x"] = whole["mass"]
    wanted["velocity"]["y"] = 0.5 * np.roll(whole["velocity"]["y"], 1, 0)
    found = U.to_numpy()
    assert found.dtype == wanted.dtype
    assert (found == wanted).all()  # bytes between fields are nobody's
    assert count_of.all(world, T.owned, U) == wanted["count"].sum()
    world.barrier()
    corner = gw.Point(5, 8)
    if world.rank == 0:  # of any rank, as assignments and as copies of one record
        block = T.block(T.layout.owner(corner))
        block[corner] = Parcel(np.float32(2.5), Velocity(1.0, 2.0), 7)
        assert block[corner].velocity.y == block[corner]["velocity"]["y"] == 2.0
        assert block[corner].item() == (2.5, (1.0, 2.0), 7)
    world.barrier()
    assert T.to_numpy()[-1, -1].item() == (2.5, (1.0, 2.0), 7)
    for reduction in (T.sum, T.min, T.mean, T.norm):
        assert "reduce one field, such as a[p].mass" in raises(UsageError, reduction)
    other = [("mass", "f4"), ("count", "i8")] if world.rank == 0 else [("mass", "f4"), ("count", "u8")]
    if world.size > 1:
        assert "dtype is" in raises(UsageError, gw.zeros, 4, other)


def check_teams():
    half = world.split(world.rank % 2)
    T = gw.zeros((8, 6), ghost=1, periodic=True, team=half)
    assert T.team is half
    for key in range(3):
        whole = whole_data(T, key + 10 * (world.rank % 2))
        set_cells(T, whole)
        T.exchange(corners=True).wait()
        assert np.array_equal(T.local.numpy(), expected(T, whole, T.local.numpy(), True))
        assert np.array_equal(T.to_numpy(), whole)
    everywhere = gw.zeros((8, 6), ghost=1)
    if half.size != world.size:
        assert "one team" in raises(UsageError, gw.exchange, T, everywhere)


def check_misuse():
    T = gw.zeros((8, 6), ghost=1, periodic=True)
    ghosts = T.exchange()
    assert "wait()" in raises(RuntimeError, T.exchange)
    ghosts.wait()
    T.exchange().wait()
    assert "each once" in raises(UsageError, gw.exchange, T, T)
    assert "at least one" in raises(UsageError, gw.exchange)
    assert "global arrays" in raises(UsageError, gw.exchange, np.zeros(3))
    assert "pickled" in raises(TypeError, pickle.dumps, T)
    for options, said in [
        ({"ghost": -1}, "ghost=-1"),
        ({"ghost": (1, 2, 3)}, "ghost=(1, 2, 3)"),
        ({"ghost": 1.5}, "ghost=1.5"),
        ({"ghost": True}, "ghost=True"),
        ({"periodic": (True,)}, "periodic="),
        ({"periodic": "yes"}, "periodic="),
        ({"grid": (world.size, 2)}, "ranks"),
        ({"grid": (0, world.size)}, "grid"),
        ({"order": "A"}, "order"),
        ({"dtype": "float16"}, "float16"),
        ({"dtype": object}, "object"),
        ({"dtype": np.longdouble}, "float128"),
        ({"dtype": ">f8"}, ">f8"),
    ]:
        assert said in raises(UsageError, gw.zeros, (8, 6), **options), options
    for make in (gw.zeros, gw.ones, gw.empty):
        assert "no argument ghosts: did you mean ghost?" in raises(TypeError, make, (8, 6), ghosts=1)
    assert "did you mean periodic?" in raises(TypeError, gw.full, (8, 6), 1.0, periodical=True)
    assert "legal are data, domain, ghost" in raises(TypeError, gw.from_numpy, np.zeros(3), colour=1)
    assert "dense" in raises(UsageError, gw.zeros, gw.RectDomain(0, 9, 2))
    assert "at least one cell" in raises(UsageError, gw.zeros, gw.RectDomain(0, 0))
    assert "dense" in raises(UsageError, gw.from_numpy, np.zeros(3), gw.RectDomain(0, 6, 2))
    assert "RectDomain" in repr(T)


def check_memory_is_given_back():
    def held() -> Counter[str]:
        links = []
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):  # the listing's own
                links.append(os.readlink(f"/proc/self/fd/{name}").partition("[")[0])
        with open("/proc/self/maps") as maps:
            return Counter(links) + Counter("mapping " + line.split()[5] for line in maps if "memfd:gondwana" in line)

    def use(close: bool) -> None:
        T = gw.zeros((6, 6), ghost=1, periodic=True)
        U = gw.zeros_like(T)
        T.fill(1.0)
        gw.exchange(T, U).wait()
        T.exchange().wait()
        assert (T.local.numpy()[1:-1] == 1.0).all()
        if close:
            T.close()
            U.close()

    for _ in range(2):  # with what checks before this one have left
        gc.collect()
        use(True)
    gc.collect()
    gc.disable()  # what goes away must go away at once, not when garbage is collected
    try:
        for close in (True, False):
            first = held()
            for _ in range(5):
                use(close)
            now = held()
            assert now == first, (close, now - first, first - now)
    finally:
        gc.enable()
    T = gw.zeros((6, 6), ghost=1)
    view = T.local.restrict(T.owned)
    T.close()
    view.fill(3.0)
    assert (view.numpy() == 3.0).all()
    # Folders are those of jobs that run now, for the files of Open MPI.
    left = [entry.name for entry in os.scandir("/dev/shm") if "gondwana" in entry.name and entry.is_file()]
    assert not left, left


if __name__ == "__main__":
    run_checks(globals())
