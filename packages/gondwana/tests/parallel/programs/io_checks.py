"""Checks of parallel output and analysis; every rank runs all of them. One JSON line per check on rank 0."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[5] / "tests"))

import gondwana as gw
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.io import checkpoint
from gondwana.io.analysis.pdf import histogram, joint_histogram, write_pdfs
from gondwana.io.dataset import Dataset
from gondwana.io.stop import StopRequest
from gondwana.io.writer import StepWriter
from gondwana.teams import world
from support.divided_array import DividedArray

FOLDER = Path(world.bcast(tempfile.mkdtemp() if world.rank == 0 else None))


def random_blocks(shape, random):
    """Cut a box again and again at random places, so that blocks may be empty and of any size; deal them to ranks."""
    blocks = [RectDomain.from_shape(shape)]
    while len(blocks) < world.size:
        largest = max(range(len(blocks)), key=lambda index: blocks[index].size)
        box = blocks.pop(largest)
        axis = int(random.integers(len(shape)))
        cut = int(random.integers(box.lo[axis], box.hi[axis] + 1))
        low, high = list(box.lo), list(box.hi)
        low[axis] = high[axis] = cut
        blocks += [RectDomain(box.lo, tuple(high)), RectDomain(tuple(low), box.hi)]
    return [blocks[index] for index in random.permutation(world.size)]


def values(step, shape=(7, 5, 6)):
    return np.random.default_rng(step).random(shape)


def check_random_divisions():
    random = np.random.default_rng(world.size)  # the same on all ranks
    for case in range(12):
        shape = tuple(int(n) for n in random.integers(1, 8, size=random.integers(1, 4)))
        dtype, order = random.choice(["f4", "f8", "i4", "u2", "c16"]), str(random.choice(["C", "F"]))
        cells = (100 * random.random(shape)).astype(dtype)
        array = DividedArray(shape, random_blocks(shape, random), world.rank, dtype, order, int(random.integers(3)), 4)
        array.set(cells)
        path = FOLDER / f"random{case}.bp"
        with StepWriter(path, {"a": array}, background=False) as out:
            out.write(1, {"a": array})
        with Dataset(path) as data:
            found = data.read("a", 0)
            assert (found if order == "C" else found.T).tobytes() == cells.tobytes(), (case, shape, dtype, order)
            filled = [r for r in range(world.size) if not array.owned_of(r).is_empty]
            assert len(data.blocks("a", 0)) == len(filled)
        again = DividedArray(shape, random_blocks(shape, random), world.rank, dtype, order)
        checkpoint.save(FOLDER / "random_ckpt.bp", {"a": array}, step=case)
        checkpoint.load(FOLDER / "random_ckpt.bp", {"a": again})
        assert again.equals(cells)
        world.barrier()


def check_global_arrays_in_the_background():
    shape = (7, 5, 6)
    u = gw.zeros(RectDomain((2, 3, 4), (9, 8, 10)), ghost=1, periodic=True, order="F")
    v = gw.zeros(u.domain, dtype=np.float32)
    window = tuple(slice(a - b, c - b) for a, c, b in zip(u.owned.lo, u.owned.hi, u.domain.lo, strict=True))
    window_v = tuple(slice(a - b, c - b) for a, c, b in zip(v.owned.lo, v.owned.hi, v.domain.lo, strict=True))
    path = FOLDER / "background.bp"
    with StepWriter(path, {"U": u, "V": v}, attributes={"F": 0.02}) as out:
        for step in range(8):
            for array, where, dtype in ((u, window, "f8"), (v, window_v, "f4")):
                if not array.owned.is_empty:
                    array.local.restrict(array.owned).numpy()[...] = values(step, shape)[where].astype(dtype)
            out.write(10 * step, {"U": u, "V": v}, {"time": step / 2})
            u.fill(-1)
            v.fill(-1)
    with Dataset(path) as data:
        assert data.steps.tolist() == [10 * step for step in range(8)]
        for step in range(8):
            assert np.array_equal(data.read("U", step).T, values(step, shape))
            assert np.array_equal(data.read("V", step), values(step, shape).astype("f4"))
        way = data.attributes["gondwana_io"]
    remote = sum(world.node_of(rank) != world.node_of(0) for rank in range(world.size))
    assert f"{world.size - remote} through shared memory and {remote} by messages" in way


def check_datasets_are_read_into_global_arrays():
    """Of another division, order and dtype than they were written from."""
    shape, path = (7, 5, 6), FOLDER / "whole.bp"
    whole = values(1, shape)
    u, v = gw.from_numpy(whole, ghost=1, order="F"), gw.from_numpy(whole)
    with StepWriter(path, {"U": u, "V": v}) as out:
        out.write(0, {"U": u, "V": v})
    again = gw.zeros(RectDomain((2, 3, 4), (9, 8, 10)), ghost=2, grid=(1, 1, world.size))
    small = gw.zeros((7, 3), np.float32, grid=(1, world.size))
    with Dataset(path) as data:
        assert data.read("V", 0, out=again) is again
        assert np.array_equal(again.to_numpy(), whole)
        again.fill(0)
        data.read("U", 0, out=again.permute((2, 1, 0)))
        assert np.array_equal(again.to_numpy(), whole)
        plane = gw.zeros((7, 3, 1), np.float32, grid=(1, world.size, 1))
        data.read("V", -1, [0, 2, 4], out=plane)
        gw.copy(plane[..., 0], small).wait()
        assert np.array_equal(small.to_numpy(), whole[:, 2:5, 4].astype("f4"))
        for wrong in (lambda: data.read("V", 0, out=small), lambda: data.read("V", 0, out=np.zeros(shape))):
            raises(UsageError, wrong)
        raises(UsageError, lambda: data.read("V", 0, [0, 0, 0], (1, 1, 1), out=plane))
    world.barrier()


def check_an_error_leaves_the_steps_written():
    u = gw.zeros(RectDomain((0, 0), (300, 200)))
    path = FOLDER / "error.bp"
    try:
        with StepWriter(path, {"u": u}) as out:
            for step in range(4):
                u.fill(step)
                out.write(step, {"u": u})
            raise RuntimeError("elsewhere")
    except RuntimeError:
        world.barrier()
    with Dataset(path) as data:
        assert data.steps.tolist() == [0, 1, 2, 3]
        assert all((data.read("u", step) == step).all() for step in range(4))


def check_more_ranks_than_cells():
    u = gw.zeros(RectDomain((0, 0), (1, 2)), order="F")
    with StepWriter(FOLDER / "few.bp", {"u": u}) as out:
        u.fill(3)
        out.write(1, {"u": u})
    with Dataset(FOLDER / "few.bp") as data:
        assert data.read("u", 0).tolist() == [[3], [3]]


def refused(action):
    try:
        action()
    except gw.errors.UsageError as error:
        return str(error)
    raise AssertionError("no rank raised")


def check_errors_reach_all_ranks():
    array = gw.zeros(RectDomain((0, 0), (4, 4)))
    (FOLDER / "file").write_text("")
    world.barrier()
    for path in (FOLDER / "file", FOLDER / "file" / "below.bp"):
        assert "cannot write" in refused(lambda path=path: StepWriter(path, {"a": array}))
    assert "no complete checkpoint" in refused(lambda: checkpoint.load(FOLDER / "none.bp", {"a": array}))


def check_names_in_another_order_on_one_rank():
    """Names that come from a set have another order on each rank: arrays are matched by name."""
    names = ["U", "V", "W"]
    made = {name: gw.full((12, 4), number, "f4" if name == "W" else "f8") for number, name in enumerate(names)}
    mine = {name: made[name] for name in (reversed(names) if world.rank == world.size - 1 else names)}
    with StepWriter(FOLDER / "names.bp", mine) as out:
        out.write(1, made)
        out.write(2, dict(reversed(mine.items())))
    with Dataset(FOLDER / "names.bp") as data:
        for number, name in enumerate(names):
            assert all((data.read(name, step) == number).all() for step in (0, 1)), name
    checkpoint.save(FOLDER / "names_saved.bp", mine, step=1)
    for array in made.values():
        array.fill(-1)
    checkpoint.load(FOLDER / "names_saved.bp", dict(reversed(mine.items())))
    for number, name in enumerate(names):
        assert made[name].min() == made[name].max() == number, name


def check_what_differs_between_ranks_is_refused():
    if world.size == 1:
        return
    odd = world.rank == world.size - 1
    u, v = gw.zeros((4, 4)), gw.zeros((4, 4))
    both, swapped, one = {"u": u, "v": v}, {"u": v, "v": u}, {"u": u}
    path = FOLDER / "differs.bp"
    for other in (swapped, one, {"u": u, "w": v}):
        given = other if odd else both
        message = refused(lambda given=given: StepWriter(path, given))
        assert "different datasets: arrays is ['u: array" in message, message
        assert f"on rank {world.size - 1}" in message
        assert "different datasets" in refused(lambda given=given: checkpoint.save(path, given, step=1))
    for option, value, of_odd in (("background", True, False), ("append_after", None, 3), ("replace", True, False)):
        options = {option: of_odd if odd else value}
        assert f"{option} is" in refused(lambda options=options: StepWriter(path, both, **options))
    with StepWriter(path, both) as out:
        message = refused(lambda: out.write(1 + odd, both))
        assert "different steps: step is 1 on rank 0 and 2" in message, message
        out.write(3, both)
    with Dataset(path) as data:
        assert data.steps.tolist() == [3]
    checkpoint.save(path, both, step=1)
    for other in (swapped, one):
        given = other if odd else both
        assert "different restarts: arrays is" in refused(lambda given=given: checkpoint.load(path, given))


def check_histograms_are_whole_on_every_rank():
    shape = (7, 5, 6)
    u = gw.zeros(RectDomain.from_shape(shape))
    path = FOLDER / "histograms.bp"
    owned = tuple(slice(a, b) for a, b in zip(u.owned.lo, u.owned.hi, strict=True))
    with StepWriter(path, {"U": u, "V": u}) as out:
        for step in (1, 2):
            if not u.owned.is_empty:
                u.local.restrict(u.owned).numpy()[...] = values(step, shape)[owned]
            out.write(step, {"U": u, "V": u})
    with Dataset(path) as data:
        cells = values(2, shape)
        limits = float(cells.min()), float(cells.max())
        found = histogram(data, "U", 1, bins=13)
        assert all(np.array_equal(found.slices[i], np.histogram(cells[i], 13, limits)[0]) for i in range(7))
        joint = joint_histogram(data, ("U", "V"), 1, bins=5)
        assert np.array_equal(joint.diagonal(), np.histogram(cells, 5)[0])
    write_pdfs(path, FOLDER / "pdf.bp", ["U", "V"], [0, 1], bins=11)
    with Dataset(FOLDER / "pdf.bp") as pdfs:
        assert (pdfs.read_steps("U/pdf", 0, 2).sum(axis=2) == 5 * 6).all()


def check_one_rank_stops_all():
    stop = StopRequest(after_seconds=0.0 if world.rank == world.size - 1 else None)
    assert stop.agreed() == "the time limit"


if __name__ == "__main__":
    from checks import raises, run_checks

    run_checks(globals())
