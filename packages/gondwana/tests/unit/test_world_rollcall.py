"""The text of a roll call, and what the environment says about the launcher."""

from __future__ import annotations

import pytest

import gondwana as gw
from gondwana.runtime import launcher
from gondwana.runtime.watching.rollcall import name_ranks, roll_call

START = [("<module>", "/home/u/prog.py", 3)]
WAIT = [*START, ("exchange", "/home/u/halo.py", 41)]
WORK = [*START, ("solve", "/home/u/prog.py", 12)]


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
    assert "rank 2 did not answer" in roll_call("r", {0: WAIT, 1: WAIT, 2: None})
    assert "look at rank 2" in roll_call("r", {0: WAIT, 1: WAIT, 2: None})


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
