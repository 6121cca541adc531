"""Filling ghosts in any memory: one copy a neighbour and array, and signals, as a program would do it by hand."""

from __future__ import annotations

from gondwana.arrays.ghost_cells import GhostCells
from gondwana.arrays.ghost_exchange import Exchange
from gondwana.futures import Future
from gondwana.gpu.device import Event, opened
from gondwana.sync.signals import Signal


class CopiedExchange(Exchange):
    """The exchange of arrays of which some lie in the memory of devices. Collective over their team to make."""

    def __init__(self, cells: GhostCells) -> None:
        super().__init__(cells)
        self._neighbours = cells.neighbours
        sources = [cells.team.rank, *cells.neighbours]
        self._moves = [move for rank in sources for move in cells.to(rank)]
        self._arrivals = sum(len(cells.between(rank, cells.team.rank)) for rank in sources)
        self._ready = Signal(cells.team)
        self._arrived = Signal(cells.team)
        self._sent: list[Future[None]] = []
        self._kernels: list[Event] = []
        self._told = self._done = False

    def _begin(self) -> None:
        self._sent, self._told, self._done = [], False, False
        self._kernels = [one.record(one.compute) for one in opened()]
        self._advance()

    def _soon(self) -> bool:
        return self._advance()

    def _advance(self) -> bool:
        self._told = self._told or self._tell_ready()
        # Who sends also receives, so no neighbour is a round ahead before all signals of this one are consumed.
        if self._told and not self._done and (self._sent or self._may_write()):
            self._sent = self._sent or [
                move.target.copy_from_async(move.source, notify=self._arrived).remote for move in self._moves
            ]
            # Without those who wait being told, this rank must not turn to anything that makes no progress.
            told = all(future.done() for future in self._sent)
            self._done = told and self._consume(self._arrived, self._arrivals)
        return self._done

    def _tell_ready(self) -> bool:
        """Let the neighbours write if no kernel reads the ghosts any more."""
        if not all(event.reached() for event in self._kernels):
            return False
        self._kernels = []
        for rank in self._neighbours:
            self._ready.add(rank)
        return True

    def _may_write(self) -> bool:
        """Whether the ghosts of all neighbours may be overwritten."""
        return self._consume(self._ready, len(self._neighbours))

    @staticmethod
    def _consume(signal: Signal, count: int) -> bool:
        """Take so many arrivals if they are there."""
        if count and not signal.ready(count):
            return False
        if count:
            signal.wait(count)
        return True

    def _end(self) -> None:
        self._sent = []
