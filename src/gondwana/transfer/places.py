"""Places: the ends of a copy, wherever they lie."""

from __future__ import annotations

import math
import operator
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana.memory.kinds import DeviceKind
from gondwana.memory.pointer import GlobalPtr
from gondwana.transfer.paths import STAGED, state
from gondwana.transfer.rows import copy_memory

MEMORY, WINDOW, DEVICE, AWAY = "memory", "window", "device", "away"
"""How this rank reaches a place: by loads and stores, through an MPI window, by the driver of its device, or only by
asking the owner."""


class Place:
    """A box of elements in any memory of any rank: one end of a copy. Local; never changes.

    Made by `gw.strided` from a pointer, and by everything that has a place.

    Attributes:
        pointer: to the first element; None for private memory.
        memory: the elements as an ndarray if loads and stores of this rank reach them, else None.
        dtype: type of an element.
        shape: elements along each axis.
        strides: bytes from one element to the next along each axis; any sign.
    """

    __slots__ = ("dtype", "memory", "pointer", "shape", "strides")

    def __init__(
        self,
        pointer: GlobalPtr | None,
        memory: npt.NDArray[Any] | None,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> None:
        self.pointer = pointer
        self.memory = memory
        self.dtype = dtype
        self.shape = shape
        self.strides = strides

    @classmethod
    def of(cls, array: npt.NDArray[Any], pointer: GlobalPtr | None = None) -> Place:
        """Return the place of an ndarray. Local.

        Args:
            array: contiguous or strided.
            pointer: to its first element, if it lies in a segment.

        Raises:
            UsageError: its elements are Python objects.
        """
        if array.dtype.hasobject:
            raise UsageError("an array of Python objects cannot be copied between ranks: send them by gw.rpc")
        return cls(pointer, array, array.dtype, array.shape, array.strides)

    @classmethod
    def at(cls, pointer: GlobalPtr, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Place:
        """Return the place of a box of elements from a pointer on; default: without gaps, last axis fastest. Local.

        Raises:
            UsageError: the box does not lie inside the segment.
        """
        dtype = pointer.dtype
        if strides is None:
            strides = contiguous_strides(shape, dtype.itemsize)
            pointer.check(math.prod(shape))
        else:
            _check_box(pointer, shape, strides)
        memory = None
        if pointer.is_local:
            if pointer.offset % dtype.itemsize == 0 and len(shape) == 1 and strides == (dtype.itemsize,):
                first = pointer.offset // dtype.itemsize
                memory = pointer.segment.typed(pointer.rank, dtype)[first : first + shape[0]]
            else:
                buffer = cast(Any, pointer.segment.view(pointer.rank))
                memory = np.ndarray(shape, dtype, buffer, pointer.offset if math.prod(shape) else 0, strides)
        return cls(pointer, memory, dtype, shape, strides)

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie without gaps, last axis fastest."""
        wanted = contiguous_strides(self.shape, self.dtype.itemsize)
        return all(n == 1 or s == w for n, s, w in zip(self.shape, self.strides, wanted, strict=True))

    @property
    def owner(self) -> int | None:
        """Rank in the world that it belongs to; None for private memory."""
        return None if self.pointer is None else self.pointer.team.world_ranks[self.pointer.rank]

    @property
    def is_own(self) -> bool:
        """Whether it belongs to this rank."""
        return self.pointer is None or self.pointer.rank == self.pointer.team.rank

    @property
    def reach(self) -> str:
        """How this rank reaches it."""
        if self.memory is not None:
            return MEMORY
        assert self.pointer is not None
        segment = self.pointer.segment
        if isinstance(self.pointer.kind, DeviceKind):
            return DEVICE if self.is_own or self._is_attached() else AWAY
        return AWAY if segment.window is None else WINDOW

    def _is_attached(self) -> bool:
        """Whether it is memory of another rank's device that this one has attached, or now does."""
        assert self.pointer is not None
        return state.forced is not STAGED and self.pointer.segment.on_device(self.pointer.rank) is not None

    def first(self, count: int) -> Place:
        """Return its first elements as one axis. Local.

        Raises:
            UsageError: it has fewer, or several axes with gaps.
        """
        if self.shape == (count,):
            return self
        if not 0 <= count <= self.count:
            raise UsageError(f"n={count}: an end of the copy has {self.count} elements; give 0 to that, or leave n out")
        if len(self.shape) == 1:
            return self.part((0,), (count,))
        if not self.contiguous:
            raise UsageError(f"n={count} of an array of shape {self.shape} with gaps: copy a slice of it without n")
        memory = None if self.memory is None else self.memory.reshape(-1)[:count]
        return Place(self.pointer, memory, self.dtype, (count,), (self.dtype.itemsize,))

    def part(self, starts: tuple[int, ...], shape: tuple[int, ...]) -> Place:
        """Return a box of its elements. Local, unchecked.

        Args:
            starts: index of the first along each axis.
            shape: elements along each axis.
        """
        memory, pointer = self.memory, self.pointer
        if memory is not None:
            box: list[Any] = [slice(first, first + count) for first, count in zip(starts, shape, strict=True)]
            memory = memory[(*box, ...)]  # without the dots a box of no axes would be a number
        if pointer is not None:
            start = pointer.offset + sum(map(operator.mul, starts, self.strides))
            pointer = GlobalPtr(pointer.segment, pointer.rank, start, self.dtype)
        return Place(pointer, memory, self.dtype, shape, self.strides)

    def load(self) -> npt.NDArray[Any]:
        """Return the elements, from memory in reach; maybe the memory itself. Local."""
        assert self.memory is not None
        return self.memory

    def store(self, data: npt.NDArray[Any]) -> None:
        """Set the elements, in memory in reach, from others of the same shape. Local."""
        assert self.memory is not None
        copy_memory(data, self.memory)

    def of_bytes(self) -> Place:
        """Return the same elements as bytes, with one more axis. Local."""
        byte = np.dtype(np.uint8)
        memory = None if self.memory is None else self.memory[..., None].view(byte)
        pointer = None if self.pointer is None else self.pointer.cast(byte)
        return Place(pointer, memory, byte, (*self.shape, self.dtype.itemsize), (*self.strides, 1))

    def offsets(self) -> list[int] | None:
        """Bytes from the first element to each chunk, if the place consists of chunks at any distances."""
        return None

    def __repr__(self) -> str:
        where = "private memory" if self.pointer is None else repr(self.pointer)
        return f"Place({where}, shape {self.shape}, strides {self.strides})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.pointer is None:
            raise TypeError("private memory cannot be named to another rank")
        return Place.at, (self.pointer, self.shape, self.strides)

    def __gondwana_place__(self) -> Place:
        return self


@runtime_checkable
class HasPlace(Protocol):
    """What `copy` takes as an end besides pointers and ndarrays."""

    def __gondwana_place__(self) -> Place:
        """Return where the elements are. Local."""


End: TypeAlias = GlobalPtr | npt.NDArray[Any] | HasPlace
"""What a copy can start from and lead to."""


def strided(pointer: GlobalPtr, shape: tuple[int, ...], strides: tuple[int, ...]) -> Place:
    """Return a box of elements with gaps, as an end of `gw.copy`. Local.

    Args:
        pointer: to the element with all indices 0.
        shape: elements along each axis.
        strides: bytes from one element to the next along each axis; any sign and order, so that transposes and
            reflections are possible. The elements of a destination must not overlap.

    Raises:
        UsageError: some element lies outside of the segment.

    Example:
        >>> import gondwana as gw
        >>> import numpy as np
        >>> segment = gw.Segment(gw.world, 6 * 8)
        >>> gw.put(np.arange(6.0), segment.pointer(dtype=float)).wait()
        >>> transposed = np.empty((3, 2))
        >>> gw.copy(gw.strided(segment.pointer(dtype=float), (3, 2), (8, 24)), transposed).wait()
        >>> transposed.tolist()
        [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    """
    if len(shape) != len(strides):
        raise UsageError(f"shape {shape} and strides {strides}: give one stride for each axis")
    return Place.at(pointer, tuple(map(int, shape)), tuple(map(int, strides)))


def pair(src: End, dst: End, n: int | None) -> tuple[Place, Place]:
    """Return the two ends of a copy, of one shape and dtype. Local; moves nothing.

    Raises:
        UsageError: they do not fit each other, or what they name does not exist.
    """
    source, target = _place_of(src, "from"), _place_of(dst, "to")
    if n is not None:
        source, target = source and source.first(n), target and target.first(n)
        shape: tuple[int, ...] = (n,)
    elif source is not None:
        shape = source.shape
    elif target is not None:
        shape = target.shape
    else:
        raise UsageError("a copy from pointer to pointer: say how many elements, copy(src, dst, n)")
    if source is None:
        source = Place.at(cast(GlobalPtr, src), shape)
    if target is None:
        target = Place.at(cast(GlobalPtr, dst), shape)
    if source.shape != target.shape:
        raise UsageError(f"a copy from shape {source.shape} to shape {target.shape}: make them equal")
    check_fit(source, target)
    return source, target


def check_fit(source: Place, target: Place) -> None:
    """Raise if elements of one end cannot become those of the other. Local.

    Raises:
        UsageError: their dtypes differ, or the target is read-only.
    """
    if source.dtype != target.dtype:
        raise UsageError(
            f"a copy from elements of {source.dtype} to elements of {target.dtype}: make them equal, by "
            "ptr.cast(dtype) or array.astype(dtype)"
        )
    protected = target.pointer is not None and target.pointer.segment.readonly
    if protected or (target.memory is not None and not target.memory.flags.writeable):
        raise UsageError("a copy into an array that is read-only")


def contiguous_strides(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Strides in bytes of a box without gaps, last axis fastest."""
    if len(shape) == 1:
        return (item,)
    strides = []
    for count in reversed(shape):
        strides.append(item)
        item *= count
    return tuple(reversed(strides))


def _place_of(end: End, role: str) -> Place | None:
    """The place of one end; None for a pointer, which takes the shape of the other end."""
    if isinstance(end, GlobalPtr):
        if end.dtype.hasobject:
            raise UsageError(f"{end!r}: Python objects cannot lie in a segment")
        return None
    if isinstance(end, np.ndarray):
        return Place.of(end)
    if isinstance(end, Place):
        return end
    if isinstance(end, HasPlace):
        return end.__gondwana_place__()
    raise UsageError(
        f"a copy {role} {end!r}: legal are global pointers, ndarrays, Arrays, remote blocks and gw.strided"
    )


def _check_box(pointer: GlobalPtr, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    if any(count < 0 for count in shape):
        raise UsageError(f"shape {shape}: give 0 or more elements along each axis")
    if not math.prod(shape):
        pointer.check(0)
        return
    reach = [(count - 1) * stride for count, stride in zip(shape, strides, strict=True)]
    low = pointer.offset + sum(min(0, step) for step in reach)
    high = pointer.offset + sum(max(0, step) for step in reach) + pointer.dtype.itemsize
    if low < 0 or high > pointer.segment.nbytes_of(pointer.rank):
        raise UsageError(
            f"elements of shape {shape}, strides {strides} from {pointer!r} on lie in bytes {low} to {high}: that "
            f"part of the segment has {pointer.segment.nbytes_of(pointer.rank)}"
        )
