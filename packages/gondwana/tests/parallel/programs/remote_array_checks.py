"""What arrays on other ranks must do, each check by all ranks against NumPy. Prints one JSON line per check."""

# ruff: noqa: N806 - fields are called T and U, as in physics

from __future__ import annotations

import importlib.util
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.teams import world

EXAMPLE = Path(__file__).parents[5] / "examples" / "ghosts.py"
DTYPES = ("float64", "float32", "int16", "complex128", "uint8")
PLACES = [gw.host, gw.fake_device]


def value(domain: gw.RectDomain, seed: int, dtype: Any = float) -> gw.Array:
    """An array whose elements tell where they belong."""
    index = np.indices(domain.shape)
    weights = [7, 31, 3][: domain.ndim]
    total = sum(w * (c + s * i) for w, c, s, i in zip(weights, domain.lo, domain.stride, index, strict=True))
    return gw.Array(((total + 11 * seed) % 97).astype(dtype), domain)


def grids(ndim: int) -> list[tuple[int, ...]]:
    choices = itertools.product(range(1, world.size + 1), repeat=ndim)
    return [grid for grid in choices if math.prod(grid) == world.size]


def random_array(rng: np.random.Generator, **options: Any) -> gw.GlobalArray:
    """An array whose layout is the same on all ranks, by the same random numbers; uneven blocks, and empty ones."""
    ndim = int(rng.integers(1, 4))
    base = rng.integers(-6, 7, ndim)
    shape = rng.integers(1, (20, 11, 8)[ndim - 1], ndim)
    choices = grids(ndim)
    return gw.zeros(
        gw.RectDomain(tuple(base), tuple(base + shape)),
        str(rng.choice(DTYPES)),
        **{
            "ghost": rng.integers(1, 3, ndim).tolist(),
            "periodic": [bool(flag) for flag in rng.integers(0, 2, ndim)],
            "grid": choices[int(rng.integers(len(choices)))],
            "order": "CF"[int(rng.integers(2))],
            **options,
        },
    )


def random_part(rng: np.random.Generator, box: gw.RectDomain) -> gw.RectDomain:
    """A strided box that overlaps another one, mostly."""
    lo = [int(rng.integers(a - 1, b)) for a, b in zip(box.lo, box.hi, strict=True)]
    hi = [int(rng.integers(a, b + 2)) for a, b in zip(lo, box.hi, strict=True)]
    return gw.RectDomain(lo, hi, [int(n) for n in rng.integers(1, 4, box.ndim)])


def check_every_rank_reads_and_writes_every_block():
    rng = np.random.default_rng(world.size)
    for key in range(6):
        T = random_array(rng, kind=PLACES[key % 2])
        T.fill(world.rank)
        world.barrier()
        busy = [rank for rank in range(world.size) if not T.owned_of(rank).is_empty]
        for turn, rank in enumerate(np.roll(busy, -world.rank)):
            block = T.block(int(rank))
            assert (block.pointer.rank, block.dtype, block.domain) == (rank, T.dtype, T.layout.held(int(rank)))
            assert (block.copy().numpy() == rank).all(), turn
        world.barrier()
        # Each rank writes the cells of its own stride into all blocks: together they write them all.
        box = T.domain.accrete(T.ghost)
        for rank in busy:
            lo = box.lo + (world.rank, *[0] * (T.ndim - 1))
            if lo[0] < box.hi[0]:
                mine = gw.RectDomain(lo, box.hi, [world.size] + [1] * (T.ndim - 1))
                T.block(rank).copy_from(value(mine, rank, T.dtype))
        world.barrier()
        found = T.block(world.rank).copy()
        assert np.array_equal(found.numpy(), value(found.domain, world.rank, T.dtype).numpy())


def check_copies_of_random_views():
    rng, mine = np.random.default_rng(50 + world.size), np.random.default_rng([7, world.rank])
    for key in range(4):
        T = random_array(rng, kind=PLACES[key % 2])
        U = gw.zeros_like(T)
        T.block(world.rank).copy_from(value(T.layout.held(world.rank), 0, T.dtype))
        world.barrier()
        for rank in range(world.size):
            block = T.block(rank)
            if block.domain.is_empty:
                assert block.copy().size == 0
                continue
            part = random_part(mine, block.domain)
            offset = gw.Point(mine.integers(-2, 3, T.ndim).tolist())
            axes = mine.permutation(T.ndim).tolist()
            view = block.restrict(part).translate(offset).permute(axes)
            here = value(block.domain, 0, T.dtype).restrict(part).translate(offset).permute(axes)
            assert view.domain == here.domain
            assert np.array_equal(view.copy().numpy(), here.numpy())
            wide = gw.Array.full(view.domain.accrete(1), 55, T.dtype, order="F")
            expected = wide.copy()
            wide.copy_from(view)
            expected.copy_from(here)
            assert np.array_equal(wide.numpy(), expected.numpy())
        # From block to block, by a rank that owns neither: each block of U by its left neighbour's left neighbour.
        to, come = (world.rank + 2) % world.size, (world.rank + 1) % world.size
        U.block(to).copy_from(T.block(come))
        world.barrier()
        came = (world.rank - 1) % world.size
        expected = gw.Array.zeros(U.layout.held(world.rank), U.dtype)
        expected.copy_from(value(T.layout.held(came), 0, T.dtype))
        assert np.array_equal(U.block(world.rank).copy().numpy(), expected.numpy())
        world.barrier()


def check_elements_slices_and_fill():
    for kind in PLACES:
        T = gw.zeros((4 * world.size, 3), "int32", ghost=(1, 0), grid=(world.size, 1), kind=kind)
        right = (world.rank + 1) % world.size
        block, lo = T.block(right), T.owned_of(right).lo
        block[lo] = 5
        block[lo[0] + 1, 2] = 6
        block[lo[0] + 2, :] = np.arange(3)
        block[lo[0] + 3 :, 1:] = 9
        world.barrier()
        assert block[lo] == 5
        assert type(block[lo]) is int
        mine = T.block(world.rank).restrict(T.owned).copy().numpy()
        assert mine.tolist() == [[5, 0, 0], [0, 0, 6], [0, 1, 2], [0, 9, 9]]
        world.barrier()
        block.restrict(T.owned_of(right)).fill(8)
        world.barrier()
        assert (T.block(world.rank).restrict(T.owned).copy().numpy() == 8).all()
        assert block.slice(0, lo[0]).copy().numpy().tolist() == [8, 8, 8]
        raises(IndexError, block.__getitem__, (lo[0] - 2, 0))
        raises(IndexError, block.__setitem__, (lo[0], 3), 1)
        world.barrier()


def check_casts():
    for kind in PLACES:
        T = gw.zeros((world.size, 4), "float32", grid=(world.size, 1), kind=kind)
        right = (world.rank + 1) % world.size
        there = T.block(right)
        there.copy_from(gw.Array.full(there.domain, 0.1))
        world.barrier()
        assert (T.block(world.rank).copy().numpy() == np.float32(0.1)).all()
        here = gw.Array.zeros(there.domain)
        here.copy_from(there)
        assert (here.numpy() == np.float64(np.float32(0.1))).all()
        whole = gw.Array.zeros(there.domain, int)
        if isinstance(there, gw.RemoteArray):
            raises(TypeError, there.copy_from, gw.Array.zeros(there.domain, complex))
        raises(TypeError, whole.copy_from, there)
        assert "dtype" in raises(UsageError, there.copy_from_async, here) or here.dtype == there.dtype
        world.barrier()
        there.copy_from(there.translate((0, 1)))  # shares memory with itself
        world.barrier()


def check_what_needs_loads_and_stores_refuses():
    T = gw.zeros((world.size, 4), grid=(world.size, 1), kind=gw.fake_device)
    there = T.block(world.rank)

    @gw.foreach
    def double(p, a):
        a[p] = 2 * a[p]

    @gw.jit
    def first(a):
        return a[0, 0]

    assert isinstance(there, gw.RemoteArray)
    assert "fetch them by copy()" in raises(UsageError, double, there.domain, there)
    assert "fetch them by copy()" in raises(UsageError, first, there)
    assert "fetch them by copy()" in raises(UsageError, np.asarray, there)
    assert "block(rank)" in raises(UsageError, double, T.owned, T)
    assert "block(rank)" in raises(UsageError, lambda: T.local)
    here = there.copy()
    here.fill(3.0)
    double(here.domain, here)
    there.copy_from(here)
    assert there[world.rank, 1] == 6.0


def check_arrays_in_segments_are_shared():
    size = 8 * (world.rank + 1)
    segment = gw.Segment(world, 16 + 8 * size)
    mine = gw.array_at(segment.pointer(dtype=float, offset=16), gw.RectDomain(10, 10 + size))
    mine.fill(world.rank)
    given = None if world.rank == world.size - 1 and world.size > 1 else mine[12 : 10 + size : 2]
    arrays = gw.share(given)
    near = set(world.node.allgather(world.rank))
    for rank, array in enumerate(arrays):
        if rank == world.size - 1 and world.size > 1:
            assert array is None
            continue
        assert isinstance(array, gw.Array if rank in near else gw.RemoteArray)
        assert array.domain == gw.RectDomain(12, 10 + 8 * (rank + 1), 2)
        assert (array.pointer.rank, array.pointer.offset) == (rank, 32)
        assert (array.copy().numpy() == rank).all()
    world.barrier()
    left = arrays[(world.rank - 1) % world.size]
    if left is not None:
        left[14] = -1.0
    world.barrier()
    if given is not None:
        assert mine.numpy()[4] == -1.0
        assert (np.delete(mine.numpy(), 4) == world.rank).all()


def check_share_refuses_together():
    segment = gw.Segment(world, 64)
    mine = gw.array_at(segment.pointer(dtype=float), 8)
    private = gw.Array.zeros(gw.RectDomain(0, 8))
    assert "private memory" in raises(UsageError, gw.share, private if world.rank == 0 else mine)
    half = world.split(world.rank % 2)
    part = gw.Segment(half, 64)
    if world.size > 1:
        assert "not open" in raises(UsageError, gw.share, gw.array_at(part.pointer(dtype=float), 8))
    arrays = gw.share(mine, half)
    assert [array.pointer.rank for array in arrays] == list(range(world.rank % 2, world.size, 2))


def reads(reference, p):
    return float(reference.array()[p])


def check_references_travel():
    T = gw.zeros((3 * world.size,), grid=(world.size,))
    T.fill(world.rank)
    world.barrier()
    references = world.allgather(T.local.reference())
    assert all(array.array().domain == T.owned_of(rank) for rank, array in enumerate(references))
    right = (world.rank + 1) % world.size
    assert gw.rpc(right, reads, T.local.reference(), T.owned.lo[0]).result() == world.rank
    assert gw.rpc(right, reads, T.block(right).reference(), 3 * right).result() == right
    world.barrier()


def check_copies_that_tell():
    for kind in PLACES:
        T = gw.zeros((6 * world.size,), ghost=3, periodic=True, grid=(world.size,), kind=kind)
        arrived = gw.Signal(world)
        right = (world.rank + 1) % world.size
        shift = T.domain.shape[0] if right <= world.rank else 0
        for step in range(20):
            cells = gw.Array.full(T.owned, 100.0 * step + world.rank).translate(-shift)
            sent = T.block(right).copy_from_async(cells, notify=arrived)
            arrived.wait()
            lo = T.owned.lo[0]
            expected = 100.0 * step + (world.rank - 1) % world.size
            ghosts = T.block(world.rank)[lo - 3 : lo].copy()
            assert (ghosts.numpy() == expected).all(), (step, ghosts.numpy())
            sent.remote.wait()
            world.barrier()
        nothing = gw.Array.zeros(gw.RectDomain(-100, -90))
        T.block(right).copy_from_async(nothing, notify=arrived).remote.wait()
        arrived.wait(timeout=20)
        world.barrier()


def check_ghosts_by_hand():
    spec = importlib.util.spec_from_file_location("ghosts", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    importlib.sys.modules["ghosts"] = module
    spec.loader.exec_module(module)
    rng = np.random.default_rng([900 + world.size, world.node_count])
    for _ in range(5):
        T = random_array(rng)
        assert module.agree(T, rounds=4), T


def check_exchange_of_device_memory():
    rng = np.random.default_rng(70 + world.size)
    for corners in (False, True):
        T = random_array(rng)
        U = gw.zeros(
            T.domain, T.dtype, ghost=T.ghost, periodic=T.periodic, grid=T.grid, order=T.order, kind=gw.fake_device
        )
        V = gw.zeros_like(T, "int32")
        for step in range(3):
            cells = value(T.owned, step, T.dtype)
            for array in (T, U, V):
                array.fill(77)
                array.block(world.rank).copy_from(gw.Array(cells.numpy().real.astype(array.dtype), T.owned))
            T.exchange(corners=corners).wait()
            both = gw.exchange(U, V, corners=corners)
            both.wait()
            assert both.test()
            assert np.array_equal(U.block(world.rank).copy().numpy(), T.local.numpy())
            assert np.array_equal(V.local.numpy(), T.local.numpy().real.astype("int32"))
        assert repr(U).count("kind=gw.fake_device") == 1
        assert np.array_equal(U.to_numpy(), T.to_numpy())
        again = gw.from_numpy(T.to_numpy(), T.domain, kind=gw.fake_device)
        assert np.array_equal(again.to_numpy(), T.to_numpy())


if __name__ == "__main__":
    run_checks(globals())
