"""Jobs in allocations of a real Slurm, on nodes that share neither processes nor memory, for an ordinary user."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import jobs
from support.cluster.hosts import CannotBuildError
from support.cluster.slurm import Cluster, slurm

pytestmark = pytest.mark.parallel

PATIENCE = 60.0
"""Seconds for what takes a moment: a loaded machine may need many of them."""

HELLO = """
import socket
import gondwana as gw
print(gw.world.rank, gw.world.size, gw.launched_by(), int(gw.world.allreduce(1)), socket.gethostname(), flush=True)
"""

COOLS = """
import time
import gondwana as gw
with gw.ProgressBar(gw.world, "cooling", 250) as bar:
    for step in range(250):
        time.sleep(0.1)
        bar.show(step + 1)
"""

SAVES = """
import numpy as np
import gondwana as gw
from gondwana.io import checkpoint

def fill(array):
    (first, second), (end, last) = array.owned.lo, array.owned.hi
    return 100.0 * np.arange(first, end)[:, None] + np.arange(second, last)

array = gw.zeros(gw.RectDomain((0, 0), (12, 5)))
expected = fill(array)
if gw.world.size == 2:
    array.local.numpy()[...] = expected
    checkpoint.save("state.bp", {"array": array}, step=3)
else:
    assert checkpoint.load("state.bp", {"array": array}).step == 3
    assert (array.local.numpy() == expected).all()
    print("as written", expected.size)
"""

STOPS = """
import os, time
import gondwana as gw
from gondwana.io.stop import StopRequest

with StopRequest() as stop:
    while (why := stop.agreed()) is None:
        open(f"running.{gw.world.rank}", "w").close()
        time.sleep(0.05)
    time.sleep(6)  # as long as a checkpoint may take: srun would have killed the ranks by now
    open(f"draft.{gw.world.rank}", "w").write(why)
    os.rename(f"draft.{gw.world.rank}", f"saved.{gw.world.rank}")
"""


SLEEPS = """
import time
import gondwana as gw
gw.world.barrier()
open(f"sleeping.{gw.world.rank}", "w").close()
time.sleep(600)
"""

KILLED = """
import os, signal
import gondwana as gw
gw.world.barrier()
if gw.world.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
gw.world.recv(1)
"""


GOES_ON = """
import os, signal, sys, time
import gondwana as gw
import gondwana.io
from gondwana.io import checkpoint

u, step = gw.zeros(gw.RectDomain((0, 0), (12, 5))), 0
last = gondwana.io.latest() if gw.restarted() else None
if last is not None:
    step = checkpoint.load(last, {"u": u}).step
    print(f"start {gw.restarted()} from step {step} on {gw.world.node_count} nodes", flush=True)
while step < 6:
    u[...] = u + 1.0
    step += 1
    if step % 2 == 0:
        checkpoint.save("saved.bp", {"u": u}, step=step)
    if step == 3 and not gw.restarted():
        open(f"running.{gw.world.rank}", "w").close()
        if sys.argv[1] == "waits":
            time.sleep(600)
        elif gw.world.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        gw.world.barrier()
total = float(u.sum())
print("total", total, flush=True)
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    try:
        with slurm() as cluster:
            yield cluster
    except CannotBuildError as error:
        pytest.skip(str(error))


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    running.run("scancel", f"--user={running.home.name}")
    wait_for(lambda: running.run("squeue", "--noheader").stdout == "", "the end of all jobs")
    wait_for(lambda: not left(running), "the end of what they have started and made", running.left)


def left(cluster: Cluster) -> list[str]:
    """What is left on hosts, but for folders of Open MPI that finds no PMIx, and of Slurm that was killed."""
    return [line for line in cluster.left() if ": ompi." not in line and ": spmix_appdir" not in line]


def wait_for(there: Callable[[], bool], what: str, seen: Callable[[], object] = str) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end, f"{what}: {seen()}"
        time.sleep(0.1)


def ranks_of(outcome: jobs.Outcome) -> list[list[str]]:
    """What the ranks say of themselves, in order."""
    assert outcome.status == 0, str(outcome)
    return sorted(line.split() for line in outcome.stdout.splitlines())


def test_an_allocation_says_how_many_ranks_there_are(cluster: Cluster) -> None:
    program = cluster.write("hello.py", HELLO)
    outcome = cluster.run("salloc", "-Q", "-N3", "gondwana", "run", program)
    assert [[*rank[:4]] for rank in ranks_of(outcome)] == [[str(rank), "3", "srun", "3"] for rank in range(3)]
    assert sorted(rank[4] for rank in ranks_of(outcome)) == ["alpha", "beta", "gamma"]
    assert outcome.stderr == "", str(outcome)
    # More ranks than cores, one rank alone, and what is in the allocation but not a part of it.
    crowded = cluster.run("salloc", "-Q", "-n1", "gondwana", "run", "-n", "2", program)
    assert [rank[:2] for rank in ranks_of(crowded)] == [["0", "2"], ["1", "2"]]
    alone = cluster.run("salloc", "-Q", "-N2", "gondwana", "run", "-n", "1", program)
    assert ranks_of(alone)[0][:2] == ["0", "1"]
    assert ranks_of(alone)[0][-1] != "login"
    assert (crowded.stderr, alone.stderr) == ("", "")


def test_no_rank_computes_alone(cluster: Cluster) -> None:
    program = cluster.write("hello.py", HELLO)
    kinds = "pmix", "pmi2", "none", "cray_shasta"
    rank = ["python", "-P", "-m", "gondwana.cli.rank", program]
    with ThreadPoolExecutor(len(kinds)) as pool:
        found = dict(
            zip(kinds, pool.map(lambda kind: cluster.run("srun", "-n2", f"--mpi={kind}", *rank), kinds), strict=True)
        )
    # Open MPI needs PMIx.
    assert [rank[:2] for rank in ranks_of(found.pop("pmix"))] == [["0", "2"], ["1", "2"]]
    for outcome in found.values():
        assert (outcome.status, outcome.stdout) == (2, ""), str(outcome)
        assert outcome.stderr.count("gondwana: error: srun started 2 processes") == 1, str(outcome)


def test_a_shell_of_a_step_starts_ranks(cluster: Cluster) -> None:
    program = cluster.write("hello.py", HELLO)
    shell = f"srun -N1 -n1 --pty bash -c 'gondwana run -n 2 {program} > found'"
    outcome = cluster.run("salloc", "-Q", "-n2", "script", "-qec", shell, "/dev/null")
    assert outcome.status == 0, str(outcome)
    assert sorted(line.split()[:2] for line in cluster.read("found").splitlines()) == [["0", "2"], ["1", "2"]]


@pytest.mark.more
@pytest.mark.parametrize("start", ["gondwana run", "srun -N2 --mpi=pmix python -P -m gondwana.cli.rank"])
def test_progress_is_a_line_every_ten_seconds(start: str, cluster: Cluster) -> None:
    """Rank 0 is on another host than the terminal of srun, to which it cannot write a bar."""
    program = cluster.write("cools.py", COOLS)
    outcome = cluster.run("salloc", "-Q", "-N2", "script", "-qec", f"{start} {program}", "/dev/null", timeout=150)
    assert outcome.status == 0, str(outcome)
    # Below srun alone Open MPI has something to say, too.
    lines = [line for line in outcome.stdout.splitlines() if "cooling" in line]
    assert 2 <= len(lines) <= 3, str(outcome)
    assert all(re.fullmatch(r"cooling: \d+ of 250, [\d.]+/s, 0:00:\d\d left, \d+ MiB", line) for line in lines), lines


def test_without_pmix_the_launcher_of_the_mpi_starts_ranks(cluster: Cluster) -> None:
    program = cluster.write("hello.py", HELLO)
    cluster.login.run("sh", "-c", "cd /usr/lib/*/pmix2/lib && mv libpmix.so hidden")
    try:
        cluster.run("rm", "-rf", ".cache/gondwana/mpi")
        outcome = cluster.run("salloc", "-Q", "-N2", "gondwana", "run", program)
    finally:
        cluster.login.run("sh", "-c", "cd /usr/lib/*/pmix2/lib && mv hidden libpmix.so")
    assert sorted(rank[-1] for rank in ranks_of(outcome)) == ["alpha", "beta"], str(outcome)
    assert outcome.stderr.startswith("gondwana: srun cannot start ranks of Open MPI"), str(outcome)
    assert "mpirun does\n" in outcome.stderr


def test_a_dataset_of_two_nodes_is_read_on_three(cluster: Cluster) -> None:
    program = cluster.write("saves.py", SAVES)
    saved = cluster.run("salloc", "-Q", "-N2", "gondwana", "run", program)
    assert (saved.status, saved.stderr) == (0, ""), str(saved)
    loaded = cluster.run("salloc", "-Q", "-N3", "gondwana", "run", program)
    assert [rank[:2] for rank in ranks_of(loaded)] == 3 * [["as", "written"]]
    assert sum(int(rank[2]) for rank in ranks_of(loaded)) == 60


LIMITS = {"time limit": ((), "now"), "signal": (("--signal=TERM@120",), "now+100")}
"""What jobs are started with that come to the end of their time, or close to it, and when that is said to be."""


def start_to_stop(cluster: Cluster, how: str) -> tuple[str, str]:
    """Have a job stopped when its ranks run, wait for its end, and return its output and how long the ranks lived."""
    folder = cluster.home / how.replace(" ", "")
    seen = cluster.login.seen(folder)
    cluster.run("mkdir", str(folder))
    script = cluster.write(
        f"{folder.name}/job.sh", f"#!/bin/sh\necho $$ > pid\nexec gondwana run {cluster.home}/stops.py\n"
    )
    cluster.run("chmod", "+x", script)
    batch = ["sbatch", "--parsable", "-N2", "-o", "output", "--time=60", *LIMITS.get(how, ((), ""))[0]]
    start = ["salloc", "-Q", "-N2"] if how.startswith("SIG") else batch
    words = cluster.command(["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *start, script])
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
        assert job.stdout is not None
        number = "" if how.startswith("SIG") else job.stdout.readline().strip()
        wait_for(lambda: len(list(seen.glob("running.*"))) == 2, "the start of the ranks")
        if how in LIMITS:
            # Slurm looks at the times of jobs each 30 seconds.
            cluster.login.run("scontrol", "update", f"JobId={number}", f"EndTime={LIMITS[how][1]}")
        elif number:
            cluster.run(*how.split(), number)
        else:
            cluster.run("kill", f"-{getattr(signal, how):d}", cluster.read(f"{folder.name}/pid").strip())
        output = job.communicate(timeout=PATIENCE)[0]
    wait_for(lambda: len(list(seen.glob("saved.*"))) == 2, f"what {how} leaves time for", lambda: output)
    output = output or cluster.read(f"{folder.name}/output")
    saved = [cluster.read(f"{folder.name}/saved.{rank}") for rank in (0, 1)]
    return f"status {job.returncode}\n{output}", saved[0] if saved[0] == saved[1] else "not the same"


def test_ranks_have_time_to_save(cluster: Cluster) -> None:
    cluster.write("stops.py", STOPS)
    ways = "SIGTERM", "SIGINT", "scancel", "scancel --full", *LIMITS
    with ThreadPoolExecutor(len(ways)) as pool:
        found = dict(zip(ways, pool.map(functools.partial(start_to_stop, cluster), ways), strict=True))
    for how, (output, saved) in found.items():
        assert saved == "signal SIGTERM", f"{how}: {output}"
        if how.startswith("SIG"):
            assert output.startswith(f"status {128 + getattr(signal, how)}\n")
            assert (
                f"{how}: the program has 600 s to stop, less if Slurm ends the job; a second signal ends it at once"
                in output
            )


@pytest.mark.parametrize("mpi", ["Open MPI", "MPICH"])
def test_a_killed_rank_ends_the_job(cluster: Cluster, mpi: str, request: pytest.FixtureRequest) -> None:
    """With MPICH the others wait for ever for the only rank of a node, unless Slurm ends them."""
    python = request.getfixturevalue("mpich_python") if mpi == "MPICH" else sys.executable
    program = cluster.write("killed.py", KILLED)
    outcome = cluster.run("salloc", "-Q", "-N2", str(python), "-P", "-m", "gondwana.cli.main", "run", program)
    assert outcome.status not in (0, 2), str(outcome)
    assert "beta" in outcome.stderr, str(outcome)
    assert "Killed" in outcome.stderr, str(outcome)


def test_doctor_examines_all_nodes(cluster: Cluster) -> None:
    other = cluster.nodes[2]
    other.run("mount", "-o", "remount,size=1g", "/dev/shm")
    outcome = cluster.run("salloc", "-Q", "-N3", "gondwana", "doctor", "--json", "found.json", timeout=120)
    assert outcome.status == 0, str(outcome)
    findings = {finding["subject"]: finding for finding in json.loads(cluster.read("found.json"))["findings"]}
    names = [node.name for node in cluster.nodes]
    assert findings["nodes"]["found"] == f"{', '.join(names)}; ranks are started by srun"
    assert findings["node team"]["found"] == "2 of 2 ranks share memory"
    assert findings["dataset of all nodes"]["found"].startswith("1 MB written by 3 nodes and read back")
    assert findings["network"]["found"].startswith(f"a message from {names[0]} takes ")
    assert findings["cache of nodes"]["found"] == f"{cluster.home}/.cache/gondwana/objects, on each"
    differing = findings["shared memory of nodes"]
    assert (differing["verdict"], f"{other.name}: 1.0 GiB" in differing["found"]) == ("WARN", True)
    assert [name for name in cluster.run("ls", "-A").stdout.split() if "doctor" in name] == []


@pytest.mark.more
def test_a_node_that_is_gone_is_named(cluster: Cluster) -> None:
    """It takes as long as srun waits for the node."""
    program = cluster.write("sleeps.py", SLEEPS)
    seen = cluster.login.seen(cluster.home)
    words = cluster.command(["salloc", "-Q", "-N2", "gondwana", "run", program])
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as job:
        wait_for(lambda: len(list(seen.glob("sleeping.*"))) == 2, "the start of the ranks")
        cluster.nodes[1].run("pkill", "-KILL", "slurmstepd")
        errors = job.communicate(timeout=200)[1]
    assert job.returncode == 1, errors
    assert f"gondwana: host {cluster.nodes[1].name} does not answer any more" in errors


def test_a_job_goes_on_in_its_allocation_after_a_killed_rank(cluster: Cluster) -> None:
    program = cluster.write("goes_on.py", GOES_ON)
    outcome = cluster.run("salloc", "-Q", "-N2", "gondwana", "run", "--restarts", "1", program, "dies", timeout=120)
    assert outcome.status == 0, str(outcome)
    assert sorted(outcome.stdout.splitlines()) == 2 * ["start 1 from step 2 on 2 nodes"] + 2 * ["total 360.0"]
    assert "gondwana: restart 1 of 1: " in outcome.stderr, str(outcome)


@pytest.mark.more
def test_a_job_goes_on_when_slurm_starts_it_again(cluster: Cluster) -> None:
    program = cluster.write("goes_on.py", GOES_ON)
    cluster.run("mkdir", "requeued")
    seen = cluster.login.seen(cluster.home / "requeued")
    for options in ("", "--restarts 1 "):
        cluster.run("sh", "-c", "rm -rf requeued/*")
        script = cluster.write("job.sh", f"#!/bin/sh\ncd requeued && exec gondwana run {options}{program} waits\n")
        number = cluster.run("sbatch", "--parsable", "--requeue", "-N2", "-o", "requeued/output", script).stdout.strip()
        wait_for(lambda: len(list(seen.glob("running.*"))) == 2, "the start of the ranks")
        cluster.login.run("scontrol", "requeue", number)
        wait_for_state(cluster, number, "PENDING")
        cluster.login.run("scontrol", "update", f"JobId={number}", "StartTime=now")
        wait_for_state(cluster, number, "COMPLETED")
        lines = cluster.read("requeued/output").splitlines()
        assert sorted(lines) == 2 * ["start 1 from step 2 on 2 nodes"] + 2 * ["total 360.0"], lines


def wait_for_state(cluster: Cluster, number: str, state: str) -> None:
    def about() -> str:
        return cluster.login.run("scontrol", "show", "job", number)

    wait_for(lambda: f"JobState={state}" in about(), f"the state {state}", about)


@pytest.mark.more
def test_a_job_goes_on_in_its_allocation_without_a_lost_node() -> None:
    """All of the node is gone at once: its processes, and its end of each connection."""
    with slurm() as cluster:
        program = cluster.write("goes_on.py", GOES_ON)
        seen = cluster.login.seen(cluster.home)
        words = cluster.command(
            ["salloc", "-Q", "-N3", "--no-kill", "gondwana", "run", "--restarts", "1", program, "waits"]
        )
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            wait_for(lambda: len(list(seen.glob("running.*"))) == 3, "the start of the ranks")
            os.kill(cluster.nodes[2].process, signal.SIGKILL)
            stdout, stderr = job.communicate(timeout=300)
    assert job.returncode == 0, stderr
    assert sorted(stdout.splitlines()) == 3 * ["start 1 from step 2 on 2 nodes"] + 3 * ["total 360.0"], stdout
    assert "gondwana: restart 1 of 1: host gamma " in stderr
