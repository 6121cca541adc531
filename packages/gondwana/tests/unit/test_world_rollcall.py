"""The text of a roll call, and what the environment says about the launcher."""

from __future__ import annotations

import pytest

import gondwana as gw
from gondwana.runtime import launcher
from gondwana.runtime.watching import waits
from gondwana.runtime.watching.deadlock import explain
from gondwana.runtime.watching.rollcall import Stand, name_ranks, roll_call
from gondwana.runtime.watching.waits import Wait

START = [("<module>", "/home/u/prog.py", 3)]
WAIT = Stand([*START, ("exchange", "/home/u/halo.py", 41)])
WORK = Stand([*START, ("solve", "/home/u/prog.py", 12)])
SILENT = Stand([])
END = Wait("", waits.END)


def test_the_odd_one_out_is_named() -> None:
    text = roll_call("a reason", {0: WAIT, 1: WORK, 2: WAIT, 3: WAIT})
    assert text.splitlines()[:2] == [
        "gondwana: where the ranks stand (a reason):",
        "  ranks 0, 2, 3 in exchange (halo.py:41); rank 1 in solve (prog.py:12): look at rank 1",
    ]
    assert text.count("<module> (/home/u/prog.py:3)") == 2


def test_nobody_is_odd_if_all_agree_or_half_do() -> None:
    assert "look at" not in roll_call("r", {0: WAIT, 1: WAIT})
    assert "look at" not in roll_call("r", {0: WAIT, 1: WORK})


def test_silent_ranks_are_named() -> None:
    assert "rank 2 did not answer" in roll_call("r", {0: WAIT, 1: WAIT, 2: SILENT})
    assert "look at rank 2" in roll_call("r", {0: WAIT, 1: WAIT, 2: SILENT})


def test_what_a_rank_waits_for_is_named_beside_its_place() -> None:
    waiting = WAIT._replace(wait=received(1))
    lines = roll_call("r", {0: waiting, 1: WORK}, "Send it.").splitlines()
    assert lines[1].startswith("  rank 0 in exchange (halo.py:41) waits for a message from rank 1; rank 1 in solve")
    assert lines[2] == "  Send it."
    assert Stand.read([[["f", "g", 1]], ["for x", "signal", [1], 8, 2]]) == Stand(
        [("f", "g", 1)], Wait("for x", "signal", (1,), 8, 2)
    )


def received(rank: int | None, tag: int | None = None) -> Wait:
    return waits.of_message(waits.RECEIVE, (0, 1, 2, 3), rank, tag)


def sent(rank: int, tag: int = 0) -> Wait:
    return waits.of_message(waits.SEND, (0, 1, 2, 3), rank, tag)


def meeting(rank: int, name: str = "a barrier") -> Wait:
    return waits.of_collective(name, ("world", rank, (0, 1, 2)))


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        ({0: received(1), 1: received(0)}, "deadlock: ranks 0, 1 wait for each other"),
        ({0: received(1, 3), 1: sent(0, 4)}, "deadlock: ranks 0, 1 wait for each other"),
        ({0: received(1, 3), 1: sent(0, 3)}, None),
        ({0: received(None), 1: sent(0, 3), 2: received(0)}, None),
        ({0: received(1), 1: received(2), 2: received(1)}, "deadlock: ranks 1, 2 wait for each other"),
        ({0: meeting(0), 1: meeting(1), 2: received(0)}, "deadlock: ranks 0, 2 wait for each other"),
        ({0: meeting(0), 1: meeting(1), 2: meeting(2)}, None),
        ({0: meeting(0), 1: meeting(1), 2: meeting(2, "Bcast")}, "deadlock: ranks 0, 2 wait for each other"),
        ({0: END, 1: received(0)}, "rank 1 waits for rank 0, which has finished"),
        ({0: END, 1: END, 2: received(None), 3: received(2)}, "ranks 2, 3 wait for ranks 0, 1, which have finished"),
        ({0: END, 1: received(2), 2: received(1)}, "deadlock: ranks 1, 2 wait for each other"),
        ({0: received(None), 1: received(None)}, "deadlock: ranks 0, 1 wait for what no rank is left to do"),
        ({0: END, 1: END}, None),
    ],
)
def test_who_waits_for_whom(waiting: dict[int, Wait], reason: str | None) -> None:
    found = explain(waiting)
    assert (None if found is None else found.reason) == reason


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([1], "rank 1"), ([0, 1], "ranks 0, 1"), ([0, 2, 3], "ranks 0, 2, 3"), ([*range(7), 8], "ranks 0-6, 8")],
)
def test_ranks_in_words(ranks: list[int], text: str) -> None:
    assert name_ranks(ranks) == text


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, None),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8"}, (5, 8, False)),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "PMIX_RANK": "5"}, (5, 8, True)),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "3", "PMI_RANK": "0", "PMI_SIZE": "3"}, (0, 3, True)),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "PMI_RANK": "3", "PMI_SIZE": "4"}, (3, 4, True)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "2"}, (2, 4, True)),
        ({"PMI_RANK": "1", "PMI_SIZE": "3"}, (1, 3, True)),
        (
            {"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"}
            | {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"},
            (1, 4, True),
        ),
        ({"PALS_RANKID": "7"}, (7, None, True)),
        ({"PALS_RANKID": "7", "PMI_RANK": "7", "PMI_SIZE": "9"}, (7, 9, True)),
        ({"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2"}, (0, 2, True)),
    ],
)
def test_launchers_are_recognised(environment: dict[str, str], expected: tuple[int, int | None, bool] | None) -> None:
    launch = launcher.detect(environment)
    assert (launch and (launch.rank, launch.size, launch.wired)) == expected


def test_a_program_knows_its_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_STEP_NUM_TASKS", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert gw.launched_by() is None
    monkeypatch.setenv("FLUX_TASK_RANK", "0")
    assert gw.launched_by() == "flux"
