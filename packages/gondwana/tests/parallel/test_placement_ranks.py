"""`gondwana run --bind` and `--ranks-per-node`: what Linux says of the cores of the ranks and of their threads."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gondwana.cli import launch
from gondwana.runtime.placement import topology
from gondwana.runtime.placement.binding import Bind
from support import jobs, two_hosts

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "placement_masks.py"
ALLOWED = sorted(os.sched_getaffinity(0))


def run(*words: str, python: str | Path = sys.executable, **settings: Any) -> jobs.Outcome:
    return jobs.run_command([str(python), "-m", "gondwana.cli.main", "run", *words], **settings)


def ranks_of(outcome: jobs.Outcome) -> list[dict[str, Any]]:
    """What the ranks have printed, in their order."""
    assert outcome.status == 0, str(outcome)
    return sorted((json.loads(line) for line in outcome.stdout.splitlines()), key=lambda found: found["rank"])


def cores_of(masks: Sequence[str]) -> list[set[int]]:
    return [set(topology.parse(mask)) for mask in masks]


def need_two_cores() -> None:
    if len(ALLOWED) < 2:
        pytest.skip("two threads with a core each need two cores")


def test_each_thread_has_a_core() -> None:
    need_two_cores()
    outcome = run("-t", "2", "--bind", "core", str(PROGRAM), "processes")
    (found,) = ranks_of(outcome)
    first, second = cores_of([found["masks"][name] for name in ("MainThread", "gondwana-1")])
    assert first
    assert second
    assert not first & second
    both = first | second
    assert both <= set(ALLOWED)
    # What the program has started by itself is not bound to the core of the thread that started it.
    assert cores_of([found["at_start"], found["masks"]["gondwana-progress"]]) == [both, both]
    assert set(found["worker"]) == both
    assert cores_of([found["forked"]]) == [first]
    assert all(cores <= both for cores in cores_of(found["all"]))
    assert found["placement"] == {
        "pattern": "2x1x1",
        "simulated": False,
        "bind": "core",
        "cores": [topology.shown(both)],
    }
    assert outcome.stderr.splitlines()[0] == "gondwana: placement 2x1x1: threads x ranks x nodes, --bind core"


def bind_with_a_thread() -> None:
    import os
    import threading

    from gondwana.runtime import cores

    ended = threading.Event()
    other = threading.Thread(target=ended.wait)  # as a library that was imported may have started
    other.start()
    cores.bind([frozenset({min(cores.own())})])
    print(*sorted(len(os.sched_getaffinity(int(task))) for task in os.listdir("/proc/self/task")))
    ended.set()


def test_threads_that_run_already_are_bound_too() -> None:
    need_two_cores()
    outcome = jobs.run_ranks(1, bind_with_a_thread)
    assert outcome.status == 0, str(outcome)
    masks = outcome.stdout.split()
    assert len(masks) >= 2
    assert set(masks) == {"1"}


def check_two_ranks(outcome: jobs.Outcome) -> None:
    """Each has a core of its own, for all its threads, and rank 0 prints where they are."""
    ranks = ranks_of(outcome)
    first, second = (set().union(*cores_of(found["all"])) for found in ranks)
    assert first
    assert second
    assert not first & second
    assert first | second <= set(ALLOWED)
    shown = [topology.shown(first), topology.shown(second)]
    for found in ranks:
        assert found["placement"] == {"pattern": "1x2x1", "simulated": False, "bind": "core", "cores": shown}
    host = ranks[0]["host"]
    assert [line.split()[1:] for line in outcome.stderr.splitlines() if line.startswith("gondwana:")][1:] == [
        ["node", "rank", "threads", "cores"],
        [host, "0", "1", shown[0]],
        [host, "1", "1", shown[1]],
    ]


def test_each_rank_has_a_core() -> None:
    need_two_cores()
    check_two_ranks(run("-n", "2", "-t", "1", "--ranks-per-node", "2", "--bind", "core", str(PROGRAM)))


def test_each_rank_of_mpich_has_a_core(mpich_python: Path) -> None:
    need_two_cores()
    check_two_ranks(
        run("-n", "2", "-t", "1", "--ranks-per-node", "2", "--bind", "core", str(PROGRAM), python=mpich_python)
    )


@pytest.mark.parametrize("bind", [Bind.socket, Bind.numa])
def test_the_threads_of_a_rank_share_a_part_of_the_host(bind: Bind) -> None:
    described = [getattr(core, bind) for core in topology.read(ALLOWED).cores]
    if None in described:
        pytest.skip(f"this host does not describe its parts: {bind}")
    outcome = run("-n", "2", "-t", "2", "--bind", bind, str(PROGRAM))
    for rank, found in enumerate(ranks_of(outcome)):
        (mask,) = cores_of(found["all"])
        assert mask <= set(ALLOWED)
        if len(set(described)) == 1:
            assert mask == set(ALLOWED)
        assert found["placement"]["cores"][rank] == topology.shown(mask)
        assert found["placement"]["pattern"] == "2x2x1"


def test_unbound_ranks_have_all_cores_and_simulated_nodes_are_named() -> None:
    words = ["-n", "2", "-t", "1", "--ranks-per-node", "1", "--bind", "none", str(PROGRAM)]
    outcome = run(*words, variables={"GONDWANA_RANKS_PER_NODE": "1"})
    for rank, found in enumerate(ranks_of(outcome)):
        assert cores_of(found["all"]) == [set(ALLOWED)]
        assert found["node"] == rank
        assert found["placement"]["pattern"] == "1x1x2"
        assert found["placement"]["simulated"]
    assert "gondwana: placement 1x1x2: threads x ranks x nodes (simulated), --bind none\n" in outcome.stderr


def test_nothing_outside_the_set_of_cores_that_the_job_was_given() -> None:
    if shutil.which("taskset") is None:
        pytest.skip("no taskset")
    last = str(ALLOWED[-1])
    given = ["taskset", "--cpu-list", last, sys.executable, "-m", "gondwana.cli.main", "run", "--bind", "core"]
    (found,) = ranks_of(jobs.run_command([*given, "-t", "1", str(PROGRAM)]))
    assert found["all"] == [last]
    refused = jobs.run_command([*given, "-n", "2", "-t", "1", str(PROGRAM)])
    assert refused.status == 2
    assert refused.stderr == (
        "gondwana: error: --bind core: 2 cores are needed for 2 ranks of 1 thread on a host, but this job may use 1 "
        f"({last}); give fewer ranks (-n) or threads (-t), or --bind none\n"
    )


@pytest.mark.parametrize(
    ("value", "reason"), [("core", f"{2 * len(ALLOWED)} cores are needed for 2 ranks"), ("moon", "legal are core")]
)
def test_ranks_that_cannot_be_bound_end_with_one_line(value: str, reason: str) -> None:
    """What the launching process could not see, or was not asked."""
    program = ["-P", "-m", "gondwana.cli.rank", str(PROGRAM)]
    command = launch.command(2, program, threads=len(ALLOWED), variables={"GONDWANA_BIND": value}, oversubscribe=True)
    outcome = jobs.run_command(command.argv, variables=command.variables)
    assert outcome.status == 2, str(outcome)
    assert outcome.stderr.count("gondwana: error: ") == 1, str(outcome)
    assert reason in outcome.stderr


def test_ranks_are_dealt_to_two_hosts() -> None:
    need_two_cores()
    outcome = two_hosts.run_two_hosts(PROGRAM, timeout=90, ranks_per_node=2, bind=Bind.core)
    ranks = ranks_of(outcome)
    assert [found["node"] for found in ranks] == [0, 0, 1, 1]
    hosts = [found["host"] for found in ranks]
    assert hosts == [hosts[0], hosts[0], hosts[2], hosts[2]]
    masks = [found["all"] for found in ranks]
    assert masks[:2] == masks[2:]
    assert masks[0] != masks[1]
    for found in ranks:
        assert found["placement"]["pattern"] == "1x2x2"
        assert found["placement"]["simulated"]  # by one machine
    assert "gondwana: placement 1x2x2: threads x ranks x nodes (simulated), --bind core\n" in outcome.stderr
