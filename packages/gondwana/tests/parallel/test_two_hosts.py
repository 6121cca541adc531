"""Two ranks on two hosts: network namespaces of this machine, made for the job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import jobs, two_hosts

pytestmark = pytest.mark.parallel

PROGRAMS = {
    name: Path(__file__).parent / "programs" / f"{name}.py" for name in ("two_host_checks", "two_host_array_checks")
}
NAMES = [(program, name) for program, file in PROGRAMS.items() for name in jobs.check_names(file)]


@jobs.once
def reports(program: str) -> dict[str, list[str]]:
    variables = {"PYTHONPATH": str(Path(jobs.__file__).parents[1])}
    return jobs.by_check(two_hosts.run_two_hosts(PROGRAMS[program], "--ranks", "2", timeout=200, variables=variables))


@pytest.mark.parametrize(("program", "name"), NAMES)
def test_two_hosts(program: str, name: str) -> None:
    problems = reports(program)[name]
    assert not problems, "\n".join(problems)


def test_the_roll_call_reaches_the_other_host() -> None:
    program = """
import os, signal, time
from gondwana.teams import world

def first():
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(600)

def second():
    time.sleep(600)

world.barrier()
(second if world.rank else first)()
"""
    outcome = two_hosts.run_two_hosts(program, timeout=90, variables={"GONDWANA_TIME_LIMIT": "8"})
    assert outcome.status == 124, str(outcome)
    for reason in ("signal SIGUSR1 to rank 0", "the time limit of 8 s is over"):
        assert f"({reason}):" in outcome.stderr, str(outcome)
    # The launcher writes lines of its own between those of a report.
    assert outcome.stderr.count("rank 0 in first (<string>:7); rank 1 in second (<string>:10)") == 2, str(outcome)


PLACES = """
import os, platform
import gondwana as gw
places = gw.world.gather((platform.node(), os.environ["GONDWANA_TRIAL"], gw.world.node.size))
print(places if gw.world.rank == 0 else "", end="")
"""


OF_SCHEDULERS = "PBS_NODEFILE", "LSB_DJOB_HOSTFILE"
LISTS = [
    *(pytest.param(variable, "", id=variable) for variable in OF_SCHEDULERS),
    pytest.param("HYDRA_HOST_FILE", "mpich_python", id="HYDRA_HOST_FILE"),
    *(
        pytest.param(variable, python, id=f"{variable}-{python}", marks=pytest.mark.more)
        for python, variables in (
            ("mpich_python", OF_SCHEDULERS),
            ("intel_python", (*OF_SCHEDULERS, "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE")),
        )
        for variable in variables
    ),
]


@pytest.mark.parametrize(("variable", "other"), LISTS)
def test_the_hosts_in_a_list_are_used(variable: str, other: str, request: pytest.FixtureRequest) -> None:
    python = request.getfixturevalue(other) if other else sys.executable
    with two_hosts.pair() as two:
        (two.folder / "places.py").write_text(PLACES)
        variables = {**two.reached(variable), "GONDWANA_TRIAL": "here"}
        words = [str(python), "-P", "-m", "gondwana.cli.main", "run", "-n", "2", "--ranks-per-node", "1", "places.py"]
        outcome = jobs.run_command([*two.first.enter(two.folder), *words], variables=variables)
    assert (outcome.status, two_hosts.complaints(outcome)) == (0, ""), str(outcome)
    names = [f"gw{letter}-{os.getpid()}" for letter in "ab"]
    assert outcome.stdout == str([(name, "here", 1) for name in names]), str(outcome)


def of_hosts() -> list[str]:
    """Links of the network, mounts and processes of this process's hosts that can be seen from here."""
    name = f"gwa-{os.getpid()}"
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout.splitlines()
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    words = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in (*links, *mounts, *words) if name in line or ": gw" in line]


def test_the_hosts_go_even_if_the_job_hangs() -> None:
    if (reason := two_hosts.missing()) is not None:
        pytest.skip(reason)
    program = "import time; from gondwana.teams import world; world.barrier(); time.sleep(600)"
    started = time.monotonic()
    with pytest.raises(AssertionError, match="still running"):
        two_hosts.run_two_hosts(program, timeout=5, variables={"GONDWANA_TIME_LIMIT": "300"})
    assert time.monotonic() - started < 30
    assert of_hosts() == []
