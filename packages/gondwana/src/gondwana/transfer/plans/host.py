"""Plans in host memory: by stores into the destinations on the node, and by messages between nodes.

A rank writes its sources straight into the destinations of other ranks of the node. For each pair of ranks and
direction there are two counters of rounds, one writer each, on their own cache lines: `entered` ("my destinations may
be overwritten in round n") and `ready` ("your destinations of round n are written"). There is no other synchronisation
on a node; the first counter is not used where the caller promises that destinations may be overwritten. To ranks of
other nodes messages go by persistent MPI requests, short pieces together. Machine code carries all of it out, for
Python and for compiled code alike.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from gondwana.compiler.mpi import table
from gondwana.compiler.native import Native
from gondwana.compiler.types.arguments import Described, describe_handle
from gondwana.errors import UsageError
from gondwana.memory.segment import Segment
from gondwana.runtime.races import Kind, reporter
from gondwana.runtime.watching import waits
from gondwana.teams import addresses, mpi
from gondwana.transfer.box_copy import Copy
from gondwana.transfer.host_copies import CopyTable, as_bytes, copy_table
from gondwana.transfer.plans.pairs import Copies, Pair, report_plan
from gondwana.transfer.plans.plan import Launch, Plan, free_requests, message_tag

_MODULE = "gondwana.transfer.plans.host_native"
_advance = Native(_MODULE, "advance", 2)

_LINE = 128
_ENTER, _READY = 0, _LINE
_SPINS = 10_000
"""Polls before a waiting rank returns to Python, where signals are seen and others are served."""
_FEW_SPINS = 20
"""Polls where there is more to poll."""
_SOURCE, _TARGET = 0, 1
_MOST_TOGETHER = 1 << 15
"""Bytes up to which the elements of several pairs are one message. Longer ones gain nothing together: an MPI sends up
to some 64 KiB at once, and asks the other rank before it sends more."""
_ALIGN = 16
"""Bytes on which the elements of a pair start in a message."""


class Head(NamedTuple):
    """The words at the head of a plan.

    Attributes:
        links: neighbours on the node.
        links_at: address of a `Link` for each.
        rows_at: address of the table of all copies.
        own: rows of the copies that stay on this rank; they come first.
        messages: messages from and to ranks of other nodes.
        received: the number of those from them, which come first.
        messages_at: address of a `Message` for each.
        round: rounds that were started.
        unpacked: the last round whose messages were unpacked.
        counted_at: address of the word that counts rounds for a trace, 0 without one.
        started: name of the span that begins a round.
        waited: name of the span that ends one.
        kernels: number of the kernels that run in each round.
        early: number of those that run when it begins; they come first.
        kernels_at: address of a `Kernel` for each.
        filled: last round whose other kernels have run.
        whole: last round in which compiled code has run them, those that Python keeps for itself, too.
        time: bits of the time of the round, a float.
        lent: address of the count of what uses memory of Python's objects (see `mpi.objects`), while compiled code has
            a round under way; else 0.
    """

    links: int
    links_at: int
    rows_at: int
    own: int
    messages: int
    received: int
    messages_at: int
    round: int = 0
    unpacked: int = 0
    counted_at: int = 0
    started: int = 0
    waited: int = 0
    kernels: int = 0
    early: int = 0
    kernels_at: int = 0
    filled: int = 0
    whole: int = 0
    time: int = 0
    lent: int = 0


class Link(NamedTuple):
    """The words of one neighbour on the node.

    Attributes:
        enter_out: address of its counter of the rounds in which it may write here.
        enter_in: address of our counter of the rounds in which we may write there.
        ready_out: address of its counter of the rounds that we have written.
        ready_in: address of our counter of the rounds that it has written.
        first: the first row of the copies to it.
        last: the row behind the last of them.
        pushed: the last round that was written there.
    """

    enter_out: int
    enter_in: int
    ready_out: int
    ready_in: int
    first: int
    last: int
    pushed: int = 0


class Message(NamedTuple):
    """The words of one message from or to a rank of another node.

    Attributes:
        request: MPI's handle of the persistent request.
        first: the first row of the copies that unpack or pack it.
        last: the row behind the last of them.
    """

    request: int
    first: int
    last: int


class Kernel(NamedTuple):
    """The words of a kernel that runs in each round: see `Plan._with_kernels`.

    Attributes:
        entry: address of its machine code.
        block: address of its argument block.
        time_at: address of the time in that block, 0 if it does not need the time.
        kept: whether Python keeps it for itself, since it runs on all threads or may change.
    """

    entry: int = 0
    block: int = 0
    time_at: int = 0
    kept: int = 1


HEAD, LINK, MESSAGE, KERNEL = Head(*range(19)), Link(*range(7)), Message(*range(3)), Kernel(*range(4))
"""Places of the words, for machine code."""
RAISED = -(1 << 40)
"""What machine code returns when a kernel has raised."""


_known: weakref.WeakSet[HostPlan] = weakref.WeakSet()


class HostPlan(Plan):
    """A plan in host memory. Collective over its team to make."""

    def __init__(self, copies: Copies) -> None:
        super().__init__(copies)
        self._kernels: list[Any] = []
        team, neighbours = copies.team, copies.neighbours
        node = set(team.node.allgather(team.rank))
        near = [rank for rank in neighbours if rank in node and copies.is_mapped(rank)]
        both = dict(team.node.allgather((team.rank, near)))  # to ranks that do not map the other's memory go messages
        near = [rank for rank in near if team.rank in both[rank]]
        self._flags = Segment(team, 2 * _LINE * len(near), window=False)
        # A peer finds its flags in our segment by its place among our neighbours, which only this rank knows.
        places = dict(team.node.allgather((team.rank, {rank: i for i, rank in enumerate(near)})))
        self._build(copies, {rank: places[rank][team.rank] for rank in near})
        self._record(self._flags.key, neighbours)
        if reporter is not None:
            report_plan(copies, self._flags.key, self._plan_address)
        if self._rounds is not None:
            words = self._rounds.address, self._rounds.started, self._rounds.waited
            self._plan[HEAD.counted_at : HEAD.kernels] = words
        team.node.barrier()  # nobody drops its counters before all have mapped them

    def _goes_on(self) -> bool:
        return bool(self._plan[HEAD.lent])

    def _with_kernels(self, early: list[Launch], late: list[Launch], *, timed: bool = False) -> None:
        """Have kernels run in each round: machine code calls them, but those that Python keeps for itself. Local."""
        self._kernels = [kernel for kernel, _ in (*early, *late)]
        rows = [_row(one) for one in (*early, *late)]
        self._table = np.array(rows, np.int64).reshape(-1, len(KERNEL))
        self._plan[HEAD.kernels : HEAD.filled] = len(rows), len(early), self._table.ctypes.data
        super()._with_kernels(*([one for one in part if _row(one).kept] for part in (early, late)), timed=timed)

    def _launch(self, launches: list[Launch]) -> None:
        if self._plan[HEAD.whole] != self._plan[HEAD.round]:
            super()._launch(launches)

    def _begin(self) -> None:
        if self._time is not None:
            self._plan[HEAD.time :].view(np.float64)[0] = self._time
        if self._plan[HEAD.lent]:  # compiled code has a round under way, which `wait` goes on with
            raise self._still_under_way()
        if reporter is not None:
            reporter.add(Kind.START, self._plan_address, site=reporter.site(self._what))
            reporter.flush()
        if (found := _advance.call(self._plan_address, 0)) < 0:
            self._fail(found)

    def _end(self) -> None:
        if reporter is not None:
            reporter.add(Kind.FINISH, self._plan_address, site=reporter.site())

    def _late_neighbours(self) -> list[int]:
        """Return the neighbours on the node that have not begun the round or not written here, and all others."""
        current = int(self._plan[HEAD.round])
        near = [
            rank
            for rank, link in zip(self._near, self._links.tolist(), strict=True)
            if _load(link[LINK.ready_in]) < current
            or (link[LINK.pushed] < current and _load(link[LINK.enter_in]) < current)
        ]
        return near + [rank for rank in self._copies.neighbours if rank not in self._near]

    def _soon(self) -> bool:
        return not self._requests and self._advance(_SPINS)

    def _advance(self, spins: int = _FEW_SPINS) -> bool:
        if (found := _advance.call(self._plan_address, spins)) < 0:
            self._fail(found)
        return bool(found == 1)

    def _fail(self, found: int) -> NoReturn:
        if found == RAISED:
            for kernel in self._kernels:
                kernel.check()
        raise mpi.module().Exception(-found)

    def _build(self, copies: Copies, places: dict[int, int]) -> None:
        """Lay out what machine code reads."""
        team, private = copies.team, copies.team.private
        tables: list[CopyTable] = []
        self._kept: list[object] = []  # what the rows refer to by addresses

        def rows(parts: list[Copy]) -> tuple[int, int]:
            first = sum(map(len, tables))
            tables.append(copy_table(parts))
            self._kept.append(parts)
            return first, first + len(tables[-1])

        _, own = rows([pair.direct() for pair in copies.own])
        # Counters of a direction without copies: one that is always far enough, and one that nobody reads.
        self._no_counters = np.array([np.iinfo(np.int64).max, 0], np.int64)
        always, unread = self._no_counters[:1], self._no_counters[1:]
        self._near = list(places)
        links, mine = [], self._flags.view(team.rank)
        for index, (rank, place) in enumerate(places.items()):
            theirs: npt.NDArray[Any] = self._flags.view(rank)[2 * _LINE * place :]
            ours: npt.NDArray[Any] = mine[2 * _LINE * index :]
            enter_in, ready_out = (ours[_ENTER:], theirs[_READY:]) if copies.to(rank) else (always, unread)
            enter_out, ready_in = (theirs[_ENTER:], ours[_READY:]) if copies.of(rank) else (unread, always)
            if copies.ready:
                enter_out, enter_in = unread, always
            flags = (flag.ctypes.data for flag in (enter_out, enter_in, ready_out, ready_in))
            links.append(Link._make((*flags, *rows([pair.direct() for pair in copies.to(rank)]), 0)))
        far, tag = [rank for rank in copies.neighbours if rank not in places], message_tag(self._flags)
        messages: list[Message] = []
        self._requests = []
        for pairs_of, end, work, init in (
            (copies.of, _TARGET, Pair.unpacking, private.Recv_init),
            (copies.to, _SOURCE, Pair.packing, private.Send_init),
        ):
            received = len(messages)  # at the sends, which come last
            for rank in far:
                for pairs in _together(pairs_of(rank)):
                    buffer, starts = _buffer(pairs, end)
                    request = init(buffer, rank, tag)
                    self._requests.append(request)
                    parts = list(map(work, pairs, starts))
                    messages.append(Message(addresses.handle(request.handle), *rows(parts)))
        weakref.finalize(self, free_requests, self._requests)
        self._rows = np.concatenate(tables)
        self._links, self._messages = np.array(links, np.int64), np.array(messages, np.int64)
        self._plan = np.array(
            Head(
                links=len(links),
                links_at=self._links.ctypes.data,
                rows_at=self._rows.ctypes.data,
                own=own,
                messages=len(messages),
                received=received,
                messages_at=self._messages.ctypes.data,
            )
        )
        self._plan_address = self._plan.ctypes.data
        _known.add(self)

    def __gondwana_argument__(self) -> Described:  # type: ignore[override]
        """The addresses of the plan and of the function that carries it out, for compiled code."""
        if self._kernels and not self._table[:, KERNEL.entry].all():
            raise UsageError(
                f"compiled code cannot run a kernel of this {self._what}: it has flush_subnormals=True or runs in the "
                "interpreter; call start() and wait() in Python"
            )
        table.link_delivery()
        return describe_handle("plan", ("timed",) if self._timed else (), (self._plan_address, _advance.address))


def _describe(head: int, *_: int) -> waits.Wait | None:
    """Describe what compiled code waits for by the address of the plan."""
    return next((one._why() for one in list(_known) if one._plan_address == head), None)


waits.describe_by(waits.EXCHANGE, _describe)


def _load(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _row(launch: Launch) -> Kernel:
    """What machine code needs to know of a launch."""
    kernel, timed = launch
    row = Kernel(*getattr(kernel, "words", ()))
    return row if timed else row._replace(time_at=0)


def _together(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield the pairs of each message, at both ends the same."""
    group: list[Pair] = []
    nbytes = 0
    for pair in pairs:
        if group and nbytes + pair.nbytes > _MOST_TOGETHER:
            yield group
            group, nbytes = [], 0
        group.append(pair)
        nbytes += pair.nbytes
    if group:
        yield group


def _buffer(pairs: Sequence[Pair], end: int) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """A message buffer and the address in it of the elements of each pair that are to be copied.

    What lies without gaps at this end is sent from there, or received there.
    """
    memory = pairs[0][end].memory
    if len(pairs) == 1 and memory is not None and pairs[0][end].contiguous and pairs[0].packed.contiguous:
        return as_bytes(memory), []
    *starts, _ = message_starts([pair.nbytes for pair in pairs], _ALIGN)
    buffer = np.empty(starts[-1] + pairs[-1].nbytes, np.uint8)
    return buffer, [buffer.ctypes.data + start for start in starts]


def message_starts(sizes: Sequence[int], align: int) -> list[int]:
    """Return where parts of so many bytes start in a message, and its end. Local."""
    return [0, *np.cumsum([-(-size // align) * align for size in sizes], dtype=np.int64).tolist()]
