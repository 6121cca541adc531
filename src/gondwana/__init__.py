"""Gondwana: one global address space over many memories."""

from gondwana.arrays import Array as Array
from gondwana.arrays import ArrayReference as ArrayReference
from gondwana.arrays import GlobalArray as GlobalArray
from gondwana.arrays import RemoteArray as RemoteArray
from gondwana.arrays import array_at as array_at
from gondwana.arrays import empty as empty
from gondwana.arrays import exchange as exchange
from gondwana.arrays import from_numpy as from_numpy
from gondwana.arrays import full as full
from gondwana.arrays import share as share
from gondwana.arrays import zeros as zeros
from gondwana.arrays import zeros_like as zeros_like
from gondwana.domains import Domain as Domain
from gondwana.domains import Point as Point
from gondwana.domains import RectDomain as RectDomain
from gondwana.domains import X as X
from gondwana.domains import Y as Y
from gondwana.domains import Z as Z
from gondwana.jit import jit as jit
from gondwana.jit import set_threads as set_threads
from gondwana.jit import threads as threads
from gondwana.kernels import foreach as foreach
from gondwana.kernels import random as random
from gondwana.kernels import reduce as reduce
from gondwana.memory import Future as Future
from gondwana.memory import GlobalPtr as GlobalPtr
from gondwana.memory import MemoryKind as MemoryKind
from gondwana.memory import Promise as Promise
from gondwana.memory import Segment as Segment
from gondwana.memory import Signal as Signal
from gondwana.memory import cuda as cuda
from gondwana.memory import host as host
from gondwana.memory import signal as signal
from gondwana.memory import wait as wait
from gondwana.memory import when_all as when_all
from gondwana.world import ProgressError as ProgressError
from gondwana.world import Team as Team
from gondwana.world import world as world
from gondwana.world.progress import in_callback as in_callback
from gondwana.world.progress import progress as progress

__version__ = "0.1.0"
