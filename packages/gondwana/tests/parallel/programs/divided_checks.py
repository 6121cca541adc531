"""Copies between global arrays, their views, scatter and gather: each check by all ranks against NumPy.

Prints one JSON line per check.
"""

# ruff: noqa: N806 - fields are called A and B, as in mathematics

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
from checks import raises, run_checks
from exchange_checks import DTYPES, expected, grids, random_cuts

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.teams import world

ROUNDS = 4 if os.environ.get("FEWER_ROUNDS") else 25


def numbers(shape: tuple[int, ...], dtype: str, key: int) -> np.ndarray:
    return np.random.default_rng(key).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def array_of(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, team: Any = world, **options: Any
) -> gw.GlobalArray:
    """An array of any layout, the same on all ranks by the same random numbers; all of its memory has one value."""
    choices = grids(team.size, len(shape))
    grid = choices[int(rng.integers(len(choices)))]
    base = rng.integers(-6, 7, len(shape))
    made = gw.zeros(
        gw.RectDomain(tuple(base), tuple(base + shape)),
        dtype,
        ghost=rng.integers(0, 3, len(shape)).tolist(),
        grid=grid,
        cuts=random_cuts(rng, shape, grid),
        order="CF"[int(rng.integers(2))],
        team=team,
        **options,
    )
    made.fill(1)
    return made


def set_cells(array: gw.GlobalArray, whole: np.ndarray) -> None:
    block, lo = array.block(array.team.rank), array.domain.lo
    own = tuple(slice(a - c, b - c) for a, b, c in zip(array.owned.lo, array.owned.hi, lo, strict=True))
    if whole[own].size:
        block.restrict(array.owned).copy_from(gw.Array(np.ascontiguousarray(whole[own]), array.owned))


def random_index(rng: np.random.Generator, array: gw.GlobalArray) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """An index in the coordinates of an array, and the same for NumPy; it selects something."""
    ours: list[Any] = []
    theirs: list[Any] = []
    vanishing = int(rng.integers(array.ndim + 1)) if array.ndim > 1 else -1
    for axis, (low, length) in enumerate(zip(array.domain.lo, array.domain.shape, strict=True)):
        first = int(rng.integers(length))
        last, step = int(rng.integers(first, length)) + 1, int(rng.integers(1, 4))
        if axis == vanishing:
            ours.append(low + first)
            theirs.append(first)
        elif rng.integers(4):
            ours.append(slice(low + first, low + last, step))
            theirs.append(slice(first, last, step))
        else:
            ours.append(slice(None))
            theirs.append(slice(None))
    return tuple(ours), tuple(theirs)


def check_any_view_to_any_view():
    rng = np.random.default_rng(7)
    for key in range(ROUNDS):
        ndim = int(rng.integers(1, 4))
        shape = tuple(map(int, rng.integers(1, (24, 12, 8)[ndim - 1], ndim)))
        dtype = str(rng.choice(DTYPES))
        A = array_of(rng, shape, dtype)
        ours, theirs = random_index(rng, A)
        axes = tuple(map(int, rng.permutation(sum(isinstance(part, slice) for part in ours))))
        whole = numbers(shape, dtype, key)
        wanted = whole[theirs].transpose(axes)
        B = array_of(rng, wanted.shape, dtype)
        for turn in range(3):  # the second time the plan is known
            whole = numbers(shape, dtype, 100 * turn + key)
            wanted = whole[theirs].transpose(axes)
            set_cells(A, whole)
            gw.copy(A[ours].permute(axes), B).wait()
            assert np.array_equal(B.to_numpy(), wanted)
        # and back into a view, which leaves all else
        A.fill(0)
        world.barrier()
        gw.copy(B, A[ours].permute(axes)).wait()
        left = np.zeros(shape, dtype)
        left[theirs] = wanted.transpose(np.argsort(axes))
        assert np.array_equal(A.to_numpy(), left)


def check_rebalancing():
    rng = np.random.default_rng(11)
    for key in range(ROUNDS):
        shape = tuple(map(int, rng.integers(1, 12, int(rng.integers(1, 4)))))
        A = array_of(rng, shape, str(rng.choice(DTYPES)))
        whole = numbers(shape, A.dtype.name, key)
        set_cells(A, whole)
        weights = rng.integers(0, 4, shape).astype(float)
        sums = [weights.sum(tuple(other for other in range(len(shape)) if other != axis)) for axis in range(len(shape))]
        W = array_of(rng, shape, "float64")
        set_cells(W, weights)
        for given in (sums, W):
            B = A.rebalance(given)
            assert B.layout == A.layout.balanced(sums)
            assert np.array_equal(B.to_numpy(), whole)
        assert np.array_equal(A.to_numpy(), whole)
        assert (B.layout.grid, B.ghost, B.order, B.domain) == (A.layout.grid, A.ghost, A.order, A.domain)
    assert "cuts" in repr(B)
    message = raises(UsageError, A.rebalance, array_of(rng, (13, 13), "float64"))
    assert "rebalance by weights of shape (13, 13)" in message, message
    if world.size > 1:
        T = gw.zeros(8, grid=(world.size,))
        message = raises(UsageError, T.rebalance, [np.arange(8) if world.rank == 1 else np.arange(8)[::-1]])
        assert "make different global arrays: cuts is" in message, message


def check_faces_share_an_exchange_with_their_cells():
    rng = np.random.default_rng(13)
    for key in range(ROUNDS):
        cells = array_of(rng, tuple(map(int, rng.integers(2, 9, 2))), "float64", periodic=bool(key % 2))
        arrays = [cells, *(gw.zeros(cells.layout.staggered(*axes)) for axes in ((0,), (1,), (0, 1)))]
        wholes = [numbers(array.shape, "float64", key + number) for number, array in enumerate(arrays)]
        before = []
        for array, whole in zip(arrays, wholes, strict=True):
            array.fill(-1.0)
            before.append(array.local.numpy().copy())
            set_cells(array, whole)
        gw.exchange(*arrays, corners=True).wait()
        for array, whole, stale in zip(arrays, wholes, before, strict=True):
            assert np.array_equal(array.local.numpy(), expected(array, whole, stale, True)), array
            assert np.array_equal(array.to_numpy(), whole)


def check_ghosts_are_left_alone():
    A, B = gw.full((9, 7), 2.0, ghost=2), gw.full((9, 7), 5.0, ghost=1, grid=(1, world.size))
    gw.copy(A, B).wait()
    held = B.local.numpy()
    own = B.local.restrict(B.owned).numpy()
    assert own.sum() == 2.0 * own.size
    assert held.sum() == 2.0 * own.size + 5.0 * (held.size - own.size)


def check_teams_of_some_ranks():
    """Ranks outside of the smaller team give None; neither knows the memory of the other."""
    small = world.split(0 if world.rank % 2 == 0 else None)
    shape = (11, 6)
    rng = np.random.default_rng(3)
    A = array_of(rng, shape, "float64")
    B = None if small is None else array_of(np.random.default_rng(4), shape, "float64", small)
    for key in range(3):
        whole = numbers(shape, "float64", key)
        set_cells(A, whole)
        gw.copy(A, B).wait()
        if B is not None:
            assert np.array_equal(B.to_numpy(), whole)
            set_cells(B, whole + 1)
        gw.copy(B, A[...]).wait()
        assert np.array_equal(A.to_numpy(), whole + 1)


def check_teams_without_a_common_rank():
    """A plan of a team that has all ranks: some of them know no array of the pair, or one."""
    if world.size < 2:
        return
    mine = world.split(world.rank * 2 // world.size)
    first = world.rank * 2 < world.size
    everybody = gw.zeros((5, 8))
    A = gw.from_function(lambda x, y: 10 * x + y, (5, 8), team=mine) if first else None
    B = gw.zeros((5, 8), team=mine) if not first else None
    message = raises(UsageError, lambda: gw.plan([(A, B)]))
    assert "no rank has both" in message, message
    gw.copy(A, everybody).wait()
    gw.copy(everybody, B).wait()
    if B is not None:
        assert np.array_equal(B.to_numpy(), np.add.outer(10.0 * np.arange(5), np.arange(8.0)))


def check_plans_of_several_pairs():
    A, B, C = (gw.zeros((6, 8), grid=grid) for grid in (grids(world.size, 2)[0], grids(world.size, 2)[-1], None))
    plan = gw.plan([(A, B), (A[:, 2:8], C[:, 0:6]), (A[:, 0:2], C[:, 6:8])])
    for turn in range(3):
        whole = numbers((6, 8), "float64", turn)
        set_cells(A, whole)
        plan.start().wait()
        assert np.array_equal(B.to_numpy(), whole)
        assert np.array_equal(C.to_numpy(), np.roll(whole, -2, 1))


@gw.jit
def transposed_often(plan, rounds):
    for _ in range(rounds):
        plan.start()
        plan.wait()


def check_plans_in_compiled_code():
    A, B = gw.zeros((5, 7)), gw.zeros((7, 5))
    whole = numbers((5, 7), "float64", 1)
    set_cells(A, whole)
    plan = gw.plan([(A.permute((1, 0)), B)])
    transposed_often(plan, 3)
    assert np.array_equal(B.to_numpy(), whole.T)


def check_scatter_gather_and_planes():
    for root in {0, world.size - 1}:
        for dtype in DTYPES:
            whole = numbers((6, 5, 4), dtype, root)
            like = gw.zeros((6, 5, 4), ghost=1, periodic=True, order="F")
            T = gw.scatter(whole if world.rank == root else None, root, like=like)
            assert (T.dtype, T.layout) == (whole.dtype, like.layout)
            assert np.array_equal(T.to_numpy(), whole)
            found = T.gather(root)
            assert (found is None) == (world.rank != root)
            assert found is None or np.array_equal(found, whole)
            assert np.array_equal(T.plane(1, 3, root=None), whole[:, 3])
            plane = T.plane(2, 0, root)
            assert plane is None or np.array_equal(plane, whole[:, :, 0])
    assert np.array_equal(gw.scatter([[1, 2]], like=gw.zeros((1, 2))).to_numpy(), [[1, 2]])


def check_records():
    kind = np.dtype([("x", "f8"), ("n", "i4")], align=True)
    whole = np.zeros((7, 3), kind)
    whole["x"], whole["n"] = np.arange(21.0).reshape(7, 3), 5
    A = gw.from_numpy(whole)
    B = gw.zeros((3, 7), kind, grid=(1, world.size))
    gw.copy(A.permute((1, 0)), B).wait()
    assert np.array_equal(B.to_numpy(), whole.T)
    assert B[2, 4]["x"] == 14.0
    world.barrier()


def check_cells_anywhere():
    T = gw.from_function(lambda x, y: 10 * x + y, gw.RectDomain((-2, 3), (5, 9)), ghost=1)
    world.barrier()
    assert [T[p] for p in T.domain] == [10.0 * x + y for x, y in T.domain]
    world.barrier()
    if world.rank == world.size - 1:
        T[-2, 3] = 99.0
        T[gw.Point((4, 8))] = 98.0
    world.barrier()
    assert (T[-2, 3], T[4, 8]) == (99.0, 98.0)
    world.barrier()
    T[0:2, ...] = -1.0
    world.barrier()
    whole = np.add.outer(10.0 * np.arange(-2, 5), np.arange(3.0, 9))
    whole[0, 0], whole[6, 5], whole[2:4] = 99.0, 98.0, -1.0
    assert np.array_equal(T.to_numpy(), whole)
    U = gw.zeros((7, 6))
    U[...] = T
    U[0, ...] = T[4, ...]
    whole[0] = whole[6]
    assert np.array_equal(U.to_numpy(), whole)
    assert T[1, ...].shape == (6,)
    assert T[gw.RectDomain((0, 4), (2, 6))].domain == gw.RectDomain((0, 4), (2, 6))


def check_errors():
    A, B = gw.zeros((6, 4)), gw.zeros((4, 6))
    for wrong, what in (
        (lambda: gw.copy(A, B), "from shape (6, 4) to shape (4, 6)"),
        (lambda: gw.copy(A, gw.zeros((6, 4), "f4")), "elements of float64 to elements of float32"),
        (lambda: gw.copy(A, A), "overlap"),
        (lambda: gw.copy(A[0:3, ...], A[2:5, ...]), "overlap"),
        (lambda: gw.copy(A, np.zeros((6, 4))), "T.to_numpy()"),
        (lambda: gw.copy(np.zeros((6, 4)), A), "gw.scatter"),
        (lambda: gw.copy(A, B, 4), "without n and notify"),
        (lambda: A.__setitem__(..., np.zeros((6, 4))), "gw.scatter"),
        (lambda: gw.scatter(np.zeros((2, 2)), like=A), "shape (2, 2)"),
        (lambda: gw.scatter(np.zeros((6, 4)), world.size, like=A), "root="),
        (lambda: A.to_numpy(world.size), "root="),
        (lambda: A.plane(2, 0), "plane(axis=2)"),
    ):
        message = raises(UsageError, wrong)
        assert what in message, message
    for wrong in (lambda: A[6, 0], lambda: A[0], lambda: A[0:2, 0:2, 0], lambda: A.plane(0, 9)):
        raises(IndexError, wrong)
    for wrong in (lambda: list(A), lambda: np.median(A[0, ...]), lambda: np.asarray(A[0, ...]), lambda: np.sort(A)):
        raises(TypeError, wrong)
    if world.size > 1:
        C, D = gw.zeros((6, 4)), gw.zeros((6, 4))
        message = raises(UsageError, lambda: gw.copy(A, C if world.rank else D))
        assert "different copies: the destination is array" in message, message
        message = raises(UsageError, lambda: gw.copy(A, C if world.rank else None))
        assert world.rank == 0 or "a rank of its team gives None" in message, message
    first, last = world.split(0 if world.rank < 2 else None), world.split(0 if world.rank else None)
    L, R = (None if team is None else gw.zeros((6, 4), team=team) for team in (first, last))
    if world.size > 2 and world.rank == 1:
        message = raises(UsageError, lambda: gw.copy(L, R))
        assert "neither of which has all ranks of the other" in message, message


def check_a_receive_from_anywhere_takes_no_messages_of_the_library():
    team = world.split(0, -world.rank)
    assert team is not None
    found, left = np.zeros(3), (team.rank - 1) % team.size
    request = team.Irecv(found, None, None)
    whole = numbers((9, 5), "f8", 7)
    array = gw.from_numpy(whole, ghost=1, periodic=True, team=team)
    array.exchange().wait()
    spread = gw.scatter(whole, root=team.size - 1, like=array)
    assert np.array_equal(spread.to_numpy(), whole)
    moved = gw.migrate(np.full(3, team.rank), np.full(3, (team.rank + 1) % team.size), team)
    assert np.array_equal(moved, np.full(3, left))
    part = team.split(team.rank % 2)
    assert part is not None
    assert team.split(0, shared=True) is team.split(0, shared=True)
    assert part.allreduce(1) == (team.size + 1 - team.rank % 2) // 2
    assert not request.test()
    team.barrier()
    team.Send(np.full(3, 1.0 + team.rank), (team.rank + 1) % team.size, 5)
    request.wait()
    assert np.array_equal(found, np.full(3, 1.0 + left))
    team.free()


def check_a_plan_goes_with_its_arrays():
    A, B = gw.zeros((6, 4)), gw.zeros((6, 4))
    gw.copy(A, B).wait()
    gw.copy(A[0, ...], A[5, ...]).wait()
    assert len(A.plans) == 2
    del B
    gc.collect()
    assert len(A.plans) == 1
    A.close()
    assert not A.plans


if __name__ == "__main__":
    run_checks(globals())
