"""Teams and operations as arguments of compiled code: of a team the handle of the communicator, the rank, the size."""

from __future__ import annotations

from gondwana.compiler.mpi import table
from gondwana.compiler.types.arguments import Described, register_describer
from gondwana.compiler.types.handles import describe_handle
from gondwana.teams import Op, Team, addresses, mpi


def _describe(team: Team) -> Described:
    """Spec and words for compiled code.

    Handle of the communicator or 0, rank, size, memory on the node or 0, address of the ranks in the world.
    """
    table.link_delivery()
    serial = mpi.is_serial(team.comm)
    handle = 0 if serial else addresses.handle(team.comm)
    memory = team.on_node.address if team.on_node is not None else 0
    words = handle, team.rank, team.size, memory, team.world_ranks_at
    return describe_handle("team", ("serial" if serial else "mpi",), words)


register_describer(Team, _describe)
register_describer(Op, lambda op: describe_handle("operation", (op.name,), ()))
