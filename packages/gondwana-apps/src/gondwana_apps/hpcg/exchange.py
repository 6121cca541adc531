"""The exchange of entries of vectors between ranks: one-sided puts with signals, from Python and from compiled code.

The entries that ranks need from each other follow from the matrix alone (HPCG 3.1).

Every rank has, for each level, receive buffers for two exchanges, which take turns. A neighbour's message of one
exchange implies that it has read all of the previous one, so a put never overwrites unread entries, and no rank waits
for a confirmation.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana_apps.hpcg.grid import Geometry

RANK, CHANNEL, BASE, STRIDE = range(4)
"""Columns of `Links.targets`: the neighbour's rank, its channel, the offset in its inbox, the distance of its turns."""


@dataclass(frozen=True)
class Halo:
    """The exchange of one level, seen from one rank. Inside a neighbour's part everything ascends by global number.

    Attributes:
        neighbours: ranks of the neighbours, ascending.
        received: numbers of entries from each neighbour; in this order they follow the own entries of a vector.
        sent: own rows whose entries each neighbour needs.
    """

    neighbours: tuple[int, ...]
    received: tuple[int, ...]
    sent: tuple[NDArray[np.int64], ...]

    @property
    def size(self) -> int:
        """Entries from all neighbours together."""
        return sum(self.received)


class Links(NamedTuple):
    """Data of exchanges for compiled code. Messages of all levels are numbered consecutively; each has its channel.

    Attributes:
        inbox: pointer to the entries received by this rank; `inbox.on(rank)` to those of a neighbour.
        signal: signal that counts arrivals.
        messages: the first message of each level, and the end.
        targets: target of each message, one in a row: see `RANK`.
        starts: start of each message in `rows` and `buffer`.
        rows: own rows to send, within their level.
        buffer: entries to send.
        base: start of each level in `received`.
        stride: entries of an exchange of each level.
        turns: number of exchanges of each level so far.
        received: the inbox of this rank.
    """

    inbox: gw.GlobalPtr
    signal: gw.Signal
    messages: NDArray[np.int64]
    targets: NDArray[np.int64]
    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    buffer: NDArray[np.float64]
    base: NDArray[np.int64]
    stride: NDArray[np.int64]
    turns: NDArray[np.int64]
    received: NDArray[np.float64]


def connect(
    geometry: Geometry, points: NDArray[np.int64], counts: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], Halo]:
    """Number the columns locally and find the entries to exchange. Local: the pattern of the matrix is symmetric.

    Args:
        geometry: geometry, which says which rank owns a point.
        points: global numbers of the columns.
        counts: entries of each row.

    Returns:
        The local numbers of the columns, and the exchange.
    """
    columns = np.empty(points.shape, np.uint32)
    nowhere = np.empty(0, np.int64)
    box = geometry.local, geometry.origin, geometry.shape
    total = localise(points, counts, columns, *box, nowhere, nowhere, nowhere)
    rows, places, outside = (np.empty(total, np.int64) for _ in range(3))
    localise(points, counts, columns, *box, rows, places, outside)
    wanted, which = np.unique(outside, return_inverse=True)
    owners, _ = geometry.locate(wanted)
    order = np.lexsort((wanted, owners))
    numbers = np.empty_like(order)
    numbers[order] = geometry.rows + np.arange(len(order))
    columns[rows, places] = numbers[which]
    neighbours, received = np.unique(owners, return_counts=True)
    # The order of local rows is that of their global numbers.
    sent = tuple(np.unique(rows[owners[which] == neighbour]) for neighbour in neighbours)
    return columns, Halo(tuple(map(int, neighbours)), tuple(map(int, received)), sent)


@gw.jit
def localise(
    points: Any, counts: Any, columns: Any, sides: Any, origin: Any, shape: Any, rows: Any, places: Any, outside: Any
) -> int:
    """Turn global column numbers into local ones; return the number of those of other ranks, and list all that fit."""
    found, y, z = 0, 0, 0
    line = -shape[0]
    for row in range(len(counts)):
        for place in range(counts[row]):
            point = points[row, place]
            if not line <= point < line + shape[0]:
                # Divisions are slow, and neighbouring entries are mostly on one line along x.
                number = point // shape[0]
                line = number * shape[0]
                y, z = number % shape[1] - origin[1], number // shape[1] - origin[2]
            x = point - line - origin[0]
            if 0 <= x < sides[0] and 0 <= y < sides[1] and 0 <= z < sides[2]:
                columns[row, place] = x + sides[0] * (y + sides[1] * z)
                continue
            if found < len(rows):
                rows[found], places[found], outside[found] = row, place, point
            found += 1
        for place in range(counts[row], columns.shape[1]):
            columns[row, place] = row
    return found


def link(team: gw.Team, halos: Sequence[Halo]) -> Links:
    """Open memory for the exchanges of all levels. Collective over team.

    Args:
        team: the ranks of the halos.
        halos: halos of this rank, one for each level.
    """
    stride = np.array([halo.size for halo in halos], np.int64)
    base = np.concatenate(([0], np.cumsum(2 * stride)[:-1]))
    inbox = gw.Segment(team, 8 * max(1, 2 * int(stride.sum()))).pointer(dtype="f8")
    routes = _routes(halos, base, stride)
    theirs = dict(zip(range(team.size), team.allgather({key[:2]: key[2:] for key in routes}), strict=True))
    targets = np.zeros((len(routes), 4), np.int64)
    for message, (level, rank, *_) in enumerate(routes):
        targets[message] = rank, *theirs[rank][level, team.rank]
    signal = gw.Signal(team, channels=max(1, *(len(found) for found in theirs.values())))
    sent = [rows for halo in halos for rows in halo.sent]
    return Links(
        inbox=inbox,
        signal=signal,
        messages=np.array([0, *itertools.accumulate(len(halo.neighbours) for halo in halos)], np.int64),
        targets=targets,
        starts=np.array([0, *itertools.accumulate(map(len, sent))], np.int64),
        rows=np.concatenate([np.empty(0, np.int64), *sent]),
        buffer=np.zeros(sum(map(len, sent))),
        base=base,
        stride=stride,
        turns=np.zeros(len(halos), np.int64),
        received=inbox.local(inbox.room),
    )


def _routes(
    halos: Sequence[Halo], base: NDArray[np.int64], stride: NDArray[np.int64]
) -> list[tuple[int, int, int, int, int]]:
    """For each message to this rank: level, source rank, channel, target, and the distance of the turns."""
    routes: list[tuple[int, int, int, int, int]] = []
    for level, halo in enumerate(halos):
        place = int(base[level])
        for rank, count in zip(halo.neighbours, halo.received, strict=True):
            routes.append((level, rank, len(routes), place, int(stride[level])))
            place += count
    return routes


@gw.jit
def begin(links: Any, level: int, vector: Any) -> None:
    """Send the entries of a level's vector that neighbours need. Collective over the neighbours; does not wait."""
    turn = links.turns[level] & 1
    for message in range(links.messages[level], links.messages[level + 1]):
        first, last = links.starts[message], links.starts[message + 1]
        for place in range(first, last):
            links.buffer[place] = vector[links.rows[place]]
        target = links.targets[message]
        there = links.inbox.on(target[RANK]) + (target[BASE] + turn * target[STRIDE])
        gw.put(links.buffer[first:last], there, notify=links.signal.at(target[RANK], target[CHANNEL]))


@gw.jit
def finish(links: Any, level: int) -> int:
    """Wait for neighbours' messages; return their start in `links.received`. Collective over the neighbours."""
    for message in range(links.messages[level], links.messages[level + 1]):
        gw.wait(links.signal, 1, message)
    turn = links.turns[level]
    links.turns[level] = turn + 1
    return links.base[level] + (turn & 1) * links.stride[level]  # type: ignore[no-any-return]


@gw.jit
def update(links: Any, level: int, vector: Any) -> None:
    """Update the end of a vector, which holds entries of other ranks. Collective over the neighbours."""
    begin(links, level, vector)
    start = finish(links, level)
    count = links.stride[level]
    rows = len(vector) - count
    for place in range(count):
        vector[rows + place] = links.received[start + place]
