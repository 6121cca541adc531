"""An array that a collective function has made has its values on all ranks, as soon as one rank returns from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw

pytestmark = pytest.mark.parallel

CELLS = np.arange(1.0, 25.0).reshape(12, 2)
MAKERS: dict[str, Callable[[gw.GlobalArray], gw.GlobalArray]] = {
    "full": lambda a: gw.full(a.shape, CELLS[-1, -1]),
    "full_like": lambda a: gw.full_like(a, CELLS[-1, -1]),
    "from_numpy": lambda a: gw.from_numpy(CELLS, ghost=1),
    "from_function": lambda a: gw.from_function(lambda x, y: 2 * x + y + 1, a.shape),
    "scatter": lambda a: gw.scatter(CELLS if a.team.rank == 0 else None, like=a),
    "array of an array": lambda a: gw.array(a),
    "array of a view": lambda a: gw.array(a[1:, :]),
    "array of an expression": lambda a: gw.array(a + 0),
    "array of a view of an expression": lambda a: gw.array(a[1:, :] + 0),
    "copy": lambda a: a.copy(),
    "rebalance": lambda a: a.rebalance([range(12), None]),
    "fft": lambda a: gw.fft.ifftn(gw.fft.fftn(a)),
}


def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this rank late in all that it does with the memory of an array."""
    reach = gw.GlobalArray._peek

    def slowly(array: gw.GlobalArray, rank: int) -> Any:
        time.sleep(0.05)
        return reach(array, rank)

    monkeypatch.setattr(gw.GlobalArray, "_peek", slowly)


@pytest.mark.ranks(2, 3)
@pytest.mark.ranks(2, ranks_per_node=1)
@pytest.mark.parametrize("maker", MAKERS)
def test_any_rank_reads_any_cell_of_a_new_array(world: gw.Team, monkeypatch: pytest.MonkeyPatch, maker: str) -> None:
    source = gw.from_numpy(CELLS)
    if world.rank == world.size - 1:
        late(monkeypatch)
    made = MAKERS[maker](source)
    assert made[tuple(hi - 1 for hi in made.domain.hi)] == pytest.approx(CELLS[-1, -1])
    world.barrier()


@pytest.mark.ranks(2, 3)
@pytest.mark.ranks(2, ranks_per_node=1)
def test_a_value_that_another_rank_puts_into_a_new_array_stays(world: gw.Team, monkeypatch: pytest.MonkeyPatch) -> None:
    if world.rank == world.size - 1:
        late(monkeypatch)
    found = gw.full(12, 1.0)
    if world.rank == 0:
        found[11] = 5.0
    world.barrier()
    assert found[11] == 5
    assert found.sum() == 16


@pytest.mark.ranks(2, 3)
@pytest.mark.ranks(2, ranks_per_node=1)
@pytest.mark.parametrize("ending", [".h5", ".nc", ".zarr", ".bp"])
def test_rows_of_a_late_rank_are_saved(
    world: gw.Team, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ending: str
) -> None:
    pytest.importorskip({".zarr": "zarr", ".bp": "adios2"}.get(ending, "h5py"))
    rows = np.full((world.rank + 1, 2), world.rank + 1.0)
    if world.rank == world.size - 1:
        late(monkeypatch)
    saved = gw.save(tmp_path / f"rows{ending}", rows=rows)
    monkeypatch.undo()
    assert (gw.load(saved)["rows"] == rows).all()
