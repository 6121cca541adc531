"""The verbs: `copy` between any two places, `put` and `get` for what is here."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from gondwana.compiler.debugging import checks
from gondwana.compiler.types.records import is_record, spelled
from gondwana.errors import UsageError
from gondwana.futures import DONE, Completed, Future, ready
from gondwana.memory.pointer import GlobalPtr
from gondwana.runtime.races import reporter
from gondwana.runtime.tracing import counted
from gondwana.sync.signals import Signal
from gondwana.transfer import engine, routes, signalled, under_way
from gondwana.transfer.box import End, HasParts, Row, StridedBox, check_fit, ends_of_copy
from gondwana.transfer.completion import COMPLETE, Following, Notify, Transfer, check_notify, notify_after
from gondwana.transfer.devices.stream_order import DEFAULT, Order, Stream, order_of
from gondwana.transfer.host_copies import ALL, UNFIT, rows
from gondwana.transfer.paths import DIRECT, state
from gondwana.transfer.runs import Runs

if TYPE_CHECKING:
    from gondwana.transfer.plans.plan import Plan

_ARRAY = np.ndarray


@overload
def copy(
    src: HasParts | None, dst: HasParts | None, n: None = None, *, notify: None = None, stream: None = None
) -> Plan: ...
@overload
def copy(
    src: End, dst: End, n: int | None = None, *, notify: Notify | None = None, stream: Stream | None = None
) -> Transfer: ...
@counted("copy", routes.of_copy)
def copy(
    src: Any,
    dst: Any,
    n: int | None = None,
    *,
    notify: Notify | None = None,
    stream: Stream | None = None,
) -> Any:
    """Start to copy elements from any place to any other. Local; internal progress; does not wait.

    The ends may be in any kind of memory of any ranks; this rank need not own either. Between two ends that loads and
    stores of this rank reach, the copy is complete at once. An end on another rank's device needs that rank's progress,
    unless the driver lets this rank attach its memory, or MPI takes it; the other ends do not. A copy with an end on
    this rank's GPU starts after all kernels that this rank has launched before. Nothing else is ordered: not with other
    copies, not between the elements. Source and destination must not overlap.

    Between two global arrays, or views of them (`T[2:8, ::2]`, `T.permute(axes)`), the copy is collective over their
    teams: every rank sends what it owns of the positions that others own there. So it changes the division, the ghosts,
    the order in memory or of the axes, the kind of memory and the team. The first copy between two such ends makes a
    plan and blocks; later ones start it again. Ghosts are neither read nor written.

    Args:
        src: Global pointer, ndarray (private memory), or anything else with elements: an array, a remote block,
            `gw.strided(...)`. Leave it unchanged until `.source` of the result is done. Or a global array or a view of
            one, None on ranks outside of its team; one of the two teams has all ranks of the other.
        dst: The same. Its elements are undefined until the result is done.
        n: Number of elements; needed between two pointers; default: all of an array. A pointer takes the shape of the
            other end, without gaps, last axis fastest. 0 is legal, and notifies.
        notify: Signal or call that follows when the data have arrived: a `gw.Signal`, which is raised by one at the
            owner of the destination, one counter of it (`signal.at(rank, channel)`), or `(function, *arguments)`, which
            runs there inside its progress. The owner of private memory is this rank.
        stream: Stream of a CUDA device of this rank: its handle, or an object of another library that has
            `__cuda_stream__`. The copy waits on the device for what the stream holds, and what is put on the stream
            later waits for the copy. Where no driver of this rank makes the copy, this call waits for both.

    Returns:
        The future of operation completion, with the futures `source` and `remote`; between global arrays a `Plan` that
        has been started: call its `wait()`.

    Raises:
        UsageError: shapes or dtypes of the ends differ, an end lies outside of its segment, or is read-only; or global
            arrays overlap, or ranks give different ones.

    Example:
        >>> import gondwana as gw
        >>> import numpy as np
        >>> slabs = gw.from_function(lambda x, y: 10 * x + y, (4, 4), grid=(gw.world.size, 1))
        >>> transposed = gw.zeros((4, 4), grid=(gw.world.size, 1))
        >>> gw.copy(slabs, transposed.permute((1, 0))).wait()
        >>> transposed[1, 3]
        31.0
        >>> right = (gw.world.rank + 1) % gw.world.size
        >>> segment = gw.Segment(gw.world, 1024)
        >>> gw.copy(np.arange(8.0), segment.pointer(right, float), 8).wait()
        >>> gw.world.barrier()
        >>> segment.pointer(dtype=float).local(3).tolist()
        [0.0, 1.0, 2.0]
    """
    if stream is None and state.plain and (notify is None or _is_raised_here(notify, dst)):
        # The fast path: machine code between an array and memory which this rank reaches by loads and stores.
        moved = UNFIT
        try:
            if dst.__class__ is GlobalPtr:
                given = src
                if src.__class__ is GlobalPtr and n is not None and n > 0 and src.elements.array is not None:
                    given = src.local(n)
                if given.__class__ is _ARRAY:
                    moved = rows.store(dst.elements.words, dst.offset, ALL if n is None else n, given)
            elif dst.__class__ is _ARRAY and src.__class__ is GlobalPtr:
                moved = rows.load(src.elements.words, src.offset, ALL if n is None else n, dst)
        except (OverflowError, TypeError):
            pass  # no integer of 64 bits: the general path says what is wrong
        if moved != UNFIT:
            if notify is not None:
                _raise(notify, dst)
            return COMPLETE
        if notify is not None and src.__class__ is _ARRAY and (n is None or n == src.size):
            sent = signalled.sent_row(src, dst, notify)
            if sent is not None:
                return Transfer(sent, DONE)
    start = getattr(src, "__gondwana_copy__", None) or getattr(dst, "__gondwana_copy__", None)
    if start is not None and n is None and notify is None and stream is None:
        return start(src, dst)
    return _start(*ends_of_copy(src, dst, n), notify, DEFAULT if stream is None else order_of(stream))


def _is_raised_here(notify: Any, dst: Any) -> bool:
    """Return whether a signal is raised by the rank that the destination names, so that nothing is translated."""
    return notify.__class__ is Signal and dst.__class__ is GlobalPtr and notify.team is dst.segment.team


def _raise(notify: Any, dst: Any) -> None:
    """Raise such a signal."""
    notify.add(dst.rank)


def _start(source: StridedBox, target: StridedBox, notify: Notify | None, order: Order = DEFAULT) -> Transfer:
    if notify is not None:
        check_notify(notify, target)
    if reporter is not None:
        return _start_reported(source, target, notify, order)
    started = engine.start(source, target, notify, order)
    if checks.active():
        under_way.note(source, target, started.operation, started.source)
    if notify is None:
        return COMPLETE if started.operation is DONE else Transfer(started.operation, started.source)
    if started.notifies:
        return Transfer(started.operation, started.source)
    return Transfer(started.operation, started.source, notify_after(started.operation, notify, target))


def _start_reported(source: StridedBox, target: StridedBox, notify: Notify | None, order: Order) -> Transfer:
    """Start a copy that the race detector sees from here until it is waited for."""
    from gondwana.transfer.reported import Reported

    copied = Reported(source, target, notify)
    notify = copied.notify
    started = engine.start(source, target, notify, order)
    remote = None if notify is None or started.notifies else notify_after(started.operation, notify, target)
    return Transfer(*copied.futures(started.operation, started.source, remote))


@counted("copy", routes.of_indexed)
def copy_indexed(
    src: GlobalPtr | npt.NDArray[Any],
    src_indices: npt.ArrayLike,
    dst: GlobalPtr | npt.NDArray[Any],
    dst_indices: npt.ArrayLike,
    length: int = 1,
    *,
    notify: Notify | None = None,
) -> Transfer:
    """Start to copy chunks of equal length: the i-th of the source becomes the i-th of the destination. Local.

    Internal progress; does not wait. Ends, completions, ordering and errors as for `copy`. Chunks of the destination
    must not overlap anything; those of the source may overlap each other.

    Args:
        src: Global pointer, or ndarray of one axis.
        src_indices: Index of the first element of each chunk, counted in elements from `src`.
        dst: The same.
        dst_indices: As many indices as `src_indices` has.
        length: Elements of a chunk.
        notify: Signal or call, as for `copy`.

    Example:
        >>> import gondwana as gw
        >>> import numpy as np
        >>> there = gw.Segment(gw.world, 64).pointer(dtype=int)
        >>> gw.copy_indexed(np.arange(10, 18), [0, 4], there, [6, 0], length=2).wait()
        >>> there.local(8).tolist()
        [14, 15, 0, 0, 0, 0, 10, 11]
    """
    source, target = Runs.within(src, src_indices, length), Runs.within(dst, dst_indices, length)
    if source.shape != target.shape:
        counts = source.shape[0], target.shape[0]
        raise UsageError("{} indices of the source and {} of the destination: make them equal".format(*counts))
    check_fit(source, target)
    return _start(source, target, notify)


@counted("copy", routes.of_put)
def put(value: Any, ptr: GlobalPtr, *, notify: Notify | None = None, stream: Stream | None = None) -> Future[None]:
    """Start to write elements that are here to where a pointer points. Local; internal progress; does not wait.

    On this node it is complete at once. Completion, ordering and errors as for `copy`. With a signal, up to
    64 KiB to another node are one to eight messages, in compiled code up to 16 KiB; the call then returns when the
    value may be changed.

    Args:
        value: Number, or array of the pointer's dtype, which must not change before the result is done; where the
            pointer's dtype is a record, a record or a tuple with a value for each field.
        ptr: Pointer to where the first element goes; the others follow without gaps.
        notify: Signal or call, as for `copy`. In compiled code a signal, or `signal.at(rank, channel)`.
        stream: Stream, as for `copy`.

    Raises:
        UsageError: the dtype is another, or the elements would not lie in the segment.
        TypeError: `ptr` is no pointer.

    Example:
        >>> import gondwana as gw
        >>> pointer = gw.Segment(gw.world, 16).pointer(dtype=float)
        >>> gw.put(2.5, pointer).wait()
        >>> gw.get(pointer).result()
        2.5
    """
    if ptr.__class__ is not GlobalPtr:
        raise TypeError(f"put({value!r}, {ptr!r}): give what is written, then the global pointer, as in gw.put(1.0, p)")
    # The fast path: a number that goes to memory which this rank reaches by loads and stores.
    elements = ptr.elements
    if (
        elements.view is not None
        and value.__class__ in elements.fitting
        and notify is None
        and stream is None
        and state.plain
    ):
        offset = ptr.offset
        if offset >= 0 and not offset & elements.mask:
            try:
                elements.view[offset >> elements.shift] = value
            except (IndexError, OverflowError, TypeError, ValueError):
                pass  # the general path says what is wrong
            else:
                DIRECT.operations += 1
                DIRECT.nbytes += elements.item
                return DONE
    if isinstance(value, np.ndarray):
        return copy(value, ptr, notify=notify, stream=stream)
    single = _single(value, ptr.dtype)
    elements.fitting.add(value.__class__)
    source, target = StridedBox.of(single), Row.at(ptr, (1,))
    check_fit(source, target)
    return _start(source, target, notify, DEFAULT if stream is None else order_of(stream))


@overload
def get(ptr: GlobalPtr, *, stream: Stream | None = None) -> Future[Any]: ...
@overload
def get(ptr: GlobalPtr, n: int, *, stream: Stream | None = None) -> Future[npt.NDArray[Any]]: ...
@overload
def get(
    ptr: GlobalPtr, n: int | None = None, *, out: npt.NDArray[Any], stream: Stream | None = None
) -> Future[npt.NDArray[Any]]: ...
@counted("copy", routes.of_get)
def get(
    ptr: GlobalPtr, n: int | None = None, *, out: npt.NDArray[Any] | None = None, stream: Stream | None = None
) -> Future[Any]:
    """Start to read elements where a pointer points. Local; internal progress; does not wait.

    On this node it is complete at once. Ordering and errors as for `copy`.

    Args:
        ptr: Pointer to the first element.
        n: Number of elements; None: the one element as a number or a record, or as many as `out` has.
        out: Array that they go to, of the pointer's dtype; default: a new array.
        stream: Stream, as for `copy`.

    Returns:
        The future of the number or the record, or of the array.

    Example:
        >>> import gondwana as gw
        >>> pointer = gw.Segment(gw.world, 16).pointer(dtype=int)
        >>> gw.get(pointer, 2).result().tolist()
        [0, 0]
    """
    if out is not None or n is not None:
        into = np.empty(max(n or 0, 0), ptr.dtype) if out is None else out
        transfer = copy(ptr, into, n, stream=stream)
        return ready(into) if transfer is COMPLETE else Following(transfer, lambda: into)
    # The fast path: a number from memory which this rank reaches by loads and stores.
    if stream is None and state.plain:
        try:
            value = rows.number(ptr.elements.words, ptr.offset)
        except (OverflowError, TypeError):
            value = None  # the general path says what is wrong
        if value is not None:
            done: Completed[Any] = Completed()  # as `ready`, without the time of a call
            done._value = value
            return done
    single = np.empty(1, ptr.dtype)
    return Following(copy(ptr, single, stream=stream), functools.partial(_value, single))


def _value(single: npt.NDArray[Any]) -> Any:
    """The one element of an array: a number, or a record."""
    return single[0] if is_record(single.dtype) else single.item()


_KINDS = {bool: "biufc", int: "iufc", float: "fc", complex: "c"}
"""Kinds of dtypes that Python's numbers fit."""


def _fits(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a number can be an element without loss of its kind, or a record field by field."""
    if is_record(dtype):
        if not isinstance(value, tuple):
            return isinstance(value, np.void) and value.dtype == dtype
        fields: Any = dtype.fields
        return len(value) == len(fields) and all(map(_fits, value, (fields[name][0] for name in dtype.names or ())))
    if dtype.subdtype is not None:
        items, (base, shape) = np.asarray(value), dtype.subdtype
        return items.shape == shape and np.can_cast(items.dtype, base, "same_kind")
    if isinstance(value, np.generic):
        return np.can_cast(value.dtype, dtype, "same_kind")
    return dtype.kind in _KINDS.get(type(value), "")


def _single(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A number or a record as an array of one element."""
    if not _fits(value, dtype):
        wanted = "a record, or a tuple with a value for each field" if is_record(dtype) else "a number of that kind"
        raise UsageError(f"put of {value!r} as {spelled(dtype)}: give {wanted}, or an array of that dtype")
    try:
        return np.array([value], dtype)
    except OverflowError as error:
        raise UsageError(f"put of {value!r} as {dtype}: {error}") from None
