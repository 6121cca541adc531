"""Three ways by which a rank gets the cells at its neighbours' faces, each for one array.

- `one_sided`: the library's exchange of ghosts. On a node every rank stores its cells into its neighbours' ghosts and
  raises a flag; no rank receives anything.
- `TwoSided`: cells are packed and sent, received and unpacked: non-blocking messages, as in the original program.
- `CopyNotify`: a one-sided copy into the neighbour's ghosts calls a function there that counts arrivals, as in the port
  of the original to UPC++.

Between `start` and `wait` the ghosts and the cells at the faces must not be touched. A step reads the ghosts of one
array and writes the other, and every rank sends in every step: so no rank sends to ghosts that are still being read,
and no rank needs to ask (`ready`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.runtime.progress import wait_until

_POLLS = 1000
"""Checks for arrivals before the processor is yielded to other ranks between them."""

_yield_processor = gw.extern("libc.so.6", "sched_yield", "i4()")


class Exchange(Protocol):
    """Fills the ghosts of an array, as a plan of the library does. Collective over its team to make."""

    def start(self) -> object:
        """Start; the cells at the faces have their values. Collective over the neighbours; does not wait for them."""

    def wait(self) -> None:
        """Wait for the ghosts, and until the cells may change. Collective over the neighbours; blocks."""


class Face(NamedTuple):
    """The exchange between a rank and one neighbour; across a face, or an edge or a corner if these are needed.

    Attributes:
        rank: rank of the neighbour.
        ghosts: ghosts of this rank, cells of the neighbour.
        cells: cells of this rank, ghosts of the neighbour.
    """

    rank: int
    ghosts: gw.RectDomain
    cells: gw.RectDomain


def faces(layout: gw.Layout, rank: int) -> list[Face]:
    """Return the faces that a rank shares with others; with ghosts for two steps, edges and corners too. Local."""
    corners = has_corners(layout)
    around = layout.pieces(rank, corners=corners)
    return [
        Face(piece.owner, piece.target, theirs.target)
        for piece in around
        for theirs in layout.pieces(piece.owner, corners=corners)
        if theirs.owner == rank
    ]


def has_corners(layout: gw.Layout) -> bool:
    """Return whether ghosts at edges and corners are filled: the first of two steps in one sweep needs them. Local."""
    return max(layout.ghost) > 1


def one_sided(T: gw.GlobalArray) -> gw.Plan:
    """Return the library's exchange of ghosts. Collective over the team of the array."""
    plan = gw.exchange(T, corners=has_corners(T.layout), ready=True)
    plan.wait()
    return plan


class TwoSided:
    """Non-blocking messages between packed planes, also from and to the memory of devices."""

    def __init__(self, T: gw.GlobalArray) -> None:
        self._T = T
        self._faces = faces(T.layout, T.team.rank)
        self._inboxes = [gw.Array.empty(face.ghosts, T.dtype) for face in self._faces]
        self._requests: list[gw.Request] = []

    def start(self) -> None:
        """Receive and send without waiting."""
        team = self._T.team
        for face, inbox in zip(self._faces, self._inboxes, strict=True):
            self._requests.append(gw.irecv(team, inbox, face.rank))
        for face in self._faces:
            self._requests.append(gw.isend(team, self._T.local.restrict(face.cells).copy(), face.rank))

    def wait(self) -> None:
        """Wait for all messages, and unpack those received."""
        gw.wait_all(self._requests)
        self._requests.clear()
        for inbox in self._inboxes:
            self._T.local.copy_from(inbox)


class CopyNotify:
    """Copies into the ghosts of the neighbours; each counts itself there when it has arrived.

    A fast neighbour may be a round ahead of a slow one, so they are counted separately.
    """

    def __init__(self, T: gw.GlobalArray) -> None:
        shared = faces(T.layout, T.team.rank)
        self._rounds = 0
        self._arrivals = gw.DistObject(dict.fromkeys((face.rank for face in shared), 0), T.team)
        self._notify = _arrive, self._arrivals, T.team.rank
        self._ends = [(T.local.restrict(face.cells), T.block(face.rank).restrict(face.cells)) for face in shared]
        self._copies: list[gw.Future[Any]] = []

    def start(self) -> None:
        """Start the copies."""
        self._rounds += 1
        for cells, ghosts in self._ends:
            self._copies.append(gw.copy(cells, ghosts, notify=self._notify))

    def wait(self) -> None:
        """Wait until each neighbour's copy has arrived here, and the copies made here are complete."""
        counts, what = self._arrivals.value, "the copies of the neighbours"
        wait_until(lambda: all(count >= self._rounds for count in counts.values()), what, bell=True)
        gw.when_all(*self._copies).wait()
        self._copies.clear()


def _arrive(arrivals: gw.DistObject[dict[int, int]], rank: int) -> None:
    arrivals.value[rank] += 1


EXCHANGES: dict[str, Callable[[gw.GlobalArray], Exchange]] = {
    "one-sided": one_sided,
    "two-sided": TwoSided,
    "copy-notify": CopyNotify,
}
"""Exchanges by their names in the settings."""


class Messages(NamedTuple):
    """Data of two-sided exchanges for compiled code. A message has `starts[n]` to `starts[n + 1]` of both buffers.

    Attributes:
        team: team of the array.
        ranks: the neighbour of each message.
        starts: start of each message.
        outbox: cells to send.
        inbox: ghosts as they arrive.
        packing: plan of the copies from the array to `outbox`.
        unpacking: plan of the copies from `inbox` to the array.
        requests: requests of receives, then of sends.
    """

    team: gw.Team
    ranks: NDArray[np.int64]
    starts: NDArray[np.int64]
    outbox: NDArray[np.float64]
    inbox: NDArray[np.float64]
    packing: gw.Plan
    unpacking: gw.Plan
    requests: NDArray[np.int64]


def messages(T: gw.GlobalArray, inbox: NDArray[np.float64] | None = None) -> Messages:
    """Return the messages of this rank. Collective over the team of the array.

    Args:
        T: the array.
        inbox: memory for the ghosts as they arrive; default: new memory.
    """
    shared, team = faces(T.layout, T.team.rank), T.team
    starts = np.cumsum([0, *(face.cells.size for face in shared)])
    outbox, inbox = np.zeros(starts[-1]), np.zeros(starts[-1]) if inbox is None else inbox
    sent, received = [], []
    for face, first, end in zip(shared, starts[:-1], starts[1:], strict=True):
        sent.append((T.local.restrict(face.cells), outbox[first:end].reshape(face.cells.shape)))
        received.append((inbox[first:end].reshape(face.ghosts.shape), T.local.restrict(face.ghosts)))
    return Messages(
        team=team,
        ranks=np.array([face.rank for face in shared], np.int64),
        starts=starts,
        outbox=outbox,
        inbox=inbox,
        packing=gw.plan(sent, team),
        unpacking=gw.plan(received, team),
        requests=np.zeros(2 * len(shared), np.int64),
    )


class Notified(NamedTuple):
    """Data of copies that notify, on one node, for compiled code.

    Attributes:
        messages: the cells, packed, and the ghosts as they arrive.
        targets: place of each message in the neighbour's part of `inboxes`.
        inboxes: pointer to the inbox of this rank; `inboxes.on(rank)` to that of a neighbour.
        arrival: active message that counts at its target.
        counts: numbers of messages of each rank that have arrived.
        rounds: number of exchanges so far.
    """

    messages: Messages
    targets: NDArray[np.int64]
    inboxes: gw.GlobalPtr
    arrival: gw.ActiveMessage
    counts: NDArray[np.int64]
    rounds: NDArray[np.int64]


def notified(T: gw.GlobalArray) -> Notified:
    """Return memory for copies that notify. Collective over the team of the array."""
    team, size = T.team, sum(face.ghosts.size for face in faces(T.layout, T.team.rank))
    inboxes = gw.Segment(team, max(8, 8 * size)).pointer(dtype="f8")
    made = messages(T, inboxes.local(size))
    places = team.allgather(dict(zip(made.ranks.tolist(), made.starts.tolist(), strict=False)))
    counts = np.zeros(team.size, np.int64)
    return Notified(
        messages=made,
        targets=np.array([places[rank][team.rank] for rank in made.ranks], np.int64),
        inboxes=inboxes,
        arrival=gw.ActiveMessage(_count_arrival, (), context=(counts,), team=team),
        counts=counts,
        rounds=np.zeros(1, np.int64),
    )


def _count_arrival(source: int, counts: Any) -> None:
    counts[source] += 1


def as_rows(boxes: list[gw.RectDomain]) -> NDArray[np.int64]:
    """Return boxes for compiled code: lower and upper corners, a dense box in a row. Local.

    Two planes that are apart may be one box with a stride.
    """
    rows = [[*box.lo, *box.hi] for box in dense(boxes)]
    return np.array(rows, np.int64).reshape(-1, 6)


def dense(boxes: list[gw.RectDomain]) -> list[gw.RectDomain]:
    """Return the cells of boxes as boxes without strides. Local."""
    return [
        gw.RectDomain([axis.start for axis in axes], [axis.stop for axis in axes])
        for box in boxes
        for axes in itertools.product(*map(_dense, box.axes))
    ]


def _dense(axis: range) -> list[range]:
    return [axis] if len(axis) and axis.step == 1 else [range(x, x + 1) for x in axis]


@gw.jit
def begin_messages(m: Any) -> None:
    """Receive and send without waiting. Collective over the neighbours."""
    count = len(m.ranks)
    for n in range(count):
        m.requests[n] = gw.irecv(m.team, m.inbox[m.starts[n] : m.starts[n + 1]], m.ranks[n])
    copy(m.packing)
    for n in range(count):
        m.requests[count + n] = gw.isend(m.team, m.outbox[m.starts[n] : m.starts[n + 1]], m.ranks[n])


@gw.jit
def finish_messages(m: Any) -> None:
    """Wait for all messages, and unpack those received. Collective over the neighbours."""
    gw.wait_all(m.requests)
    copy(m.unpacking)


@gw.jit
def begin_copies(m: Any) -> None:
    """Copy to the neighbours and notify them. Collective over the neighbours; does not wait for them."""
    m.rounds[0] += 1
    starts = m.messages.starts
    copy(m.messages.packing)
    for n in range(len(m.targets)):
        rank = m.messages.ranks[n]
        gw.put(m.messages.outbox[starts[n] : starts[n + 1]], m.inboxes.on(rank) + m.targets[n])
        m.arrival.send(rank)


@gw.jit
def finish_copies(m: Any) -> None:
    """Wait until each neighbour's copy has arrived, and unpack them. Collective over the neighbours."""
    polls = 0
    for rank in m.messages.ranks:
        while m.counts[rank] < m.rounds[0]:
            gw.progress()
            polls += 1
            if polls > _POLLS:
                _yield_processor()
    copy(m.messages.unpacking)


@gw.jit
def copy(plan: Any) -> None:
    """Make the copies of a plan."""
    plan.start()
    plan.wait()


@gw.jit
def begin_stores(plan: Any) -> None:
    """Start to store into the neighbours' ghosts. Collective over the neighbours; does not wait."""
    plan.start()


@gw.jit
def finish_stores(plan: Any) -> None:
    """Wait for the ghosts. Collective over the neighbours."""
    plan.wait()
