"""The wire format of calls, results and errors: a pickle, and the buffers of large arrays beside it.

Functions are sent by name where a name leads to them, which is cheap, and all others by value. The bytes of large
arrays are not pickled: they are copied from the array to the ring and from there to the memory of the new array.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any

PLAIN, PARTS = 0, 1
"""Tags: a pickle alone, or a table of lengths, a pickle, and buffers."""

_LARGE = 8192
"""Bytes from which a buffer is sent beside the pickle."""
_ALIGN = 16
_COUNT = struct.Struct("<q")


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


def decode(tag: int, data: Any) -> Any:
    """Return the value of a message. Local.

    Args:
        tag: as `encode` returned it.
        data: the bytes. Arrays of a message with PARTS are views of them, so they must be the receiver's own.
    """
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
