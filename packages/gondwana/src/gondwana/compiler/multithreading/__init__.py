"""Threads of a rank: the pool that runs kernels, and teams of threads that run a compiled function together."""

from gondwana.compiler.multithreading.pool import set_threads as set_threads
from gondwana.compiler.multithreading.pool import threads as threads
from gondwana.compiler.multithreading.team import ThreadTeam as ThreadTeam
from gondwana.compiler.multithreading.team import parallel as parallel
