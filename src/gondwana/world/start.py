"""How a process becomes a rank of the world: once, at the first use of ``gondwana.world``."""

from __future__ import annotations

from gondwana.world import exits, mpi, watchdog


def connect() -> mpi.Communicator:
    """Start MPI if it is wanted, errors handling and the watchdog; return the communicator. Collective over all ranks.

    Raises:
        LaunchError: several processes were started, but they cannot find each other.
        UsageError: a GONDWANA_ variable has an illegal value.
    """
    exits.install()
    limit = watchdog.time_limit()
    comm = mpi.connect()
    exits.connected(comm)
    watchdog.start(comm, limit)
    return comm
