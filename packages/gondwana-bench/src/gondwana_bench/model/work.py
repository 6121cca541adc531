"""The work of the busiest rank in a step: passes over memory, operations, messages and collectives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["allreduce", "alltoall", "fan"]


@dataclass(frozen=True)
class Sweep:
    """Passes over data.

    Attributes:
        bytes: bytes read and written, with the reads that stores make necessary.
        held: bytes of the data that are swept over: those that fit into the caches need not come from memory.
        operations: operations on numbers.
    """

    bytes: float
    held: float
    operations: float


@dataclass(frozen=True)
class Exchange:
    """Messages that a rank has under way at the same time, as many sent as received.

    Attributes:
        sizes: bytes of each message.
        distances: distance of each partner in the order of ranks.
        times: number of exchanges in a step.
    """

    sizes: tuple[float, ...]
    distances: tuple[int, ...]
    times: float = 1.0


@dataclass(frozen=True)
class Collective:
    """Communication of many ranks.

    Attributes:
        kind: "allreduce"; "alltoall": each rank sends to each other; "fan": each rank sends to rank 0, which answers.
        bytes: bytes of the vector, or of each message.
        ranks: number of ranks that take part.
        stride: distance between these ranks.
        times: number of operations in a step.
    """

    kind: Kind
    bytes: float
    ranks: int
    stride: int = 1
    times: float = 1.0


@dataclass(frozen=True)
class Work:
    """A step of the busiest rank.

    Attributes:
        sweeps: passes, one after the other.
        exchanges: exchanges, one after the other.
        collectives: collectives, one after the other.
        ranks: number of ranks of the run.
    """

    sweeps: tuple[Sweep, ...]
    exchanges: tuple[Exchange, ...]
    collectives: tuple[Collective, ...]
    ranks: int

    @property
    def waits_for(self) -> int:
        """The number of ranks that a rank waits for in a step, itself included."""
        if any(collective.ranks == self.ranks for collective in self.collectives):
            return self.ranks
        around = max((len(exchange.sizes) for exchange in self.exchanges), default=0)
        return min(self.ranks, 1 + around)
