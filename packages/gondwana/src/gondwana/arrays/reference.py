"""Arrays in segments: made from pointers, named by references, and published to a team."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from gondwana.arrays.array import Array, MemoryOrder, in_segment
from gondwana.arrays.base import DomainArray
from gondwana.arrays.device_array import DeviceArray
from gondwana.arrays.remote import RemoteArray
from gondwana.domains import PointLike, RectDomain
from gondwana.memory.cuda_kind import CudaKind
from gondwana.memory.pointer import GlobalPtr
from gondwana.teams import Team, world
from gondwana.teams.team import failing_together
from gondwana.transfer.box import contiguous_strides, strided


@dataclass(frozen=True, slots=True)
class ArrayReference:
    """The name of an array in a segment: the place of its elements, and their domain. Local; can be pickled and sent.

    Arrays themselves are pickled by value; a reference gives another rank access to the same elements.

    Attributes:
        pointer: pointer to the first element.
        domain: domain of the elements.
        strides: bytes from an element to the next along each axis.

    Example:
        >>> import gondwana as gw, pickle
        >>> T = gw.zeros(gw.RectDomain(0, 8))
        >>> sent = pickle.dumps(T.local.shrink(1).reference())
        >>> pickle.loads(sent).array().fill(2.0)
        >>> T.to_numpy().tolist()
        [0.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.0]
    """

    pointer: GlobalPtr
    domain: RectDomain
    strides: tuple[int, ...]

    def array(self) -> Array | RemoteArray:
        """Return the array. Local, no copy.

        Returns:
            An `Array` if loads and stores of this rank reach it, a `DeviceArray` if it lies on a GPU of this rank, else
            a `RemoteArray`.

        Raises:
            UsageError: an element is not inside the segment, or the number of strides is not that of the axes.
        """
        box = strided(self.pointer, self.domain.shape, self.strides)
        if box.memory is None:
            on_gpu = isinstance(self.pointer.kind, CudaKind) and box.is_own
            return (DeviceArray if on_gpu else RemoteArray)(box, self.domain)
        array = in_segment(self.pointer, box.memory, self.domain)
        if box.is_own:
            self.pointer.segment.make_huge(*array.extent)
        return array


def array_at(pointer: GlobalPtr, domain: RectDomain | PointLike, *, order: MemoryOrder = "C") -> Array | RemoteArray:
    """Return the array whose elements lie in a segment from a pointer on, without gaps. Local, no copy.

    Args:
        pointer: pointer to the first element, on any rank and in any kind of memory; its dtype is that of the array.
        domain: domain of the elements, or the shape of the array.
        order: "C" (last axis contiguous) or "F" (first axis contiguous).

    Returns:
        An `Array` if loads and stores of this rank reach it, a `DeviceArray` if it lies on a GPU of this rank, else a
        `RemoteArray`.

    Raises:
        UsageError: that rank's part of the segment is too small.

    Example:
        >>> import gondwana as gw
        >>> segment = gw.Segment(gw.world, 12 * 8)
        >>> a = gw.array_at(segment.pointer(dtype=float), gw.RectDomain((0, 0), (3, 4)))
        >>> a.fill(1.0)
        >>> (segment.pointer(dtype=float) + 11).local().tolist(), a[1:, 2:].pointer.offset
        ([1.0], 48)
    """
    box = domain if isinstance(domain, RectDomain) else RectDomain.from_shape(domain)
    return ArrayReference(pointer, box, contiguous_strides(box.shape, pointer.dtype.itemsize, order)).array()


def share(array: DomainArray | None, team: Team = world) -> list[Array | RemoteArray | None]:
    """Return the arrays that the ranks of a team share, by rank: Titanium's `exchange`. Collective over team; blocks.

    No element moves: every rank gets access to the arrays of the others, to read and write one-sidedly. Each is an
    `Array` if its rank is on this node, else a `RemoteArray`.

    Args:
        array: array of this rank, or a view, of any domain and dtype, in a segment (a block of a global array, or made
            by `array_at`); None for a rank without one.
        team: the ranks that share; each must be in the teams of the segments of all arrays.

    Raises:
        UsageError: an array is in private memory, or in a segment in which a rank of the team has no part (raised by
            every rank).

    Example:
        >>> import gondwana as gw
        >>> segment = gw.Segment(gw.world, 80)
        >>> mine = gw.array_at(segment.pointer(dtype=float), gw.RectDomain(0, 10) + 10 * gw.world.rank)
        >>> blocks = gw.share(mine)
        >>> [block.domain.lo[0] for block in blocks] == [10 * rank for rank in range(gw.world.size)]
        True
    """
    mine: bytes | None = None
    with failing_together(team):
        mine = None if array is None else pickle.dumps(array.reference())
    given = team.allgather(mine)
    with failing_together(team):
        return [None if reference is None else pickle.loads(reference).array() for reference in given]
