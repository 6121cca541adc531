"""What an exchange moves: the cells of one rank that are ghosts of another, for several arrays in one order."""

from __future__ import annotations

from dataclasses import dataclass

from gondwana.arrays.array import MemoryOrder
from gondwana.arrays.base import DomainArray
from gondwana.arrays.global_array import GlobalArray


@dataclass(frozen=True, slots=True)
class Move:
    """One copy of an exchange.

    Attributes:
        source: cells of their owner, in the coordinates of the rank that gets them.
        target: the ghosts that they go to.
        order: memory order of the global array.
    """

    source: DomainArray
    target: DomainArray
    order: MemoryOrder


class GhostCells:
    """The ghosts of some arrays of one team as a rank of the team sees them. Local.

    Attributes:
        arrays: in the order of the moves.
        team: theirs.
        neighbours: the other ranks that own ghosts of this one; ghosts being as wide everywhere, this one owns ghosts
            of theirs.
    """

    def __init__(self, arrays: tuple[GlobalArray, ...], corners: bool) -> None:
        self.arrays = arrays
        self.team = arrays[0].team
        self._corners = corners
        me = self.team.rank
        owners = {piece.owner for array in arrays for piece in array.layout.pieces(me, corners=corners)}
        self.neighbours = sorted(owners - {me})

    def between(self, owner: int, holder: int) -> list[Move]:
        """Return the copies from cells of one rank to ghosts of another, in an order that both agree on. Local."""
        return [
            Move(
                array.block(owner).restrict(piece.target + piece.shift).translate(-piece.shift),
                array.block(holder).restrict(piece.target),
                array.order,
            )
            for array in self.arrays
            for piece in array.layout.pieces(holder, corners=self._corners)
            if piece.owner == owner
        ]

    def to(self, rank: int) -> list[Move]:
        """Return what this rank writes into the ghosts of a rank, or its own. Local."""
        return self.between(self.team.rank, rank)
