"""Jobs that go on after a loss: `gondwana run --restarts N`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gondwana.runtime.cache_folder import cache_folder
from support import jobs, two_hosts
from support.cluster import hosts

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "restarted.py"
WORDS = [sys.executable, "-m", "gondwana.cli.main", "run", "-t", "1"]
ANEW, GOES_ON, AT, END = "start 0 from step 0", "start 1 from step 4", "at step five", "total 640.0"


@pytest.mark.parametrize(
    ("what", "ranks", "printed", "status", "said"),
    [
        ("rank", 2, [ANEW, GOES_ON, END], 0, "restart 1 of 2: rank 1 (process "),
        ("rank", 1, [ANEW, GOES_ON, END], 0, "restart 1 of 2: rank 0 (process "),
        ("launcher", 2, [ANEW, GOES_ON, END], 0, "restart 1 of 2: MPI's launcher was ended by SIGKILL"),
        (
            "always", 3, [ANEW, GOES_ON, "start 2 from step 4"], 137,
            "giving up after 2 restarts: rank 2 was lost at each of 3 starts; the last loss: rank 2 (process ",
        ),
        ("error", 2, [ANEW], 1, "ValueError: wrong"),
        ("status", 2, [ANEW], 3, "exits with status 3"),
        ("nothing", 2, [ANEW, END], 0, ""),
    ],
)  # fmt: skip
def test_a_job_is_started_again_after_a_loss_alone(
    what: str, ranks: int, printed: list[str], status: int, said: str, tmp_path: Path
) -> None:
    before = set(os.listdir("/dev/shm"))
    words = [*WORDS, "-n", str(ranks), "--restarts", "2", str(PROGRAM), what]
    with jobs.start_command(words, cwd=tmp_path) as process:
        stdout, stderr = process.communicate(timeout=120)
    assert (stdout.splitlines(), process.returncode) == (printed, status), stderr
    assert said in stderr, stderr
    assert ("gondwana: restart" in stderr) == (len([line for line in printed if line.startswith("start")]) > 1)
    kept = ["mine.00000002.bp", "mine.00000004.bp"] if END not in printed else ["mine.00000008.bp", "mine.00000010.bp"]
    assert sorted(os.listdir(tmp_path)) == kept
    assert [name for name in set(os.listdir("/dev/shm")) - before if f"-{process.pid}-" in name] == []


def test_earlier_checkpoints_of_other_jobs_do_not_count(tmp_path: Path) -> None:
    for what, expected in (("nothing", [ANEW, END]), ("rank", [ANEW, GOES_ON, END])):
        words = [*WORDS, "-n", "1", "--restarts", "1", str(PROGRAM), what]
        outcome = jobs.run_command(words, cwd=tmp_path, timeout=100)
        assert (outcome.status, outcome.stdout.splitlines()) == (0, expected), str(outcome)


def test_a_trace_has_one_start() -> None:
    outcome = jobs.run_command([*WORDS, "--restarts", "1", "--trace", "trace.json", str(PROGRAM), "nothing"])
    assert outcome.status == 2
    assert outcome.stderr.startswith("gondwana: error: --trace with --restarts: ")


@contextlib.contextmanager
def three_hosts() -> Iterator[tuple[list[hosts.Host], Path, dict[str, str]]]:
    """Three hosts, a folder that all of them see, and the variables by which Open MPI starts ranks on them."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kept = cache_folder("objects")
        shared = [folder] if kept is None else [folder, kept.parent]
        names = [f"gw{name}-{os.getpid()}" for name in "abc"]
        three = stack.enter_context(hosts.hosts(names, shared=shared))
        for host in three:
            stack.enter_context(two_hosts._open_to_others(host))
        listed, agent = folder / "hosts", folder / "agent"
        listed.write_text("".join(f"{host.address} slots=1\n" for host in three))
        agent.write_text(two_hosts._AGENT.format(python=sys.executable))
        agent.chmod(0o755)
        network = f"{three[0].address}/24"
        yield (
            three,
            folder,
            {
                **jobs.clean_environment(),
                "PRTE_MCA_prte_default_hostfile": str(listed),
                "PRTE_MCA_plm_ssh_agent": str(agent),
                "PRTE_MCA_oob_tcp_if_include": network,
                "OMPI_MCA_btl_tcp_if_include": network,
                "OMPI_MCA_pml": "ob1",
                "OMPI_MCA_btl": "tcp,self,sm",
                "OMPI_MCA_mpi_yield_when_idle": "1",
                "TMPDIR": str(folder),
            },
        )


def test_a_job_goes_on_without_a_host_that_is_gone() -> None:
    """On fewer ranks then, with the same result."""
    if (reason := two_hosts.missing()) is not None:
        pytest.skip(reason)
    with three_hosts() as (three, folder, variables):
        (folder / "go_on.py").write_text(
            PROGRAM.read_text().replace("if step == 5:", "if step == 5:\n        world.rank or print('at step five', "
            "flush=True)\n        import time; time.sleep(0 if gw.restarted() else 60)")
        )  # fmt: skip
        words = [
            *three[0].enter(folder),
            *WORDS,
            "-n",
            "3",
            "--ranks-per-node",
            "1",
            "--restarts",
            "1",
            "go_on.py",
            "x",
        ]
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables
        ) as process:
            assert process.stdout is not None
            lines = []
            while process.poll() is None and AT not in lines:
                lines.append(process.stdout.readline().strip())
            os.kill(three[2].process, signal.SIGKILL)
            stdout, stderr = process.communicate(timeout=200)
        left = sorted(os.listdir(folder))
    assert process.returncode == 0, stderr
    assert f"gondwana: hosts that do not answer: {three[2].address}" in stderr
    said = [line.lstrip("\0") for line in (*lines, *stdout.splitlines())]  # the launcher prints such a byte, and words
    assert [line for line in said if line.startswith(("start", "at", "total"))] == [ANEW, AT, GOES_ON, AT, END], said
    assert [name for name in left if not name.startswith("mine.")] == ["agent", "go_on.py", "hosts"]
