"""The clusters of each rank, and the sums over the points of all ranks.

Clusters are rows of a table, sorted by their position along axis 0, as the points are. A rank holds a *window* of them:
all, or, once they are divided, those that its points may reach. Of these, those in its own range of axis 0 are its
*home* rows: each cluster is at home on one rank. Ranks exchange the sums of the rows that both hold, and then all
compute the next centres alike. Sums of integers make both ways equal to the last bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana_apps.timers import Timers

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

ALLREDUCE, SEND_RECEIVE = 0, 1
"""Places of the nanoseconds that compiled code counts."""


class Links(NamedTuple):
    """The connections through which the sums of a window become those of all ranks.

    Attributes:
        team: the ranks.
        pieces: rows that another rank holds too: its number, the first row, the end; in an order without deadlocks.
        common: index of the first row that, with all later ones, all ranks have.
    """

    team: gw.Team
    pieces: Integers
    common: int


class Exchange:
    """The clusters of all ranks. Local to create.

    Args:
        team: the ranks.
        timers: timers of communication.

    Attributes:
        divided: whether ranks hold different clusters.
    """

    def __init__(self, team: gw.Team, timers: Timers) -> None:
        self.team, self.timers = team, timers
        self.divided = False
        self._cuts = np.full(team.size - 1, np.inf)

    def divide(self, points: Floats) -> None:
        """Divide the clusters over the ranks from now on, as the points are now. Collective over the team."""
        ends = np.empty((self.team.size, 2))
        self.team.Allgather(points[[0, -1], 0] if len(points) else np.full(2, np.inf), ends)
        # Ranks without points come last; they get no clusters.
        self._cuts = np.where(np.isinf(ends[1:, 0]), np.inf, 0.5 * (ends[:-1, 1] + ends[1:, 0]))
        self._low, self._high = np.append(-np.inf, self._cuts), np.append(self._cuts, np.inf)
        self.divided = True

    def own(self, rows: Floats) -> Floats:
        """Return the clusters that are at home on this rank. Local."""
        if not self.divided:
            return rows
        return np.asarray(rows[np.searchsorted(self._cuts, rows[:, 0], "right") == self.team.rank])

    def home(self, window: Floats) -> slice:
        """Return the rows of a window that are at home on this rank. Local."""
        if not self.divided:
            return slice(None)
        ends = np.searchsorted(window[:, 0], [self._low[self.team.rank], self._high[self.team.rank]])
        return slice(*ends.tolist())

    def window(self, rows: Floats, radius: float, *, relative: bool) -> tuple[Floats, Links]:
        """Return the clusters near the range of this rank, and its links to other ranks. Collective.

        Args:
            rows: home rows, which may have left the range of this rank.
            radius: distance from the range of a rank, the same on all ranks.
            relative: whether the radius is a share of the position of a cluster.
        """
        if not self.divided:
            return in_order(rows), Links(self.team, np.zeros((0, 3), np.int64), 0)
        low, high = self._low - radius, self._high + radius
        if relative:
            low, high = self._low / (1.0 + radius), self._high / (1.0 - radius) if radius < 1.0 else high + np.inf
        rank, row = np.nonzero((low[:, None] <= rows[:, 0]) & (rows[:, 0] < high[:, None]))
        found = in_order(self.deliver(rows[row], rank))
        first, end = (np.searchsorted(found[:, 0], edge) for edge in (low, high))
        ranks, mine = range(self.team.size), self.team.rank
        # Pairs at one distance take turns, so that no rank waits for one that waits for another.
        others = sorted(set(ranks) - {mine}, key=lambda r: (abs(r - mine), min(r, mine) // abs(r - mine) % 2))
        pieces = [(r, first[r], end[r]) for r in others if first[r] < end[r]]
        return found, Links(self.team, np.array(pieces, np.int64).reshape(-1, 3), len(found))

    def everything(self, rows: Floats) -> Floats:
        """Return all clusters in order, from the home rows of all ranks. Collective over the team."""
        return in_order(self.gather(rows) if self.divided else rows)

    def gather(self, rows: Floats) -> Floats:
        """Return the rows of all ranks, one rank after the other. Collective over the team."""
        ranks = np.arange(self.team.size)
        return self.deliver(np.tile(rows, (len(ranks), 1)), np.repeat(ranks, len(rows)))

    def total(self, values: Integers) -> Integers:
        """Return sums over all clusters, from those over the home rows. Collective over the team."""
        if self.divided:
            with self.timers("allreduce"):
                self.team.Allreduce(gw.IN_PLACE, values)
        return values

    def highest(self, value: float) -> float:
        """Return the largest of the values of all clusters. Collective over the team."""
        if not self.divided:
            return value
        with self.timers("allreduce"):
            return float(self.team.allreduce(value, gw.MAX))

    def deliver(self, rows: Floats, ranks: Integers) -> Floats:
        """Send each row to a rank, and return those sent here, by their senders. Collective over the team.

        `gw.migrate` does it for any order of the ranks; here they ascend, and two collectives are faster.
        """
        with self.timers("send_receive"):
            lengths, width = np.empty(self.team.size, np.int64), rows.shape[1]
            counts = width * np.bincount(ranks, minlength=self.team.size)
            self.team.Alltoall(counts, lengths)
            found = np.empty(int(lengths.sum()))
            self.team.Alltoallv((rows.reshape(-1), counts.tolist()), (found, lengths.tolist()))
        return found.reshape(-1, width)


def in_order(rows: Floats) -> Floats:
    """Return clusters sorted by position, axis 0 first, then by their other columns. Local."""
    return rows[ordering(rows)]


def ordering(rows: Floats) -> Integers:
    """Return the numbers of clusters in the order of `in_order`. Local."""
    # Most often, axis 0 alone decides, and few clusters have changed places.
    order = np.argsort(rows[:, 0], kind="stable")
    return order if (np.diff(rows[order, 0]) > 0.0).all() else np.lexsort(rows.T[::-1])


@gw.jit
def add(threads: Any, links: Any, partial: Any, sums: Any, room: Any, spent: Any) -> None:
    """Add the sums of all threads, and then those of all ranks. Collective over the team.

    Args:
        threads: the threads of this rank.
        links: see `Links`.
        partial: sums of each thread; those of a single thread are `sums`.
        sums: sums of the rows of the window and, in the last row, of the sponge.
        room: space for as many numbers as all rows that are shared with other ranks have.
        spent: gets the nanoseconds of communication.
    """
    width = sums.shape[1]
    threads.barrier()
    if threads.size > 1:
        begin, end = threads.share(0, len(sums))
        for k in range(begin, end):
            for column in range(width):
                total = 0
                for t in range(threads.size):
                    total += partial[t, k, column]
                sums[k, column] = total
        threads.barrier()
    if threads.index == 0 and links.team.size > 1:
        began, place = gw.clock(), 0
        for piece in links.pieces:
            size = (piece[2] - piece[1]) * width
            received = room[place : place + size]
            gw.sendrecv(links.team, sums[piece[1] : piece[2]], piece[0], received, piece[0])
            place += size
        place = 0
        for piece in links.pieces:
            for k in range(piece[1], piece[2]):
                for column in range(width):
                    sums[k, column] += room[place]
                    place += 1
        now = gw.clock()
        gw.allreduce(links.team, sums[links.common :])
        spent[SEND_RECEIVE] += now - began
        spent[ALLREDUCE] += gw.clock() - now
    threads.barrier()
