"""Plans in any memory: one copy a pair, and signals, as a program would do it by hand."""

from __future__ import annotations

from gondwana.futures import Future
from gondwana.gpu.device import Event, opened
from gondwana.sync.signals import Signal
from gondwana.transfer.plans.pairs import Copies
from gondwana.transfer.plans.plan import Plan
from gondwana.transfer.verbs import copy


class CopiedPlan(Plan):
    """A plan of copies of which some ends lie in the memory of devices. Collective over its team to make."""

    def __init__(self, copies: Copies) -> None:
        super().__init__(copies)
        self._pairs = [pair for pairs in copies.outgoing.values() for pair in pairs]
        self._receivers = copies.receivers
        self._senders = sorted(copies.incoming)
        self._arrivals = len(copies.own) + sum(map(len, copies.incoming.values()))
        self._ready = Signal(copies.team)
        self._arrived = Signal(copies.team)
        self._sent: list[Future[None]] = []
        self._kernels: list[Event] = []
        self._signalled = self._done = False
        self._record(self._ready.segment.key, ())

    def _begin(self) -> None:
        self._sent, self._signalled, self._done = [], False, False
        self._kernels = [one.record(one.compute) for one in opened()]
        self._advance()

    def _soon(self) -> bool:
        return self._advance()

    def _advance(self) -> bool:
        self._signalled = self._signalled or self._signal_ready()
        # Who writes here waits for this rank each round, so no signal of the next round mixes with those of this one.
        if self._signalled and not self._done and (self._sent or self._may_write()):
            self._sent = self._sent or [copy(*pair, notify=self._arrived).remote for pair in self._pairs]
            # Until those who wait are notified, this rank must not turn to anything that makes no progress.
            notified = all(future.done() for future in self._sent)
            self._done = notified and self._consume(self._arrived, self._arrivals)
        return self._done

    def _signal_ready(self) -> bool:
        """Let others write if no kernel reads the destinations any more."""
        if not all(event.reached() for event in self._kernels):
            return False
        self._kernels = []
        for rank in self._senders:
            self._ready.add(rank)
        return True

    def _may_write(self) -> bool:
        """Whether all destinations at other ranks may be overwritten."""
        return self._consume(self._ready, len(self._receivers))

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
