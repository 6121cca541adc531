"""Making plans: who has which part in the pairs that the ranks list, and the way to carry them out.

The way for any memory is here: one copy a pair, and signals, as a program would do it by hand.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from gondwana.errors import UsageError
from gondwana.futures import Future
from gondwana.gpu.device import Event, opened
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.kinds import MemoryKind
from gondwana.sync.signals import Signal
from gondwana.teams import Team, world
from gondwana.transfer.box import End, HasParts, StridedBox, divided_end, ends_of_copy
from gondwana.transfer.plans.device import DevicePlan
from gondwana.transfer.plans.host import HostPlan
from gondwana.transfer.plans.pairs import Copies, Pair
from gondwana.transfer.plans.plan import Plan
from gondwana.transfer.runs import is_irregular, parts
from gondwana.transfer.verbs import copy

_Key: TypeAlias = tuple[int, int]
"""The rank that lists a pair, and its place in that list: the order of pairs, on which all ranks agree."""


class _Part(NamedTuple):
    """What a rank has to do with a pair.

    Attributes:
        key: of the pair.
        partner: the rank that owns the other end.
        sends: whether the source is this rank's, rather than the target.
        pair: what is copied.
    """

    key: _Key
    partner: int
    sends: bool
    pair: Pair


def plan(
    pairs: Iterable[tuple[End, End] | tuple[HasParts | None, HasParts | None]],
    team: Team = world,
    *,
    ready: bool = False,
) -> Plan:
    """Make a persistent plan of copies between any ranks. Collective over team; blocks; copies nothing yet.

    Each rank gives the pairs that it lists, and all lists together are the plan: a copy is listed by exactly one rank,
    whoever knows both ends, usually the owner of its source. Ends are those of `gw.copy`, in any kind of memory. A rank
    may list none.

    A round of copies is started by `start()` and finished by `wait()`, by every rank that owns a source or a
    destination of the plan. A destination is overwritten only after its owner has started the round, and `wait` returns
    when all has arrived there, so neither needs a barrier. On one node and in host memory a round is stores into the
    destinations and two counters a neighbour; between nodes it is one message for all pairs of two ranks. Functions
    compiled by `gw.jit` take a plan in host memory as an argument and call `plan.start()`, `plan.wait()` and
    `plan.test()`. On GPUs the device keeps the order with the kernels launched before, between and after, as for
    `gw.exchange`.

    Args:
        pairs: (source, destination) each, of one shape and dtype: arrays and their views, blocks of other ranks,
            ndarrays, `gw.strided(...)`, `gw.indexed(...)`. Destinations must not overlap anything of the plan. Private
            memory of this rank is an end of its own copies, or a source for other ranks. A pair of two global arrays,
            or views of them, stands for all copies between their ranks: every rank gives it, with None for an array
            that it has no part of.
        team: the ranks of the plan; it has all owners of ends.
        ready: promise, of all ranks, that when a rank starts a round, the owners of its destinations neither read nor
            write these any more; they may then change before their owner starts the round. It saves a handshake on a
            node, as for `gw.exchange`, and changes nothing elsewhere.

    Returns:
        The plan, which keeps the memory of its ends.

    Raises:
        UsageError: the ends of a pair do not fit each other, an owner is not in the team, a destination is private
            memory for elements of another rank, or ranks differ in `ready`. Raised by every rank.

    Example:
        >>> import gondwana as gw
        >>> import numpy as np
        >>> right = (gw.world.rank + 1) % gw.world.size
        >>> segment, mine = gw.Segment(gw.world, 32), np.zeros(4)
        >>> ring = gw.plan([(mine, gw.strided(segment.pointer(right, float), (4,), (8,)))])
        >>> for step in range(3):
        ...     mine[:] = step
        ...     ring.start().wait()
        >>> segment.pointer(dtype=float).local(4).tolist()
        [2.0, 2.0, 2.0, 2.0]
    """
    problem: UsageError | None = None
    own: list[_Part] = []
    sent: list[list[_Part]] = [[] for _ in range(team.size)]
    given = list(pairs)
    try:
        for number, pair in enumerate(itertools.chain.from_iterable(map(_regular, given))):
            _assign(pair, (team.rank, number), team, own, sent)
    except UsageError as error:
        problem = error
    team.expect_same("plans", problem, ready=ready)
    # Of two global arrays each rank may lack one, but no copy is made if all do.
    has_both = [src is not None and dst is not None for src, dst in given if _is_divided(src, dst)]
    received = team.alltoall([pickle.dumps((has_both, parts)) for parts in sent])
    parts = own
    try:
        known, lists = zip(*map(pickle.loads, received), strict=True)
        if len(set(map(len, known))) > 1 or not all(map(any, zip(*known, strict=True))):
            raise UsageError(
                "a plan with two global arrays of which no rank has both: give the same pairs of arrays on all ranks, "
                "and copy by way of an array of a team that has all ranks of both"
            )
        parts = sorted([*own, *itertools.chain.from_iterable(lists)], key=lambda part: part.key)
    except UsageError as error:
        problem = error
    team.agree(problem)
    copies = Copies(team, {}, {}, ready=ready)
    for part in parts:
        (copies.outgoing if part.sends else copies.incoming).setdefault(part.partner, []).append(part.pair)
    return _way(copies)


def plan_in(copies: Copies, kinds: Sequence[Collection[MemoryKind]]) -> Plan:
    """Make a plan of which each rank knows its part. Collective over its team.

    Args:
        copies: the part of this rank.
        kinds: of the memory of all ends, by rank.
    """
    if all(kind.host for of_rank in kinds for kind in of_rank):
        return HostPlan(copies)
    if all(len(set(of_rank)) == 1 and all(isinstance(kind, CudaKind) for kind in of_rank) for of_rank in kinds):
        return DevicePlan(copies, _own_kind(copies))
    return CopiedPlan(copies)


def _way(copies: Copies) -> Plan:
    """Make the plan in the best way that is possible for all ranks. Collective over its team."""
    devices = copies.devices()
    # A target in the memory of a team that the sender is not in can be sent to, but not written.
    sent = any(pair.target.pointer is None for rank in copies.receivers for pair in copies.to(rank))
    everybody = copies.team.allgather((copies.in_host_memory(), len(devices) <= 1 and None not in devices, sent))
    if all(host for host, _, _ in everybody):
        return HostPlan(copies)
    if any(sent for _, _, sent in everybody):
        raise UsageError(
            "a plan with memory of devices from ranks that are not in the team of the destination: copy by way of an "
            "array of a team that has all ranks"
        )
    if all(one for _, one, _ in everybody):
        return DevicePlan(copies, _own_kind(copies))
    return CopiedPlan(copies)


def _own_kind(copies: Copies) -> CudaKind | None:
    """The kind of this rank's memory at all ends, None without any."""
    for pair in copies.pairs():
        for box in pair:
            if box.pointer is not None and box.is_own and isinstance(box.pointer.kind, CudaKind):
                return box.pointer.kind
    return None


def _regular(ends: tuple[Any, Any]) -> Iterable[Pair]:
    """The pairs of boxes that carry out a copy: several if an end is irregular or divided over ranks."""
    if _is_divided(*ends):
        divided = divided_end(*ends)
        pairs = () if divided is None else divided.__gondwana_pairs__(*ends)
        return itertools.chain.from_iterable(map(_regular, pairs))
    source, target = ends_of_copy(*ends, None)
    if is_irregular(source, target):
        return [Pair(*part) for part in parts(source, target)]
    return [Pair(source, target)]


def _is_divided(src: object, dst: object) -> bool:
    """Whether the ends of a pair are global arrays; this rank may know neither."""
    return divided_end(src, dst) is not None or (src is None and dst is None)


def _assign(pair: Pair, key: _Key, team: Team, own: list[_Part], sent: list[list[_Part]]) -> None:
    """Give a pair that this rank lists to those who have a part in it."""
    if pair.source.size == 0:
        return
    sender, receiver = (_owner(box, team) for box in pair)
    if pair.target.pointer is None and sender != team.rank:
        raise UsageError(
            f"a plan with a copy from rank {sender} to private memory of rank {team.rank}: place the destination in a "
            "segment, by gw.array_at or as a block of a global array"
        )
    there = pair.target.pointer
    known = there is None or there.segment.team.rank_of_world(team.world_ranks[sender]) is not None
    going = _Part(key, receiver, True, pair if known else Pair(pair.source, pair.packed))
    if sender == team.rank:
        own.append(going)
    else:
        sent[sender].append(going)
    if receiver == sender:
        return
    coming = _Part(key, sender, False, Pair(pair.packed, pair.target))
    if receiver == team.rank:
        own.append(coming)
    else:
        sent[receiver].append(coming)


def _owner(box: StridedBox, team: Team) -> int:
    """The rank in a team that an end belongs to."""
    if box.owner is None:
        return team.rank
    rank = team.rank_of_world(box.owner)
    if rank is None:
        raise UsageError(f"a plan of {team!r} with an end at rank {box.owner} of the world, which is not in that team")
    return rank


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
