"""Teams of ranks and their communication. The only package that uses MPI."""

from functools import partial as _partial

from gondwana.runtime import start as _start
from gondwana.runtime.exits import RemoteError as RemoteError
from gondwana.teams import mpi as _mpi
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
    wait_all as wait_all,
)
from gondwana.teams.team import Team as Team

world = Team(_partial(_start.connect, _mpi.connect), "world", connected=_start.connected)
"""The team of all ranks. It connects at first use; importing it starts nothing."""
