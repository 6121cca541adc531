"""The wire format of calls, results and errors: a pickle, and the buffers of large arrays beside it.

Calls of a named function with numbers, strings and the like, and such results, are marshalled instead: a third of the
time. Functions are sent by name where a name leads to them, which is cheap, and all others by value. The bytes of large
arrays are not pickled: they are copied from the array to the ring and from there to the memory of the new array. An
error travels with its traceback, from the rank where a call has failed to the one that waits for its result.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import pickle
import struct
import traceback
from collections.abc import Sequence
from typing import Any

from gondwana.runtime import interruptions
from gondwana.sync import rings
from gondwana.teams import RemoteError

PLAIN, PARTS, BUILTIN = 0, 1, 8
"""Tags: a pickle alone; a table of lengths, a pickle, and buffers; values of builtin types, marshalled."""
FORMS = PARTS | BUILTIN
"""The bits of these tags; others belong to the layer above."""

BUILTIN_TYPES = frozenset((int, float, complex, bool, str, bytes, type(None)))
"""No subclasses: what derives from these, such as NumPy's scalars, would arrive as something else."""

_LARGE = rings.SMALL_BYTES
"""Bytes from which a buffer is sent beside the pickle. The message is longer, and so has memory of its own."""
_ALIGN = 16
_COUNT = struct.Struct("<q")


class AwaitedError(LookupError):
    """Raised while a message is decoded that names an object which does not exist here yet.

    Args:
        key: of the object.
    """

    def __init__(self, key: tuple[int, int]) -> None:
        super().__init__(key)
        self.key = key


def _marshal(value: Any) -> bytes:
    """Marshal in the newest format without a table of the objects that occur twice, which takes half of the time."""
    return marshal.dumps(value, 2)


def encode_call(reference: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, list[Any]]:
    """Return the tag and the parts of a call, which arrives as a tuple of the three. Local; as `encode`.

    Where a call is BUILTIN, it has no `kwargs`, and they arrive as None.

    Args:
        reference: of the function, as `names.reference` returns it.
        args: of the function.
        kwargs: of the function.
    """
    if reference.__class__ is not str or kwargs:
        return encode((reference, args, kwargs))
    if not args:
        return _without_arguments(reference)
    if _is_builtin(args):
        return BUILTIN, [_marshal((reference, args, None))]
    return encode((reference, args, kwargs))


@functools.lru_cache(1024)
def _without_arguments(reference: str) -> tuple[int, list[Any]]:
    """The tag and the parts of a call without arguments, always the same."""
    return BUILTIN, [_marshal((reference, (), None))]


def encode_result(value: Any) -> tuple[int, list[Any]]:
    """Return the tag and the parts of a result. Local; as `encode`."""
    if value is None:
        return _NONE
    if value.__class__ in BUILTIN_TYPES or (value.__class__ is tuple and _is_builtin(value)):
        return BUILTIN, [_marshal(value)]
    return encode(value)


_NONE: tuple[int, list[Any]] = (BUILTIN, [_marshal(None)])


def _is_builtin(values: tuple[Any, ...]) -> bool:
    """Return whether all are of builtin types, or tuples of such."""
    for value in values:
        kind = value.__class__
        if kind not in BUILTIN_TYPES and not (kind is tuple and BUILTIN_TYPES.issuperset(map(type, value))):
            return False
    return True


def encode(value: Any) -> tuple[int, list[Any]]:
    """Return the tag and the parts of a message. Local; the parts may be buffers of arrays in `value`.

    Raises:
        TypeError: something in `value` cannot be pickled.
    """
    buffers: list[Any] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LARGE:
            return True
        buffers.append(raw)
        return False

    try:
        data = pickle.dumps(value, 5, buffer_callback=keep_inside)
    except (pickle.PicklingError, AttributeError, TypeError):
        buffers.clear()
        from gondwana.calls import by_value

        data = by_value.dumps(value, keep_inside)
    return (PARTS, _with_table([data, *buffers])) if buffers else (PLAIN, [data])


def _with_table(parts: Sequence[Any]) -> list[Any]:
    """Return the parts with a table of their lengths in front and padding in between."""
    lengths = [len(part) for part in parts]
    table = struct.pack(f"<{1 + len(parts)}q", len(parts), *lengths)
    padded = []
    for part in (table, *parts):
        padded += [part, bytes(-len(part) % _ALIGN)]
    return padded


decode_builtin = marshal.loads
"""Return the value of a message with the tag BUILTIN, from its bytes and any that follow. Local."""


def decode(tag: int, data: Any) -> Any:
    """Return the value of a message. Local.

    Args:
        tag: as `encode`, `encode_call` or `encode_result` returned it.
        data: the bytes. Arrays of a message with PARTS are views of them, so they must be the receiver's own.
    """
    if tag == BUILTIN:
        return decode_builtin(data)
    if tag == PLAIN:
        return pickle.loads(data)
    (count,) = _COUNT.unpack_from(data)
    lengths = struct.unpack_from(f"<{count}q", data, _COUNT.size)
    begin, parts = _padded(_COUNT.size * (1 + count)), []
    for length in lengths:
        parts.append(data[begin : begin + length])
        begin += _padded(length)
    return pickle.loads(parts[0], buffers=parts[1:])


def _padded(length: int) -> int:
    return length + -length % _ALIGN


def encode_error(error: BaseException) -> bytes:
    """Return what `decode_error` gets at another rank, pickled. Local."""
    text = "".join(traceback.format_exception(error))
    try:
        data = encode(error)[1]
        return pickle.dumps((data[0] if len(data) == 1 else b"", text))
    except BaseException as problem:
        interruptions.let_pass(problem)
        return pickle.dumps((b"", text))


def decode_error(source: int, pickled: bytes, text: str) -> BaseException:
    """Return the exception of another rank, or a RemoteError if that is not possible here. Local.

    Args:
        source: the rank.
        pickled: the exception.
        text: its traceback there.
    """
    error: Any = None
    try:
        error = pickle.loads(pickled) if pickled else None
    except BaseException as problem:
        interruptions.let_pass(problem)
    return noted_error(error, f"a call on rank {source}", text)


def noted_error(error: Any, what: str, text: str) -> BaseException:
    """Return an exception with the traceback that it had elsewhere as a note. Local.

    Args:
        error: what was unpickled; if that is none to which a note can be added, the result is a RemoteError.
        what: has raised it.
        text: its traceback there.
    """
    note = f"\nRaised by {what}:\n{text}"
    if isinstance(error, BaseException):
        with contextlib.suppress(Exception):  # as of a frozen dataclass, which takes no attributes
            error.add_note(note)
            return error
    lost = RemoteError(f"{what} failed: {text.strip().splitlines()[-1]}")
    lost.add_note(note)
    return lost
