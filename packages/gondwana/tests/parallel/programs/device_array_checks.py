"""What arrays on GPUs must do, each check by all ranks against NumPy on one rank. Prints one JSON line per check.

Run with GONDWANA_CUDA=emulated: its streams do everything as late and in any order as they may.
"""

# ruff: noqa: N803, N806 - fields are called T and U, as in physics

from __future__ import annotations

import gc
import importlib.util
import math
import tempfile
import time
from pathlib import Path

import numpy as np
from checks import raises, run_checks
from exchange_checks import STALE, expected, grids, whole_data, window
from points_checks import accumulated, block_data, places

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.gpu.driver import driver
from gondwana.io import checkpoint
from gondwana.memory.segment import Segment
from gondwana.teams import world
from gondwana.transfer import paths
from gondwana.transfer.plans.create import CopiedPlan
from gondwana.transfer.plans.device import DevicePlan

DTYPES = ("float64", "float32", "int16", "bool", "complex128", "uint8")


@gw.foreach
def shift(p, new, old):
    new[p] = old[p - gw.X] + 2 * old[p + gw.X] + 3 * old[p - gw.Y] + 5 * old[p + gw.Y]


def shifted(whole: np.ndarray) -> np.ndarray:
    roll = np.roll
    return roll(whole, 1, 0) + 2 * roll(whole, -1, 0) + 3 * roll(whole, 1, 1) + 5 * roll(whole, -1, 1)


def random_array(
    rng: np.random.Generator, ndim: int | None = None, dtype: str | None = None, **options
) -> gw.GlobalArray:
    """An array whose layout is the same on all ranks, by the same random numbers."""
    ndim = int(rng.integers(1, 4)) if ndim is None else ndim
    base = rng.integers(-6, 7, ndim)
    shape = rng.integers(1, (20, 11, 8)[ndim - 1], ndim)
    choices = grids(world.size, ndim)
    return gw.zeros(
        gw.RectDomain(tuple(base), tuple(base + shape)),
        dtype or str(rng.choice(DTYPES)),
        **{
            "ghost": rng.integers(0, 4, ndim).tolist(),
            "periodic": [bool(flag) for flag in rng.integers(0, 2, ndim)],
            "grid": choices[int(rng.integers(len(choices)))],
            "order": "CF"[int(rng.integers(2))],
            "kind": gw.cuda(),
            **options,
        },
    )


def cells(T: gw.GlobalArray) -> np.ndarray:
    """What the block of this rank holds, by a copy."""
    return T.block(world.rank).copy().numpy()


def set_cells(T: gw.GlobalArray, whole: np.ndarray) -> None:
    T.block(world.rank).restrict(T.owned).copy_from(gw.Array(whole[window(T, T.owned)], T.owned))


def on_host(T: gw.GlobalArray) -> gw.GlobalArray:
    """An array of the same layout in host memory."""
    return gw.zeros(T.domain, T.dtype, ghost=T.ghost, periodic=T.periodic, grid=T.grid, order=T.order)


def check_random_layouts_as_on_the_host():
    rng = np.random.default_rng([world.size, world.node_count])
    for key in range(16 if world.size == 1 else 4):
        T = random_array(rng)
        H = on_host(T)
        for corners in (False, True):
            for number in range(2):
                whole = whole_data(T, 10 * key + number)
                for array in (T, H):
                    array.fill(STALE)
                    set_cells(array, whole)
                    array.exchange(corners=corners).wait()
                H.exchange(corners=corners).wait()
                assert cells(T).tobytes() == H.local.numpy().tobytes(), (T, corners)
                before = np.full(H.local.shape, STALE, T.dtype)
                assert np.array_equal(cells(T), expected(H, whole, before, corners)), (T, corners)
        plans = list(T.plans.values())
        assert all(isinstance(plan, DevicePlan) for plan in plans)


def check_several_arrays_in_one_call():
    rng = np.random.default_rng(200 + world.size)
    for key in range(3):
        arrays = [random_array(rng) for _ in range(3)]
        for number in range(3):
            data = []
            for place, T in enumerate(arrays):
                T.fill(STALE)
                data.append(whole_data(T, 100 * key + 10 * number + place))
                set_cells(T, data[-1])
            gw.exchange(*arrays, corners=True).wait()
            for T, whole in zip(arrays, data, strict=True):
                stale = np.full(T.local.shape, STALE, T.dtype)
                assert np.array_equal(cells(T), expected(T, whole, stale, True)), T


def check_steps_without_a_wait_of_the_host():
    delays = np.random.default_rng(1000 * world.rank)
    for order, dtype in (("C", "int64"), ("F", "float64")):
        T = gw.zeros((13, 10), dtype, ghost=1, periodic=True, order=order, kind=gw.cuda())
        new = gw.zeros_like(T)
        whole = whole_data(T, 7)
        set_cells(T, whole)
        for _ in range(12):
            ghosts = T.exchange()
            shift(T.inner, new, T)
            if delays.random() < 0.2:
                time.sleep(delays.random() * 2e-3)
            ghosts.wait()
            shift(T.rim, new, T)
            T, new = new, T
            whole = shifted(whole)
        assert np.array_equal(T.to_numpy(), whole)


def check_ghosts_are_not_overwritten_while_they_are_read():
    T = gw.zeros((12 * world.size, 6), "int64", ghost=1, periodic=True, grid=(world.size, 1), kind=gw.cuda())
    new = gw.zeros_like(T)
    whole, total = whole_data(T, 3), np.zeros(T.domain.shape, np.int64)

    @gw.foreach
    def add(p, total, T):
        total[p] = total[p] + T[p - gw.X] + T[p + gw.X]

    @gw.foreach
    def grow(p, T):
        T[p] = 3 * T[p] + 1

    set_cells(T, whole)
    for _ in range(10):
        T.exchange().wait()
        add(T.owned, new, T)  # reads ghosts, and is still on its way ...
        grow(T.owned, T)  # ... like this, when the neighbours come with the next ones
        total += np.roll(whole, 1, 0) + np.roll(whole, -1, 0)
        whole = 3 * whole + 1
    assert np.array_equal(new.to_numpy(), total)


def check_two_exchanges_under_way():
    T, U = (gw.zeros((11, 7), dtype, ghost=1, periodic=True, kind=gw.cuda()) for dtype in ("float64", "int16"))
    for key in range(6):
        whole_t, whole_u = whole_data(T, key), whole_data(U, 50 + key)
        set_cells(T, whole_t)
        set_cells(U, whole_u)
        under_way = [T.exchange(corners=True), U.exchange(corners=True)]
        if world.rank % 2:
            under_way.reverse()
        for one in under_way:
            one.wait()
        assert np.array_equal(cells(T), expected(T, whole_t, cells(T), True))
        assert np.array_equal(cells(U), expected(U, whole_u, cells(U), True))


def check_asking_instead_of_waiting():
    T = gw.zeros((9, 10), ghost=2, periodic=True, kind=gw.cuda())
    for key in range(5):
        whole = whole_data(T, key)
        set_cells(T, whole)
        ghosts = T.exchange(corners=True)
        while not ghosts.test():
            time.sleep(1e-5)
        ghosts.wait()
        assert np.array_equal(cells(T), expected(T, whole, cells(T), True))
    ghosts = T.exchange()
    assert "wait()" in raises(RuntimeError, T.exchange)
    ghosts.wait()


def check_paths_are_counted():
    T = gw.zeros((6, 4 * world.size), ghost=1, periodic=True, grid=(1, world.size), kind=gw.cuda())
    near = set(world.node.allgather(world.rank))
    others = {(world.rank + d) % world.size for d in (-1, 1)} - {world.rank}
    before = paths.counters()
    plan = T.exchange()
    plan.wait()
    moved = {name: traffic.nbytes - before[name].nbytes for name, traffic in paths.counters().items()}
    with paths.force("staged"):
        U = gw.zeros_like(T)
        set_cells(U, whole_data(U, 1))
        before = paths.counters()
        U.exchange().wait()
        after = paths.counters()
    face = 6 * 8 * (2 if len(others) == 1 else 1)
    assert moved["ipc"] == face * len(others & near), moved
    assert moved["staged"] == face * len(others - near), moved
    assert moved["driver"] == 2 * 8 * 4 + (0 if others else 2 * 8 * 6), moved
    assert after["ipc"] == before["ipc"]
    assert after["staged"].nbytes - before["staged"].nbytes == face * len(others)
    assert np.array_equal(cells(U), expected(U, whole_data(U, 1), cells(U), False))


def check_memory_that_some_cannot_attach():
    """Odd ranks send messages to neighbours of the node that write into their memory."""
    attached = Segment.attached
    Segment.attached = lambda self, rank: None if world.rank % 2 else attached(self, rank)
    try:
        for order in "CF":
            T = gw.zeros((9, 8, 3), ghost=1, periodic=(True, False, True), order=order, kind=gw.cuda())
            for key in range(2):
                whole = whole_data(T, key)
                T.fill(STALE)
                set_cells(T, whole)
                T.exchange(corners=True).wait()
                stale = np.full(T.local.shape, STALE, T.dtype)
                assert np.array_equal(cells(T), expected(T, whole, stale, True))
            world.barrier()
    finally:
        Segment.attached = attached


def check_whole_arrays():
    rng = np.random.default_rng(300 + world.size)
    for key, (dtype, ndim) in enumerate((("float64", 3), ("int16", 1), ("complex128", 2), ("bool", 2))):
        T = random_array(rng, ndim, dtype)
        whole = whole_data(T, key)
        set_cells(T, whole)
        assert np.array_equal(T.to_numpy(), whole)
        U = gw.from_numpy(whole, T.domain, ghost=T.ghost, grid=T.grid, order=T.order, kind=gw.cuda())
        assert np.array_equal(U.to_numpy(), whole)
        like = gw.zeros_like(U, "float32")
        assert (like.kind, like.dtype) == (gw.cuda(), np.float32)
        assert not cells(like).any()
    two = gw.full((5, 5), 2, ghost=1, kind=gw.cuda())
    assert (cells(two) == 2).all()


def check_sums_and_extremes_are_those_of_the_host():
    # Rows of the same length on any number of ranks: each kernel is compiled once for all of them.
    for key, (dtype, shape) in enumerate(
        (("float64", (7, 5, 4)), ("int16", (197,)), ("complex128", (201,)), ("bool", (7, 5, 4)))
    ):
        grid = (world.size, *[1] * (len(shape) - 1))
        T = gw.zeros(shape, dtype, ghost=key % 3, grid=grid, kind=gw.cuda())
        T.fill(1)  # ghosts do not count
        whole = whole_data(T, key)
        set_cells(T, whole)
        on_host = gw.from_numpy(whole)
        assert (T.sum(), T.norm()) == (on_host.sum(), on_host.norm())
        assert T.dtype.kind == "c" or (T.min(), T.max()) == (on_host.min(), on_host.max())


def check_arithmetic_is_that_of_the_host():
    whole = np.arange(63.0).reshape(9, 7) / 8 - 3
    device = gw.cuda()
    grid = (world.size, 1)  # rows of the same length on any number of ranks
    for kind in (device, device if world.rank % 2 else gw.host):
        A = gw.from_numpy(whole, ghost=1, kind=kind, grid=grid)
        S = gw.zeros_like(A)
        S[...] = gw.where(A > 0, A // 0.7 + gw.coordinates(A)[1], A)
        wanted = np.where(whole > 0, whole // 0.7 + np.arange(7), whole)
        assert np.array_equal(S.to_numpy(), wanted)
        assert (A * S).sum() == math.fsum((whole * wanted).ravel())
        made = gw.array(gw.where(A > 0, S // 0.7 + gw.coordinates(A)[1], S))
        assert (made.kind, made.sum(axis=0).shape) == (kind, (7,))
    H = gw.from_numpy(whole, grid=grid)
    if world.rank % 2:
        assert "host memory" in raises(UsageError, S.__setitem__, ..., A * 2 + H)
        assert "copy()" in raises(UsageError, lambda: A.values)


def check_blocks_of_every_rank():
    T = gw.zeros((3 * world.size, 5), ghost=1, grid=(world.size, 1), kind=gw.cuda())
    T.fill(float(world.rank))
    gw.synchronize()
    world.barrier()
    for rank in range(world.size):
        block = T.block(rank)
        assert type(block) is (gw.DeviceArray if rank == world.rank else gw.RemoteArray)
        assert (block.copy().numpy() == rank).all()
    right = (world.rank + 1) % world.size
    world.barrier()
    T.block(right)[3 * right, 2] = 50.0
    T.block(right).restrict(T.owned_of(right)).slice(0, 3 * right + 1).fill(60.0)
    world.barrier()
    mine = T.local.restrict(T.owned).copy().numpy()
    assert mine[0].tolist() == [world.rank, world.rank, 50.0, world.rank, world.rank]
    assert (mine[1] == 60.0).all()
    arrays = gw.share(T.local.restrict(T.owned))
    assert arrays[right].copy().numpy()[0, 2] == 50.0
    assert type(arrays[world.rank]) is gw.DeviceArray
    assert gw.rpc(right, lambda name: name.array().copy()[3 * right, 2], T.block(right).reference()).result() == 50.0
    world.barrier()


def check_checkpoints_go_from_gpus_to_hosts_and_back():
    if importlib.util.find_spec("adios2") is None:
        print("left out: checkpoints need adios2, which a machine with GPUs may lack", flush=True)
        return
    folder = Path(world.bcast(tempfile.mkdtemp() if world.rank == 0 else None))
    for order, dtype in (("C", "float32"), ("F", "float64")):
        T = gw.zeros((9, 7, 5), dtype, ghost=1, order=order, kind=gw.cuda())
        H = gw.zeros((9, 7, 5), dtype, order=order, grid=(1, world.size, 1))
        whole = whole_data(T, 8)
        for array in (T, H):
            set_cells(array, whole)
        for name, array in (("gpu", T), ("host", H)):
            checkpoint.save(folder / f"{name}_{order}.bp", {"a": array}, step=1)
            for like in (T, H):
                again = gw.zeros_like(like)
                checkpoint.load(folder / f"{name}_{order}.bp", {"a": again})
                assert again.to_numpy().tobytes() == whole.tobytes()


def check_memory_is_given_back():
    from gondwana.memory import ipc, reclaim

    def use():
        T = gw.zeros((6, 6), ghost=1, periodic=True, kind=gw.cuda())
        U = gw.zeros_like(T)
        gw.exchange(T, U).wait()
        T.exchange().wait()

    use()
    gc.collect()
    gc.disable()
    try:
        for _ in range(8):
            use()
    finally:
        gc.enable()
    gw.synchronize()
    world.barrier()
    deadline = time.monotonic() + 20
    while (reclaim.waiting() or ipc.attached()) and time.monotonic() < deadline:
        gw.progress()
    assert (reclaim.waiting(), ipc.attached()) == (0, 0)
    world.barrier()


def check_what_is_refused():
    T = gw.zeros((4, 4 * world.size), kind=gw.cuda())
    assert "copy()" in raises(UsageError, T.local.numpy)
    assert "copy()" in raises(UsageError, np.asarray, T.local)


# From here on memory of other ranks may be attached by way of another device.


def check_mixed_memory():
    places = [gw.cuda(), gw.host, gw.fake_device]
    for key in range(3):
        kind = places[(world.rank + key) % 3]
        T = gw.zeros((11, 7), ghost=(2, 1), periodic=(True, False), kind=kind)
        U = gw.zeros_like(T, "int16")
        V = gw.zeros(T.domain, "float32", ghost=1, periodic=True, kind=places[(world.rank + key + 1) % 3])
        for number in range(3):
            data = []
            for place, array in enumerate((T, U, V)):
                array.fill(STALE)
                data.append(whole_data(array, 10 * number + place))
                set_cells(array, data[-1])
            plan = gw.exchange(T, U, V, corners=True)
            plan.wait()
            assert isinstance(plan, CopiedPlan)
            for array, whole in zip((T, U, V), data, strict=True):
                stale = np.full(array.layout.held(world.rank).shape, STALE, array.dtype)
                H = on_host(array)
                assert np.array_equal(cells(array), expected(H, whole, stale, True)), array


def check_other_devices():
    last = driver().count() - 1
    T = gw.zeros((9, 8), ghost=1, periodic=True, kind=gw.cuda(last))
    U = gw.zeros((9, 8), ghost=1, periodic=True, kind=gw.cuda(world.rank % (last + 1)))
    assert T.local.device == last
    for number in range(3):
        whole = whole_data(T, number)
        for array in (T, U):
            set_cells(array, whole)
        for plan in (T.exchange(corners=True), gw.exchange(T, U, corners=True)):
            plan.wait()
        for array in (T, U):
            assert np.array_equal(cells(array), expected(array, whole, cells(array), True))


def check_copies_between_divisions_and_memories():
    """From the host to a device, between devices with the axes in another order, and back, twice with one plan."""
    rng = np.random.default_rng(11)
    for dtype in DTYPES:
        A, B = random_array(rng, 2, dtype, kind=gw.host), random_array(rng, 2, dtype)
        shape = tuple(map(min, A.shape, B.shape))
        upper = tuple(slice(low, low + n) for low, n in zip(A.domain.lo, shape, strict=True))
        lower = tuple(slice(high - n, high) for high, n in zip(B.domain.hi, shape, strict=True))
        C = gw.zeros(shape[::-1], dtype, grid=(1, world.size), ghost=1, kind=gw.cuda())
        for turn in range(2):
            whole = whole_data(A, turn)
            A.block(world.rank).copy_from(gw.Array(np.ascontiguousarray(whole[window(A, A.owned)]), A.owned))
            gw.copy(A[upper], B[lower]).wait()
            gw.copy(B[lower], C.permute((1, 0))).wait()
            wanted = whole[tuple(slice(n) for n in shape)]
            assert np.array_equal(C.to_numpy(), wanted.T), dtype
            A.fill(0)
            world.barrier()
            gw.copy(C.permute((1, 0)), A[upper]).wait()
            assert np.array_equal(A[upper].to_numpy(), wanted), dtype
    T = gw.scatter(np.arange(12.0).reshape(3, 4) if world.rank == 0 else None, like=gw.zeros((3, 4), kind=gw.cuda()))
    T[1, ...] = 5.0
    gw.synchronize()
    world.barrier()
    assert T[1, 2] == 5.0
    assert T[2, 3] == 11.0
    assert T.plane(0, 1, root=None).tolist() == [5.0] * 4
    world.barrier()


def check_ghosts_are_added_to_their_owners():
    """On devices, and between ranks of which some have their blocks in host memory."""
    rng = np.random.default_rng([world.size, 3])
    memories = gw.cuda(), gw.host if world.rank == 0 else gw.cuda()
    for key, kind in enumerate(memories):
        T = random_array(rng, 2, "float64", kind=kind, ghost=(1, 2), order="C")
        for number in range(2):
            data = block_data(T, world.rank, 10 * key + number)
            T.block(world.rank).copy_from(gw.Array(data, T.layout.held(world.rank)))
            T.accumulate().wait()
            assert np.array_equal(T.to_numpy(), accumulated(T, 10 * key + number)), T
            ghosts, _ = places(T, world.rank)
            ghosts[tuple(slice(a, a + n) for a, n in zip(T.ghost, T.owned.shape, strict=True))] = False
            assert not cells(T)[ghosts].any(), T


def slope(x, y, t):
    return x - y + t


def check_walls():
    boundary = {"x": gw.Dirichlet(0.5), "y-": gw.Fixed(slope)}
    T = gw.zeros((9, 7), "float32", ghost=1, boundary=boundary, kind=gw.cuda())
    whole = np.arange(63.0).reshape(T.shape).astype(T.dtype)
    host = gw.from_numpy(whole, ghost=1, boundary=boundary)
    cells = gw.from_numpy(whole, ghost=1, kind=gw.cuda())
    for corners in (False, True):
        for array in (T, host):
            array.fill(STALE)
        T.local.restrict(T.owned).copy_from(cells.local.restrict(T.owned))
        host.local.restrict(T.owned).copy_from(cells.local.restrict(T.owned))
        for array in (T, host):
            array.exchange(corners=corners, time=2.0).wait()
        assert np.array_equal(T.local.copy().numpy(), host.local.numpy()), (T.local.copy().numpy(), host.local.numpy())


@gw.foreach
def double_beside(p, new, old, factor):
    new[p] = factor * old[p + gw.X]


@gw.reduce(op="max")
def largest(p, a):
    return a[p]


def check_kernels_on_masks():
    mask = np.random.default_rng(4).random((12, 9)) < 0.6
    whole = np.arange(108.0).reshape(12, 9)
    T = gw.from_numpy(whole, ghost=1, periodic=True, kind=gw.cuda())
    new, region = gw.zeros_like(T), gw.cells_where(gw.from_numpy(mask, ghost=1, periodic=True, kind=gw.cuda()))
    ghosts = T.exchange()
    double_beside(region.inner, new, T, 2.0)
    ghosts.wait()
    double_beside(region.rim, new, T, 2.0)
    assert np.array_equal(new.to_numpy(), np.where(mask, 2 * np.roll(whole, -1, 0), 0))
    assert largest.all(world, region.owned, T) == whole[mask].max()
    of_host = gw.cells_where(gw.from_numpy(mask, ghost=1, periodic=True))
    assert "of booleans in host memory" in raises(UsageError, double_beside, of_host.owned, new, T, 2.0)


if __name__ == "__main__":
    run_checks({name: check for name, check in globals().items() if name.startswith("check_")})
