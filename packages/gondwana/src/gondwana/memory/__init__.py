"""Memory that other ranks can access: kinds, segments, global pointers, heaps."""

from gondwana.memory.cuda_kind import cuda as cuda
from gondwana.memory.cuda_kind import synchronize as synchronize
from gondwana.memory.heap import Heap as Heap
from gondwana.memory.heap import HeapFullError as HeapFullError
from gondwana.memory.kinds import MemoryKind as MemoryKind
from gondwana.memory.kinds import host as host
from gondwana.memory.pointer import GlobalPtr as GlobalPtr
from gondwana.memory.segment import Segment as Segment
