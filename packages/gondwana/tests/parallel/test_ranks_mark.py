"""The mark `ranks` of gondwana.testing, in sessions of pytest as users start them."""

from __future__ import annotations

import re
import signal
import sys
import textwrap
import time
from pathlib import Path

import pytest

from gondwana.runtime.supervisor import descendants
from support import jobs

pytestmark = pytest.mark.parallel

WITHOUT = [word for name in ("cacheprovider", "hypothesispytest", "zarr") for word in ("-p", f"no:{name}")]
PYTEST = [sys.executable, "-m", "pytest", *WITHOUT]
SETTINGS = """[pytest]
addopts = --strict-markers --strict-config -q --color=no
timeout = 200
filterwarnings = error
xfail_strict = true
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    return tmp_path


def write(folder: Path, source: str, name: str = "test_users.py") -> None:
    """A module of tests that records which processes have imported it: as many as ranks were started, and pytest."""
    head = f"import os\nimport pytest\nwith open({str(folder / 'imports')!r}, 'a') as file:\n    file.write('x')\n"
    (folder / name).write_text(head + textwrap.dedent(source))


def run(folder: Path, *options: str) -> jobs.Outcome:
    return jobs.run_command([*PYTEST, *options], cwd=folder, timeout=300)


def outcomes(outcome: jobs.Outcome) -> dict[str, str]:
    """The words of pytest -rA by test."""
    return {name: word for word, name in re.findall(r"^([A-Z]+) test_\w+\.py::(\S+)", outcome.stdout, re.M)}


def processes(folder: Path) -> int:
    """How many processes have imported tests, without the session itself."""
    return len((folder / "imports").read_text()) - 1


GOOD = """
    import sys
    import gondwana as gw

    @pytest.fixture(scope="module")
    def once(world):
        return world.allgather(os.getpid())

    @pytest.mark.ranks(1, 2, 3)
    @pytest.mark.parametrize("letter", ["a", "b"])
    def test_each(letter, world, team, tmp_path, once):
        assert world.allreduce(1) == world.size == team.size
        assert set(world.allgather(str(tmp_path))) == {str(tmp_path)}
        assert os.listdir(tmp_path) == []
        world.barrier()
        (tmp_path / f"{world.rank}").touch()
        world.barrier()
        assert len(os.listdir(tmp_path)) == world.size
        assert once[world.rank] == os.getpid()
        print("on rank", world.rank)

    @pytest.mark.ranks(2, ranks_per_node=1, threads=2, variables={"FLAVOUR": 3}, id="flavoured")
    def test_settings(world):
        assert world.node_count == 2
        assert os.environ["FLAVOUR"] == "3"
        assert gw.threads() == 2

    @pytest.mark.ranks(1, 2)
    class TestTogether:
        def test_closest(self, world):
            assert world.size in (1, 2)

        @pytest.mark.ranks(3)
        def test_own(self, world):
            assert world.size == 3

    @pytest.mark.ranks(2)
    @pytest.mark.ranks(1, variables={"GONDWANA_MPI": "1"}, id="mpi")
    def test_added(world, capsys, monkeypatch):
        print("caught")
        assert capsys.readouterr().out == "caught\\n"
        monkeypatch.setenv("HOME", "nowhere")
        assert ("mpi4py" in sys.modules) or world.size == 1

    def test_alone(world, tmp_path):
        assert world.size == 1

    @pytest.mark.ranks(2, python="/nowhere/python")
    def test_elsewhere():
        raise AssertionError

    def test_on_the_emulated_gpu(emulated_gpu):
        assert gw.full(4, 2.0, kind=gw.cuda(0)).to_numpy().sum() == 8.0
"""


SECOND = """
    import sys

    @pytest.mark.ranks(2, id="other")
    def test_second(world):
        assert "test_users" in sys.modules
"""


def test_marked_tests_share_a_job_for_each_setting(folder: Path) -> None:
    write(folder, GOOD)
    write(folder, SECOND, "test_second.py")
    outcome = run(folder, "-rA")
    assert outcome.status == 0, str(outcome)
    found = outcomes(outcome)
    assert found.pop("test_settings[2ranks-1pernode-2threads-flavoured]") == "PASSED"
    assert {name for name, word in found.items() if word == "PASSED"} == {
        *(f"test_each[{ranks}-{letter}]" for ranks in ("1rank", "2ranks", "3ranks") for letter in "ab"),
        "TestTogether::test_closest[1rank]", "TestTogether::test_closest[2ranks]", "TestTogether::test_own[3ranks]",
        "test_added[2ranks]", "test_added[1rank-mpi]", "test_second[2ranks-other]",
        "test_alone", "test_on_the_emulated_gpu",
    }  # fmt: skip
    assert "there is no interpreter /nowhere/python" in outcome.stdout
    assert "Captured stdout of rank 1 call" in outcome.stdout
    # Ranks 1, 2, 3; the flavoured job; the job of one rank with MPI; the other module, on two ranks and the session.
    assert processes(folder) == 1 + 2 + 3 + 2 + 1 + 2 + 1


def test_a_selection_starts_no_more_than_it_needs(folder: Path) -> None:
    write(folder, GOOD)
    collected = run(folder, "--collect-only")
    assert "test_users.py::test_each[3ranks-b]" in collected.stdout
    assert processes(folder) == 0
    (folder / "imports").unlink()
    write(folder, SECOND, "test_second.py")
    outcome = run(folder, "-rA", "-k", "(each or second) and 2ranks", "-n", "2", "--dist", "loadfile")
    assert outcome.status == 0, str(outcome)
    names = ("test_each[2ranks-a]", "test_each[2ranks-b]", "test_second[2ranks-other]")
    assert outcomes(outcome) == dict.fromkeys(names, "PASSED")
    assert processes(folder) == 2 * 2 + 2 * 2 - 1  # both modules, on two ranks and in the two sessions of xdist


BAD = """
    @pytest.mark.ranks(2)
    def test_before(world):
        assert world.size == 2

    @pytest.mark.ranks(2)
    def test_one_fails(world):
        print("just before")
        assert world.rank != 1, "the odd one"

    @pytest.mark.ranks(2)
    def test_after(world):
        assert world.size == 2

    @pytest.mark.ranks(2)
    def test_all_fail(world):
        assert world.size == 4

    @pytest.mark.ranks(2)
    @pytest.mark.xfail(raises=KeyError)
    def test_expected(world):
        if world.rank == 1:
            raise KeyError(2)

    @pytest.mark.ranks(2)
    @pytest.mark.xfail
    def test_not_expected(world):
        pass

    @pytest.mark.ranks(2)
    def test_skips():
        pytest.skip("for a reason")

    @pytest.fixture
    def fragile(world):
        yield
        assert world.rank != 1, "torn down"

    @pytest.mark.ranks(2)
    def test_torn_down(fragile):
        pass

    @pytest.mark.ranks(2)
    def test_leaves(world):
        if world.rank == 1:
            os._exit(7)
        world.barrier()

    @pytest.mark.ranks(2)
    def test_exits(world):
        if world.rank == 1:
            raise SystemExit(3)

    @pytest.mark.ranks(2)
    def test_last(world):
        assert world.size == 2
"""

NOT_TO_BE_IMPORTED = """
    assert "RANK" not in os.environ, "not on a rank"

    @pytest.mark.ranks(2, variables={"RANK": 1})
    @pytest.mark.parametrize("number", [1, 2])
    def test_it(number):
        pass
"""


def test_a_failure_on_one_rank_is_reported_and_the_others_are_tested_all_the_same(folder: Path) -> None:
    write(folder, BAD)
    write(folder, NOT_TO_BE_IMPORTED, "test_imports.py")
    write(
        folder,
        NOT_TO_BE_IMPORTED.replace('assert "RANK" not in os.environ, "not on a rank"', "").replace("_it", "_fine"),
        "test_fine_imports.py",
    )
    outcome = run(folder, "-rA")
    assert outcome.status == 1, str(outcome)
    found = {name.removesuffix("[2ranks]"): word for name, word in outcomes(outcome).items()}
    assert (found.pop("test_it[2ranks-1]"), found.pop("test_it[2ranks-2]")) == ("FAILED", "FAILED")
    assert (found.pop("test_fine[2ranks-1]"), found.pop("test_fine[2ranks-2]")) == ("PASSED", "PASSED")
    assert outcome.stdout.count("not on a rank") >= 2
    good = dict.fromkeys(("test_before", "test_after", "test_last"), "PASSED")
    bad = ("test_one_fails", "test_all_fail", "test_not_expected", "test_torn_down", "test_leaves", "test_exits")
    assert found == {**good, **dict.fromkeys(bad, "FAILED"), "test_expected": "XFAIL"}
    for text in (
        "On rank 1 of 2: AssertionError: the odd one", "On ranks 0, 1 of 2: AssertionError: assert 2 == 4",
        "for a reason", "On rank 1 of 2: AssertionError: torn down", "ended with status 7",
        "On rank 1 of 2: SystemExit",
    ):  # fmt: skip
        assert text in outcome.stdout, text
    assert "just before" in outcome.stdout
    # Without the session, the job that could not import the second of two modules, and that of the first.
    assert processes(folder) - 2 - 2 * 2 - 2 <= 2 * 7


HANGING = """
    @pytest.mark.ranks(2, timeout=15)
    def test_waits_for_ever(world):
        if world.rank == 0:
            world.barrier()
        else:
            import time
            print("here", flush=True)
            time.sleep(600)

    @pytest.mark.ranks(2, timeout=15)
    def test_next(world):
        assert world.size == 2

    @pytest.mark.ranks(2)
    def test_fails_where_another_waits(world):
        assert world.rank == 0
        world.barrier()
"""


HANGING_BEHIND_ANOTHER = """
    import time

    @pytest.mark.ranks(2, variables={"OTHER": 1}, timeout=15)
    def test_stands_still(world):
        if world.rank == 1:
            time.sleep(600)
        world.barrier()
"""

BEFORE_IT = """
    @pytest.mark.ranks(2, variables={"OTHER": 1}, timeout=15)
    def test_before_it(world):
        assert world.size == 2
"""


def test_a_job_that_hangs_says_where(folder: Path) -> None:
    write(folder, HANGING)
    write(folder, BEFORE_IT, "test_1.py")
    write(folder, HANGING_BEHIND_ANOTHER, "test_2.py")
    outcome = run(folder, "-rA")
    found = outcomes(outcome)
    assert (found.pop("test_before_it[2ranks]"), found.pop("test_stands_still[2ranks]")) == ("PASSED", "FAILED")
    assert re.search(r"File .*test_2.py\", line \d+ in test_stands_still", outcome.stdout), str(outcome)
    assert found == {
        "test_waits_for_ever[2ranks]": "FAILED", "test_next[2ranks]": "PASSED",
        "test_fails_where_another_waits[2ranks]": "FAILED",
    }  # fmt: skip
    assert "where the ranks stand (the time limit of 5 s is over)" in outcome.stdout
    assert "rank 1 in test_waits_for_ever" in outcome.stdout
    assert "On rank 1 of 2: AssertionError: assert 1 == 0" in outcome.stdout, str(outcome)
    assert "rank 0 in test_fails_where_another_waits" in outcome.stdout, str(outcome)


def test_ctrl_c_leaves_nothing(folder: Path) -> None:
    write(folder, HANGING.replace("timeout=15", "timeout=100"))
    # A shell that runs tests in the background has SIGINT ignored, and what it starts inherits that.
    command = ["env", "--default-signal=INT", *PYTEST, "-k", "for_ever"]
    with jobs.start_command(command, cwd=folder) as process:
        try:
            end = time.monotonic() + 60
            while processes(folder) < 2 if (folder / "imports").exists() else True:
                assert time.monotonic() < end
                time.sleep(0.1)
            family = descendants(process.pid)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 2
        finally:
            jobs.kill_group(process)
    assert jobs.left_behind(family) == []


LAUNCHED = """
    def test_passes(world):
        assert world.size == 2

    def test_one_fails(world):
        print("just before")
        assert world.rank != 1, "the odd one"

    def test_all_fail(world):
        assert world.size == 4

    @pytest.fixture
    def fragile(world):
        yield
        assert world.rank != 1, "torn down"

    def test_torn_down(fragile):
        pass

    @pytest.mark.ranks(2, 3)
    def test_marked(world, tmp_path):
        assert len(set(world.allgather(str(tmp_path)))) == 1

    def test_waited_for_in_vain(world):
        assert world.rank == 0, "rank 0 waits"
        world.barrier()

    def test_never_run():
        pass
"""


def test_all_ranks_of_a_job_run_pytest_and_rank_0_reports(folder: Path) -> None:
    write(folder, LAUNCHED)
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "-t", "1", "--time-limit", "80"]
    outcome = jobs.run_command([*command, "pytest", "-vv", *PYTEST[3:]], cwd=folder, timeout=100)
    assert outcome.status == 1, str(outcome)
    found = re.findall(r"^test_users\.py::(\S+) ([A-Z]+)", outcome.stdout, re.M)
    assert found == [
        ("test_passes", "PASSED"), ("test_one_fails", "FAILED"), ("test_all_fail", "FAILED"),
        ("test_torn_down", "PASSED"), ("test_torn_down", "ERROR"),
        ("test_marked[2ranks]", "PASSED"), ("test_marked[3ranks]", "SKIPPED"),
    ], str(outcome)  # fmt: skip
    # The last test ended the job, with the message of the rank that failed and the place of the one that waited.
    assert re.search(r"\[rank 1 on \S+\] E +AssertionError: rank 0 waits", outcome.stderr), str(outcome)
    assert "rank 0 in test_waited_for_in_vain" in outcome.stderr


def test_a_launched_session_starts_no_other_job_and_shows_the_failures_of_all_ranks(folder: Path) -> None:
    write(folder, LAUNCHED)
    write(folder, GOOD, "test_good.py")
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "-t", "1", "--time-limit", "80"]
    options = ["-rA", "-k", "passes or one_fails or torn_down or each"]
    outcome = jobs.run_command([*command, "-m", "pytest", *options, *PYTEST[3:]], cwd=folder, timeout=100)
    assert outcome.status == 1, str(outcome)
    for text in ("On rank 1 of 2: AssertionError: the odd one", "On rank 1 of 2: AssertionError: torn down"):
        assert text in outcome.stdout, str(outcome)
    assert "just before" in outcome.stdout
    assert outcome.stdout.count("4 passed") == 1
    found = outcomes(outcome)
    assert len(found) == 5
    assert (found["test_each[2ranks-a]"], found["test_each[2ranks-b]"]) == ("PASSED", "PASSED")
    assert re.search(r"^SKIPPED \[2\] .*: for 3 ranks, and this job has 2$", outcome.stdout, re.M), str(outcome)
    assert processes(folder) == 2 * 2 - 1  # both files, on the ranks only


WRONG = {
    "ranks()": "give numbers of ranks",
    "ranks(0)": "give numbers of ranks",
    "ranks('2')": "give numbers of ranks",
    "ranks(2, nodes=1)": "unexpected keyword argument 'nodes'",
}


def test_wrong_marks_are_refused(folder: Path) -> None:
    for number, mark in enumerate(WRONG):
        write(folder, f"@pytest.mark.{mark}\ndef test_it():\n    pass\n", f"test_{number}.py")
    outcome = run(folder)
    assert outcome.status == 2, str(outcome)
    for number, message in enumerate(WRONG.values()):
        assert re.search(rf"^E .*UsageError: test_{number}\.py::test_it: .*{message}", outcome.stdout, re.M), str(
            outcome
        )


EXAMPLE = Path(__file__).parents[4] / "examples" / "tests"


@pytest.mark.more
def test_the_tests_of_the_example(folder: Path) -> None:
    for file in EXAMPLE.glob("*.py"):
        (folder / file.name).write_text(file.read_text())
    outcome = run(folder, "-rA")
    assert outcome.status == 0, str(outcome)
    assert set(outcomes(outcome).values()) == {"PASSED"}
    assert len(outcomes(outcome)) == 15
