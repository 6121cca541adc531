"""Memory that other ranks can access: kinds, segments, global pointers, heaps."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gondwana.runtime import later as _later

if _TYPE_CHECKING:
    from gondwana.memory.cuda_kind import cuda as cuda, synchronize as synchronize
    from gondwana.memory.heap import Heap as Heap, HeapFullError as HeapFullError
    from gondwana.memory.kinds import MemoryKind as MemoryKind, host as host
    from gondwana.memory.pointer import GlobalPtr as GlobalPtr
    from gondwana.memory.segment import Segment as Segment

__getattr__, __dir__ = _later.later(
    __name__,
    {
        "gondwana.memory.cuda_kind": "cuda synchronize",
        "gondwana.memory.heap": "Heap HeapFullError",
        "gondwana.memory.kinds": "MemoryKind host",
        "gondwana.memory.pointer": "GlobalPtr",
        "gondwana.memory.segment": "Segment",
    },
)
