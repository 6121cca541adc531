"""The benchmark of tasks: every case and rival runs, and gives a row with all figures."""

from __future__ import annotations

import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.results import units_of
from gondwana_bench.cli.bench.options import case_names
from gondwana_bench.tasks import cases, durations


@pytest.mark.usefixtures("c_compiler")
def test_every_case_gives_a_row_for_each_rival() -> None:
    rows = list(durations.measure(gw.world, names=None, repeat=1, batch_seconds=1e-4))
    expected = [(case.name, rival) for case in cases.of_one_rank() for rival in list(case.rivals) or [None]]
    assert [(row["case"], row["rival"]) for row in rows] == expected
    assert all(row["ours_us"] > 0.0 for row in rows)
    assert all((row["ratio"] is None) == (row["rival"] is None) for row in rows)
    assert all(set(durations.COLUMNS) <= set(row) for row in rows)
    chosen = durations.measure(gw.world, names=["peek"], repeat=1, batch_seconds=1e-4)
    assert [row["case"] for row in chosen] == ["channel peek"]
    with pytest.raises(UsageError, match="--cases chanel: no case has that in its name; there are task create"):
        list(durations.measure(gw.world, names=["peek", "chanel"], repeat=1, batch_seconds=1e-4))


def test_rates_are_all_calls_over_all_their_time() -> None:
    case = cases.Case("task", 0.5, cases._create, {"rival": cases._greenlet_create})
    [row] = durations.rows(case, {"ours": [1e-6, 3e-6], "rival": [4e-6, 4e-6]}, {"ours": 3e-6, "rival": 5e-6})
    assert (row["ours_per_s"], row["rival_per_s"]) == (pytest.approx(5e5), pytest.approx(2.5e5))
    assert units_of("tasks", [row])["ours_per_s"] == "1/s"
    assert (row["processor_us"], row["rival_processor_us"]) == (pytest.approx(3.0), pytest.approx(5.0))


@pytest.mark.parametrize("collective", [False, True])
def test_processor_time_is_that_of_the_timed_batches(collective: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    worked = [0.0]
    monkeypatch.setattr(durations, "_worked", lambda: worked[0])

    def variant(calls: int) -> float:
        worked[0] += 2e-3 * calls + 1.0 / calls**2  # what the first calls take is in small batches
        return 1e-3 * calls

    case = cases.Case("task", None, variant, {"rival": variant}, collective)
    _, processor = durations.sample(case, gw.world, repeat=3, batch_seconds=0.1)
    assert processor == {"ours": pytest.approx(2e-3, rel=1e-3), "rival": pytest.approx(2e-3, rel=1e-3)}


def test_parts_of_names_are_those_of_all_options() -> None:
    assert case_names(["null, 1 ms", "start"]) == ["null", "1 ms", "start"]
    assert case_names(None) is None
    with pytest.raises(UsageError, match="--cases null,,: legal are parts of names"):
        case_names(["null", ","])


@pytest.mark.usefixtures("c_compiler")
def test_rivals_in_c_refuse_work_that_was_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases.build, "library", lambda *_: _Lazy())
    lazy = cases._library()
    with pytest.raises(RuntimeError, match="threads_create_join"):
        lazy["threads"](3)
    with pytest.raises(RuntimeError, match="threads_create"):
        lazy["thread"](3)
    with pytest.raises(RuntimeError, match="queue_take"):
        lazy["take"](3)


class _Lazy:
    """A library whose functions do nothing."""

    def __init__(self) -> None:
        self.tasks_ran = _Constant(0)

    def __getitem__(self, name: str) -> _Constant:
        return _Constant(-1.0 if name == "queue_take" else 1e-6)


class _Constant:
    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, *_: int) -> float:
        return self.value
