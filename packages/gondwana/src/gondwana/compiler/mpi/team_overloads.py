"""Teams in compiled code: `team.rank`, `team.size`, and the handle of the communicator."""

from __future__ import annotations

from typing import Any

from numba.core.errors import TypingError
from numba.extending import overload_attribute

from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.types.handle_types import family_type, handle_word, is_handle

TeamType = family_type("team")


def check_team(kind: Any) -> None:
    """Refuse, when a function is compiled, what is no team. Local.

    Raises:
        TypingError: it is none.
    """
    if not is_handle(kind, "team"):
        raise TypingError(f"the first argument is {kind}: give a team, such as gw.world, passed as an argument")


def has_mpi(kind: Any) -> bool:
    """Tell whether the type of a team is that of one with MPI; one without has a single rank. Local."""
    return bool(kind.parameters == ("mpi",))


@inlined
def communicator(team: Any) -> int:
    """The handle of the communicator of a team."""
    return handle_word(team, 0)  # type: ignore[no-any-return]


@inlined
def memory_on_node(team: Any) -> int:
    """The address of the memory that all ranks of the team share for small collectives, 0 without any."""
    return handle_word(team, 3)  # type: ignore[no-any-return]


@inlined
def ranks_in_world(team: Any) -> int:
    """The address of the ranks in the world of the ranks of the team."""
    return handle_word(team, 4)  # type: ignore[no-any-return]


@overload_attribute(TeamType, "rank", jit_options=INLINED)
def _rank(team: Any) -> Any:
    def read(team: Any) -> int:
        return handle_word(team, 1)  # type: ignore[no-any-return]

    return read


@overload_attribute(TeamType, "size", jit_options=INLINED)
def _size(team: Any) -> Any:
    def read(team: Any) -> int:
        return handle_word(team, 2)  # type: ignore[no-any-return]

    return read
