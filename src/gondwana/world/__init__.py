"""Start-up, teams of ranks and their communication: the only layer that knows MPI."""

from gondwana.world import start as _start
from gondwana.world.exits import RemoteError as RemoteError
from gondwana.world.ops import BAND as BAND
from gondwana.world.ops import BOR as BOR
from gondwana.world.ops import BXOR as BXOR
from gondwana.world.ops import IN_PLACE as IN_PLACE
from gondwana.world.ops import LAND as LAND
from gondwana.world.ops import LOR as LOR
from gondwana.world.ops import LXOR as LXOR
from gondwana.world.ops import MAX as MAX
from gondwana.world.ops import MAXLOC as MAXLOC
from gondwana.world.ops import MIN as MIN
from gondwana.world.ops import MINLOC as MINLOC
from gondwana.world.ops import PROD as PROD
from gondwana.world.ops import SUM as SUM
from gondwana.world.ops import Op as Op
from gondwana.world.progress import ProgressError as ProgressError
from gondwana.world.request import PersistentRequest as PersistentRequest
from gondwana.world.request import Request as Request
from gondwana.world.request import start_all as start_all
from gondwana.world.request import wait_all as wait_all
from gondwana.world.team import Team as Team

world = Team(_start.connect, "world", connected=_start.connected)
"""The team of all ranks. It connects at first use; importing it starts nothing."""
