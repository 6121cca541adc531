"""Gondwana: one global address space over many memories."""

# isort: off
# The first of all imports, since the others take their time: Ctrl-C ends what still imports.
from gondwana.runtime import beginning as _beginning  # noqa: F401

# From here on, a rank ends with its launcher.
from gondwana.runtime import lifeline as _lifeline  # noqa: F401
# isort: on

# The second one, so that a trace shows how long they take.
from gondwana.runtime.tracing import recorder as _recorder

# isort: split
import importlib as _importlib
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from gondwana import moved as _moved
from gondwana import simd as simd
from gondwana.arrays import Array as Array
from gondwana.arrays import ArrayReference as ArrayReference
from gondwana.arrays import DeviceArray as DeviceArray
from gondwana.arrays import GlobalArray as GlobalArray
from gondwana.arrays import Layout as Layout
from gondwana.arrays import RemoteArray as RemoteArray
from gondwana.arrays import array_at as array_at
from gondwana.arrays import empty as empty
from gondwana.arrays import empty_like as empty_like
from gondwana.arrays import exchange as exchange
from gondwana.arrays import from_dlpack as from_dlpack
from gondwana.arrays import from_function as from_function
from gondwana.arrays import from_numpy as from_numpy
from gondwana.arrays import full as full
from gondwana.arrays import full_like as full_like
from gondwana.arrays import on_device as on_device
from gondwana.arrays import ones as ones
from gondwana.arrays import share as share
from gondwana.arrays import zeros as zeros
from gondwana.arrays import zeros_like as zeros_like
from gondwana.calls import ActiveMessage as ActiveMessage
from gondwana.calls import DistObject as DistObject
from gondwana.calls import discharge as discharge
from gondwana.calls import progress_thread as progress_thread
from gondwana.calls import quiesce as quiesce
from gondwana.calls import rpc as rpc
from gondwana.calls import rpc_ff as rpc_ff
from gondwana.calls import try_rpc as try_rpc
from gondwana.calls import try_rpc_ff as try_rpc_ff
from gondwana.compiler import Compilation as Compilation
from gondwana.compiler import Extern as Extern
from gondwana.compiler import ThreadTeam as ThreadTeam
from gondwana.compiler import clock as clock
from gondwana.compiler import compilation as compilation
from gondwana.compiler import extern as extern
from gondwana.compiler import jit as jit
from gondwana.compiler import parallel as parallel
from gondwana.compiler import set_threads as set_threads
from gondwana.compiler import threads as threads
from gondwana.domains import Domain as Domain
from gondwana.domains import Point as Point
from gondwana.domains import RectDomain as RectDomain
from gondwana.domains import X as X
from gondwana.domains import Y as Y
from gondwana.domains import Z as Z
from gondwana.futures import Future as Future
from gondwana.futures import Promise as Promise
from gondwana.futures import when_all as when_all
from gondwana.gpu.device import Device as Device
from gondwana.gpu.device import Event as Event
from gondwana.gpu.device import device_count as device_count
from gondwana.kernels import Captured as Captured
from gondwana.kernels import Intermediate as Intermediate
from gondwana.kernels import capture as capture
from gondwana.kernels import foreach as foreach
from gondwana.kernels import fused as fused
from gondwana.kernels import is_faster as is_faster
from gondwana.kernels import random as random
from gondwana.kernels import reduce as reduce
from gondwana.memory import GlobalPtr as GlobalPtr
from gondwana.memory import Heap as Heap
from gondwana.memory import HeapFullError as HeapFullError
from gondwana.memory import MemoryKind as MemoryKind
from gondwana.memory import Segment as Segment
from gondwana.memory import cuda as cuda
from gondwana.memory import host as host
from gondwana.memory import synchronize as synchronize
from gondwana.runtime.launcher import launched_by as launched_by
from gondwana.runtime.progress import ProgressError as ProgressError
from gondwana.runtime.progress import in_callback as in_callback
from gondwana.runtime.progress import progress as progress
from gondwana.runtime.progress_bar import ProgressBar as ProgressBar
from gondwana.runtime.rollcall import name_ranks as name_ranks
from gondwana.runtime.tracing import span as span
from gondwana.sync import AtomicDomain as AtomicDomain
from gondwana.sync import Lock as Lock
from gondwana.sync import Signal as Signal
from gondwana.sync import signal as signal
from gondwana.sync import wait as wait
from gondwana.teams import BAND as BAND
from gondwana.teams import BOR as BOR
from gondwana.teams import BXOR as BXOR
from gondwana.teams import IN_PLACE as IN_PLACE
from gondwana.teams import LAND as LAND
from gondwana.teams import LOR as LOR
from gondwana.teams import LXOR as LXOR
from gondwana.teams import MAX as MAX
from gondwana.teams import MAXLOC as MAXLOC
from gondwana.teams import MIN as MIN
from gondwana.teams import MINLOC as MINLOC
from gondwana.teams import PROD as PROD
from gondwana.teams import SUM as SUM
from gondwana.teams import Op as Op
from gondwana.teams import PersistentRequest as PersistentRequest
from gondwana.teams import RemoteError as RemoteError
from gondwana.teams import Request as Request
from gondwana.teams import Team as Team
from gondwana.teams import start_all as start_all
from gondwana.teams import world as world
from gondwana.testing.fake_device import fake_device as fake_device
from gondwana.transfer import AccessRegion as AccessRegion
from gondwana.transfer import Plan as Plan
from gondwana.transfer import Transfer as Transfer
from gondwana.transfer import allreduce as allreduce
from gondwana.transfer import barrier as barrier
from gondwana.transfer import bcast as bcast
from gondwana.transfer import copy as copy
from gondwana.transfer import copy_indexed as copy_indexed
from gondwana.transfer import get as get
from gondwana.transfer import indexed as indexed
from gondwana.transfer import irecv as irecv
from gondwana.transfer import isend as isend
from gondwana.transfer import plan as plan
from gondwana.transfer import put as put
from gondwana.transfer import recv as recv
from gondwana.transfer import send as send
from gondwana.transfer import sendrecv as sendrecv
from gondwana.transfer import strided as strided
from gondwana.transfer import wait_all as wait_all

if _TYPE_CHECKING:
    from gondwana.kernels.inspection import Inspection as Inspection
    from gondwana.kernels.inspection import inspect as inspect
    from gondwana.tasks import Channel as Channel
    from gondwana.tasks import ChannelClosed as ChannelClosed
    from gondwana.tasks import Condition as Condition
    from gondwana.tasks import RemoteChannel as RemoteChannel
    from gondwana.tasks import RemoteCondition as RemoteCondition
    from gondwana.tasks import Selected as Selected
    from gondwana.tasks import Semaphore as Semaphore
    from gondwana.tasks import SharedArray as SharedArray
    from gondwana.tasks import Spawned as Spawned
    from gondwana.tasks import Task as Task
    from gondwana.tasks import TaskCancelled as TaskCancelled
    from gondwana.tasks import current_task as current_task
    from gondwana.tasks import everywhere as everywhere
    from gondwana.tasks import fetch as fetch
    from gondwana.tasks import pfor as pfor
    from gondwana.tasks import run_coroutine as run_coroutine
    from gondwana.tasks import select as select
    from gondwana.tasks import sleep as sleep
    from gondwana.tasks import spawn as spawn
    from gondwana.tasks import spawn_at as spawn_at
    from gondwana.tasks import yield_task as yield_task
    from gondwana.tasks.pool import PoolBrokenError as PoolBrokenError
    from gondwana.tasks.pool import PoolClosedError as PoolClosedError
    from gondwana.tasks.pool import WorkerLostError as WorkerLostError
    from gondwana.tasks.pool import WorkerPool as WorkerPool

_OF_TASKS = frozenset(
    {
        "Channel",
        "ChannelClosed",
        "Condition",
        "RemoteChannel",
        "RemoteCondition",
        "Selected",
        "Semaphore",
        "SharedArray",
        "Spawned",
        "Task",
        "TaskCancelled",
        "current_task",
        "run_coroutine",
        "everywhere",
        "fetch",
        "pfor",
        "select",
        "sleep",
        "spawn",
        "spawn_at",
        "yield_task",
    }
)
_OF_POOLS = frozenset({"PoolBrokenError", "PoolClosedError", "WorkerLostError", "WorkerPool"})
_OF_INSPECTION = frozenset({"Inspection", "inspect"})
_LATER = (
    dict.fromkeys(_OF_TASKS, "gondwana.tasks")
    | dict.fromkeys(_OF_POOLS, "gondwana.tasks.pool")
    | dict.fromkeys(_OF_INSPECTION, "gondwana.kernels.inspection")
)
"""Names that are loaded when they are first used, and from where: programs without tasks do not load greenlets."""


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module 'gondwana' has no attribute {name!r}", name=name, obj=_sys.modules[__name__])
    globals()[name] = found = getattr(_importlib.import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__version__ = "0.1.0"

_sys.meta_path.append(_moved.Finder)

if _recorder is not None:
    from gondwana.traces import closing as _closing

    _closing.at_end_of(_recorder)
    _recorder.imported()
