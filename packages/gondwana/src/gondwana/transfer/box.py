"""Boxes: elements at regular distances in any memory of any rank. What every copy starts from and leads to."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from gondwana.compiler.types.records import spelled
from gondwana.errors import UsageError
from gondwana.memory.pointer import GlobalPtr
from gondwana.memory.segment import (
    AWAY as AWAY,
    DEVICE as DEVICE,
    EXPOSED as EXPOSED,
    MEMORY as MEMORY,
    WINDOW as WINDOW,
)
from gondwana.transfer.host_copies import copy_memory
from gondwana.transfer.paths import STAGED, state

MemoryOrder: TypeAlias = Literal["C", "F"]


class StridedBox:
    """Elements of one dtype at a base, with a shape and byte strides: one end of a copy. Local; never changes.

    Made by `gw.strided` from a pointer, and by everything that has `__gondwana_box__`.

    Attributes:
        pointer: Pointer to the first element; None for private memory.
        memory: The elements as an ndarray if loads and stores of this rank reach them, else None.
        dtype: Type of an element.
        shape: Elements along each axis.
        strides: Bytes from one element to the next along each axis; any sign.
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
    def of(cls, array: npt.NDArray[Any], pointer: GlobalPtr | None = None) -> StridedBox:
        """Return the box of an ndarray. Local.

        Args:
            array: The elements, contiguous or strided.
            pointer: Pointer to its first element, if it lies in a segment.

        Raises:
            UsageError: its elements are Python objects.
        """
        if array.dtype.hasobject:
            raise UsageError("an array of Python objects cannot be copied between ranks: send them by gw.rpc")
        if array.ndim == 1 and array.flags.c_contiguous:
            return Row(pointer, array, array.dtype, array.size)
        return StridedBox(pointer, array, array.dtype, array.shape, array.strides)

    @classmethod
    def at(cls, pointer: GlobalPtr, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> StridedBox:
        """Return the box from a pointer on; default: without gaps, last axis fastest. Local.

        Raises:
            UsageError: the box does not lie inside the segment.
        """
        dtype = pointer.dtype
        if strides is not None:
            _check_inside(pointer, shape, strides)
        if len(shape) == 1 and (strides is None or strides == (dtype.itemsize,)):
            return Row.at(pointer, shape)
        if strides is None:
            strides = contiguous_strides(shape, dtype.itemsize)
            pointer.check(math.prod(shape))
        return StridedBox(pointer, _memory_at(pointer, shape, strides), dtype, shape, strides)

    @classmethod
    def named(cls, pointer: GlobalPtr, shape: Sequence[int], strides: Sequence[int]) -> StridedBox:
        """Return a box that is known by its pointer only, without local access. Local, unchecked."""
        return cls(pointer, None, pointer.dtype, tuple(shape), tuple(strides))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, gaps not counted."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def bounds(self) -> tuple[int, int]:
        """Bytes from the first element to the lowest byte of all elements, and to the end of the highest."""
        return bounds(self.shape, self.strides, self.dtype.itemsize)

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie without gaps, last axis fastest."""
        wanted = contiguous_strides(self.shape, self.dtype.itemsize)
        axes = zip(self.shape, self.strides, wanted, strict=True)
        return 0 in self.shape or all(count == 1 or stride == packed for count, stride, packed in axes)

    @property
    def packed_strides(self) -> tuple[int, ...]:
        """Strides of the same elements without gaps, their axes in the order of this memory."""
        packed, step = [0] * len(self.shape), self.dtype.itemsize
        for axis in sorted(range(len(self.shape)), key=lambda axis: -abs(self.strides[axis]))[::-1]:
            packed[axis] = step
            step *= self.shape[axis]
        return tuple(packed)

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
        """How this rank reaches it: see `memory.segment.MEMORY`."""
        return MEMORY if self.memory is not None else _reach(self.location)

    @property
    def location(self) -> GlobalPtr:
        """Pointer to the first element, of a box that is not private memory."""
        assert self.pointer is not None
        return self.pointer

    @property
    def address(self) -> int:
        """Where the first element lies: of memory in reach, or on this rank's device."""
        if self.memory is not None:
            return self.memory.ctypes.data
        return self.location.segment.address + self.location.offset

    def first(self, count: int) -> StridedBox:
        """Return its first elements as one axis. Local.

        Raises:
            UsageError: it has fewer, or several axes with gaps.
        """
        if self.shape == (count,):
            return self
        if not 0 <= count <= self.size:
            raise UsageError(f"n={count}: an end of the copy has {self.size} elements; give 0 to that, or leave n out")
        if len(self.shape) == 1:
            return self.part((0,), (count,))
        if not self.contiguous:
            raise UsageError(f"n={count} of an array of shape {self.shape} with gaps: copy a slice of it without n")
        memory = None if self.memory is None else self.memory.reshape(-1)[:count]
        return Row(self.pointer, memory, self.dtype, count, self.reach)

    def part(self, starts: tuple[int, ...], shape: tuple[int, ...]) -> StridedBox:
        """Return a box of its elements. Local, unchecked.

        Args:
            starts: Index of the first along each axis.
            shape: Elements along each axis.
        """
        memory, pointer = self.memory, self.pointer
        if memory is not None:
            box: list[Any] = [slice(first, first + count) for first, count in zip(starts, shape, strict=True)]
            memory = memory[(*box, ...)]  # without the dots a box of no axes would be a number
        if pointer is not None:
            pointer = moved(pointer, sum(map(operator.mul, starts, self.strides)))
        return StridedBox(pointer, memory, self.dtype, shape, self.strides)

    def __getitem__(self, position: tuple[int | slice, ...]) -> StridedBox:
        """The part that NumPy would give for slices and integers of 0 or more, one an axis."""
        offset, shape, strides = 0, [], []
        for part, count, stride in zip(position, self.shape, self.strides, strict=True):
            if isinstance(part, int):
                offset += part * stride
                continue
            kept = range(count)[part]
            offset += kept.start * stride if kept else 0
            shape.append(len(kept))
            strides.append(stride * kept.step)
        memory = None if self.memory is None else self.memory[(*position, ...)]
        pointer = None if self.pointer is None else moved(self.pointer, offset)
        return StridedBox(pointer, memory, self.dtype, tuple(shape), tuple(strides))

    def transpose(self, axes: Sequence[int]) -> StridedBox:
        """Return the same elements with the axes in another order. Local."""
        memory = None if self.memory is None else self.memory.transpose(axes)
        shape, strides = (tuple(of[axis] for axis in axes) for of in (self.shape, self.strides))
        return StridedBox(self.pointer, memory, self.dtype, shape, strides)

    def in_chunks_of(self, other: StridedBox) -> StridedBox:
        """Return the same elements in the shape of an indexed box with as many, if they lie without gaps. Local."""
        if other.offsets() is None or self.offsets() is not None or self.size != other.size or not self.contiguous:
            return self
        memory = None if self.memory is None else self.memory.reshape(other.shape)
        strides = contiguous_strides(other.shape, self.dtype.itemsize)
        return StridedBox(self.pointer, memory, self.dtype, other.shape, strides)

    def load(self) -> npt.NDArray[Any]:
        """Return the elements, from memory in reach; maybe the memory itself. Local."""
        assert self.memory is not None
        return self.memory

    def store(self, data: npt.NDArray[Any]) -> None:
        """Set the elements, in memory in reach, from others of the same shape. Local."""
        assert self.memory is not None
        copy_memory(data, self.memory)

    def of_bytes(self) -> StridedBox:
        """Return the same elements as bytes, with one more axis. Local."""
        byte = np.dtype(np.uint8)
        memory = None if self.memory is None else self.memory[..., None].view(byte)
        pointer = None if self.pointer is None else self.pointer.cast(byte)
        return StridedBox(pointer, memory, byte, (*self.shape, self.dtype.itemsize), (*self.strides, 1))

    @property
    def item_stride(self) -> int:
        """Bytes from one element to the next along the last axis; of chunks: in one of them."""
        return self.strides[-1]

    def offsets(self) -> npt.NDArray[np.int64] | None:
        """Return the bytes from the first element to each chunk, if these are chunks at any distances. Local."""
        return None

    def __repr__(self) -> str:
        where = "private memory" if self.pointer is None else repr(self.pointer)
        return f"StridedBox({where}, shape {self.shape}, strides {self.strides})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.pointer is not None:
            return StridedBox.at, (self.pointer, self.shape, self.strides)
        if self.memory is not None:
            raise TypeError("private memory cannot be named to another rank")
        return StridedBox, (None, None, self.dtype, self.shape, self.strides)

    def __gondwana_box__(self) -> StridedBox:
        return self


class Row(StridedBox):
    """Elements without gaps along one axis, the end of most copies. Local; never changes.

    What a copy asks of its ends is known when it is made.

    Attributes:
        nbytes: Bytes of all elements.
        reach: How this rank reaches them: see `memory.segment.MEMORY`.
    """

    __slots__ = ("nbytes", "reach")

    contiguous = True

    def __init__(
        self,
        pointer: GlobalPtr | None,
        memory: npt.NDArray[Any] | None,
        dtype: np.dtype[Any],
        count: int,
        reach: str = MEMORY,
    ) -> None:
        item = dtype.itemsize
        self.pointer, self.memory, self.dtype = pointer, memory, dtype
        self.shape, self.strides = (count,), (item,)
        self.nbytes: int = count * item
        self.reach: str = reach

    @classmethod
    def at(cls, pointer: GlobalPtr, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Row:
        """Return the elements from a pointer on. Local.

        Raises:
            UsageError: some of them do not lie inside the segment.
        """
        dtype, (count,), elements = pointer.dtype, shape, pointer.elements.array
        first, rest = divmod(pointer.offset, dtype.itemsize)
        if elements is None or rest or not 0 <= first <= first + count <= elements.size:
            pointer.check(count)
            reach = _reach(pointer)
            if reach != MEMORY:
                return Row(pointer, None, dtype, count, reach)
            if rest:
                return Row(pointer, _memory_at(pointer, shape, (dtype.itemsize,)), dtype, count)
            elements = pointer.segment.typed(pointer.rank, dtype)
        return Row(pointer, elements[first : first + count], dtype, count)

    def store(self, data: npt.NDArray[Any]) -> None:
        """Set the elements, in memory in reach, from others of the same shape. Local."""
        assert self.memory is not None
        self.memory[...] = data


@runtime_checkable
class HasBox(Protocol):
    """What `copy` takes as an end besides pointers and ndarrays."""

    def __gondwana_box__(self) -> StridedBox:
        """Return where the elements are. Local."""


End: TypeAlias = GlobalPtr | npt.NDArray[Any] | HasBox
"""What a copy can start from and lead to."""


@runtime_checkable
class HasParts(Protocol):
    """Elements that are divided over ranks: an end of collective copies, with another such end."""

    def __gondwana_copy__(self, src: Any, dst: Any) -> Any:
        """Start a copy with this as an end. Collective."""

    def __gondwana_pairs__(self, src: Any, dst: Any) -> Iterable[tuple[End, End]]:
        """Return those parts of a copy with this as an end that this rank lists. Local."""


def divided_end(*ends: Any) -> HasParts | None:
    """Return the first end that is divided over ranks, None without any. Local."""
    return next((end for end in ends if hasattr(end, "__gondwana_pairs__")), None)


def strided(pointer: GlobalPtr, shape: tuple[int, ...], strides: tuple[int, ...]) -> StridedBox:
    """Return a box of elements with gaps, as an end of `gw.copy`. Local.

    Args:
        pointer: Pointer to the element with all indices 0.
        shape: Elements along each axis.
        strides: Bytes from one element to the next along each axis; any sign and order, so that transposes and
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
    return StridedBox.at(pointer, tuple(map(int, shape)), tuple(map(int, strides)))


def ends_of_copy(src: End, dst: End, n: int | None) -> tuple[StridedBox, StridedBox]:
    """Return the two ends of a copy, of one shape and dtype. Local; moves nothing.

    Raises:
        UsageError: they do not fit each other, or what they name does not exist.
    """
    if src.__class__ is dst.__class__ is GlobalPtr and n is not None and not src.dtype.hasobject:
        ends = Row.at(src, (n,)), Row.at(dst, (n,))
        check_fit(*ends)
        return ends
    source, target = _box_of(src, "from"), _box_of(dst, "to")
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
        source = (Row if len(shape) == 1 else StridedBox).at(cast(GlobalPtr, src), shape)
    if target is None:
        target = (Row if len(shape) == 1 else StridedBox).at(cast(GlobalPtr, dst), shape)
    if source.shape != target.shape:
        source, target = source.in_chunks_of(target), target.in_chunks_of(source)
    if source.shape != target.shape:
        raise UsageError(f"a copy from shape {source.shape} to shape {target.shape}: make them equal")
    check_fit(source, target)
    return source, target


def check_fit(source: StridedBox, target: StridedBox) -> None:
    """Raise if elements of one end cannot become those of the other. Local.

    Raises:
        UsageError: their dtypes differ, or the target is read-only.
    """
    if source.dtype != target.dtype:
        raise UsageError(
            f"a copy from elements of {spelled(source.dtype)} to elements of {spelled(target.dtype)}: make them "
            "equal, by ptr.cast(dtype) or array.astype(dtype)"
        )
    protected = target.pointer is not None and target.pointer.segment.readonly
    if protected or (target.memory is not None and not target.memory.flags.writeable):
        raise UsageError("a copy into an array that is read-only")


def contiguous_strides(shape: Sequence[int], item: int, order: MemoryOrder = "C") -> tuple[int, ...]:
    """Return the strides, in bytes, of elements without gaps. Local."""
    if len(shape) == 1:
        return (item,)
    strides = []
    for count in shape if order == "F" else reversed(shape):
        strides.append(item)
        item *= count
    return tuple(strides if order == "F" else reversed(strides))


def bounds(shape: Sequence[int], strides: Sequence[int], item: int) -> tuple[int, int]:
    """Return the bytes from the first element to the lowest byte, and to the end of the highest. Local."""
    if 0 in shape:
        return 0, 0
    reach = [(count - 1) * stride for count, stride in zip(shape, strides, strict=True)]
    return sum(min(0, step) for step in reach), sum(max(0, step) for step in reach) + item


def moved(pointer: GlobalPtr, nbytes: int) -> GlobalPtr:
    """Return the pointer so many bytes farther on. Local."""
    return GlobalPtr(pointer.segment, pointer.rank, pointer.offset + nbytes, pointer.dtype, pointer.elements)


def _box_of(end: End, role: str) -> StridedBox | None:
    """The box of one end; None for a pointer, which takes the shape of the other end."""
    if isinstance(end, GlobalPtr):
        if end.dtype.hasobject:
            raise UsageError(f"{end!r}: Python objects cannot lie in a segment")
        return None
    if isinstance(end, np.ndarray):
        return StridedBox.of(end)
    if isinstance(end, StridedBox):
        return end
    if isinstance(end, HasBox):
        return end.__gondwana_box__()
    raise UsageError(
        f"a copy {role} {end!r}: legal are global pointers, ndarrays (np.asarray of a list), Arrays, remote blocks "
        "and gw.strided; of a global array T its T.local and T.block(rank), or T and another one, without n and "
        "notify"
    )


def _reach(pointer: GlobalPtr) -> str:
    """How this rank reaches what a pointer leads to, if not through an array."""
    found = pointer.segment.reach(pointer.rank)
    if found in (DEVICE, EXPOSED) and state.forced is STAGED and pointer.rank != pointer.team.rank:
        return AWAY
    return found


def _memory_at(pointer: GlobalPtr, shape: tuple[int, ...], strides: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """The elements from a pointer on if loads and stores reach them."""
    if not pointer.is_local:
        return None
    buffer = cast(Any, pointer.segment.view(pointer.rank))
    return np.ndarray(shape, pointer.dtype, buffer, pointer.offset if math.prod(shape) else 0, strides)


def _check_inside(pointer: GlobalPtr, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    if any(count < 0 for count in shape):
        raise UsageError(f"shape {shape}: give 0 or more elements along each axis")
    if not math.prod(shape):
        pointer.check(0)
        return
    low, high = (pointer.offset + end for end in bounds(shape, strides, pointer.dtype.itemsize))
    if low < 0 or high > pointer.segment.nbytes_of(pointer.rank):
        raise UsageError(
            f"elements of shape {shape}, strides {strides} from {pointer!r} on lie in bytes {low} to {high}: that "
            f"part of the segment has {pointer.segment.nbytes_of(pointer.rank)}"
        )
