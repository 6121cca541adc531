"""Teams of ranks and their communication. The only package that uses MPI."""

from functools import partial as _partial

from gondwana.runtime import start as _start
from gondwana.runtime.exits import RemoteError as RemoteError
from gondwana.teams import mpi as _mpi
from gondwana.teams.ops import BAND as BAND
from gondwana.teams.ops import BOR as BOR
from gondwana.teams.ops import BXOR as BXOR
from gondwana.teams.ops import IN_PLACE as IN_PLACE
from gondwana.teams.ops import LAND as LAND
from gondwana.teams.ops import LOR as LOR
from gondwana.teams.ops import LXOR as LXOR
from gondwana.teams.ops import MAX as MAX
from gondwana.teams.ops import MAXLOC as MAXLOC
from gondwana.teams.ops import MIN as MIN
from gondwana.teams.ops import MINLOC as MINLOC
from gondwana.teams.ops import PROD as PROD
from gondwana.teams.ops import SUM as SUM
from gondwana.teams.ops import Op as Op
from gondwana.teams.request import PersistentRequest as PersistentRequest
from gondwana.teams.request import Request as Request
from gondwana.teams.request import start_all as start_all
from gondwana.teams.request import wait_all as wait_all
from gondwana.teams.team import Team as Team

world = Team(_partial(_start.connect, _mpi.connect), "world", connected=_start.connected)
"""The team of all ranks. It connects at first use; importing it starts nothing."""
