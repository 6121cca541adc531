"""Ghosts by hand, as in Titanium: copies of intersections, and signals between the ranks that exchange them.

    gondwana run -n 4 ghosts.py

The NAS benchmark MG in Titanium has two ways to fill all ghosts of a block, corners included. *By axis*: one message to
each face neighbour, one axis after the other; ghosts received along one axis are sent on along the next, so that 6
messages for each block suffice in three dimensions, but each axis waits for the one before. *At once*: one message to
every neighbour, diagonal ones included, 26 of them in three dimensions, without waits in between. Both are written here
as one copy for each message and compared bit by bit with `exchange(corners=True)`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import gondwana as gw


@dataclass
class Phase:
    """Messages that need not wait for each other: those this rank sends, and the number that it receives."""

    sends: list[tuple[gw.Array | gw.RemoteArray, gw.Array]]
    arrivals: int
    arrived: gw.Signal


class GhostUpdate:
    """Fills the ghosts of one array whenever all ranks call it. Collective over the array's team to make.

    Args:
        field: the array.
        by_axis: one axis after the other; otherwise all neighbours at once.
    """

    def __init__(self, field: gw.GlobalArray, *, by_axis: bool) -> None:
        me, ranks = field.team.rank, range(field.team.size)
        axes = range(field.ndim) if by_axis else [None]
        self.phases = []
        for axis in axes:
            # A copy moves the intersection of the domains: the sender's cells that lie in the receiver's block.
            sends = [
                (field.block(rank), field.local.restrict(sent).translate(shift))
                for rank in ranks
                for sent, shift in messages(field, me, rank, axis)
            ]
            arrivals = sum(1 for rank in ranks for _ in messages(field, rank, me, axis))
            self.phases.append(Phase(sends, arrivals, gw.Signal(field.team)))
        self.ready = gw.Signal(field.team)
        self.neighbours = {block.pointer.rank for phase in self.phases for block, _ in phase.sends}

    def __call__(self) -> None:
        """Fill the ghosts. Blocks until they are filled and this rank's own cells may be changed."""
        # Neighbours send to each other. So two signals are sufficient for any number of rounds: no rank writes into the
        # ghosts of a neighbour that still reads them, and the messages of two rounds are never counted together.
        for rank in self.neighbours:
            self.ready.add(rank)
        if self.neighbours:
            self.ready.wait(len(self.neighbours))
        for phase in self.phases:
            transfers = [block.copy_from_async(cells, notify=phase.arrived) for block, cells in phase.sends]
            if phase.arrivals:
                phase.arrived.wait(phase.arrivals)
            gw.when_all(*(transfer.remote for transfer in transfers)).wait()


def messages(
    field: gw.GlobalArray, sender: int, receiver: int, axis: int | None
) -> Iterator[tuple[gw.RectDomain, gw.Point]]:
    """The cells that one rank sends to another, and how far they are moved around periodic axes.

    Along an axis, a rank also sends on the ghosts that have come along the axes before.
    """
    cells = field.owned_of(sender)
    if axis is not None:
        if any(field.owned_of(receiver).axes[a] != cells.axes[a] for a in range(field.ndim) if a != axis):
            return
        passed_on = [field.ghost[a] if a < axis else 0 for a in range(field.ndim)]
        cells = cells.accrete(passed_on) & inside(field)
    for shift in shifts(field, axis):
        if sender != receiver or any(shift):
            sent = (field.block(receiver).domain - shift) & cells
            if not sent.is_empty:
                yield sent, shift


def shifts(field: gw.GlobalArray, axis: int | None) -> Iterator[gw.Point]:
    """How far a cell may be moved to be its own image around the periodic axes, or around one of them."""
    turns = []
    for a, (length, ghost, periodic) in enumerate(zip(field.domain.shape, field.ghost, field.periodic, strict=True)):
        most = -(-ghost // length) if periodic and axis in (None, a) else 0
        turns.append([turn * length for turn in range(-most, most + 1)])
    return map(gw.Point, itertools.product(*turns))


def inside(field: gw.GlobalArray) -> gw.RectDomain:
    """The domain and the ghosts around it that are images of its cells: those across periodic axes."""
    return field.domain.accrete(
        [width if periodic else 0 for width, periodic in zip(field.ghost, field.periodic, strict=True)]
    )


def agree(field: gw.GlobalArray, *, rounds: int = 3) -> bool:
    """Whether both updates give this rank the bits that `exchange` gives, round after round."""
    updates: list[Callable[[], None]] = [
        GhostUpdate(field, by_axis=True),
        GhostUpdate(field, by_axis=False),
        lambda: field.exchange(corners=True).wait(),
    ]
    same = True
    for step in range(rounds):
        rng = np.random.default_rng([step, field.team.rank])
        cells = gw.Array(rng.integers(0, 100, field.owned.shape).astype(field.dtype), field.owned)
        results: list[bytes] = []
        for update in updates:
            field.local.fill(100 + step)  # ghosts outside of the domain keep this
            field.local.copy_from(cells)
            update()
            results.append(field.local.numpy().tobytes())
        same = same and results[0] == results[1] == results[2]
    return same


def main() -> None:
    """Compare the two updates with `exchange` on some domains."""
    for shape, periodic in [((64, 48, 33), True), ((64, 48, 33), (True, False, False)), ((50, 41), True), ((9,), True)]:
        field = gw.zeros(shape, ghost=2, periodic=periodic)
        same = field.team.allgather(agree(field))
        if field.team.rank == 0:
            print(
                f"{shape}, periodic {field.periodic}, blocks {field.grid}:", "same bits" if all(same) else "DIFFERENT"
            )
        if not all(same):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
