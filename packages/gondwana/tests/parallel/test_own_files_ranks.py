"""`gw.save` and `gw.load` on several ranks: what is loaded is what was saved, in all formats and divisions."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import GondwanaError, UsageError
from gondwana.io import checkpoint
from gondwana.io.files import contents, zarr_files
from gondwana.io.paths import DatasetError
from gondwana.results import code_lines
from support import jobs

pytest.importorskip("adios2")
h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")

pytestmark = pytest.mark.parallel
ENDINGS = (".h5", ".nc", ".zarr", ".bp")
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16"]
STAR = np.dtype(
    [("mass", "f8"), ("place", "f4", (3,)), ("state", [("age", "i4"), ("bright", "?")])],
)

on_ranks = pytest.mark.ranks(2, 3, 4, 6)  # one rank: see unit/test_own_files.py
on_nodes = pytest.mark.ranks(4, ranks_per_node=2)


def whole(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """The same numbers on all ranks."""
    numbers = np.random.default_rng(5).integers(0, 100, shape)
    if np.dtype(dtype).names is None:
        return (
            numbers % 2 if np.dtype(dtype) == bool else numbers * (1 + 1j) if "c" in str(dtype) else numbers
        ).astype(dtype)
    stars = np.zeros(shape, dtype)
    stars["mass"], stars["place"][..., 1], stars["state"]["bright"] = numbers, -numbers, numbers % 3 == 0
    return stars


def same(found: np.ndarray[Any, Any] | None, expected: np.ndarray[Any, Any]) -> bool:
    assert found is not None
    return found.dtype == expected.dtype and found.shape == expected.shape and bool((found == expected).all())


@on_ranks
@on_nodes
@pytest.mark.parametrize("ending", ENDINGS)
def test_all_types_come_back(world: gw.Team, tmp_path: Path, ending: str) -> None:
    cells = {f"a{index}": whole((5, 7), dtype) for index, dtype in enumerate([*DTYPES, STAR])}
    arrays = {
        name: gw.from_numpy(data, ghost=index % 3, order="CF"[index % 2])
        for index, (name, data) in enumerate(cells.items())
    }
    cells["few"], cells["shifted"] = np.arange(2.0), whole((4, 3, 2), "f4")
    arrays["few"] = gw.from_numpy(cells["few"])
    arrays["shifted"] = gw.from_numpy(cells["shifted"], gw.RectDomain((-2, 5, 0), (2, 8, 2)))
    cells["view"] = cells["a10"][1:5:2, 3]
    saved = gw.save(tmp_path / f"all{ending}", **arrays, view=arrays["a10"][1:5:2, 3])
    found = gw.load(saved)
    assert sorted(found) == sorted(cells)
    for name, expected in cells.items():
        assert same(found[name].to_numpy(), expected), name
    assert found["shifted"].domain == arrays["shifted"].domain
    again = gw.load(saved, like=arrays)
    for name, array in arrays.items():
        assert same(again[name].to_numpy(), cells[name]), name
        assert again[name].layout == array.layout


@on_ranks
@on_nodes
@pytest.mark.parametrize("ending", ENDINGS)
def test_any_division_comes_back_in_any_other(world: gw.Team, tmp_path: Path, ending: str) -> None:
    random = np.random.default_rng(3)
    for case in range(6):
        shape = tuple(int(n) for n in random.integers(1, 9, size=random.integers(1, 4)))
        data = whole(shape, "f8")
        layouts = []
        for order in "CF":
            grid = list(gw.Layout.divide(shape, world.size).grid)
            random.shuffle(grid)
            cuts = []
            for extent, blocks in zip(shape, grid, strict=True):
                ends = sorted(int(end) for end in random.integers(0, extent + 1, size=blocks - 1))
                cuts.append([after - before for before, after in itertools.pairwise([0, *ends, extent])])
            layouts.append(gw.Layout.divide(shape, world.size, cuts=cuts, order=order))
        array = gw.empty(layouts[0])
        array.local.copy_from(gw.Array(data))
        saved = gw.save(tmp_path / f"case{case}{ending}", T=array)
        for like in (None, layouts[0], layouts[1], {"T": layouts[1]}):
            assert same(gw.load(saved, like=like)["T"].to_numpy(), data), (shape, layouts)


@on_ranks
def test_no_chunk_is_written_by_two_ranks(world: gw.Team) -> None:
    for shape, cuts in (((10,), None), ((7, 9), None), ((64, 6), None), ((100, 100), None)):
        array = gw.zeros(shape, cuts=cuts)
        for source in (array, array[1 : shape[0] - 1, ...]):
            chunks, target = zarr_files.chunks_of(source), zarr_files._aligned(source)
            for rank in range(world.size):
                part = target.part(rank)
                for axis, extent in enumerate(source.shape) if not part.is_empty else ():
                    assert part.lo[axis] % chunks[axis] == 0
                    assert part.hi[axis] % chunks[axis] == 0 or part.hi[axis] == extent
    even = gw.zeros((12 * world.size, 5), ghost=1)
    assert zarr_files._aligned(even) is even
    assert zarr_files.chunks_of(even) == (12, 5)


@on_ranks
@on_nodes
@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_of_ranks_come_back(world: gw.Team, tmp_path: Path, ending: str) -> None:
    rank, size = world.rank, world.size
    of_rank = [np.resize(whole((5,), STAR), (3 * other + 1) % 4 * other) for other in range(size)]
    for other, rows in enumerate(of_rank):
        rows["state"]["age"] = 100 * other + np.arange(len(rows))
    pairs = np.full((rank + size % 2, 2), rank, "f4")  # perhaps none on rank 0
    none = np.empty((0, 3), "i2")
    saved = gw.save(tmp_path / f"rows{ending}", stars=of_rank[rank], pairs=pairs, none=none, T=gw.ones(4))
    found = gw.load(saved)
    assert same(found["stars"], of_rank[rank])
    assert same(found["pairs"], pairs)
    assert same(found["none"], none)
    # Fewer ranks: all rows, in their order, about as many on each.
    fewer = world.split(0 if rank < max(1, size - 1) else 1)
    if rank < max(1, size - 1):
        own = gw.load(saved, team=fewer)
        every = b"".join(fewer.allgather(own["stars"].tobytes()))
        assert every == np.concatenate(of_rank).tobytes()
        assert own["T"].to_numpy().sum() == 4
        lengths = fewer.allgather(len(own["stars"]))
        assert size == 1 or max(lengths) - min(lengths) <= 1
    world.barrier()


@on_ranks
@on_nodes
def test_rows_of_ranks_in_checkpoints(world: gw.Team, tmp_path: Path) -> None:
    rank, size = world.rank, world.size
    flags = gw.from_numpy(whole((9,), "?"))
    stars = np.resize(whole((5,), STAR), 2 * rank)
    none = np.empty((0, 3))
    checkpoint.save(tmp_path / "c.bp", {"flags": flags, "stars": stars, "none": none}, step=3)
    into = {"flags": gw.zeros(9, bool), "stars": np.empty(0, STAR), "none": none}
    found = checkpoint.load(tmp_path / "c.bp", into)
    assert same(into["flags"].to_numpy(), whole((9,), "?"))
    assert same(found.rows["stars"], stars)
    assert same(found.rows["none"], none)
    assert same(gw.load(tmp_path / "c.bp")["stars"], stars)
    for name, rows, message in (
        ("stars", np.empty(0, "f8"), "'stars' has type .* and float64 in this run: use the same precision"),
        ("none", np.empty((0, 2)), r"'none' has rows of shape \(3,\) in c.00000003.bp, and rows of shape \(2,\)"),
        ("flags", np.empty(0), "'flags' has no rows of ranks in c.00000003.bp"),
    ):
        with pytest.raises(UsageError, match=message):
            checkpoint.load(tmp_path / "c.bp", {name: rows})
    if size > 1:
        with pytest.raises(UsageError, match=r"the ranks of .* make different rows of ranks: stars is "):
            checkpoint.save(tmp_path / "c.bp", {"stars": np.empty(0, "f4" if rank else "f8")}, step=4)


@on_ranks
@on_nodes
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_error_of_one_rank_is_that_of_all_and_leaves_the_earlier_file(
    world: gw.Team, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = gw.save(tmp_path / f"run{ending}", T=gw.ones((8, 8)))

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    if ending == ".bp":
        monkeypatch.setattr("gondwana.io.staging.BPWriter.put", full)
    elif ending == ".zarr":
        if world.rank == world.size - 1:
            monkeypatch.setattr(zarr_files, "_write_chunks", full)
    else:
        monkeypatch.setattr(contents, "slabs", full)
    with pytest.raises(GondwanaError, match="No space left on device") as caught:
        gw.save(tmp_path / f"run{ending}", T=gw.zeros((8, 8)))
    failed = world.rank == (world.size - 1 if ending == ".zarr" else 0)
    assert isinstance(caught.value, DatasetError) or not failed
    monkeypatch.undo()
    world.barrier()
    assert os.listdir(tmp_path) == [saved.name]
    assert gw.load(saved)["T"].to_numpy().sum() == 64


@on_ranks
def test_arguments_are_checked_on_all_ranks_before_anything_is_written(world: gw.Team, tmp_path: Path) -> None:
    t, rank = gw.ones((3, 4)), world.rank
    cases: list[tuple[Any, str]] = [
        (lambda: gw.save(tmp_path / "a.txt", T=t), r"does not say a format: end the name in \.zarr, \.h5"),
        (lambda: gw.save(tmp_path / "a.h5"), r"no arrays: give them by name, as in gw\.save\(path, T=T\)"),
        (lambda: gw.save(tmp_path / "a.h5", T=t.local), "'T' is Array.*give a global array of the ranks of team="),
        (lambda: gw.save(tmp_path / "a.h5", **{"a/b": t}), "an array is named 'a/b'"),
        (lambda: gw.save(tmp_path / "a.h5", T=np.float64(3)), "numbers and texts are attributes"),
        (lambda: gw.save(tmp_path / "a.h5", T=np.array(3.0)), "'T' is a single number"),
        (lambda: gw.save(tmp_path / "a.h5", T=np.zeros(3, "f2")), "float16 is not possible"),
        (lambda: gw.save(tmp_path / "a.h5", T=t, step=-1), "step = -1: give a whole number"),
        (lambda: gw.save(tmp_path / "a.h5", T=t, attributes={"a": None}), "the attribute 'a' is None: give a text"),
        (lambda: gw.save(tmp_path / "a.h5", T=t, attributes={"a": [[1], [2, 3]]}), "the attribute 'a' is"),
        (lambda: gw.save(tmp_path / "a.h5", T=t, attributes={"a": []}), "the attribute 'a' is"),
        (lambda: gw.save(tmp_path / "a.h5", T=t, attributes={"gondwana_x": 1}), "an attribute is named 'gondwana_x'"),
        (lambda: gw.load(tmp_path / "a.h5"), r"there is no \.h5 file .*a\.h5, nor one like a\.00000700\.h5"),
        (lambda: gw.load(tmp_path / "a.h5", step=5), r"there is no \.h5 file .*a\.00000005\.h5"),
    ]
    if world.size > 1:
        cases += [
            (lambda: gw.save(tmp_path / f"{rank}.h5", T=t), "make different files: path is"),
            (lambda: gw.save(tmp_path / "a.h5", **({"T": t} if rank else {"U": t})), "make different files: arrays is"),
            (lambda: gw.save(tmp_path / "a.h5", T=t, step=rank), "make different files: step is 0 on rank 0 and 1"),
            (lambda: gw.save(tmp_path / "a.h5", T=np.zeros(2, "f4" if rank else "f8")), "make different rows of ranks"),
        ]
    for act, message in cases:
        with pytest.raises(UsageError, match=message):
            act()
    world.barrier()
    assert os.listdir(tmp_path) == []
    saved = gw.save(tmp_path / "a.h5", T=t, p=np.zeros(2))
    for act, message in (
        (lambda: gw.load(saved, like={"U": t}), r"a\.h5 has no array 'U'"),
        (lambda: gw.load(saved, like={"T": gw.zeros((4, 4))}), r"'T' has shape \(3, 4\) in .*, and like has \(4, 4\)"),
        (lambda: gw.load(saved, like={"p": gw.zeros(2 * world.size)}), r"'p' has rows of ranks, of shape"),
        (lambda: gw.load(saved, like=3), r"like=3: give a global array of the ranks"),
    ):
        with pytest.raises(UsageError, match=message):
            act()
    assert gw.load(saved, like=gw.zeros((4, 4)))["T"].to_numpy().sum() == 12


@on_ranks
@on_nodes
def test_large_arrays_are_gathered_in_slabs(world: gw.Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_SLAB", 100)
    monkeypatch.setattr(zarr_files, "_CHUNK", 100)
    data = whole((6, 5, 7), "f4")
    for grid in {gw.Layout.divide(data.shape, world.size).grid, (1, world.size, 1)}:
        array = gw.from_numpy(data, grid=grid, ghost=1)
        boxes = [cells.nbytes for _, cells in contents.slabs(array)]
        assert max(boxes) <= 100
        assert sum(boxes) == data.nbytes
        world.barrier()
        for ending in (".h5", ".zarr"):
            assert same(gw.load(gw.save(tmp_path / f"s{ending}", T=array))["T"].to_numpy(), data)
    with h5py.File(tmp_path / "s.h5") as file:
        assert same(file["T"][:], data)
    assert same(zarr.open_group(tmp_path / "s.zarr", mode="r")["T"][:], data)
    world.barrier()


@pytest.mark.ranks(1, 2, 3, 4, 6)
@on_nodes
def test_the_example(
    world: gw.Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (jobs.ROOT / "examples" / "own_files.py").read_text(encoding="utf-8")
    assert len(code_lines(source)) <= 10
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "own_files.py", "exec"), names)
    saved, field = names["saved"], names["T"]
    assert saved["T"].grid == field.grid
    assert (saved["T"].values == field.values).all()
    assert (saved["particles"] == names["particles"]).all()
    rows = sum(10 * rank + 5 for rank in range(world.size))
    mean = np.fromfunction(lambda x, y: np.sin(x / 8) + np.cos(y / 6), (96, 64)).mean()
    expected = f"0.1 {mean:.3f} {1.5 * rows}\n" if world.rank == 0 else ""
    assert capsys.readouterr().out == expected
    world.barrier()
