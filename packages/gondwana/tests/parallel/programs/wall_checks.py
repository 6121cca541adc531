"""What walls and masks must do, each check by all ranks against NumPy on one rank. Prints one JSON line per check."""

# ruff: noqa: N803, N806 - fields are called T and U, as in physics

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
from checks import raises, run_checks
from exchange_checks import grids

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from gondwana.teams import world
from gondwana.testing.fake_device import fake_device
from support import walls_oracle
from support.walls_oracle import STALE

EXAMPLE = Path(__file__).parents[5] / "examples" / "masked_diffusion.py"
CONDITIONS = (None, gw.Dirichlet(3.0), gw.Neumann(0.5), gw.Reflect(), gw.Reflect(-1), gw.Fixed(2.0))


def set_cells(T: gw.GlobalArray, whole: np.ndarray) -> None:
    own = tuple(slice(a - c, b - c) for a, b, c in zip(T.owned.lo, T.owned.hi, T.domain.lo, strict=True))
    T.fill(STALE)
    T.local.restrict(T.owned)[...] = gw.Array(whole[own], T.owned)


def contents(T: gw.GlobalArray) -> np.ndarray:
    return T.local.copy().numpy() if isinstance(T.local, gw.DeviceArray) else T.local.numpy()


def refuse_others(T: gw.GlobalArray, whole: np.ndarray, *, corners: bool, times=None) -> None:
    wanted = walls_oracle.expected(T, whole, corners=corners, times=times)
    found = contents(T)
    assert np.array_equal(found, wanted), (T, corners, found, wanted)


def random_array(rng: np.random.Generator, ndim: int) -> gw.GlobalArray:
    """An array with walls, the same on all ranks, by the same random numbers."""
    base, shape = rng.integers(-6, 7, ndim), rng.integers(1, (20, 9, 5)[ndim - 1], ndim)
    ghost, choices = rng.integers(0, 4, ndim).tolist(), grids(world.size, ndim)
    boundary: dict[str, object] = {}
    for axis, width in enumerate(ghost):
        if rng.random() < 0.3:
            boundary["xyz"[axis]] = gw.periodic
            continue
        for sign in "-+":
            condition = CONDITIONS[int(rng.integers(len(CONDITIONS)))]
            if condition is not None and width and (not condition.mirrors or shape[axis] >= width):
                boundary["xyz"[axis] + sign] = condition
    grid = choices[int(rng.integers(len(choices)))]
    return gw.zeros(gw.RectDomain(tuple(base), tuple(base + shape)), float, ghost=ghost, boundary=boundary, grid=grid)


def check_walls_of_random_arrays():
    rng = np.random.default_rng([world.size, world.node_count])  # others in each job
    for number in range(14):
        T = random_array(rng, 1 + number % 2)
        for corners in (False, True):
            whole = rng.integers(0, 50, T.shape).astype(float)
            set_cells(T, whole)
            T.exchange(corners=corners).wait()
            refuse_others(T, whole, corners=corners)


def check_walls_in_three_dimensions():
    T = gw.zeros((4, 5, 6), ghost=(1, 2, 1), order="F", boundary={"x": gw.Dirichlet(1.0), "z": gw.Dirichlet(2.0)})
    whole = np.arange(120.0).reshape(T.shape)
    for corners in (False, True):
        set_cells(T, whole)
        T.exchange(corners=corners).wait()
        refuse_others(T, whole, corners=corners)


def check_elements_of_all_kinds():
    for dtype, boundary in (
        ("float32", {"x-": gw.Dirichlet(0.25), "x+": gw.Neumann(1.5)}),
        ("int16", {"x-": gw.Dirichlet(4), "x+": gw.Neumann(-2.0)}),
        ("complex128", {"x-": gw.Dirichlet(1 + 2j), "x+": gw.Reflect(-1)}),
        ("bool", {"x-": gw.Fixed(True), "x+": gw.Neumann(0)}),
        ("uint8", {"x-": gw.Fixed(255), "x+": gw.Reflect()}),
    ):
        T = gw.zeros(7, dtype, ghost=1, boundary=boundary)
        whole = (np.arange(7) % 2 if dtype == "bool" else np.arange(7)).astype(dtype)
        set_cells(T, whole)
        T.exchange().wait()
        refuse_others(T, whole, corners=False)
    pair = np.dtype([("a", "f8"), ("b", "i4")])
    R = gw.zeros(5, pair, ghost=1, boundary=gw.Reflect())
    for p in R.owned:
        R.local[p] = (p[0] + 0.5, p[0])
    R.exchange().wait()
    if 0 in [p[0] for p in R.owned]:
        assert R.local[-1] == R.local[0]


def plane(x, y):
    return 4 * x - y


def moving(x, y, t):
    return x + 2 * y + t


def check_values_of_place_and_time():
    boundary = {"x-": gw.Dirichlet(plane), "x+": gw.Neumann(moving), "y": gw.periodic}
    T = gw.zeros(gw.RectDomain((-2, 3), (4, 8)), ghost=2, boundary=boundary)
    U = gw.zeros_like(T)
    assert U.boundary == T.boundary == boundary == dict(sorted(T.boundary.items()))
    V = gw.zeros(
        (5, 6), ghost=1, boundary={"y-": gw.Fixed(moving), "y+": gw.Fixed(gw.jit(plane)), "x": gw.Fixed(plane)}
    )
    for time in (0.0, 2.5):
        for array, timed in ((T, (0, 1)), (U, (0, 1)), (V, (1, 0))):
            whole = np.arange(30.0).reshape(array.shape)
            for corners in (False, True):
                set_cells(array, whole)
                array.exchange(corners=corners, time=time).wait()
                refuse_others(array, whole, corners=corners, times={timed: time})


@gw.foreach
def extrapolate(p, T, gain):
    T[p] = gain * (2.0 * T[p + gw.X] - T[p + 2 * gw.X])


@gw.foreach
def inflow(p, T, speed, t):
    T[p] = speed * t + p[0]


def check_walls_of_kernels():
    boundary = {"x-": gw.Wall(extrapolate, 0.5), "x+": gw.Wall(inflow, 3.0)}
    T = gw.zeros(12, ghost=1, boundary=boundary)
    set_cells(T, np.arange(12.0) + 5)
    for time in (1.0, 2.0):
        T.exchange(time=time).wait()
        if 0 in T.owned.axes[0]:
            assert T.local[-1] == 2.0
        if 11 in T.owned.axes[0]:
            assert T.local[12] == 3.0 * time + 12
    assert "Wall(extrapolate, 0.5)" in repr(T)
    assert "takes the point and T, gain" in raises(UsageError, gw.Wall, extrapolate, 1.0, 2.0, 3.0)
    assert "give a kernel of @gw.foreach" in raises(UsageError, gw.Wall, plane)


@gw.foreach
def smooth(p, new, old):
    new[p] = old[p + gw.X] + 2.0 * old[p - gw.X] + 3.0 * old[p + gw.Y] + 4.0 * old[p - gw.Y]


def check_the_inner_cells_can_be_computed_meanwhile():
    T = gw.zeros((13, 11), ghost=1, boundary={"x": gw.Dirichlet(1.0), "y-": gw.Neumann(2.0), "y+": gw.Reflect(-1)})
    new, other = gw.zeros_like(T), gw.full_like(T, 4.0)
    whole = np.random.default_rng(5).integers(0, 30, T.shape).astype(float)
    set_cells(T, whole)
    for _ in range(20):
        ghosts = gw.exchange(T, other, ready=True)
        smooth(T.inner, new, T)
        ghosts.wait()
        smooth(T.rim, new, T)
        wide = walls_oracle.padded(
            whole,
            T.domain,
            T.ghost,
            T.periodic,
            {(a, s): one for a, pair in enumerate(T.faces) for s, one in enumerate(pair)},
        )
        whole = wide[2:, 1:-1] + 2 * wide[:-2, 1:-1] + 3 * wide[1:-1, 2:] + 4 * wide[1:-1, :-2]
        scale = 2.0 ** -np.ceil(np.log2(np.abs(whole).max()))
        whole *= scale
        for p in new.owned:
            new.local[p] *= scale
        assert np.array_equal(new.to_numpy(), whole)
        world.barrier()  # `ready`: nobody uses its ghosts any more
        T, new = new, T


@gw.jit
def rounds(plan, count):
    for _ in range(count):
        plan.start()
        plan.wait()


@gw.jit
def start_at(plan, time):
    plan.start(time)


@gw.jit
def finish(plan):
    while not plan.test():
        pass
    plan.wait()


def check_compiled_code_fills_walls():
    """Whoever starts a round and whoever waits for it: Python, or compiled code."""
    rng = np.random.default_rng([world.size, world.node_count, 7])
    for number in range(14):
        T = random_array(rng, 1 + number % 2)
        for corners in (False, True):
            plan = T.exchange(corners=corners)
            plan.wait()
            whole = rng.integers(0, 50, T.shape).astype(float)
            set_cells(T, whole)
            world.barrier()
            rounds(plan, 2)
            refuse_others(T, whole, corners=corners)


def check_walls_of_many_cells_in_compiled_code():
    """Python runs their kernels on all threads; compiled code, that may be one of several threads, itself."""
    T = gw.zeros((2, 70_000 * world.size), ghost=1, boundary={"x-": gw.Fixed(moving), "x+": gw.Dirichlet(0.5)})
    plan = T.exchange(time=0.0)
    plan.wait()
    y = np.arange(T.owned.lo[1], T.owned.hi[1])

    def refuse_others_at(time: float) -> None:
        assert np.array_equal(T.local.numpy()[0, 1:-1], -1 + 2 * y + time)
        assert np.array_equal(T.local.numpy()[3, 1:-1], 1.0 - y % 50)

    for time, (first, last) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        T.fill(STALE)
        T.values[...] = y % 50
        world.barrier()
        if first:
            start_at(plan, 2.0 * time)
        else:
            plan.start(2.0 * time)
        if last:
            finish(plan)
            refuse_others_at(2.0 * time)
        plan.wait()
        refuse_others_at(2.0 * time)
    assert "a wall of these arrays depends on the time" in raises(KernelError, rounds, plan, 1)
    assert "still under way" in raises(RuntimeError, lambda: plan.start(1.0).start(1.0))
    plan.wait()


@gw.foreach
def refuse(p, T):
    if T[p + gw.X] > 1.0:
        raise ValueError("too warm")
    T[p] = 0.0


@gw.foreach(flush_subnormals=True)
def flush(p, T):
    T[p] = 0.5 * T[p + gw.X]


def check_kernels_of_walls_that_raise():
    T = gw.zeros(2 * world.size, ghost=1, boundary={"x-": gw.Wall(refuse)})
    plan = T.exchange()
    plan.wait()
    T.fill(2.0)
    world.barrier()
    flushed = gw.zeros(2 * world.size, ghost=1, boundary={"x-": gw.Wall(flush)}).exchange()
    if world.rank == 0:
        assert "a kernel raised that fills walls" in raises(RuntimeError, rounds, plan, 1)
        assert "still under way: call wait()" in raises(RuntimeError, plan.start)
        plan.wait()
        assert "refuse at Point(-1)" in raises(ValueError, plan.start)
        plan.wait()
        assert "has flush_subnormals=True" in raises(UsageError, rounds, flushed, 1)
    else:
        rounds(plan, 1)
        plan.start().wait()
    flushed.wait()


def check_errors():
    zeros = gw.zeros
    assert "walls need ghosts along axis 1" in raises(UsageError, zeros, (4, 4), ghost=(1, 0), boundary=gw.Reflect())
    assert "the domain has 2 along axis 0" in raises(UsageError, zeros, 2, ghost=3, boundary=gw.Neumann(0))
    assert zeros(2, ghost=3, boundary=gw.Fixed(0)).ghost == (3,)
    assert "does not fit elements of int64" in raises(UsageError, zeros, 4, int, ghost=1, boundary=gw.Dirichlet(0.5))
    assert "are not added up" in raises(UsageError, zeros, 4, bool, ghost=1, boundary=gw.Dirichlet(1))
    assert "takes 3 arguments; an array of 1 axes" in raises(UsageError, zeros, 4, ghost=1, boundary=gw.Fixed(moving))
    assert "give a number, or a function" in raises(UsageError, zeros, 4, ghost=1, boundary=gw.Fixed("one"))
    assert "the signs are 1 and -1" in raises(UsageError, gw.Reflect, 0)
    assert "at most 4 axes" in raises(UsageError, zeros, (2,) * 5, ghost=1, boundary=gw.Fixed(0))
    assert "not fake_device memory" in raises(UsageError, on_fake_device)
    T = zeros((4, 4), ghost=1, boundary={"x-": gw.Fixed(moving)})
    U = zeros((4, 4), ghost=1, boundary={"x-": gw.Fixed(plane)})
    assert "call exchange(time=...)" in raises(UsageError, T.exchange)
    T.exchange(time=1.0).wait()
    assert "call exchange(time=...)" in raises(UsageError, T.exchange)
    assert "leave it out" in raises(UsageError, U.exchange, time=1.0)
    U.exchange().wait()
    assert "leave it out" in raises(UsageError, U.exchange, time=1.0)
    gw.exchange(T, U, time=3.0).wait()
    layout = gw.Layout.divide((4, 4), world.size, ghost=1, periodic=(True, False))
    assert zeros(layout, boundary={"y": gw.Reflect()}).boundary == {
        "y-": gw.Reflect(),
        "y+": gw.Reflect(),
        "x": gw.periodic,
    }
    assert "axis 0 has a condition there, or is periodic" in raises(UsageError, zeros, layout, boundary=gw.Reflect())
    assert "a layout says which" in raises(UsageError, zeros, layout, boundary={"y": gw.periodic})
    if world.size > 1:
        other = gw.Neumann(1.0 * world.rank)
        assert "boundary is {'x-': 'Neumann(value=0.0)'" in raises(UsageError, zeros, 4, ghost=1, boundary=other)


@gw.foreach
def gather(p, new, old, factor):
    new[p] = factor * (old[p - gw.X] + old[p + gw.X])


@gw.reduce(op="fsum")
def fsum(p, a):
    return a[p]


@gw.reduce(op="max")
def largest(p, a):
    return a[p]


def check_kernels_on_masks():
    rng = np.random.default_rng([world.size, world.node_count, 3])
    for shape, order in (((37,), "C"), ((9, 70), "F"), ((5, 6, 30), "C")):
        mask = rng.random(shape) < rng.choice([0.1, 0.6, 0.95])
        whole = rng.integers(0, 1000, shape) / 8
        T = gw.from_numpy(whole, ghost=1, order=order, boundary=gw.Reflect())
        new, region = gw.zeros_like(T), gw.cells_where(gw.from_numpy(mask, ghost=1, order=order))
        assert region.owned == region.inner | region.rim
        assert sorted(map(tuple, region.owned)) == sorted(map(tuple, [*region.inner, *region.rim]))
        assert {tuple(p) for p in region.owned} == {tuple(p) for p in T.owned if mask[tuple(p)]}
        ghosts = T.exchange()
        gather(region.inner, new, T, 0.5)
        ghosts.wait()
        gather(region.rim, new, T, 0.5)
        wide = np.concatenate([whole[:1], whole, whole[-1:]])
        assert np.array_equal(new.to_numpy(), np.where(mask, 0.5 * (wide[:-2] + wide[2:]), 0.0))
        if T.ndim == 2:  # to compile less
            assert fsum.all(world, region.owned, T) == whole[mask].sum()
            assert largest.all(world, region.owned, T) == whole[mask].max(initial=-np.inf)
        moved = region.owned.translate((1,) * T.ndim)
        assert moved.bounding_box == region.owned.bounding_box.translate((1,) * T.ndim)
        assert moved.permute(range(T.ndim)[::-1]).size == moved.size == region.owned.size


def check_the_example_of_a_plate_with_holes():
    example = runpy.run_path(str(EXAMPLE))
    shape, steps = (37, 19), 60
    found = example["run"](shape, steps).to_numpy()
    x, y = np.indices(shape)
    mask = example["plate"](x, y, shape)
    k = np.pad(mask * (1 - y / 2 / shape[1]), 1, mode="edge")
    T = np.zeros(shape)
    for _ in range(steps):
        wide = np.pad(T, 1, mode="edge")
        wide[0], wide[-1] = 2.0 - wide[1], -wide[-2]
        change = np.zeros(shape)
        for axis in range(2):
            for step in (-1, 1):
                beyond, there = (np.roll(a, step, axis)[1:-1, 1:-1] for a in (k, wide))
                both = k[1:-1, 1:-1] + beyond
                change += 2 * k[1:-1, 1:-1] * beyond / np.where(both > 0, both, 1.0) * (there - T)
        T = np.where(mask, T + 0.2 * change, 0.0)
    assert 0.0 < T[mask].max() < 1.0
    assert not T[~mask].any()
    assert np.allclose(found, T, 1e-12, 1e-15)


def check_regions_of_sets():
    T = gw.zeros((20, 12), ghost=1)
    pond = gw.Domain.of(gw.RectDomain((2, 2), (30, 5)), gw.RectDomain((8, 1), (10, 20)))
    region = gw.cells_where(pond, like=T)
    assert region.owned == pond & T.owned
    assert region.inner == pond & T.inner
    assert region.owned - region.inner == region.rim
    other, bare = gw.zeros((20, 13), bool, ghost=1), gw.zeros((20, 12), bool)
    assert "give one of bool" in raises(UsageError, gw.cells_where, T)
    assert "give a RectDomain, a Domain, or" in raises(UsageError, gw.cells_where, 3)
    assert "give the array that the kernels exchange" in raises(UsageError, gw.cells_where, pond)
    assert "of the mask and" in raises(UsageError, gw.cells_where, other, like=T)
    if world.size > 1:
        assert "has no inner cells" in raises(UsageError, gw.cells_where, bare)
    assert gw.cells_where(bare, like=T).owned.size == 0


def on_fake_device():
    gw.zeros(4, ghost=1, boundary=gw.Fixed(0), kind=fake_device)


if __name__ == "__main__":
    run_checks(globals())
