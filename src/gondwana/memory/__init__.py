"""One address space: memory kinds, segments, global pointers, and what moves data between them."""

from gondwana.memory.atomics import AtomicDomain as AtomicDomain
from gondwana.memory.futures import Future as Future
from gondwana.memory.futures import Promise as Promise
from gondwana.memory.futures import when_all as when_all
from gondwana.memory.heap import Heap as Heap
from gondwana.memory.heap import HeapFullError as HeapFullError
from gondwana.memory.kinds import MemoryKind as MemoryKind
from gondwana.memory.kinds import cuda as cuda
from gondwana.memory.kinds import host as host
from gondwana.memory.locks import Lock as Lock
from gondwana.memory.pointer import GlobalPtr as GlobalPtr
from gondwana.memory.segment import Segment as Segment
from gondwana.memory.signals import Signal as Signal
from gondwana.memory.signals import signal as signal
from gondwana.memory.signals import wait as wait
from gondwana.memory.verbs import allreduce as allreduce
from gondwana.memory.verbs import barrier as barrier
from gondwana.memory.verbs import recv as recv
from gondwana.memory.verbs import send as send
from gondwana.memory.verbs import sendrecv as sendrecv
