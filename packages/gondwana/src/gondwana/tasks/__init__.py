"""Tasks of a rank, tasks on other ranks, and the objects that they wait for."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gondwana.runtime import later as _later
from gondwana.tasks.channel import Channel as Channel
from gondwana.tasks.channel import ChannelClosed as ChannelClosed
from gondwana.tasks.conditions import Condition as Condition
from gondwana.tasks.conditions import Semaphore as Semaphore
from gondwana.tasks.loops import pfor as pfor
from gondwana.tasks.remote_channel import RemoteChannel as RemoteChannel
from gondwana.tasks.remote_condition import RemoteCondition as RemoteCondition
from gondwana.tasks.scheduler import yield_task as yield_task
from gondwana.tasks.selection import Selected as Selected
from gondwana.tasks.selection import select as select
from gondwana.tasks.shared_array import SharedArray as SharedArray
from gondwana.tasks.spawning import Spawned as Spawned
from gondwana.tasks.spawning import everywhere as everywhere
from gondwana.tasks.spawning import fetch as fetch
from gondwana.tasks.spawning import spawn as spawn
from gondwana.tasks.spawning import spawn_at as spawn_at
from gondwana.tasks.task import Task as Task
from gondwana.tasks.task import TaskCancelled as TaskCancelled
from gondwana.tasks.task import current_task as current_task
from gondwana.tasks.task import sleep as sleep

if _TYPE_CHECKING:
    from gondwana.tasks.asyncio_bridge import run_coroutine as run_coroutine

# asyncio takes 5 MB: see `Future.__await__`
__getattr__, __dir__ = _later.later(__name__, {"gondwana.tasks.asyncio_bridge": "run_coroutine"})
