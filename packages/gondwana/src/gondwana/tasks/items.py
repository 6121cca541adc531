"""How items of remote channels become bytes: any object by pickling, values of a dtype as they are in memory."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import numpy as np

from gondwana.calls import endpoints, wire
from gondwana.errors import UsageError
from gondwana.runtime import progress

PLAIN, PARTS, SIMPLE, OUTSIDE = wire.PLAIN, wire.PARTS, 2, 4
"""Tags: as for `wire`; a pickle of a builtin value; a bit: the bytes are elsewhere."""

_SIMPLE_TYPES = frozenset((int, float, bool, str, bytes, complex, type(None)))
_CODES = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
    "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip


class Objects:
    """Items of any type that can be pickled. Local.

    Attributes:
        largest: bytes of an item that a slot holds.
    """

    dtype = None
    largest = 496

    def pack(self, item: Any) -> tuple[int, bytes]:
        """Return the tag and the bytes of an item.

        Raises:
            TypeError: it cannot be pickled.
        """
        if type(item) in _SIMPLE_TYPES:
            return SIMPLE, pickle.dumps(item, 5)
        tag, parts = wire.encode(item)
        return tag, parts[0] if len(parts) == 1 else b"".join(parts)

    def unpack(self, tag: int, data: Any) -> Any:
        """Return the item; wait for an object of this rank that it names."""
        if tag == SIMPLE:
            return pickle.loads(data)
        try:
            return wire.decode(tag, data)
        except endpoints.AwaitedError:
            return self._unpack_later(tag, data)

    @staticmethod
    def _unpack_later(tag: int, data: Any) -> Any:
        found: list[Any] = []

        def ready() -> bool:
            try:
                found.append(wire.decode(tag, data))
            except endpoints.AwaitedError:
                return False
            return True

        progress.wait_until(ready, "an object that an item of a channel names to exist on this rank")
        return found[0]


class Values:
    """Items of a dtype. Local.

    Args:
        dtype: without Python objects.

    Raises:
        UsageError: it has such.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        if dtype.hasobject or dtype.itemsize == 0:
            raise UsageError(f"a channel of dtype {dtype}: give one of fixed size without objects, or dtype=None")
        self.dtype = dtype
        self.largest = dtype.itemsize
        code = _CODES.get(dtype.name) if dtype.isnative and dtype.shape == () else None
        self._struct = None if code is None else struct.Struct(f"={code}")

    def pack(self, item: Any) -> tuple[int, bytes]:
        """Return the tag and the bytes of an item.

        Raises:
            TypeError: it is no value of the dtype.
        """
        try:
            if self._struct is not None:
                return SIMPLE, self._struct.pack(item)
            value = np.empty((), self.dtype)
            value[...] = item
            return SIMPLE, value.tobytes()
        except (struct.error, TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"{item!r} put into a channel of dtype {self.dtype}: {error}") from None

    def unpack(self, tag: int, data: Any) -> Any:
        """Return the item: a number of Python's where it has such, else a scalar or an array of NumPy's."""
        if self._struct is not None:
            return self._struct.unpack_from(data)[0]
        return np.frombuffer(bytes(data[: self.largest]), self.dtype, 1)[0]
