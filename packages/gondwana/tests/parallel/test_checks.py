"""`GONDWANA_CHECK=1`: accesses of compiled code outside of arrays and segments are errors that name line and bounds."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gondwana as gw
from gondwana import simd
from gondwana.errors import UsageError
from gondwana.transfer import engine
from gondwana_apps.npb.cg.grid import Grid
from gondwana_apps.npb.cg.makea import make_matrix
from gondwana_apps.npb.cg.partners import connect
from gondwana_apps.npb.cg.problem import PROBLEMS
from gondwana_apps.npb.cg.solver import solver
from support import jobs

VARIABLES = {"GONDWANA_CHECK": "1"}
STUBBORN = 30.0
"""Seconds within which a job must have ended: some, and what a loaded machine takes to start it and to compile."""
on_ranks = pytest.mark.ranks(1, 2, 3, variables=VARIABLES)
one_rank = pytest.mark.ranks(1, variables=VARIABLES)
pytestmark = pytest.mark.parallel


def place(function: Any, text: str) -> str:
    """Return file and line of the line of a function that has this text."""
    lines, first = inspect.getsourcelines(function.py_func)
    (found,) = (number for number, line in enumerate(lines) if text in line)
    return f"{__file__}:{first + found}"


def refused(call: Callable[[], object], where: str, message: str) -> None:
    """Assert that a call ends with the error of an access."""
    with pytest.raises(IndexError, match=f"^{re.escape(f'{where}: {message}')}"):
        call()


@gw.jit
def look(a, p):
    return a[p]


@gw.jit
def store(a, p):
    a[p] = 7.0


def faces(box: gw.RectDomain) -> list[gw.Point]:
    """Return the points one off at every face of a box, in the middle of it along the other axes."""
    middle = gw.Point(*[axis[len(axis) // 2] for axis in box.axes])
    found = []
    for number, axis in enumerate(box.axes):
        for outside in (axis.start - 1, axis[-1] + 1):
            found.append(gw.Point(*[outside if i == number else x for i, x in enumerate(middle)]))
    return found


@on_ranks
@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
@pytest.mark.parametrize("first", [0, -7])
def test_one_off_at_every_face(ndim: int, first: int) -> None:
    box = gw.RectDomain((first,) * ndim, tuple(first + n for n in (5, 3, 4, 2)[:ndim]))
    a = gw.Array.full(box, 2.0)
    for p in faces(box):
        text = f"a[{', '.join(map(str, p))}] is outside of a, which has elements on {box} "
        refused(lambda p=p: look(a, p), place(look, "return"), text)
        refused(lambda p=p: store(a, p), place(store, "7.0"), text)
    for p in itertools.product(*[(axis[0], axis[-1]) for axis in box.axes]):
        assert look(a, gw.Point(*p)) == 2.0
    assert np.all(a.numpy() == 2.0)


@one_rank
def test_domains_with_strides() -> None:
    box = gw.RectDomain((0, 1), (9, 8), (4, 3))
    a = gw.Array.full(gw.RectDomain((0, 0), (9, 9)), 2.0)
    view, sparse = a[box], gw.Array.full(box, 2.0)
    for p in gw.RectDomain((-2, -2), (12, 12)):
        for array in (view, sparse):
            if p in box:
                assert look(array, p) == 2.0
            else:
                text = f"a[{p[0]}, {p[1]}] is outside of a, which has elements on [0:8:4, 1:7:3] "
                refused(lambda p=p, array=array: look(array, p), place(look, "return"), text)


@one_rank
def test_arrays_without_elements() -> None:
    a = gw.Array.zeros(gw.RectDomain((0, 0), (0, 4)))
    refused(lambda: look(a, gw.Point(0, 0)), place(look, "return"), "a[0, 0] is outside of a, which has elements on")


@gw.jit
def look_up(v, i, j):
    return v[i, j]


@gw.jit
def look_up_row(v, i):
    return v[i, 1:].sum()


@gw.jit
def look_up_last(v, j):
    return v[..., None, j].sum()


@gw.jit
def look_up_first(v, i):
    return v[i, ...].sum()


@gw.jit
def clear_column(v, j):
    v[:, j] = 0.0


@one_rank
def test_numpy_arrays() -> None:
    v = np.full((3, 4), 2.0)
    for i, j in itertools.product(range(-5, 6), range(-6, 7)):
        if -3 <= i < 3 and -4 <= j < 4:
            assert look_up(v, i, j) == 2.0
        else:
            text = f"v[{i}, {j}] is outside of v, whose shape is (3, 4) "
            refused(lambda i=i, j=j: look_up(v, i, j), place(look_up, "return"), text)
    assert look_up_row(v, -3) == 6.0
    refused(lambda: look_up_row(v, 3), place(look_up_row, "return"), "v[3, :] is outside of v, whose shape is (3, 4) ")
    assert look_up_last(v, -4) == 6.0
    for j in (-5, 4):
        refused(
            lambda j=j: look_up_last(v, j), place(look_up_last, "return"), f"v[..., None, {j}] is outside of v, whose"
        )
        refused(
            lambda j=j: clear_column(v, j),
            place(clear_column, "0.0"),
            f"v[:, {j}] is outside of v, whose shape is (3, 4)",
        )
    refused(
        lambda: look_up_first(v, 3), place(look_up_first, "return"), "v[3, ...] is outside of v, whose shape is (3, 4)"
    )
    with pytest.raises(IndexError, match=r"v\[2, -1\] is outside"):
        look_up(v, np.uint8(2), np.uint64(2**64 - 1))


class State(NamedTuple):
    """Arrays as one argument."""

    u: Any
    parts: tuple[Any, Any]


@gw.jit
def neighbour(u, q):
    return u[q]


@gw.jit
def from_state(state, i):
    state.parts[1][i] = 1.0
    return state.u[i] + neighbour(state.u, i + 1)


@one_rank
def test_the_error_names_what_the_program_writes() -> None:
    small, large = gw.Array.zeros(gw.RectDomain(0, 4)), gw.Array.zeros(gw.RectDomain(0, 9))
    where = place(from_state, "state.parts")
    refused(
        lambda: from_state(State(large, (large, small)), 5), where, "state.parts[1][5] is outside of state.parts[1]"
    )
    refused(lambda: from_state(State(small, (large, large)), 5), place(from_state, "state.u"), "state.u[5] is outside")
    refused(lambda: from_state(State(small, (large, large)), 3), place(neighbour, "u[q]"), "u[4] is outside of u")


@gw.foreach
def reach(p, out, u, r):
    out[p] = u[p + r * gw.X] + u[p - r * gw.X]


@gw.foreach
def write_at(p, out, at):
    out[at[p]] = 1.0


@gw.reduce
def gather(p, u, at):
    return u[at[p]]


@on_ranks
def test_kernels_on_the_blocks_of_ranks(world: gw.Team) -> None:
    u, out = (gw.zeros((12, 5), ghost=(2, 1)) for _ in range(2))
    u.fill(1.0)
    reach(u.owned, out, u, 2)
    assert out.to_numpy().sum() == 120.0
    held = u.local.domain
    first = u.owned.lo
    message = f"u[{first[0] - 3}, {first[1]}] is outside of u, which has elements on {held} "
    beyond = f"u[{held.hi[0]}, {first[1]}] is outside of u, which has elements on {held} "
    with pytest.raises(IndexError) as caught:
        reach(u.owned, out, u, 3)
    text = str(caught.value)
    assert any(text.startswith(f"{place(reach, 'out[p]')}: {wanted}") for wanted in (message, beyond)), text
    assert re.search(r"\(raised in reach at Point\(\d+, \d+\)\)$", text), text


@on_ranks
@pytest.mark.parametrize("threads", [1, 3])
def test_the_index_is_that_of_the_point_that_is_named(threads: int) -> None:
    cells = gw.RectDomain(0, 20_000)
    u, at = gw.Array.full(cells, 0.5), gw.Array(np.arange(20_000), cells)
    before = gw.threads()
    gw.set_threads(threads)
    try:
        assert gather(cells, u, at) == 10_000.0
        write_at(cells, u, at)
        assert gather(cells, u, at) == 20_000.0
        for bad in (5, 9_999, 19_999):
            at[bad] += 100_000
        for kernel, name in ((gather, "u"), (write_at, "out")):
            with pytest.raises(IndexError) as caught:
                kernel(cells, u, at)
            found = re.search(
                rf" {name}\[(\d+)\] .* elements on \[0:19999\] \(raised in \w+ at Point\((\d+)\)\)$", str(caught.value)
            )
            assert found is not None, str(caught.value)
            assert int(found[1]) == int(found[2]) + 100_000
    finally:
        gw.set_threads(before)


@gw.foreach
def partly_computed(p, out, u, q):
    out[p] = u[p + gw.X] + u[q]


@one_rank
def test_constant_offsets_beside_computed_points() -> None:
    """The check of the launch leaves out arrays that are also read at computed points."""
    cells = gw.RectDomain(0, 10)
    u, out = gw.Array.full(cells, 1.0), gw.Array.zeros(cells)
    partly_computed(cells.shrink(1), out, u, gw.Point(0))
    assert out.numpy().tolist() == [0.0, *[2.0] * 8, 0.0]
    where = place(partly_computed, "out[p]")
    refused(
        lambda: partly_computed(cells, out, u, gw.Point(0)), where, "u[10] is outside of u, which has elements on [0:9]"
    )
    refused(lambda: partly_computed(cells.shrink(1), out, u, gw.Point(-1)), where, "u[-1] is outside")


@gw.foreach
def spread(p, out, u):
    out[p] = u[p]


@gw.foreach
def read_far(p, out, between, u, q):
    out[p] = between[p] + u[q]


@one_rank
def test_fused_kernels() -> None:
    box = gw.RectDomain((0, 0, 0), (8, 8, 8))
    u, out = gw.Array.full(box, 1.0), gw.Array.zeros(box)
    between = gw.Intermediate()
    gw.fused(box.shrink(1), (spread, between, u), (read_far, out, between, u, gw.Point(7, 7, 7)))
    assert out[1, 1, 1] == 2.0
    with pytest.raises(IndexError, match=r"u\[7, 8, 7\] is outside of u, which has elements on \[0:7, 0:7, 0:7\]"):
        gw.fused(box.shrink(1), (spread, between, u), (read_far, out, between, u, gw.Point(7, 8, 7)))


@gw.jit
def put_number(ptr, i):
    gw.put(1.0, ptr + i)


@gw.jit
def get_number(ptr, i):
    return gw.get(ptr + i)


@gw.jit
def put_array(ptr, values):
    gw.put(values, ptr)


@gw.jit
def copy_between(src, dst, n):
    gw.copy(src, dst, n)


@gw.jit
def look_near(ptr, n, i):
    near = ptr.local(n)
    return near[i]


@gw.jit
def add_at(words, ptr, i):
    words.fetch_add(ptr + i, 1)


SEGMENT_BYTES = 64


@on_ranks
def test_pointers(world: gw.Team) -> None:
    segment = gw.Segment(world, SEGMENT_BYTES + 8 * world.rank)
    rank = (world.rank + 1) % world.size
    room = 8 + rank
    ptr = segment.pointer(rank, float)
    number = gw.Segment(world, 8 * 8).pointer(rank, np.int64)
    words = gw.AtomicDomain(np.int64, ["fetch_add"], world)
    for i in (0, room - 1):
        put_number(ptr, i)
        assert get_number(ptr, i) == look_near(ptr, room, i) == 1.0
    put_array(ptr, np.ones(room))
    copy_between(ptr, ptr + 1, room - 1)
    add_at(words, number, 7)

    def text(count: int, byte: int, dtype: str = "float64", nbytes: int = 8 * room) -> str:
        elements = f"{count} element{'' if count == 1 else 's'}"
        return f"{elements} of {dtype} at byte {byte} of rank {rank}: its part of the segment has {nbytes} bytes "

    for i in (-1, room):
        refused(lambda i=i: put_number(ptr, i), place(put_number, "gw.put"), text(1, 8 * i))
        refused(lambda i=i: get_number(ptr, i), place(get_number, "gw.get"), text(1, 8 * i))
    refused(lambda: put_array(ptr + 1, np.ones(room)), place(put_array, "gw.put"), text(room, 8))
    where = place(copy_between, "gw.copy")
    refused(lambda: copy_between(ptr, ptr + 1, room), where, text(room, 8))
    refused(lambda: copy_between(ptr + 1, ptr, room), where, text(room, 8))
    refused(lambda: look_near(ptr, room + 1, 0), place(look_near, "local"), text(room + 1, 0))
    refused(lambda: look_near(ptr, -1, 0), place(look_near, "local"), text(-1, 0))
    refused(
        lambda: look_near(ptr, 3, 3), place(look_near, "near[i]"), "near[3] is outside of near, whose shape is (3,)"
    )
    refused(lambda: add_at(words, number, 8), place(add_at, "fetch_add"), text(1, 64, "int64", 64))
    world.barrier()


@gw.jit
def rank_on(ptr, rank):
    return ptr.on(rank).rank


@one_rank
def test_a_rank_that_is_not_in_the_team(world: gw.Team) -> None:
    ptr = gw.Segment(world, 64).pointer(0, float)
    assert rank_on(ptr, 0) == 0
    for rank in 1, -1, 2**40:
        message = f"ptr.on({rank}): the ranks of the team of the segment are 0 to 0"
        refused(lambda rank=rank: rank_on(ptr, rank), place(rank_on, "ptr.on"), message)


@pytest.mark.ranks(2, ranks_per_node=1, variables=VARIABLES, id="between nodes")
def test_pointers_to_another_node(world: gw.Team) -> None:
    ptr = gw.Segment(world, 64).pointer(1 - world.rank, float)
    put_number(ptr, 7)
    assert get_number(ptr, 7) == 1.0
    message = f"1 element of float64 at byte 64 of rank {1 - world.rank}: its part of the segment has 64 bytes"
    refused(lambda: put_number(ptr, 8), place(put_number, "gw.put"), message)
    refused(lambda: get_number(ptr, 8), place(get_number, "gw.get"), message)
    world.barrier()


@one_rank
def test_what_was_closed(world: gw.Team) -> None:
    """Compiled code gets no pointer into a closed segment and no array that was closed."""
    segment, u = gw.Segment(world, 64), gw.zeros((4, 4))
    ptr = segment.pointer(dtype=float)
    assert get_number(ptr, 0) == look(u, gw.Point(0, 0)) == 0.0
    segment.close()
    u.close()
    with pytest.raises(UsageError, match=r"was closed: call close\(\) after the last use"):
        get_number(ptr, 0)
    with pytest.raises(UsageError, match=r"was closed: call close\(\) after the last use"):
        look(u, gw.Point(0, 0))


@gw.jit
def load_row(a, i):
    return simd.load(a, i, 4).sum()


@gw.jit
def store_row(a, i):
    simd.store(a, i, simd.fill(1.0, 4))


@gw.jit
def gather_row(a, at):
    return simd.gather(a, simd.load(at, 0, 4)).sum()


@one_rank
def test_vectors() -> None:
    for a, bounds in (
        (np.ones(9), "whose shape is (9,)"),
        (gw.Array.full(gw.RectDomain(0, 9), 1.0), "which has elements on [0:8]"),
    ):
        assert load_row(a, 0) == load_row(a, 5) == 4.0
        store_row(a, 5)
        for i in (-1, 6):
            message = f"the array[{i}] with the 3 elements behind it is outside of the array, {bounds} "
            refused(lambda a=a, i=i: load_row(a, i), place(load_row, "simd.load"), message)
            refused(lambda a=a, i=i: store_row(a, i), place(store_row, "simd.store"), message)
    at = np.array([0, 8, 1, 7])
    assert gather_row(np.ones(9), at) == 4.0
    for bad in (-1, 9):
        at[2] = bad
        message = f"the array[{bad}] is outside of the array, whose shape is (9,) "
        refused(lambda: gather_row(np.ones(9), at), place(gather_row, "simd.gather"), message)


@gw.jit
def caught(a, i):
    try:
        return a[i]
    except Exception:
        return -1.0


@one_rank
def test_compiled_code_may_catch_the_error() -> None:
    a = gw.Array.full(gw.RectDomain(0, 4), 2.0)
    assert caught(a, 3) == 2.0
    assert [caught(a, i) for i in range(4, 4000)] == [-1.0] * 3996


@gw.jit
def each_thread(threads, a, reach):
    a[threads.index + reach] = 1.0
    threads.barrier()


@on_ranks
def test_threads_of_a_team() -> None:
    a = np.zeros(4)
    gw.parallel(each_thread, a, 1, threads=3)
    assert a.tolist() == [0.0, 1.0, 1.0, 1.0]
    refused(
        lambda: gw.parallel(each_thread, a, 2, threads=3), place(each_thread, "threads.index"), "a[4] is outside of a"
    )


@on_ranks
def test_tasks() -> None:
    a = gw.Array.zeros(gw.RectDomain(0, 4))
    tasks = [gw.spawn(look, a, gw.Point(i)) for i in (3, 4)]
    assert gw.fetch(tasks[0]) == 0.0
    refused(lambda: gw.fetch(tasks[1]), place(look, "return"), "a[4] is outside of a, which has elements on [0:3]")


@gw.foreach
def smooth(p, out, u):
    out[p] = u[p - gw.X] + u[p + gw.X]


@gw.foreach
def increase(p, u):
    u[p] += 1.0


@gw.reduce
def total(p, u):
    return u[p]


def too_early(call: Callable[[], object], message: str) -> None:
    """Assert that a launch is refused since a copy is under way."""
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}.*: call wait\\(\\) before$"):
        call()


@on_ranks
def test_ghosts_and_cells_that_an_exchange_uses(world: gw.Team) -> None:
    u, out = gw.full((12, 5), 1.0, ghost=1, periodic=True), gw.zeros((12, 5), ghost=1)
    u.fill(1.0 + world.rank)
    under_way = u.exchange()
    smooth(u.inner, out, u)
    increase(u.inner, out)
    assert total(u.owned, u) == (1.0 + world.rank) * u.owned.size
    if world.size > 1:
        too_early(lambda: smooth(u.owned, out, u), "smooth reads u on ")
        too_early(lambda: smooth(u.owned, u, out), "smooth writes out on ")
        too_early(
            lambda: increase(u.owned, u), f"increase writes u on {u.owned}, part of which is read by the exchange"
        )
    increase(u.inner, u)
    under_way.wait()
    smooth(u.owned, out, u)
    increase(u.owned, u)
    world.barrier()


@pytest.mark.ranks(2, variables=VARIABLES)
def test_memory_that_a_copy_uses(world: gw.Team, monkeypatch: pytest.MonkeyPatch) -> None:
    box = gw.RectDomain((0, 0), (3, 2))
    here, there = gw.Array.zeros(box, order="F"), gw.Array.full(box, 1.0)
    pending = gw.Promise()  # how soon a real copy is complete depends on the machine
    started = engine.Started(pending.future, pending.future)
    monkeypatch.setattr(engine, "start", lambda *_: started)
    copying = gw.copy(there, here)
    with pytest.raises(RuntimeError, match=r"^total reads u on .* written by a copy that has not been waited for"):
        total(here.domain, here)
    with pytest.raises(RuntimeError, match=r"^increase writes u on .* read by a copy that has not been waited for"):
        increase(there.domain, there)
    assert total(there.domain, there) == 6.0
    pending.set_result(None)
    copying.wait()
    assert total(here.domain, here) == 0.0
    increase(there.domain, there)
    world.barrier()


@pytest.mark.more
@pytest.mark.ranks(2, variables=VARIABLES)
def test_conjugate_gradients_have_their_official_value(world: gw.Team) -> None:
    """NPB CG of class S: products with a sparse matrix, whose columns are computed indices."""
    problem = PROBLEMS["S"]
    grid = Grid(problem.n, world.rank, world.size)
    matrix, _ = make_matrix(problem, grid.block)
    partners = connect(world, grid)
    x, *others = (gw.Array.full(grid.block[1], 1.0) for _ in range(5))
    for _ in range(problem.iterations):
        _, xz = solver("flags")(matrix, x, *others, partners)
    assert problem.shift + 1.0 / xz == pytest.approx(problem.zeta, rel=1e-11)


PROGRAM = """
import gondwana as gw

@gw.foreach
def shift(p, out, T, r):
    out[p] = T[p + r * gw.X]

T, out = gw.full((12,), 1.0), gw.zeros((12,))
shift(T.owned, out, T, 0)
gw.world.barrier()
shift(T.owned, out, T, 1 if gw.world.rank == 1 else 0)
gw.world.barrier()
"""


def test_the_job_ends_with_the_traceback_of_the_rank(tmp_path: Path) -> None:
    program = tmp_path / "shift.py"
    program.write_text(PROGRAM)
    started = time.monotonic()
    outcome = jobs.run_ranks(3, program, variables=VARIABLES)
    assert time.monotonic() - started < STUBBORN
    assert outcome.status == 1, str(outcome)
    assert outcome.stderr.count("Traceback") == 1, str(outcome)
    expected = (
        f"[rank 1 on {os.uname().nodename}] IndexError: {program}:6: T[8] is outside of T, which has elements on [4:7] "
        "(raised in shift at Point(7))"
    )
    assert expected in outcome.stderr.splitlines(), str(outcome)
