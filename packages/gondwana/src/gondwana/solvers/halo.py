"""Entries of vectors that a rank needs from others: they arrive by a plan of copies, which compiled code may start."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana.compiler.function import jit
from gondwana.memory.segment import Segment
from gondwana.teams import Team
from gondwana.transfer.plans.create import plan
from gondwana.transfer.plans.plan import Plan as CopyPlan

Integers = npt.NDArray[np.int64]


class Halo(NamedTuple):
    """The entries that a rank needs from others, and those that others need from it. Made by `connect`.

    `send`, then `plan.wait()`, both in compiled code or Python, fill `received`. Both are collective over the ranks
    that need anything of each other.

    Attributes:
        plan: copies from `sent` to `received` of the other ranks.
        rows: numbers of the own entries that others need, rank after rank.
        sent: these entries of a vector.
        received: entries of others, in the order in which `connect` was given their numbers.
    """

    plan: CopyPlan
    rows: Integers
    sent: npt.NDArray[Any]
    received: npt.NDArray[Any]


def distinct(owners: npt.ArrayLike, numbers: npt.ArrayLike) -> tuple[Integers, Integers, Integers]:
    """Put entries in the order that `connect` needs: by owner, then by number, each once. Local.

    Args:
        owners: the rank that has each entry.
        numbers: number of each entry there, 0 or more.

    Returns:
        Owners and numbers of the different entries, and for each of those given its place among these.

    Example:
        >>> from gondwana import solvers
        >>> [found.tolist() for found in solvers.distinct([2, 0, 2, 2], [5, 7, 3, 5])]
        [[0, 2, 2], [7, 3, 5], [2, 0, 1, 2]]
    """
    of, at = np.asarray(owners, np.int64), np.asarray(numbers, np.int64)
    room = int(at.max(initial=0)) + 1
    found, place = np.unique(of * room + at, return_inverse=True)
    return found // room, found % room, place


def connect(team: Team, owners: Integers, numbers: Integers, dtype: npt.DTypeLike = np.float64) -> Halo:
    """Tell the other ranks what this one needs of their vectors, and plan the copies. Collective over team; blocks.

    Args:
        team: the ranks that have parts of the vectors.
        owners: the rank that has each entry, ascending.
        numbers: number of each entry there: the index by which its owner reads it.
        dtype: type of the entries.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> from gondwana import solvers
        >>> last = np.array([gw.world.size - 1])
        >>> halo = solvers.connect(gw.world, last, np.array([3]))  # each rank needs entry 3 of the last one
        >>> solvers.send(halo, np.arange(5.0))
        >>> halo.plan.wait()
        >>> float(halo.received[0])
        3.0
    """
    element = np.dtype(dtype)
    bounds = np.searchsorted(owners, np.arange(team.size + 1))
    parts = zip(bounds, np.split(numbers, bounds[1:-1]), strict=False)
    asked = team.alltoall([(int(place), part.astype(np.int64).tobytes()) for place, part in parts])
    wanted = [np.frombuffer(part, np.int64) for _, part in asked]
    rows = np.concatenate(wanted)
    sent = np.zeros(len(rows), element)
    inbox = Segment(team, element.itemsize * max(1, len(numbers))).pointer(dtype=element)
    ends = itertools.accumulate(map(len, wanted))
    pairs = [
        (sent[end - len(part) : end], inbox.on(rank) + place)
        for rank, ((place, _), part, end) in enumerate(zip(asked, wanted, ends, strict=True))
        if len(part)
    ]
    return Halo(plan(pairs, team), rows, sent, inbox.local(inbox.room)[: len(numbers)])


@jit
def send(halo: Any, x: Any) -> None:
    """Send the entries of a vector that other ranks need. Collective over the ranks of the halo; does not wait.

    In compiled code, too. Then `halo.plan.wait()` waits for the entries of the others.
    """
    for place in range(len(halo.rows)):
        halo.sent[place] = x[halo.rows[place]]
    halo.plan.start()
