"""The exchange of entries of vectors between ranks: one-sided puts with signals, from Python and from compiled code.

Every rank has, for each level, receive buffers for two exchanges, which take turns. A neighbour's message of one
exchange implies that it has read all of the exchange before, so a put never overwrites what is still to be read, and no
rank waits for a confirmation.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana_apps.hpcg.halo import Halo

RANK, CHANNEL, BASE, STRIDE = range(4)
"""Columns of `Links.targets`: the neighbour's rank, its channel, the offset in its inbox, the distance of its turns."""


class Links(NamedTuple):
    """What compiled code needs to exchange. Messages of all levels are numbered through; a message has its channel.

    Attributes:
        inbox: pointer to the entries received by this rank; `inbox.on(rank)` to those of a neighbour.
        signal: counts arrivals.
        messages: the first message of each level, and the end.
        targets: where each message goes, a row for each: see `RANK`.
        starts: where each message starts in `rows` and `buffer`.
        rows: own rows to send, within their level.
        buffer: what is sent.
        base: where each level begins in `received`.
        stride: entries of an exchange of each level.
        turns: exchanges of each level so far.
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


def link(team: gw.Team, halos: Sequence[Halo]) -> Links:
    """Open memory for the exchanges of all levels. Collective over team.

    Args:
        team: the ranks of the halos.
        halos: of this rank, one for each level.
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
    """For each message to this rank: level, rank it is from, channel, where it goes, and the distance of the turns."""
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
    """Wait for neighbours' messages; return where they start in `links.received`. Collective over the neighbours."""
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
