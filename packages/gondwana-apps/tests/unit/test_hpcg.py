"""HPCG without MPI: parameters, the problem on many ranks looked at from one, kernels, models and the result file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps.hpcg import app, model, problem, schedule, split, validation
from gondwana_apps.hpcg.columns import local_columns
from gondwana_apps.hpcg.grid import Geometry, Triple, Zones, choose_grid, geometry
from gondwana_apps.hpcg.parameters import Parameters, parse
from gondwana_apps.hpcg.reference import Reference
from gondwana_apps.hpcg.solver import Optimised
from support import hpcg_oracle

GRIDS = {
    1: (1, 1, 1), 2: (2, 1, 1), 4: (2, 2, 1), 6: (2, 3, 1), 8: (2, 2, 2), 11: (11, 1, 1), 12: (2, 3, 2), 16: (4, 2, 2),
    18: (2, 3, 3), 20: (2, 5, 2), 22: (2, 11, 1), 24: (2, 4, 3), 27: (3, 3, 3), 30: (2, 3, 5), 32: (4, 4, 2),
    36: (4, 3, 3), 48: (4, 4, 3), 54: (3, 3, 6), 60: (4, 3, 5), 64: (4, 4, 4), 72: (4, 3, 6), 96: (4, 4, 6),
    128: (8, 4, 4),
}  # fmt: skip


@pytest.mark.parametrize("ranks", GRIDS)
def test_the_grid_is_that_of_the_benchmark(ranks: int) -> None:
    assert choose_grid(ranks) == GRIDS[ranks]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--nx 64 --ny 32 --nz=16 --rt=60", Parameters((64, 32, 16), 60)),
        ("16 24 32 60", Parameters((16, 24, 32), 60)),
        ("--nx 104 --ny 104 --nz 104", Parameters((104, 104, 104), 0)),
        ("--nx 16 --npx 1 --npy 2 --npz 2", Parameters((16, 16, 16), 0, (1, 2, 2))),
        ("32 32 32 --rt 9 --pz 1 --zl 16 --zu 32", Parameters((32, 32, 32), 9, None, Zones(1, 16, 32))),
        ("8 32 32", Parameters((32, 32, 32), 0)),
    ],
)
def test_options_and_bare_numbers(words: str, expected: Parameters) -> None:
    found = parse(words.split())
    assert (found.local, found.seconds, found.grid, found.zones) == (
        expected.local, expected.seconds, expected.grid, expected.zones,
    )  # fmt: skip


def test_small_sides_are_raised_with_a_note() -> None:
    found = parse(["--nx", "15", "--ny", "24", "--nz", "16"])
    assert found.local == (24, 24, 16)
    assert found.notes == ("nx is 15, below 16: taken as 24",)
    assert parse(["--nx", "32", "--ny", "32"]).notes == ("nz is not given: taken as 32",)


def test_the_file_is_read_if_no_size_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hpcg.dat").write_text("a benchmark\nof somebody\n104 96 88\n-5\n2 1 1\n")
    found = parse(["--rt", "0"])
    assert (found.local, found.seconds, found.grid) == ((104, 96, 88), 1800, (2, 1, 1))
    assert parse(["--nx", "16"]).local == (16, 16, 16)


@pytest.mark.parametrize(
    ("text", "local", "seconds", "grid", "notes"),
    [
        ("104 96 88\n60\n", (104, 96, 88), 60, None, 0),
        ("24\n32\n40\n60\n", (24, 32, 40), 60, None, 0),
        ("24\r\n32 40\r\n60\r\n1 2 1\r\n", (24, 32, 40), 60, (1, 2, 1), 0),
        (
            "24 32 40 local sizes\n60 seconds of the timed part\n1 2 1 ranks\nmore text\n",
            (24, 32, 40),
            60,
            (1, 2, 1),
            0,
        ),
        ("+24 032 40\n\n\n\n60", (24, 32, 40), 60, None, 0),
        ("24 32 40\n", (24, 32, 40), 1800, None, 1),
        ("24 32 40\n\nThis text is below the sizes.\n", (24, 32, 40), 1800, None, 1),
        ("24 32 40\n60\n2 ranks were used\n", (24, 32, 40), 60, None, 1),
        ("24 32 40\n60\n----\n", (24, 32, 40), 60, None, 0),
        ("24 # nx\n32 # ny\n40 # nz\n60\n", (24, 16, 16), 32, None, 3),
        ("24 8 -40\n-1\n0 1 1\n", (24, 16, 16), 1800, None, 4),
        ("16 16", (16, 16, 16), 1800, None, 2),
    ],
)
def test_the_file_is_read_as_by_the_official_program(
    text: str, local: Triple, seconds: int, grid: Triple | None, notes: int, tmp_path: Path
) -> None:
    """Values that HPCG 3.1's reader gives for the same text; every default in them has a note."""
    file = tmp_path / "hpcg.dat"
    file.write_bytes(f"the first title\nthe second\n{text}".encode())
    found = parse(["--file", str(file)])
    assert (found.local, found.seconds, found.grid, len(found.notes)) == (local, seconds, grid, notes), found.notes
    assert parse(["--file", str(file), "--rt", "7"]).seconds == 7
    assert parse(["--file", str(file), "--rt", "0"]).seconds == seconds


@pytest.mark.parametrize(
    ("words", "ranks", "part"),
    [
        ("--nx 17 --ny 17 --nz 17", 1, "nx is 17: give a multiple of 8 that is at least 16, such as 16"),
        ("--nx 16 --ny 16 --nz 136", 1, "the local box 16x16x136 is too long"),
        ("--nx 16", 11, "the grid of 11 ranks 11x1x1 is too long"),
        ("--nx 16 --npx 2 --npy 2 --npz 2", 4, "has 8 ranks and the run has 4"),
        ("--nx 16 --npx 2", 2, "the grid of ranks is 2 x ? x ?: give all of --npx --npy --npz"),
        ("--nx 16 --npy 1 --npz 2", 2, "the grid of ranks is ? x 1 x 2: give all"),
        ("--nx 16 --pz 2 --zl 16 --zu 16", 2, "--pz 2"),
        ("--nx 16 --rt -1", 1, "rt is -1"),
        ("--nx 16 --speed", 1, "unrecognized arguments: --speed"),
        ("--nx 100000 --ny 100000 --nz 100000", 1, "of memory and"),
        ("", 1, "hpcg.dat cannot be read"),
        ("--file bad.dat", 1, "bad.dat is no hpcg.dat"),
        ("--file binary.dat", 1, "binary.dat: not UTF-8 at line 1"),
    ],
)
def test_what_cannot_run_gets_one_line(
    words: str, ranks: int, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.dat").write_text("one\ntwo\nthree\n104 104\n60\n")
    Path("binary.dat").write_bytes(b"\xff\xfe\n\n\xff")
    with pytest.raises(UsageError) as refusal:
        app.check(words.split(), ranks)
    assert part in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("grid", "local", "zones"),
    [
        ((1, 1, 1), (4, 4, 4), None),
        ((2, 1, 1), (4, 2, 6), None),
        ((2, 2, 2), (2, 4, 2), None),
        ((3, 1, 2), (1, 2, 3), None),
        ((1, 2, 3), (2, 2, 4), Zones(1, 4, 2)),
    ],
)
def test_every_entry_of_every_rank_is_right(grid: Triple, local: Triple, zones: Zones | None) -> None:
    places = [geometry(rank, grid, local, zones) for rank in range(math.prod(grid))]
    expected = hpcg_oracle.stencil(places[0].shape)
    owned = [hpcg_oracle.numbers(place) for place in places]
    assert sorted(np.concatenate(owned)) == list(range(len(expected)))
    for place, rows in zip(places, owned, strict=True):
        values, points, counts = problem.generate(place)
        columns, owners, there = local_columns(place, points, counts)
        outside = _outside(columns, points, counts, place.rows)
        every = np.concatenate([rows, outside])
        dense = np.zeros((len(rows), len(expected)))
        np.add.at(dense, (np.arange(len(rows))[:, None], every[columns]), values)
        assert np.array_equal(dense, expected[rows])
        assert np.array_equal(counts, (expected[rows] != 0).sum(axis=1))
        assert np.array_equal(problem.right_hand_side(counts), expected[rows].sum(axis=1))
        assert np.all(np.diff(owners) >= 0)
        assert np.array_equal(outside, [owned[owner][number] for owner, number in zip(owners, there, strict=True)])


def test_sizes_of_halos() -> None:
    middle = geometry(13, (3, 3, 3), (16, 16, 16))
    _, points, counts = problem.generate(middle)
    _, owners, _ = local_columns(middle, points, counts)
    assert len(owners) == 1736
    assert len(np.unique(owners)) == 26


def test_cycle_and_product_against_dense_matrices() -> None:
    """With values that all differ: no path may rely on what the benchmark's matrix looks like."""
    system = _perturbed((8, 8, 8))
    dense = [_dense(level) for level in system.levels]
    blocks = [[np.arange(len(matrix))] for matrix in dense]
    fine = [level.fine for level in system.levels]
    right = np.random.default_rng(3).random(512)
    solvers = [Optimised(system, threads) for threads in (1, 2, 3)]
    for apply, expected in (
        ("multiply", dense[0] @ right),
        ("precondition", hpcg_oracle.cycle(dense, blocks, fine, right)),
    ):
        for path in Reference(system), *solvers:
            found = np.zeros(512)
            getattr(path, apply)(right, found)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_threads_do_not_change_a_bit_of_a_cycle() -> None:
    system = problem.build(gw.world, geometry(0, (1, 1, 1), (16, 16, 8)))
    right = np.random.default_rng(4).random(2048)
    found = []
    for threads in 1, 2, 3, 5:
        path, x = Optimised(system, threads), np.zeros(2048)
        path.precondition(right, x)
        found.append(x)
    assert all(np.array_equal(x, found[0]) for x in found[1:])


def test_rows_of_a_wave_do_not_need_each_other() -> None:
    system = problem.build(gw.world, geometry(0, (1, 1, 1), (16, 8, 8)))
    matrix = system.levels[0].matrix
    order = split.by_waves(matrix.columns, matrix.counts)
    x, y, z = np.arange(1024) % 16, np.arange(1024) // 16 % 8, np.arange(1024) // 128
    wave_of = np.searchsorted(order.starts, order.place, side="right") - 1
    assert np.array_equal(wave_of, x + 2 * y + 4 * z)
    assert np.all(order.starts % 8 == 0)
    for wave in range(wave_of.max() + 1):
        rows = np.flatnonzero(wave_of == wave)
        assert order.place[rows].tolist() == list(range(order.starts[wave], order.starts[wave] + len(rows)))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_threads_wait_for_all_that_they_need(sign: int, threads: int) -> None:
    """Whatever the others do meanwhile, what a block needs is done: by the thread itself, or it waits for that."""
    system = problem.build(gw.world, geometry(0, (1, 1, 1), (16, 8, 8)))
    m = Optimised(system).matrices
    columns = (m.lower_columns if sign > 0 else m.upper_columns).reshape(-1, 13 * 8) // 8
    plan = schedule.plan(m, threads, sign)
    for level, (first, last) in enumerate(itertools.pairwise(m.first // 8)):
        mine = [range(*plan.blocks[level * threads + thread :][:2]) for thread in range(threads)]
        order = {
            part: (thread, *found) for thread in range(threads) for part, *found in _parts(plan, mine[thread], sign)
        }
        assert sorted(order) == list(range(first, last))
        for thread in range(threads):
            seen = np.zeros(threads, int)
            for done, block in enumerate(mine[thread]):
                waits = slice(plan.waits[block], plan.waits[block + 1])
                np.maximum.at(seen, plan.source[waits], plan.until[waits])
                for position, part in enumerate(_sequence(plan, block, sign)):
                    for needed in set(columns[part].tolist()) - {part}:
                        source, when, place = order[needed]
                        if source == thread:
                            assert (when, place) < (done, position)
                        else:
                            assert when < seen[source]


def _sequence(plan: schedule.Schedule, block: int, sign: int) -> range:
    """The slices of a block in the order of a sweep."""
    return range(plan.starts[block], plan.ends[block])[::sign]


def _parts(plan: schedule.Schedule, blocks: range, sign: int) -> Iterator[tuple[int, int, int]]:
    """The slices of a thread, each with the number of its blocks before, and its place within the block."""
    for done, block in enumerate(blocks):
        yield from ((part, done, place) for place, part in enumerate(_sequence(plan, block, sign)))


def test_parts_that_are_not_neighbours_have_no_row_in_common() -> None:
    m = Optimised(problem.build(gw.world, geometry(0, (1, 1, 1), (32, 16, 16)))).matrices
    counts = np.diff(m.parts) - 1
    assert counts.tolist() == [8, 4, 2]
    for level in range(3):
        cuts = m.cuts[m.parts[level] : m.parts[level + 1]]
        assert (cuts[0], cuts[-1]) == (m.points[level], m.points[level + 1])
        rows = [set(m.below_rows[start:end].flat) for start, end in itertools.pairwise(cuts)]
        assert all(one.isdisjoint(other) for turn in (0, 1) for one, other in itertools.combinations(rows[turn::2], 2))


def test_conjugate_gradients_reach_the_solution() -> None:
    system = problem.build(gw.world, geometry(0, (1, 1, 1), (16, 8, 8)))
    exact = np.linalg.solve(_dense(system.levels[0]), system.right)
    np.testing.assert_allclose(exact, 1.0)
    for path in Reference(system), Optimised(system):
        for preconditioned, most in ((True, 20), (False, 60)):
            x = np.zeros(1024)
            solution = path.solve(system.right, x, 100, 1e-10, preconditioned=preconditioned)
            assert solution.iterations < most
            assert solution.scaled <= 1e-10
            np.testing.assert_allclose(x, 1.0, rtol=1e-8)
            if isinstance(path, Reference):
                continue
            times = solution.times
            parts = [times[part] for part in ("dot", "combine", "multiply", "precondition")]
            # How much of the whole they are depends on what else this machine does.
            assert all(part > 0.0 for part in parts[: 4 if preconditioned else 3])
            assert sum(parts) <= times["total"]


def test_the_reference_has_the_residuals_of_the_benchmark() -> None:
    """Residuals of the official program at 32^3, up to where rounding takes over."""
    system = problem.build(gw.world, geometry(0, (1, 1, 1), (32, 32, 32)))
    reference, optimised = Reference(system), Optimised(system)
    assert np.isclose(system.right @ system.right, 486 * 30**2 + 2700 * 30 + 2888, rtol=1e-15)
    for iterations in 1, 10, 30:
        x = np.zeros(system.levels[0].rows)
        plain = reference.solve(system.right, x, iterations)
        fast = optimised.solve(system.right, np.zeros_like(x), iterations)
        assert np.isclose(fast.scaled, plain.scaled, rtol=1e-11 * 10 ** (iterations / 5))
    assert np.isclose(plain.first, 722.0027700777886, rtol=1e-14)


def test_the_diagonal_is_replaced_and_restored() -> None:
    system = problem.build(gw.world, geometry(0, (1, 1, 1), (8, 8, 8)))
    optimised = Optimised(system)
    found = validation.spectral(optimised)
    assert found.passed, found
    product = np.zeros(512)
    optimised.multiply(np.ones(512), product)
    assert np.array_equal(product, system.right)
    assert validation.symmetry(optimised).strict < validation.STRICT


def test_a_broken_path_fails_the_tests() -> None:
    system = problem.build(gw.world, geometry(0, (1, 1, 1), (8, 8, 8)))
    optimised = Optimised(system)
    optimised.matrices.upper[100:200] = 0.0
    assert validation.symmetry(optimised).strict > validation.STRICT
    assert validation.symmetry(optimised).residual > 0.0
    optimised.matrices.inverse[:] = 1.0
    assert not validation.spectral(optimised).passed


def _cube(side: int) -> list[model.Sizes]:
    return [model.Sizes(g**3, (3 * g - 2) ** 3, g**3) for g in (side, side // 2, side // 4, side // 8)]


def test_models_have_the_published_values() -> None:
    done = model.operations(_cube(104), 5, 50)
    assert [f"{number:.5e}" for number in (done.dot, done.combine, done.multiply, done.precondition)] == [
        "1.69854e+09", "1.69854e+09", "1.51934e+10", "8.47563e+10",
    ]  # fmt: skip
    read, written = model.model_bytes(_cube(104), 5, 50)
    assert (f"{read:.5e}", f"{written:.5e}") == ("6.36872e+11", "1.47188e+11")
    assert f"{sum(model.memory(_cube(104), 1, [0] * 4, 5)) / 1e9:.6g}" == "0.80393"
    assert f"{sum(model.memory(_cube(128), 1, [0] * 4, 5)) / 1e9:.6g}" == "1.49881"
    small = [f"{size / 1e9:.6g}" for size in model.memory(_cube(32), 1, [0] * 4, 1)]
    assert small == ["0.0206112", "0.00246214", "0.00030816", "3.8912e-05"]


def test_variance_of_residuals() -> None:
    assert validation.norms([0.1] * 7).passed
    assert not validation.norms([0.1, 1.0]).passed
    assert not validation.norms([math.nan, 0.1]).passed


def _outside(columns: np.ndarray, points: np.ndarray, counts: np.ndarray, rows: int) -> np.ndarray:
    """The global numbers of the columns of other ranks, in the order of their local numbers."""
    used = np.arange(columns.shape[1]) < counts[:, None]
    local, where = np.unique(columns[used], return_index=True)
    found = points[used][where][local >= rows]
    assert list(local[local >= rows]) == list(range(rows, rows + len(found)))
    return found


def _dense(level: problem.Level) -> np.ndarray:
    matrix = level.matrix
    dense = np.zeros((level.rows, level.rows))
    np.add.at(dense, (np.arange(level.rows)[:, None], matrix.columns.astype(int)), matrix.values)
    return dense


def _perturbed(local: Triple) -> problem.System:
    """The problem with every entry changed a little, each differently."""
    place: Geometry = geometry(0, (1, 1, 1), local)
    system = problem.build(gw.world, place)
    generator = np.random.default_rng(1)
    for level in system.levels:
        matrix = level.matrix
        matrix.values *= 1.0 + 0.3 * generator.random(matrix.values.shape)
        own = matrix.columns == np.arange(level.rows)[:, None]
        own &= np.arange(problem.WIDTH) < matrix.counts[:, None]
        matrix.diagonal[:] = matrix.values[own]
    return system
