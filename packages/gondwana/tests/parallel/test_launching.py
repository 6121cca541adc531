"""The launcher: which command it writes, what it refuses, and that copies of one program are found out."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from gondwana.cli import launch
from gondwana.errors import LaunchError, UsageError
from gondwana.runtime import rank_words
from support import jobs

pytestmark = pytest.mark.parallel

CORES = len(os.sched_getaffinity(0))
HELLO = "from gondwana.teams import world; print(f'{world.rank} {world.size}\\n', end='')"


def gondwana(*arguments: str, **settings) -> jobs.Outcome:
    return jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *arguments], **settings)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "hello.py"
    path.write_text("import sys\nfrom gondwana.teams import world\nprint(world.rank, world.size, sys.argv[1:])\n")
    return path


WORDS = [
    *(
        "--help",
        "-n",
        "7",
        "--",
        "x",
        ":",
        "",
        "--map-by",
        "slot",
        "--bind-to=none",
        "--x",
        "-x",
        "=",
        "--quoted",
        "::",
    ),
    *(
        "-mca",
        "btl",
        "self",
        "--mca",
        "plm_base_verbose",
        "5",
        "a b",
        "a\nb\n",
        "'",
        '"',
        "$HOME",
        "%s",
        "\\",
        "\u00e9",
    ),
    *("\udcff\udcfe", "--packed", "--prtemca", "--personality", ":", ""),
]
"""Words that launchers of MPI take for their own, wherever they stand, and those that shells and encodings change."""


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """A program whose only rank that says anything, 0, prints what it was given: the words, or their hash."""
    path = tmp_path / "echo.py"
    path.write_text(
        "import hashlib, os, sys\nfrom gondwana.teams import world\n"
        "if world.rank == 0:\n"
        "    words = ascii(sys.argv[1:])\n"
        "    print(words if len(words) < 5000 else hashlib.sha256(words.encode()).hexdigest(), world.size)\n"
        "    print([name for name in os.environ if name.startswith('GONDWANA_WORDS')])\n"
    )
    return path


def check_words(echo: Path, python: str | Path, ranks: int) -> None:
    """Check that a program gets all words as they are, and more of them than one variable has room for."""
    start = [str(python), "-m", "gondwana.cli.main", "run", "-n", str(ranks)]
    few = jobs.run_command([*start, str(echo), *WORDS])
    assert few.stdout == f"{WORDS!a} {ranks}\n[]\n", str(few)
    assert (few.status, few.stderr) == (0, ""), str(few)
    many = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(5000)] + [":", "--mca", "", "\udcff"]
    long = jobs.run_command([*start, "-m", echo.stem, *many], cwd=echo.parent)
    assert long.stdout == f"{hashlib.sha256(ascii(many).encode()).hexdigest()} {ranks}\n[]\n", str(long)


@pytest.mark.parametrize("ranks", [1, 2])
def test_everything_after_the_program_is_the_programs(echo: Path, ranks: int) -> None:
    check_words(echo, sys.executable, ranks)


def test_mpichs_launcher_changes_no_word_either(echo: Path, mpich_python: Path) -> None:
    check_words(echo, mpich_python, 2)


def test_what_the_system_cannot_pass_on_is_refused(script: Path) -> None:
    noise = random.Random(7).randbytes(1_700_000).replace(b"\0", b"\1")
    words = [os.fsdecode(noise[start : start + 100_000]) for start in range(0, len(noise), 100_000)]
    # Linux passes on a quarter of the stack's limit.
    start = ["prlimit", f"--stack={8 << 20}", sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2"]
    outcome = jobs.run_command([*start, str(script), *words])
    assert outcome.status == 2, str(outcome)
    assert outcome.stderr.startswith("gondwana: error: the arguments and the environment are longer than")
    assert outcome.stderr.count("\n") == 1


def test_one_rank_needs_no_launcher(script: Path) -> None:
    assert gondwana("run", str(script), "a").stdout == "0 1 ['a']\n"


def test_the_program_sees_itself_as_main_beside_its_modules(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("value = 5\n")
    program = tmp_path / "program.py"
    program.write_text("import beside, sys\nif __name__ == '__main__':\n    print(beside.value, sys.argv[0])\n")
    assert gondwana("run", str(program)).stdout == f"5 {program}\n"


def test_a_module_is_run_as_python_does(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("value = 5\n")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "__main__.py").write_text(
        "import beside, sys, gondwana as gw\n"
        "print(f'{beside.value} {gw.world.size} {__name__} {sys.argv[1:]}\\n', end='')\n"
    )
    outcome = gondwana("run", "-n", "2", "-m", "inside", "-m", "x", cwd=tmp_path)
    assert outcome.stdout == "5 2 __main__ ['-m', 'x']\n" * 2, str(outcome)


def test_an_installed_command_is_a_program() -> None:
    outcome = gondwana("run", "pytest", "--version")
    assert outcome.status == 0
    assert outcome.stdout + outcome.stderr == f"pytest {pytest.__version__}\n"


def test_dry_run_prints_the_command(script: Path) -> None:
    outcome = gondwana("run", "-n", "2", "-t", "3", "--time-limit", "9", "--dry-run", str(script), "a b")
    assert outcome.status == 0
    for part in ("GONDWANA_THREADS=3", "NUMBA_NUM_THREADS=3", "GONDWANA_TIME_LIMIT=9", " -n 2 ", "--bind-to none"):
        assert part in outcome.stdout
    assert outcome.stdout.endswith(f" -P -m gondwana.cli.rank {script} 'a b'\n")


def test_threads_divide_the_cores() -> None:
    assert launch.default_threads(1) == launch.cores()
    assert launch.default_threads(10**6) == 1
    code = "import os; print(os.environ['GONDWANA_THREADS'], os.environ['NUMBA_NUM_THREADS'])"
    outcome = jobs.run_ranks(2, code, threads=5)
    assert outcome.stdout.splitlines() == ["5 5", "5 5"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run", "gray-scot"], ["did you mean gray-scott?", "no application and no file 'gray-scot'"]),
        (["run", "-m", "no_such.module"], ["-m no_such.module", "no such module"]),
        (["run", "--device", "cuda", "-m", "pytest"], ["--device cuda", "leave the option out"]),
        (["run", "nothing.py"], ["nothing.py", "applications are"]),
        (["run", "--time-limit", "-3", __file__], ["--time-limit -3", "positive number"]),
        (
            ["run", "-n", "1000", __file__],
            ["1000 ranks of 1 thread: more than 8 threads", "--oversubscribe"],
        ),
        (["run", "-t", "1000", __file__], ["1 rank of 1000 threads: more than 8 threads for each of", "(-t)"]),
        (["run", "-n", "9" * 9, "--oversubscribe", __file__], ["this host allows", "give fewer"]),
        (["run", "-n", "9" * 20, __file__], ["legal is a whole number from 1"]),
        (["run", "-n", "2", "--ranks-per-node", "1", __file__], ["2 ranks need 2 nodes, but this job has 1"]),
        (["run", "-t", str(CORES + 1), "--bind", "core", __file__], [f"{CORES + 1} cores are needed for 1 rank of"]),
        (["bench", "exchange", "-n", "1000"], ["1000 ranks of 1 thread"]),
        (["run", ""], ["no file ''"]),
        (["run", "x" * 5000], ["no file 'xxx", "xxx...'", "applications are"]),
        (["run", str(Path(__file__).parent)], ["tests/parallel is a folder: give the path of a program"]),
    ],
)
def test_errors_of_use_are_one_line_and_status_2(arguments: list[str], parts: list[str]) -> None:
    outcome = gondwana(*arguments)
    assert outcome.status == 2
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("gondwana: error: ")
    assert outcome.stderr.count("\n") == 1
    for part in parts:
        assert part in outcome.stderr


def test_illegal_options_are_status_2() -> None:
    for arguments in (["run", "-n", "0", __file__], ["run", "--device", "moon", __file__], ["run"], ["nonsense"]):
        if arguments != ["run"]:
            assert gondwana(*arguments).status == 2


def test_many_threads_start_if_they_are_meant(script: Path) -> None:
    threads = 8 * launch.cores() + 1
    outcome = gondwana("run", "-t", str(threads), "--oversubscribe", str(script))
    assert (outcome.status, outcome.stdout) == (0, "0 1 []\n"), str(outcome)
    assert launch.command(1, ["x.py"], threads=threads - 1).argv[1:] == ("x.py",)
    with pytest.raises(UsageError, match="more than 8 threads"):
        launch.native(threads, ["true"], {})


def test_no_launch_inside_a_launched_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_RANK", "0")
    with pytest.raises(LaunchError, match=r"gondwana\.cli\.rank"):
        launch.command(2, ["x.py"])


def test_slurm_allocations_use_srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    srun = tmp_path / "srun"
    # It says what Slurm says of its kinds of PMI, and does what two ranks do in a trial.
    srun.write_text("#!/bin/sh\necho none cray_shasta pmi2 pmix pmix_v5; echo ranks 2; echo ranks 2\n")
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    command = launch.command(8, ["x.py"], threads=4)
    assert command.argv[:6] == ("srun", "-n", "8", "-c", "4", "--mpi=pmix")
    assert launch.default_ranks() == 1
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    assert launch.default_ranks() == 3
    monkeypatch.setenv("SLURM_NTASKS", "12")
    assert launch.default_ranks() == 12
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "4(x2),3")
    assert launch.command(2, ["x.py"], threads=4).argv[3:7] == ("-c", "4", "-N", "2")
    assert launch.command(12, ["x.py"], threads=1).argv[3:4] == ("--overcommit",)
    with pytest.raises(UsageError, match="more than 8 threads for each of 11 cores"):
        launch.command(89, ["x.py"], threads=1)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "6")
    assert launch.default_threads(8) == 6
    program, variables = launch.as_rank("x.py", WORDS, module=True)
    command = launch.command(8, program, variables=variables)
    assert rank_words.command(command.argv)[-len(WORDS) - 3 :] == [rank_words.RANK, "-m", "x.py", *WORDS]
    program, variables = launch.as_rank("x.py", 2000 * WORDS)
    command = launch.command(8, program, variables=variables)
    assert max(map(len, command.variables.values())) < 1 << 17
    assert rank_words.command(command.argv, command.variables)[-2000 * len(WORDS) :] == 2000 * WORDS


@pytest.mark.parametrize(
    "changed",
    [
        {"HOME": None, "TMPDIR": "", "SLURM_JOB_ID": "7", "SLURM_NODELIST": "nowhere[1-2]", "SLURM_JOBID": "7"}
        | {"SLURM_JOB_NODELIST": "nowhere[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_NNODES": "2"},
        {"HOME": "", "TMPDIR": "/proc"},
        {"TMPDIR": "."},
    ],
    ids=["container", "no-tmpdir", "relative"],
)
def test_what_the_environment_lacks_is_not_missed(
    script: Path, changed: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in changed.items():
        if value is None:
            monkeypatch.delenv(name)
    given = {name: value for name, value in changed.items() if value is not None}
    outcome = gondwana("run", "-n", "2", str(script), variables=given, cwd=script.parent)
    assert (outcome.status, outcome.stderr) == (0, ""), str(outcome)
    assert sorted(outcome.stdout.splitlines()) == ["0 2 []", "1 2 []"]
    assert os.listdir(script.parent) == [script.name]


@pytest.mark.parametrize("size", ["8m", "64m"])
def test_a_small_shared_memory_is_not_used(script: Path, size: str) -> None:
    """Docker gives a container 64 MB."""
    mount = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    trial = ["unshare", "-m", "sh", "-c", mount, "sh"]
    if subprocess.run([*trial, "true"], capture_output=True, check=False).returncode:
        pytest.skip("only the superuser can mount another /dev/shm")
    start = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "4", str(script)]
    outcome = jobs.run_command([*trial, *start])
    assert (outcome.status, outcome.stderr) == (0, ""), str(outcome)
    assert sorted(outcome.stdout.splitlines()) == [f"{rank} 4 []" for rank in range(4)]


@pytest.mark.parametrize(("limit", "remedy"), [("-n 30", "ulimit -n 1024"), ("-f 1024", "ulimit -f unlimited")])
def test_limits_that_no_job_can_start_with_are_named(script: Path, limit: str, remedy: str) -> None:
    start = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", str(script)]
    outcome = jobs.run_command(["sh", "-c", f'ulimit {limit} && exec "$@"', "sh", *start])
    assert outcome.status == 2, str(outcome)
    assert remedy in outcome.stderr, str(outcome)
    assert outcome.stderr.count("\n") == 1, str(outcome)


def test_a_launcher_of_another_mpi_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mpiexec", "mpiexec.hydra", "mpirun"):
        (tmp_path / name).write_text("#!/bin/sh\necho HYDRA build details\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    library = launch.Library("Open MPI", "5.0", str(tmp_path / "lib" / "libmpi.so.40"))
    with pytest.raises(LaunchError, match=r"found only .*mpirun"):
        launch.find_launcher(library, python=str(tmp_path / "python"))
    with_mpich = launch.Library("MPICH", "5.0", str(tmp_path / "lib" / "libmpi.so.12"))
    assert launch.find_launcher(with_mpich, python=str(tmp_path / "python")).endswith("mpiexec.hydra")


# -- copies of one program, and programs without MPI ---------------------------------------------------------------


@pytest.mark.parametrize(
    "variables",
    [
        {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "999"},
        {"PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.7.0"},
        {"PMIX_RANK": "1", "PMIX_NAMESPACE": "job@1", "PMIX_SERVER_URI41": "job@0.0;tcp4://127.0.0.1:1"},
    ],
    ids=["PMI", "PMIx without a server", "PMIx with a server that has ended"],
)
def test_variables_that_another_job_has_left_are_named(variables: dict[str, str]) -> None:
    """As in a container that a rank has started: Open MPI crashes then."""
    outcome = jobs.run_command([sys.executable, "-c", HELLO], variables=variables, timeout=60)
    assert outcome.status == 2, str(outcome)
    assert "is not there (" in outcome.stderr, str(outcome)
    assert outcome.stderr.count("\n") == 1, str(outcome)


def test_copies_of_one_program_are_found_out() -> None:
    """A launcher that MPI does not hear of: each process believes to be alone."""
    outcome = jobs.run_command([sys.executable, "-c", HELLO], variables={"PMI_RANK": "0", "PMI_SIZE": "4"}, timeout=60)
    assert outcome.status == 2, str(outcome)
    assert outcome.stdout == ""
    assert "started 4 processes" in outcome.stderr
    assert "gondwana run -n 4" in outcome.stderr


def test_the_launcher_of_another_mpi_is_found_out_once(mpich_python: Path) -> None:
    hydra = str(mpich_python.parent / "mpiexec.hydra")
    outcome = jobs.run_command(
        [hydra, "-n", "3", sys.executable, "-c", HELLO], variables={"HYDRA_LAUNCHER": "fork"}, timeout=60
    )
    assert outcome.status != 0, str(outcome)
    assert "0 1" not in outcome.stdout
    assert (outcome.stderr + outcome.stdout).count("N copies") == 1, str(outcome)


def test_mpich_is_launched_by_its_own_launcher(mpich_python: Path) -> None:
    outcome = jobs.run_ranks(2, HELLO, python=mpich_python)
    assert outcome.status == 0, str(outcome)
    assert sorted(outcome.stdout.splitlines()) == ["0 2", "1 2"]


NO_MPI4PY = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "mpi4py":
            raise ModuleNotFoundError("No module named 'mpi4py'")

sys.meta_path.insert(0, Blocker())
import numpy as np
from gondwana.teams import world
total = np.zeros(2)
world.Allreduce(np.ones(2), total)
print(world.rank, world.size, world.allgather("x"), total.tolist(), world.node.size)
assert "mpi4py" not in sys.modules
"""


def test_a_plain_program_needs_no_mpi4py() -> None:
    outcome = jobs.run_command([sys.executable, "-c", NO_MPI4PY])
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout == "0 1 ['x'] [1.0, 1.0] 1\n"


def test_several_processes_without_mpi4py_are_refused() -> None:
    outcome = jobs.run_ranks(2, NO_MPI4PY)
    assert outcome.status == 2, str(outcome)
    assert outcome.stderr.count("gondwana: error:") == 1, str(outcome)
    assert "pip install" in outcome.stderr


def test_independent_processes_on_request() -> None:
    outcome = jobs.run_ranks(2, HELLO, variables={"GONDWANA_MPI": "0"})
    assert outcome.status == 0
    assert outcome.stdout.splitlines() == ["0 1", "0 1"]


def test_srun_without_pmi_is_found_out() -> None:
    variables = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}
    outcome = jobs.run_command([sys.executable, "-c", HELLO], variables=variables)
    assert outcome.status == 2
    assert "srun --mpi=pmix" in outcome.stderr


def test_a_plain_program_imports_no_mpi() -> None:
    code = "import sys, gondwana as gw; gw.world.size; print([m for m in sys.modules if 'mpi4py' in m])"
    assert jobs.run_command([sys.executable, "-c", code]).stdout == "[]\n"


def test_a_program_that_imports_mpi4py_shares_its_world() -> None:
    code = "from mpi4py import MPI; from gondwana.teams import world; print(world.comm == MPI.COMM_WORLD)"
    assert jobs.run_command([sys.executable, "-c", code]).stdout == "True\n"


@pytest.mark.parametrize(("other", "found"), [(0, "words"), (1, "")])
def test_the_input_of_a_process_with_the_same_number_is_not_read(tmp_path: Path, other: int, found: str) -> None:
    """On another host, the number of `gondwana run` is that of another process."""
    (tmp_path / "input").write_text("words")
    code = (
        "import sys; from gondwana.runtime import beginning as b; b.receive_stdin(first=True); print(sys.stdin.read())"
    )
    with open(tmp_path / "input") as file:
        path, inode = f"/proc/{os.getpid()}/fd/{file.fileno()}", os.fstat(file.fileno()).st_ino
        outcome = jobs.run_command(
            [sys.executable, "-c", code], variables={"GONDWANA_STDIN": f"{path} {inode + other}"}
        )
    assert (outcome.status, outcome.stdout) == (0, f"{found}\n"), str(outcome)


READS = """
import sys, gondwana as gw
found = gw.world.allgather(len(sys.stdin.read()) if len(sys.argv) > 1 else -1)
print(found if gw.world.rank == 0 else "", end="")
"""
INPUTS = {
    "a pipe": ("seq 100000 | {run} all", "[588895, 0]"),
    "a file": ("seq 100000 > list; {run} all < list", "[588895, 0]"),
    "the rest of a file": ("seq 9 > list; {{ read first; {run} all; }} < list", "[16, 0]"),
    "a here-document": ("{run} all <<END\nline\nEND", "[5, 0]"),
    "a closed one": ("{run} all <&-", "[0, 0]"),
    "a socket": ("{socket} {run} all", "[7, 0]"),
    "that of a loop": ("seq 3 | while read line; do {run}; done", "[-1, -1]" * 3),
}
SOCKET = (
    "import os, socket, sys; a, b = socket.socketpair(); a.sendall(b'message'); a.close(); "
    "os.dup2(b.fileno(), 0); os.execvp(sys.argv[1], sys.argv[1:])"
)


@pytest.mark.parametrize("kind", INPUTS)
def test_rank_0_has_all_of_the_standard_input_to_its_end(kind: str, tmp_path: Path) -> None:
    (tmp_path / "reads.py").write_text(READS)
    script, expected = INPUTS[kind]
    run = f"{sys.executable} -m gondwana.cli.main run -n 2 -t 1 --time-limit 60 reads.py"
    socket = f'{sys.executable} -c "{SOCKET}"'
    outcome = jobs.run_command(["bash", "-c", script.format(run=run, socket=socket)], timeout=100, cwd=tmp_path)
    assert (outcome.status, outcome.stdout.replace("\n", "")) == (0, expected), str(outcome)


def test_rank_0_has_the_standard_input_with_mpich(mpich_python: Path, tmp_path: Path) -> None:
    (tmp_path / "reads.py").write_text(READS)
    run = f"{mpich_python} -m gondwana.cli.main run -n 2 -t 1 --time-limit 60 reads.py"
    outcome = jobs.run_command(["bash", "-c", f"seq 100000 > list; {run} all < list"], timeout=100, cwd=tmp_path)
    assert (outcome.status, outcome.stdout.replace("\n", "")) == (0, "[588895, 0]"), str(outcome)


def test_rank_0_reads_from_a_terminal_until_its_end(tmp_path: Path) -> None:
    program = tmp_path / "reads.py"
    program.write_text(READS)
    ours, theirs = os.openpty()
    words = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "-t", "1", "--time-limit", "60", str(program)]
    with subprocess.Popen(
        [*words, "all"], stdin=theirs, stdout=subprocess.PIPE, env=jobs.clean_environment()
    ) as process:
        os.write(ours, b"typed\n\x04")  # Ctrl-D
        assert process.communicate(timeout=100)[0].strip() == b"[6, 0]"
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_tolerated(ranks: int, closed: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import sys, gondwana as gw\n"
        "print('out'); print('errors', file=sys.stderr); sys.stdin.read()\n"
        "if gw.world.allreduce(1) and gw.world.rank == 0:\n    open('result', 'w').write(f'{gw.world.size}')\n"
    )
    script = f"{sys.executable} -m gondwana.cli.main run -n {ranks} -t 1 program.py {closed}"
    outcome = jobs.run_command(["bash", "-c", script], cwd=tmp_path)
    assert (outcome.status, (tmp_path / "result").read_text()) == (0, str(ranks)), str(outcome)
    assert outcome.stdout == ("" if ">&-" in closed.split() else "out\n" * ranks), str(outcome)
    assert outcome.stderr == ("" if "2>&-" in closed else "errors\n" * ranks), str(outcome)


@pytest.mark.parametrize(("words", "status"), [("--help", 0), ("run nothing.py", 2), ("model --help", 0)])
def test_commands_tolerate_closed_streams(words: str, status: int) -> None:
    script = f"{sys.executable} -m gondwana.cli.main {words} <&- >&- 2>&-"
    outcome = jobs.run_command(["bash", "-c", script])
    assert (outcome.status, outcome.stdout, outcome.stderr) == (status, "", "")
