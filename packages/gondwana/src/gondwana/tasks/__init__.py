"""Tasks of a rank, tasks on other ranks, and the objects that they wait for."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gondwana.runtime import later as _later
from gondwana.tasks.channel import Channel as Channel, ChannelClosed as ChannelClosed
from gondwana.tasks.conditions import Condition as Condition, Semaphore as Semaphore
from gondwana.tasks.loops import pfor as pfor
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

if _TYPE_CHECKING:
    from gondwana.tasks.asyncio_bridge import run_coroutine as run_coroutine

# asyncio takes 5 MB: see `Future.__await__`
__getattr__, __dir__ = _later.later(__name__, {"gondwana.tasks.asyncio_bridge": "run_coroutine"})
