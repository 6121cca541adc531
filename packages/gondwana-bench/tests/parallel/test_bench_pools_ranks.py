"""`gondwana bench pools`: pools of both forms run beside their rivals, each in a program of its own."""

from __future__ import annotations

from functools import partial

import pytest

from gondwana.errors import UsageError
from gondwana_bench.cli.bench.options import official
from gondwana_bench.pools import uses
from gondwana_bench.pools.programs import Program

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there")]

_native = partial(official, None)
USES = ("call", "each", "batched", "work")


@pytest.mark.parametrize("name", ["ours in a job", "multiprocessing.Pool", "MPIPoolExecutor"])
def test_a_pool_performs_every_use(name: str) -> None:
    with Program(name, 1, _native) as program:
        assert all(min(program.ask(what, 20)) > 0.0 for what in USES)
        assert program.ask("work", 20)[0] > 1e-3  # the tasks were done, one after the other
        with pytest.raises(UsageError, match=f"{name} does not answer: .*misuse"):
            program.ask("misuse", 1)


def test_starts_are_timed_twice_in_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses, "STARTED", 1)
    monkeypatch.setitem(uses.RIVALS, "ours", ("ProcessPoolExecutor",))
    rows = list(uses.measure(_native, print, cases=["first start"], repeat=1))
    assert [(row["case"], row["name"], row["rival"]) for row in rows] == [
        (case, "ours", "ProcessPoolExecutor") for case in uses.STARTS
    ]
    assert all(0.0 < row["ours"] < 60.0 and row["unit"] == "s" for row in rows)
