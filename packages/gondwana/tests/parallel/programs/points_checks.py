"""Ghosts that are added to their owners, and records that move to theirs, each check by all ranks against NumPy.

Prints one JSON line per check.
"""

# ruff: noqa: N803, N806 - fields are called T, as in physics

from __future__ import annotations

import itertools
import os
import runpy
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from checks import raises, run_checks
from exchange_checks import random_array, set_cells, whole_data

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.teams import world

EXAMPLES = Path(__file__).parents[5] / "examples"
ROUNDS = 4 if os.environ.get("FEWER_ROUNDS") else 10


def block_data(T: gw.GlobalArray, rank: int, key: int) -> np.ndarray:
    """Cells and ghosts of any rank in one round, known to every rank."""
    values = np.random.default_rng([key, rank]).integers(0, 2 if T.dtype == bool else 20, T.layout.held(rank).shape)
    return values.astype(T.dtype)


def places(T: gw.GlobalArray, rank: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Which cells and ghosts of a rank are cells of the array, and of those the place in it along each axis."""
    inside, index = np.ones(T.layout.held(rank).shape, bool), []
    for axis, coordinates in enumerate(T.layout.held(rank).axes):
        x, n = np.array(coordinates, int) - T.domain.lo[axis], T.domain.shape[axis]
        shape = [-1 if other == axis else 1 for other in range(T.ndim)]
        inside &= ((x >= 0) & (x < n) | T.periodic[axis]).reshape(shape)
        index.append(np.broadcast_to((x % n).reshape(shape), inside.shape))
    return inside, [places[inside] for places in index]


def accumulated(T: gw.GlobalArray, key: int) -> np.ndarray:
    """All cells after an accumulation: what all ranks have of each of them."""
    whole = np.zeros(T.domain.shape, T.dtype)
    for rank in range(world.size):
        inside, index = places(T, rank)
        np.add.at(whole, tuple(index), block_data(T, rank, key)[inside])
    return whole


def check_ghosts_of_random_layouts_are_added_to_their_owners():
    rng = np.random.default_rng([world.size, world.node_count, 5])
    delays = np.random.default_rng(world.rank)
    for key in range(ROUNDS):
        T = random_array(rng)
        for number in range(2):
            data = block_data(T, world.rank, 10 * key + number)
            local = T.local.numpy()
            local[...] = data
            adding = T.accumulate()
            if delays.random() < 0.2:
                time.sleep(delays.random() * 2e-3)
            own = tuple(slice(a, a + n) for a, n in zip(T.owned.lo - T.local.domain.lo, T.owned.shape, strict=True))
            assert np.array_equal(local[own], data[own])  # the cells are this rank's until it waits
            adding.wait()
            adding.wait()
            expected = np.where(places(T, world.rank)[0], 0, data)
            whole = accumulated(T, 10 * key + number)
            if not T.owned.is_empty:
                there = tuple(slice(a - b, c - b) for a, c, b in zip(T.owned.lo, T.owned.hi, T.domain.lo, strict=True))
                expected[own] = whole[there]
            assert np.array_equal(local, expected), T


@gw.jit
def a_round(plan):
    plan.start()
    plan.wait()


def check_compiled_code_accumulates():
    rng = np.random.default_rng([world.size, world.node_count, 5])
    for key in range(3):
        T = random_array(rng)
        plan = T.accumulate()
        plan.wait()
        T.local.numpy()[...] = block_data(T, world.rank, key)
        world.barrier()
        a_round(plan)
        assert np.array_equal(T.to_numpy(), accumulated(T, key)), T


def check_an_exchange_and_an_accumulation_at_a_time():
    T, U = (gw.zeros((6, 4 * world.size), ghost=2, periodic=(False, True), grid=(1, world.size)) for _ in range(2))
    for number in range(3):
        whole = whole_data(U, number)
        set_cells(U, whole)
        T.fill(1.0)
        adding, filling = T.accumulate(), U.exchange(corners=True)
        while not adding.test():
            pass
        filling.wait()
        assert np.array_equal(U.to_numpy(), whole)
        assert T.sum() == 2 * 24 * world.size
        T.exchange(corners=True).wait()


def check_sums_are_in_the_order_of_the_blocks():
    """Bits of floats: the cell first, then the ghosts by the places of the blocks that hold them."""
    rng = np.random.default_rng(17)
    for _ in range(2):
        shape = tuple(map(int, rng.integers(3, 7, 2)))
        T = gw.zeros(shape, ghost=2, periodic=True)
        blocks = [np.random.default_rng([9, rank]).random(T.layout.held(rank).shape) for rank in range(world.size)]
        T.local.numpy()[...] = blocks[world.rank]
        T.accumulate().wait()
        for p in T.owned:
            terms = []
            for rank, turn in itertools.product(range(world.size), itertools.product(range(-3, 4), repeat=2)):
                held, owned = T.layout.held(rank), T.layout.owned(rank)
                shift = gw.Point(turn) * shape
                ghost = p - shift
                if ghost in held and ghost not in owned:
                    terms.append((tuple(owned.lo + shift), float(blocks[rank][tuple(ghost - held.lo)])))
            total = float(blocks[world.rank][tuple(p - T.local.domain.lo)])
            for _, term in sorted(terms):
                total += term
            assert T.local[p] == total, p


def check_what_cannot_be_accumulated():
    T = gw.zeros(4, [("x", "f8")], ghost=1)
    message = raises(UsageError, T.accumulate)
    assert "records cannot be added, use an array for each field" in message, message
    U, V = gw.zeros(4, ghost=1), gw.zeros(4, ghost=1)
    if world.size > 1:
        message = raises(UsageError, (U if world.rank else V).accumulate)
        assert "make different accumulations: array is" in message, message
    adding = U.accumulate()
    message = raises(RuntimeError, U.accumulate)
    assert "this accumulation is still under way: call wait() on what accumulate() returned" in message, message
    adding.wait()


RECORDS = (
    np.dtype(np.uint8),
    np.dtype("S3"),
    np.dtype([("x", "f8", 2), ("id", "i4")]),
    np.dtype([("x", "f4"), ("charge", "i2"), ("flag", "?")]),
    np.dtype("complex128"),
    np.dtype("datetime64[s]"),
)


def records(key: int, rank: int, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Records of a rank in one round, and their owners, known to every rank; often none, or all for one rank."""
    rng = np.random.default_rng([key, rank])
    dtype = RECORDS[key % len(RECORDS)]
    shape = (int(rng.choice([0, 1, 7, 200, 3000])), *[(), (3,), (2, 2)][key % 3])
    bytes_of = rng.integers(0, 2, (*shape, dtype.itemsize)).astype(np.uint8)
    owners = rng.integers(0, ranks, shape[0]) if rng.integers(3) else np.full(shape[0], rng.integers(ranks))
    return bytes_of.view(dtype).reshape(shape), owners


def migrated(key: int, rank: int, ranks: int) -> np.ndarray:
    """The records of all ranks that a rank owns."""
    everybody = [records(key, source, ranks) for source in range(ranks)]
    return np.concatenate([found[owners == rank] for found, owners in everybody])


def check_records_move_to_their_owners():
    for key in range(3 * ROUNDS):
        mine, owners = records(key, world.rank, world.size)
        expected = migrated(key, world.rank, world.size)
        before = mine.copy()
        found = gw.migrate(mine, owners.astype(["i8", "i4", "u1"][key % 3]))
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes(), key
        assert not np.may_share_memory(found, mine)
        assert mine.tobytes() == before.tobytes()


def check_fields_in_arrays_of_their_own():
    for key in range(4):
        mine, owners = records(6 * key + 2, world.rank, world.size)
        expected = migrated(6 * key + 2, world.rank, world.size)
        fields = mine["x"], np.asfortranarray(mine["id"]), mine["id"][:, ..., None]
        x, number, again = gw.migrate(fields, owners.tolist())
        assert x.tobytes() == expected["x"].tobytes()
        assert number.tobytes() == again.tobytes() == expected["id"].tobytes()


def check_records_of_a_team_and_of_late_ranks():
    delays = np.random.default_rng(world.rank)
    team = world.split(world.rank % 2)
    for key in range(8):
        if delays.random() < 0.3:
            time.sleep(delays.random() * 2e-3)
        ranks = team if key % 2 else world
        found = gw.migrate(*records(key, ranks.rank, ranks.size), ranks)
        assert found.tobytes() == migrated(key, ranks.rank, ranks.size).tobytes()


def check_long_records():
    """More than goes through the memory of a node at once."""
    n = 50_000
    count = np.arange(n) + n * world.rank
    found = gw.migrate(np.repeat(count[:, None], 8, axis=1), count % world.size)
    total = np.arange(n * world.size)
    assert np.array_equal(found, np.repeat(total[total % world.size == world.rank][:, None], 8, axis=1))


def check_records_that_cannot_move():
    """Wrong arguments of one rank are refused on all, and the next records move."""
    whole, bad = np.zeros(4), world.rank == world.size - 1
    to = np.zeros(4, int)
    refused = (
        (lambda: gw.migrate(whole, np.arange(1, 5) * world.size if bad else to), f"owner {world.size} of record 0"),
        (lambda: gw.migrate(whole, np.array([0, 0, -1, 0]) if bad else to), "owner -1 of record 2: the ranks of"),
        (lambda: gw.migrate(whole, to[:3] if bad else to), "with owners of shape (3,): give one owner for each record"),
        (lambda: gw.migrate(whole, to * 1.0 if bad else to), "with owners of float64: give ranks"),
        (lambda: gw.migrate(whole if not bad else [1.0], to), "a list: give an ndarray in host memory"),
        (lambda: gw.migrate(whole.astype(object) if bad else whole, to), "an array of object of shape (4,)"),
        (lambda: gw.migrate(() if bad else whole, to), "migrate of 0 arrays of no records"),
    )
    for call, text in refused:
        message = raises(UsageError, call)
        assert text in message, message
    if world.size > 1:
        for other in (whole.astype("f4"), (whole,), np.zeros((4, 2))):
            message = raises(UsageError, gw.migrate, other if bad else whole, to)
            assert "make different migrations: records is" in message, message
    message = raises(UsageError, gw.migrate, whole, to, team=3)
    assert "migrate with team=3: give a team" in message, message
    assert len(gw.migrate(whole, to)) == (4 * world.size if world.rank == 0 else 0)


def check_the_examples_are_as_short_as_they_look():
    for name, most in (("particles.py", 60), ("shallow_water.py", 45)):
        lines = [line for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines() if line.strip()]
        assert len(lines) <= most, name


def example(name: str, old: str, new: str) -> dict[str, Any]:
    """The names of an example after its end, where some texts, divided by `|`, are replaced by others."""
    source = (EXAMPLES / name).read_text(encoding="utf-8")
    for text, other in zip(old.split("|"), new.split("|"), strict=True):
        assert source.count(text) == 1, text
        source = source.replace(text, other)
    folder = world.bcast(tempfile.mkdtemp() if world.rank == 0 else None)
    program = Path(folder) / name
    if world.rank == 0:
        program.write_text(source, encoding="utf-8")
    world.barrier()
    found = runpy.run_path(str(program))
    world.barrier()
    if world.rank == 0:
        shutil.rmtree(folder)
    return found


def check_particles():
    """The growth of the wave takes its time, and is the same if the first steps are."""
    if world.size == 2:
        found = example("particles.py", "1_000_000, 640,", "8_000, 420,")
        growth = np.log(found["wave"][400] / found["wave"][300]) / (100 * found["DT"])
        assert abs(growth / np.sqrt(1 / 8) - 1) < 2e-3, growth
    else:
        found = example("particles.py", "1_000_000, 640,|wave[400] / wave[300]", "8_000, 60,|wave[59] / wave[0]")
    waves = two_beams(found, 60)
    assert np.allclose(found["wave"][: len(waves)], waves, rtol=1e-9, atol=0)
    assert world.allreduce(found["n"] + found["left"]) == 8_000


def two_beams(given: dict[str, Any], steps: int) -> list[float]:
    """The growing wave of the particles, by NumPy."""
    nx, ny, n, dt = (given[name] for name in ("NX", "NY", "N", "DT"))
    number = np.arange(n)
    x = nx * (number // 2 + 0.5) / (n // 2)
    x, y = x + 0.002 * np.sin(given["K"] * x), ny * (number // 2 * 0.618034 % 1)
    u, v = np.where(number % 2, -given["SPEED"], given["SPEED"]), np.zeros(n)
    wave = []
    for _ in range(steps):
        a, b = x.astype(int), y.astype(int)
        f, g = x - a, y - b
        nodes = [
            ((a + i) % nx, (b + j) % ny, (f if i else 1 - f) * (g if j else 1 - g)) for i in (0, 1) for j in (0, 1)
        ]
        rho = np.zeros((nx, ny))
        for i, j, weight in nodes:
            np.subtract.at(rho, (i, j), weight)
        modes = np.fft.rfft2(rho) * (nx * ny / n)
        wave.append(2 * abs(modes[1, 0]) / (nx * ny))
        ex, ey = (np.fft.irfft2(-1j * k / given["K2"] * modes, (nx, ny)) for k in (given["KX"], given["KY"]))
        u = u - dt * sum(weight * ex[i, j] for i, j, weight in nodes)
        v = v - dt * sum(weight * ey[i, j] for i, j, weight in nodes)
        x, y = (x + dt * u) % nx, (y + dt * v) % ny
    return wave


def check_shallow_water():
    found = example("shallow_water.py", "240, 160, 900,", "83, 81, 50,")
    h, u, v = basin(found)
    for name, expected in (("h", h), ("u", u), ("v", v)):
        assert np.allclose(found[name].to_numpy(), expected, rtol=1e-12, atol=1e-14), name
    assert abs(found["change"]) < 1e-15, found["change"]


def basin(given: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Height and velocities of the shallow water, by NumPy."""
    nx, ny, dt, turn = (given[name] for name in ("NX", "NY", "DT", "F"))
    x, y = np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij")
    h, u, v = (
        1 + 0.2 * np.exp(-((x - 80.0) ** 2 + (y - 80.0) ** 2) / 200),
        np.zeros((nx + 1, ny)),
        np.zeros((nx, ny + 1)),
    )
    for _ in range(given["STEPS"]):
        across = 0.25 * (v[1:, :-1] + v[1:, 1:] + v[:-1, :-1] + v[:-1, 1:])
        u[1:-1] += dt * (turn * across - (h[1:] - h[:-1]))
        across = 0.25 * (u[:-1, 1:] + u[1:, 1:] + u[:-1, :-1] + u[1:, :-1])
        v[:, 1:-1] -= dt * (turn * across + (h[:, 1:] - h[:, :-1]))
        fx, fy = np.zeros_like(u), np.zeros_like(v)
        fx[1:-1], fy[:, 1:-1] = u[1:-1] * (h[:-1] + h[1:]), v[:, 1:-1] * (h[:, :-1] + h[:, 1:])
        h = h - 0.5 * dt * (fx[1:] - fx[:-1] + fy[:, 1:] - fy[:, :-1])
    return h, u, v


if __name__ == "__main__":
    run_checks(globals())
