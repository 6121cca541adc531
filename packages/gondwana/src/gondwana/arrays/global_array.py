"""`GlobalArray`: one array over the ranks of a team, a block with ghosts on each.

The place of a rank's block in its part of the segment (`BlockMemory`) is a pure value, known to every rank for all.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from gondwana import notebook
from gondwana.arrays.array import Array, MemoryOrder
from gondwana.arrays.device_array import DeviceArray
from gondwana.arrays.divided import Divided, ready, start_copy
from gondwana.arrays.layout import Layout
from gondwana.arrays.reference import ArrayReference
from gondwana.arrays.remote import RemoteArray
from gondwana.arrays.walls.conditions import (
    Condition,
    Faces,
    Periodic,
    axis_name,
    check_faces,
    described,
    named,
    periodic,
)
from gondwana.compiler.types.arguments import Described, dtype_name
from gondwana.compiler.types.records import spelled
from gondwana.domains import IndexSet, RectDomain
from gondwana.errors import UsageError
from gondwana.memory.kinds import MemoryKind, host
from gondwana.memory.segment import Segment
from gondwana.runtime.races import reporter
from gondwana.teams import Team
from gondwana.transfer.box import contiguous_strides, moved
from gondwana.transfer.plans.plan import Plan

if TYPE_CHECKING:
    from gondwana.arrays.ghost_exchange import Exchange


LINE = 128
"""Bytes that a device moves at once: rows of cells start on a multiple of them."""

_SECTOR = 32
"""Fewest bytes that a device moves. Rows of a few lines start on a multiple of it, for less padding."""

_KEY = ("accumulation",)
"""The key of the plan of an accumulation among those of an array."""
_FEW = 4


class GlobalArray(Divided):
    """An array on a domain that is divided over a team: each rank holds one block and ghost cells around it.

    Made by `gw.zeros`, `gw.empty`, `gw.full`, `gw.from_numpy` and the like (collective over team). Everything is local
    but `exchange`, `to_numpy`, `copy` and reductions (`sum`, `max`, `dot`, ...). Operators and functions of NumPy that
    work cell by cell give a `gw.Expression`, which `T[...] = e` stores (local); others are refused. Coordinates are
    global on every rank: `T.local[p]` and `T.block(rank)[p]` mean the same cell p where both hold it. Blocks live in
    memory that the ranks of a node share, or in that of devices; every rank can read and write the blocks of all others
    one-sidedly.

    Kernels take a global array for its local part.

    Args:
        layout: division of the domain.
        dtype: type of an element.
        team: the ranks that share it.
        kind: kind of this rank's memory.
        faces: for each axis the conditions of its two faces; default: none.
        **contents: further values that must be the same on all ranks, by their names in messages.

    Example:
        >>> import gondwana as gw
        >>> T = gw.zeros(gw.RectDomain((0, 0), (8, 8)), ghost=1, periodic=True)
        >>> T.fill(1.0)
        >>> T.exchange().wait()
        >>> T.domain == T.owned if gw.world.size == 1 else True
        True
    """

    def __init__(
        self,
        layout: Layout,
        dtype: np.dtype[Any],
        team: Team,
        kind: MemoryKind = host,
        faces: Faces = (),
        **contents: object,
    ) -> None:
        check_faces(faces, layout, dtype, kind)
        self.faces = faces
        self.layout = layout
        self.dtype = dtype
        self.team = team
        self.kind = kind
        team.expect_same(
            "global arrays",
            domain=layout.domain,
            dtype=dtype_name(dtype),
            ghost=layout.ghost,
            periodic=layout.periodic,
            order=layout.order,
            grid=layout.grid,
            division=layout.division,
            cuts=layout.cuts,
            boundary=described(faces),
            **contents,
        )
        self._segment = Segment(team, _memory(layout, team.rank, dtype, kind).nbytes, kind)
        self._blocks: dict[int, Array | RemoteArray] = {}
        self.plans: dict[tuple[Any, ...], Plan] = {}
        self._writes = 0
        if reporter is not None and kind.host:
            self._report()

    def _report(self) -> None:
        """Tell the race detector which elements the memory of this rank has."""
        assert reporter is not None
        rank, layout = self.team.rank, self.layout
        held, owned = layout.held(rank), layout.owned(rank)
        memory = _memory(layout, rank, self.dtype, self.kind)
        reporter.tell(
            array=self._segment.key,
            label=self.label,
            rank=self.team.world_ranks[rank],
            first=memory.offset,
            strides=memory.strides,
            lo=held.lo,
            shape=held.shape,
            owned=[owned.lo, owned.hi],
        )

    @property
    def _array(self) -> GlobalArray:
        return self

    @property
    def _cells(self) -> tuple[range, ...]:
        return self.layout.domain.axes

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(self.layout.domain.ndim))

    @functools.cached_property
    def _division(self) -> tuple[object, ...]:
        """What arrays have in common whose cells are the same and have the same owners."""
        layout = self.layout
        return self.team, layout.domain.axes, layout.grid, layout.division, layout.cuts

    @property
    def domain(self) -> RectDomain:
        """All cells, of all ranks, without ghosts."""
        return self.layout.domain

    @property
    def grid(self) -> tuple[int, ...]:
        """Blocks along each axis."""
        return self.layout.grid

    @property
    def ghost(self) -> tuple[int, ...]:
        """Ghost width of each axis, in cells."""
        return self.layout.ghost

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Whether each axis closes on itself."""
        return self.layout.periodic

    @property
    def boundary(self) -> dict[str, Condition | Periodic]:
        """The conditions at the faces and the periodic axes by their names, as `boundary=` takes them."""
        return named(self.faces) | {axis_name(axis): periodic for axis, closed in enumerate(self.periodic) if closed}

    @property
    def order(self) -> MemoryOrder:
        """Memory order of the blocks: "C" or "F"."""
        return self.layout.order

    @functools.cached_property
    def kinds(self) -> tuple[MemoryKind, ...]:
        """The memory kind of the block of each rank."""
        return tuple(map(self._segment.kind_of, range(self.team.size)))

    @property
    def label(self) -> str:
        """A name of the array in messages, the same on all ranks: the number of its memory, its shape and its dtype.

        Memory is numbered as it is made, so ranks that make arrays in different orders have different labels for them.
        """
        return f"array {self._segment.key & 0xFFFFFFFF} of {self.domain.shape} {spelled(self.dtype)}"

    @property
    def in_host_memory(self) -> bool:
        """Whether the blocks of all ranks lie in host memory."""
        return all(kind.host for kind in self.kinds)

    @functools.cached_property
    def owned(self) -> RectDomain:
        """The cells of this rank, perhaps none."""
        return self.layout.owned(self.team.rank)

    @functools.cached_property
    def inner(self) -> RectDomain:
        """The owned cells that can be computed during `exchange`: farther than the ghost width from other ranks."""
        return self.layout.inner(self.team.rank)

    @functools.cached_property
    def rim(self) -> IndexSet:
        """The other owned cells: they need ghosts that come from other ranks."""
        return self.layout.rim(self.team.rank)

    def owned_of(self, rank: int) -> RectDomain:
        """Return the cells of any rank. Local."""
        return self.layout.owned(rank)

    @functools.cached_property
    def local(self) -> Array | DeviceArray:
        """This rank's cells with the ghosts around them: an `Array` in host memory, a `DeviceArray` on a GPU.

        Raises:
            UsageError: the block is in other memory.
        """
        self._note_write()
        block = self._peek(self.team.rank)
        if not isinstance(block, Array | DeviceArray):
            raise UsageError(
                f"neither the processor nor a GPU reaches cells in {self.kind.name} memory: move them by "
                "block(rank).copy_from(array) and block(rank).copy()"
            )
        return block

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """This rank's cells, without ghosts, as an ndarray indexed from zero: the same memory. May be assigned to.

        Raises:
            UsageError: the cells are in the memory of a GPU, or in other memory.

        Example:
            >>> import gondwana as gw
            >>> T = gw.zeros((4, 4), ghost=1)
            >>> T.values[...] = 2.0
            >>> T.values += 1
            >>> float(T.values.max()), T.values.shape == T.owned.shape
            (3.0, True)
        """
        return self.local.restrict(self.owned).numpy()

    @values.setter
    def values(self, cells: Any) -> None:
        self.values[...] = cells

    def block(self, rank: int) -> Array | RemoteArray:
        """Return the cells and ghosts of any rank, readable and writable one-sidedly. Local, no copy.

        An `Array` if loads and stores of this rank reach them (host memory of this node), a `DeviceArray` if they are
        this rank's on a GPU, else a `RemoteArray`. The order of accesses by several ranks is the caller's: `exchange`,
        signals or `team.barrier()`; call `gw.synchronize()` before them if kernels on GPUs have written.

        Args:
            rank: rank of the team.

        Raises:
            UsageError: the rank does not exist.

        Example:
            >>> import gondwana as gw
            >>> T = gw.zeros(gw.RectDomain(0, 4))
            >>> T.block(gw.world.rank).domain == T.owned
            True
        """
        if rank == self.team.rank:
            self._note_write()
        return self._peek(rank)

    def _peek(self, rank: int) -> Array | RemoteArray:
        """Return what `block` does, to read it or to write ghosts: it does not count as a write. Local."""
        if rank not in self._blocks:
            segment = self._segment
            if segment.closed:
                raise UsageError(f"{self!r} was closed: call close() after the last use, or keep views of its blocks")
            first = segment.pointer(rank, self.dtype)  # checks the rank
            memory = _memory(self.layout, rank, self.dtype, segment.kind_of(rank))
            pointer = moved(first, memory.offset)
            self._blocks[rank] = ArrayReference(pointer, self.layout.held(rank), memory.strides).array()
        return self._blocks[rank]

    def _watch(self) -> int:
        """Return how often the own cells may have been written: it is counted from now on. Local.

        What hands out the memory of this rank counts as a write. `local`, which kernels use, is kept in between, and
        counts again after a call of this method only: so launches pay nothing for it.
        """
        self.__dict__.pop("local", None)
        return self._writes

    def _note_write(self) -> None:
        """Count a write of the own cells. Local."""
        self._writes += 1

    def fill(self, value: Any) -> None:
        """Set this rank's cells and its ghosts to one value. Local."""
        self.block(self.team.rank).fill(value)

    def exchange(self, *, corners: bool = False, ready: bool = False, time: float | None = None) -> Exchange:
        """Start to fill the ghosts from the cells of the neighbours. Collective over team; does not wait.

        See `gw.exchange`, which takes several arrays at once.
        """
        from gondwana.arrays.ghost_exchange import exchange

        return exchange(self, corners=corners, ready=ready, time=time)

    def accumulate(self) -> Plan:
        """Start to add the ghosts to the cells that they are copies of. Collective over team; does not wait.

        It is the reverse of `exchange`. Kernels may add to ghosts what belongs to cells of the neighbours, such as the
        charge of a particle near the end of a block; this sends it there, corners included. Between the call and
        `wait()` of its result, this rank may read and write its own cells and must not write its ghosts. After `wait()`
        the cells hold the sums and the ghosts are zero, ready for the next additions; `exchange()` fills them with the
        sums.

        The ghosts of several neighbours are added to a cell in the order in which their blocks lie around it, the first
        axis first, whoever comes first. So equal cells and ghosts give equal bits, on one node and on several;
        where sums are exact, as those of integers are, also on any number of ranks. Ghosts outside of a domain that is
        not periodic belong to no cell and keep their values.

        The first call for an array makes a plan (blocking).

        Returns:
            The accumulation under way: call its `wait()` before the next one of the same array.

        Raises:
            UsageError: the array has records, or lies in memory that neither the processor nor a GPU reaches; raised by
                every rank.
            RuntimeError: the last accumulation of this array was not waited for.

        Example:
            >>> import gondwana as gw
            >>> T = gw.zeros(8, ghost=1, periodic=True)
            >>> T.fill(1.0)
            >>> T.accumulate().wait()
            >>> T.sum() == 8 + 2 * gw.world.size
            True
        """
        from gondwana.arrays.accumulation import accumulation

        self._note_write()
        return (self.plans.get(_KEY) or self.plans.setdefault(_KEY, accumulation(self))).start()

    def rebalance(self, weights: Sequence[npt.ArrayLike | None] | GlobalArray) -> GlobalArray:
        """Return the array divided anew, so that the blocks have weights as equal as possible. Collective; blocks.

        The grid of blocks stays, its cuts move: along each axis the largest weight of a block is the smallest that is
        possible (see `Layout.balanced`). This array and its views stay as they are.

        Args:
            weights: for each axis the weight of each of its coordinates, 0 or more, the same on all ranks, or None for
                an axis that stays as it is; or a global array of this shape with the weight of each cell, whose sums
                along the other axes then count.

        Returns:
            An array with the elements of this one in its cells, and zeros in its ghosts.

        Raises:
            UsageError: the weights have another shape, are negative, or differ between the ranks; raised by every rank.

        Example:
            >>> import gondwana as gw
            >>> T = gw.full((4 * gw.world.size, 4), 1.0)
            >>> T.rebalance([range(4 * gw.world.size), None]).sum() == T.sum()
            True
        """
        if isinstance(weights, GlobalArray):
            if weights.shape != self.shape:
                raise UsageError(f"rebalance by weights of shape {weights.shape}: the array has shape {self.shape}")
            axes = range(self.ndim)
            weights = [weights.sum(tuple(other for other in axes if other != axis)) for axis in axes]
        moved_to = GlobalArray(self.layout.balanced(weights), self.dtype, self.team, self.kind, self.faces)
        start_copy(self, moved_to).wait()
        return ready(moved_to)

    def close(self) -> None:
        """Release the memory of this rank. Local; existing views stay valid."""
        self.plans.clear()
        self._blocks.clear()
        self.__dict__.pop("local", None)
        self._segment.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a GlobalArray cannot be pickled: send to_numpy(), or the Array of one block")

    def __gondwana_array__(self) -> Array | DeviceArray:
        """The array that a kernel sees: the local block."""
        return self.local

    def __gondwana_in_kernels__(self) -> Array | DeviceArray:
        """The local block as a kernel in the interpreter sees it."""
        local = self.local
        return local.__gondwana_in_kernels__() if isinstance(local, Array) else local

    def __gondwana_argument__(self) -> Described:
        """Spec and descriptor of the local block, for compiled code."""
        return self.local.__gondwana_argument__()

    def __repr__(self) -> str:
        boundary = f"boundary={named(self.faces)}, " if named(self.faces) else ""
        return (
            f"GlobalArray({spelled(self.dtype)}, {self.domain!r}, grid={self.grid}, ghost={self.ghost}, "
            f"periodic={self.periodic}, {boundary}order={self.order!r}, kind={self.kind!r}, {self.team.name}"
            + (f", cuts={self.layout.cuts})" if self.layout.cuts else ")")
        )

    def _repr_html_(self) -> str:
        from gondwana.arrays.drawing import drawn

        cells = math.prod(self.domain.shape)
        mine = self.layout.held(self.team.rank)
        facts = {
            "dtype": spelled(self.dtype),
            "domain": repr(self.domain),
            "cells": f"{cells:,}, {notebook.nbytes_text(cells * self.dtype.itemsize)} without ghosts",
            "of this rank": f"{self.owned!r}, {notebook.nbytes_text(mine.size * self.dtype.itemsize)} with ghosts",
            "ghosts": self.ghost,
            "boundary": ", ".join(f"{face}: {one}" for face, one in self.boundary.items()) or "none",
            "kind of memory": self.kind,
            "team": f"{self.team.name}, rank {self.team.rank} of {self.team.size}, grid {self.grid}",
        }
        return notebook.shown("GlobalArray", facts, drawn(self.layout, self.team.rank))


def _memory(layout: Layout, rank: int, dtype: np.dtype[Any], kind: MemoryKind) -> BlockMemory:
    """The place of a rank's block in memory of a kind."""
    lay = BlockMemory.without_gaps if kind.host else BlockMemory.on_lines
    return lay(layout, rank, dtype.itemsize)


@dataclass(frozen=True, slots=True)
class BlockMemory:
    """The place of the cells and ghosts of a block.

    Attributes:
        offset: bytes from the start of the rank's part to the first cell.
        strides: bytes from a cell to the next along each axis.
        nbytes: bytes of the whole part.
    """

    offset: int
    strides: tuple[int, ...]
    nbytes: int

    @classmethod
    def without_gaps(cls, layout: Layout, rank: int, item: int) -> BlockMemory:
        """Return the place of a block in host memory. Local.

        Args:
            layout: layout of the array.
            rank: rank that has the block.
            item: bytes of an element.
        """
        shape = layout.held(rank).shape
        return cls(0, contiguous_strides(shape, item, layout.order), math.prod(shape) * item)

    @classmethod
    def on_lines(cls, layout: Layout, rank: int, item: int) -> BlockMemory:
        """Return the place of a block in the memory of a device. Local; arguments as for `without_gaps`.

        The first owned cell of each row along the contiguous axis starts a line, with the ghosts before it; rows are
        whole lines. So threads that write one row fill whole lines, and rows on both sides of a face are copied in the
        widest units.
        """
        shape = list(layout.held(rank).shape)
        if not math.prod(shape):
            return cls.without_gaps(layout, rank, item)
        axis = len(shape) - 1 if layout.order == "C" else 0
        line = LINE if shape[axis] * item >= _FEW * LINE else _SECTOR
        shape[axis] = _up(shape[axis] * item, line) // item
        offset = -layout.ghost[axis] * item % line
        return cls(offset, contiguous_strides(tuple(shape), item, layout.order), offset + math.prod(shape) * item)


def _up(nbytes: int, line: int) -> int:
    """The next multiple of a line."""
    return -(-nbytes // line) * line
