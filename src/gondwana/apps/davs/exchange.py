"""Which rank holds which clusters, and how their sums and values travel.

Clusters are rows of a table, sorted by their position along axis 0, as the points are. Either every rank has all rows
(`Replicated`), or each has those in its own range of axis 0, its *home* rows, and copies of those of its neighbours
that its points reach (`Divided`). What a rank holds is its *window*: copies from lower ranks, home rows, copies from
higher ranks. Sums of integers make both ways equal to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana.apps.timers import Timers

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Rows = npt.NDArray[Any]


def in_order(rows: Floats) -> Floats:
    """Sort clusters by position, axis 0 first, then by their other columns. Local."""
    return rows[np.lexsort(rows.T[::-1])]


class Replicated:
    """Every rank has all clusters and computes them alike.

    Args:
        team: the ranks.
        timers: get the seconds of communication.
    """

    divided = False

    def __init__(self, team: gw.Team, timers: Timers) -> None:
        self.team, self.timers = team, timers

    def arrange(self, rows: Floats) -> Floats:
        """Sort the home rows, after centres have moved. Local."""
        return in_order(rows)

    def window(self, rows: Floats, low: float, high: float) -> Floats:
        """Return the clusters with positions from `low` to `high`, and maybe more. Local."""
        return rows

    def lacks(self, low: float, high: float) -> bool:
        """Return whether the window has not all clusters from `low` to `high`. Local."""
        return False

    def collect(self, sums: Integers) -> Integers:
        """Add the sums of all ranks for the home rows, and in the last row for the sponge. Collective over team."""
        self.sum(sums)
        return sums

    def spread(self, values: Rows) -> Rows:
        """Return the values of the window from those of the home rows. Local."""
        return values

    def home(self, values: Rows) -> Rows:
        """Return the home rows of a window. Local."""
        return values

    def everything(self, rows: Floats) -> Floats:
        """Return all clusters in order. Local."""
        return rows

    def total(self, values: Integers) -> Integers:
        """Add what all clusters have, each counted once. Local."""
        return values

    def highest(self, value: float) -> float:
        """Return the largest of the values of all clusters. Local."""
        return value

    def sum(self, values: Integers) -> None:
        """Add the contributions of all ranks in place. Collective over team."""
        if self.team.size > 1:
            with self.timers("allreduce"):
                self.team.Allreduce(gw.IN_PLACE, values)


class Divided(Replicated):
    """Every rank has the clusters in its range of axis 0; messages go between ranks whose points share clusters.

    Args:
        team: the ranks.
        timers: get the seconds of communication.
        cuts: positions between the ranges of the ranks: `team.size - 1` of them, ascending.
    """

    divided = True

    def __init__(self, team: gw.Team, timers: Timers, cuts: Floats) -> None:
        super().__init__(team, timers)
        self._cuts = cuts
        self._range = (-np.inf, np.inf)
        self._sent = [slice(0, 0)] * team.size
        self._received = [0] * team.size
        self._rows = 0

    def arrange(self, rows: Floats) -> Floats:
        """Move rows that have left the range of their rank, and sort. Collective over team."""
        homes = np.searchsorted(self._cuts, rows[:, 0], "right")
        arrived = self._deliver([rows[homes == rank] for rank in range(self.team.size)], rows[:0])
        return in_order(np.concatenate(arrived))

    def window(self, rows: Floats, low: float, high: float) -> Floats:
        """Return the clusters with positions from `low` to `high`, and all home rows. Collective over team."""
        with self.timers("allreduce"):
            wanted = np.empty((self.team.size, 2))
            self.team.Allgather(np.array([low, high]), wanted)
        first = np.searchsorted(rows[:, 0], wanted[:, 0], "left")
        last = np.maximum(np.searchsorted(rows[:, 0], wanted[:, 1], "right"), first)
        self._sent = [slice(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        self._sent[self.team.rank] = slice(0, 0)
        arrived = self._deliver([rows[piece] for piece in self._sent], rows[:0])
        self._received = [len(piece) for piece in arrived]
        self._rows, self._range = len(rows), (low, high)
        return self._joined(arrived, rows)

    def lacks(self, low: float, high: float) -> bool:
        """Return whether the window has not all clusters from `low` to `high`. Local."""
        return low < self._range[0] or high > self._range[1]

    def collect(self, sums: Integers) -> Integers:
        """Add the sums of all ranks for the home rows, and in the last row for the sponge. Collective over team."""
        with self.timers("send_receive"):
            ends = np.cumsum(self._received)
            before = int(ends[self.team.rank])
            places = [int(end) + self._rows * (rank > self.team.rank) for rank, end in enumerate(ends)]
            pieces = [sums[end - n : end] for end, n in zip(places, self._received, strict=True)]
            room = [np.empty((s.stop - s.start, sums.shape[1]), np.int64) for s in self._sent]
            self._swap(pieces, room)
            found = np.concatenate([sums[before : before + self._rows], sums[-1:]])
            for piece, arrived in zip(self._sent, room, strict=True):
                found[piece] += arrived
        self.sum(found[-1:])
        return found

    def spread(self, values: Rows) -> Rows:
        """Return the values of the window from those of the home rows. Collective over team."""
        with self.timers("send_receive"):
            room = [np.empty((n, *values.shape[1:]), values.dtype) for n in self._received]
            self._swap([np.ascontiguousarray(values[piece]) for piece in self._sent], room)
        return self._joined(room, values)

    def home(self, values: Rows) -> Rows:
        """Return the home rows of a window. Local."""
        before = sum(self._received[: self.team.rank])
        return values[before : before + self._rows]

    def everything(self, rows: Floats) -> Floats:
        """Return all clusters in order. Collective over team."""
        with self.timers("allreduce"):
            sizes = np.empty(self.team.size, np.int64)
            self.team.Allgather(np.array([rows.size]), sizes)
            found = np.empty(int(sizes.sum()))
            self.team.Allgatherv(np.ascontiguousarray(rows).reshape(-1), (found, sizes.tolist()))
            return found.reshape(-1, rows.shape[1])

    def total(self, values: Integers) -> Integers:
        """Add what all clusters have, each counted once. Collective over team."""
        result = np.array(values, np.int64)
        self.sum(result)
        return result

    def highest(self, value: float) -> float:
        """Return the largest of the values of all clusters. Collective over team."""
        with self.timers("allreduce"):
            return float(self.team.allreduce(value, gw.MAX))

    def _joined(self, pieces: list[Rows], own: Rows) -> Rows:
        rank = self.team.rank
        return np.concatenate([*pieces[:rank], own, *pieces[rank + 1 :]])

    def _deliver(self, pieces: list[Rows], like: Rows) -> list[Rows]:
        """Send a piece to each rank and return what each sent here, of lengths not known before. Collective."""
        with self.timers("send_receive"):
            counts = np.array([len(piece) for piece in pieces])
            lengths = np.empty_like(counts)
            self.team.Alltoall(counts, lengths)
            room = [np.empty((n, *like.shape[1:]), like.dtype) for n in lengths]
            room[self.team.rank] = pieces[self.team.rank]
            self._swap([np.ascontiguousarray(piece) for piece in pieces], room)
        return room

    def _swap(self, pieces: list[Rows], room: list[Rows]) -> None:
        """Exchange pieces of known lengths with the ranks that have any for this one, or get any of it."""
        others = [rank for rank in range(self.team.size) if rank != self.team.rank]
        requests = [self.team.Irecv(room[rank], rank) for rank in others if room[rank].size]
        requests += [self.team.Isend(pieces[rank], rank) for rank in others if pieces[rank].size]
        gw.wait_all(requests)
