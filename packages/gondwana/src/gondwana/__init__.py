"""Gondwana: one global address space over many memories."""

# isort: off
# The first of all imports, since the others take their time: Ctrl-C ends what still imports.
from gondwana.runtime import beginning as _beginning  # noqa: F401

# From here on, a rank ends with its launcher.
from gondwana.runtime.watching import lifeline as _lifeline  # noqa: F401
# isort: on

# The second one, so that a trace shows how long they take.
from gondwana.runtime.tracing import recorder as _recorder

# isort: split
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

if "t" in _sys.abiflags:  # its objects are laid out differently, and machine code reads and counts them
    raise ImportError("gondwana does not support free-threaded Python: use a Python with the global interpreter lock")

from gondwana import moved as _moved
from gondwana.runtime import later as _later

if _TYPE_CHECKING:
    from gondwana.arrays.array import Array as Array
    from gondwana.arrays.create import (
        empty as empty,
        empty_like as empty_like,
        from_function as from_function,
        from_numpy as from_numpy,
        full as full,
        full_like as full_like,
        ones as ones,
        scatter as scatter,
        zeros as zeros,
        zeros_like as zeros_like,
    )
    from gondwana.arrays.device_array import DeviceArray as DeviceArray
    from gondwana.arrays.divided import GlobalView as GlobalView
    from gondwana.arrays.expressions.expression import Expression as Expression
    from gondwana.arrays.expressions.functions import array as array, coordinates as coordinates, where as where
    from gondwana.arrays.ghost_exchange import exchange as exchange
    from gondwana.arrays.global_array import GlobalArray as GlobalArray
    from gondwana.arrays.interop import from_dlpack as from_dlpack, on_device as on_device
    from gondwana.arrays.layout import Layout as Layout
    from gondwana.arrays.masks import Region as Region, cells_where as cells_where
    from gondwana.arrays.reference import ArrayReference as ArrayReference, array_at as array_at, share as share
    from gondwana.arrays.remote import RemoteArray as RemoteArray
    from gondwana.arrays.walls.conditions import (
        Dirichlet as Dirichlet,
        Fixed as Fixed,
        Neumann as Neumann,
        Reflect as Reflect,
        Wall as Wall,
        periodic as periodic,
    )
    from gondwana.calls.active_messages.message import ActiveMessage as ActiveMessage
    from gondwana.calls.dist_object import DistObject as DistObject
    from gondwana.calls.remote_calls import (
        discharge as discharge,
        progress_thread as progress_thread,
        quiesce as quiesce,
        rpc as rpc,
        rpc_ff as rpc_ff,
        try_rpc as try_rpc,
        try_rpc_ff as try_rpc_ff,
    )
    from gondwana.compiler.externs import Extern as Extern, extern as extern
    from gondwana.compiler.function import jit as jit
    from gondwana.compiler.linker import Compilation as Compilation, compilation as compilation
    from gondwana.compiler.multithreading.pool import set_threads as set_threads, threads as threads
    from gondwana.compiler.multithreading.team import ThreadTeam as ThreadTeam, parallel as parallel
    from gondwana.compiler.timing import clock as clock
    from gondwana.domains.domain import Domain as Domain
    from gondwana.domains.point import Point as Point, X as X, Y as Y, Z as Z
    from gondwana.domains.rect import RectDomain as RectDomain
    from gondwana.futures import Future as Future, Promise as Promise, when_all as when_all
    from gondwana.gpu.device import Device as Device, Event as Event, device_count as device_count
    from gondwana.io.files.save_and_load import load as load, save as save
    from gondwana.kernels.foreach_kernels import foreach as foreach
    from gondwana.kernels.fusion import fused as fused
    from gondwana.kernels.inspection.inspection import Inspection as Inspection, inspect as inspect
    from gondwana.kernels.intermediate import Intermediate as Intermediate
    from gondwana.kernels.launch_graphs import Captured as Captured, capture as capture
    from gondwana.kernels.random_numbers import random as random
    from gondwana.kernels.reductions import reduce as reduce
    from gondwana.kernels.trials import is_faster as is_faster
    from gondwana.liveview.values import LiveView as LiveView, live as live
    from gondwana.memory.cuda_kind import cuda as cuda, synchronize as synchronize
    from gondwana.memory.heap import Heap as Heap, HeapFullError as HeapFullError
    from gondwana.memory.kinds import MemoryKind as MemoryKind, host as host
    from gondwana.memory.pointer import GlobalPtr as GlobalPtr
    from gondwana.memory.segment import Segment as Segment
    from gondwana.runtime.exits import RemoteError as RemoteError
    from gondwana.runtime.launcher import launched_by as launched_by, restarted as restarted
    from gondwana.runtime.progress import (
        ProgressError as ProgressError,
        in_callback as in_callback,
        progress as progress,
    )
    from gondwana.runtime.terminal import ProgressBar as ProgressBar
    from gondwana.runtime.tracing.spans import span as span
    from gondwana.runtime.watching.rollcall import name_ranks as name_ranks
    from gondwana.sync.atomics import AtomicDomain as AtomicDomain
    from gondwana.sync.locks import Lock as Lock
    from gondwana.sync.signals import Signal as Signal, signal as signal, wait as wait
    from gondwana.tasks.asyncio_bridge import run_coroutine as run_coroutine
    from gondwana.tasks.channel import Channel as Channel, ChannelClosed as ChannelClosed
    from gondwana.tasks.conditions import Condition as Condition, Semaphore as Semaphore
    from gondwana.tasks.loops import pfor as pfor
    from gondwana.tasks.pool.pool import WorkerPool as WorkerPool
    from gondwana.tasks.pool.task import (
        PoolBrokenError as PoolBrokenError,
        PoolClosedError as PoolClosedError,
        TimeLimitError as TimeLimitError,
        WorkerLostError as WorkerLostError,
    )
    from gondwana.tasks.remote_channel import RemoteChannel as RemoteChannel
    from gondwana.tasks.remote_condition import RemoteCondition as RemoteCondition
    from gondwana.tasks.scheduler import yield_task as yield_task
    from gondwana.tasks.selection import Selected as Selected, select as select
    from gondwana.tasks.shared_array import SharedArray as SharedArray
    from gondwana.tasks.spawning import (
        Spawned as Spawned,
        everywhere as everywhere,
        fetch as fetch,
        spawn as spawn,
        spawn_at as spawn_at,
    )
    from gondwana.tasks.task import (
        Task as Task,
        TaskCancelled as TaskCancelled,
        current_task as current_task,
        sleep as sleep,
    )
    from gondwana.teams import world as world
    from gondwana.teams.ops import (
        BAND as BAND,
        BOR as BOR,
        BXOR as BXOR,
        IN_PLACE as IN_PLACE,
        LAND as LAND,
        LOR as LOR,
        LXOR as LXOR,
        MAX as MAX,
        MAXLOC as MAXLOC,
        MIN as MIN,
        MINLOC as MINLOC,
        PROD as PROD,
        SUM as SUM,
        Op as Op,
    )
    from gondwana.teams.request import (
        PersistentRequest as PersistentRequest,
        Request as Request,
        start_all as start_all,
    )
    from gondwana.teams.team import Team as Team
    from gondwana.testing.fake_device import fake_device as fake_device
    from gondwana.transfer.box import strided as strided
    from gondwana.transfer.collectives.migration import migrate as migrate
    from gondwana.transfer.collectives.verbs import allreduce as allreduce, barrier as barrier, bcast as bcast
    from gondwana.transfer.completion import AccessRegion as AccessRegion, Transfer as Transfer
    from gondwana.transfer.messages.verbs import (
        irecv as irecv,
        isend as isend,
        recv as recv,
        send as send,
        sendrecv as sendrecv,
        wait_all as wait_all,
    )
    from gondwana.transfer.plans.create import plan as plan
    from gondwana.transfer.plans.plan import Plan as Plan
    from gondwana.transfer.runs import indexed as indexed
    from gondwana.transfer.verbs import copy as copy, copy_indexed as copy_indexed, get as get, put as put

__getattr__, __dir__ = _later.later(
    __name__,
    {
        "gondwana": "arrays calls compiler domains errors fft futures gpu inputs kernels memory runtime simd sync "
        "teams testing transfer",
        "gondwana.arrays.array": "Array",
        "gondwana.arrays.create": "empty empty_like from_function from_numpy full full_like ones scatter "
        "zeros zeros_like",
        "gondwana.arrays.divided": "GlobalView",
        "gondwana.arrays.device_array": "DeviceArray",
        "gondwana.arrays.expressions.expression": "Expression",
        "gondwana.arrays.expressions.functions": "array coordinates where",
        "gondwana.arrays.ghost_exchange": "exchange",
        "gondwana.arrays.global_array": "GlobalArray",
        "gondwana.arrays.interop": "from_dlpack on_device",
        "gondwana.arrays.layout": "Layout",
        "gondwana.arrays.masks": "Region cells_where",
        "gondwana.arrays.reference": "ArrayReference array_at share",
        "gondwana.arrays.remote": "RemoteArray",
        "gondwana.arrays.walls.conditions": "Dirichlet Fixed Neumann Reflect Wall periodic",
        "gondwana.calls.active_messages.message": "ActiveMessage",
        "gondwana.calls.dist_object": "DistObject",
        "gondwana.calls.remote_calls": "discharge progress_thread quiesce rpc rpc_ff try_rpc try_rpc_ff",
        "gondwana.compiler.externs": "Extern extern",
        "gondwana.compiler.function": "jit",
        "gondwana.compiler.linker": "Compilation compilation",
        "gondwana.compiler.multithreading.pool": "set_threads threads",
        "gondwana.compiler.multithreading.team": "ThreadTeam parallel",
        "gondwana.compiler.timing": "clock",
        "gondwana.domains.domain": "Domain",
        "gondwana.domains.point": "Point X Y Z",
        "gondwana.domains.rect": "RectDomain",
        "gondwana.futures": "Future Promise when_all",
        "gondwana.gpu.device": "Device Event device_count",
        "gondwana.io.files.save_and_load": "load save",
        "gondwana.kernels.foreach_kernels": "foreach",
        "gondwana.kernels.fusion": "fused",
        "gondwana.kernels.inspection.inspection": "Inspection inspect",
        "gondwana.kernels.intermediate": "Intermediate",
        "gondwana.kernels.launch_graphs": "Captured capture",
        "gondwana.kernels.random_numbers": "random",
        "gondwana.kernels.reductions": "reduce",
        "gondwana.kernels.trials": "is_faster",
        "gondwana.liveview.values": "LiveView live",
        "gondwana.memory.cuda_kind": "cuda synchronize",
        "gondwana.memory.heap": "Heap HeapFullError",
        "gondwana.memory.kinds": "MemoryKind host",
        "gondwana.memory.pointer": "GlobalPtr",
        "gondwana.memory.segment": "Segment",
        "gondwana.runtime.exits": "RemoteError",
        "gondwana.runtime.launcher": "launched_by restarted",
        "gondwana.runtime.progress": "ProgressError in_callback progress",
        "gondwana.runtime.terminal": "ProgressBar",
        "gondwana.runtime.tracing.spans": "span",
        "gondwana.runtime.watching.rollcall": "name_ranks",
        "gondwana.sync.atomics": "AtomicDomain",
        "gondwana.sync.locks": "Lock",
        "gondwana.sync.signals": "Signal signal wait",
        "gondwana.tasks.asyncio_bridge": "run_coroutine",
        "gondwana.tasks.channel": "Channel ChannelClosed",
        "gondwana.tasks.conditions": "Condition Semaphore",
        "gondwana.tasks.loops": "pfor",
        "gondwana.tasks.pool.pool": "WorkerPool",
        "gondwana.tasks.pool.task": "PoolBrokenError PoolClosedError TimeLimitError WorkerLostError",
        "gondwana.tasks.remote_channel": "RemoteChannel",
        "gondwana.tasks.remote_condition": "RemoteCondition",
        "gondwana.tasks.scheduler": "yield_task",
        "gondwana.tasks.selection": "Selected select",
        "gondwana.tasks.shared_array": "SharedArray",
        "gondwana.tasks.spawning": "Spawned everywhere fetch spawn spawn_at",
        "gondwana.tasks.task": "Task TaskCancelled current_task sleep",
        "gondwana.teams": "world",
        "gondwana.teams.ops": "BAND BOR BXOR IN_PLACE LAND LOR LXOR MAX MAXLOC MIN MINLOC Op PROD SUM",
        "gondwana.teams.request": "PersistentRequest Request start_all",
        "gondwana.teams.team": "Team",
        "gondwana.testing.fake_device": "fake_device",
        "gondwana.transfer.box": "strided",
        "gondwana.transfer.collectives.migration": "migrate",
        "gondwana.transfer.collectives.verbs": "allreduce barrier bcast",
        "gondwana.transfer.completion": "AccessRegion Transfer",
        "gondwana.transfer.runs": "indexed",
        "gondwana.transfer.messages.verbs": "irecv isend recv send sendrecv wait_all",
        "gondwana.transfer.plans.create": "plan",
        "gondwana.transfer.plans.plan": "Plan",
        "gondwana.transfer.verbs": "copy copy_indexed get put",
    },
)

__version__ = "0.1.0"

_sys.meta_path.append(_moved.Finder)

if _recorder is not None:
    from gondwana.traces import closing as _closing

    _closing.at_end_of(_recorder)
    _recorder.imported()
