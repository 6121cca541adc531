"""`GONDWANA_CHECK=1`: compiled code compares indices with the bounds of arrays, and pointers with those of segments.

Where an index is outside, machine code passes it and the bounds to `_refuse`, and raises the exception that it gets: a
description in the form of Numba's own exceptions, so that every handler of those works. Importing this module loads
neither Numba nor LLVM.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import pickle
from collections import OrderedDict
from dataclasses import dataclass, replace

from gondwana.compiler import externs
from gondwana.domains import RectDomain

_KEPT = 1024
"""The most exceptions that are kept. Compiled code may catch any number, and each thread works on its latest."""


@functools.cache
def active() -> bool:
    """Return whether compiled code of this process checks its accesses. Local."""
    value = os.environ.get("GONDWANA_CHECK", "0")
    return value not in ("", "0") and value.partition(":")[0] != "races"


@dataclass(frozen=True)
class Description:
    """Description of an access in machine code, passed on when it is outside of the bounds.

    Words are passed with it. For the elements of an array on a domain ("domain"): the index, and the first coordinates,
    the ends and the strides of the domain; for those of a NumPy array ("shape"): the integers of the index, and the
    shape; for those of a segment ("segment"): their number and the rank, the first byte, and the bytes of its part; for
    the part of a rank ("rank"): the rank and the number of ranks.

    Attributes:
        kind: "domain", "shape", "segment" or "rank".
        axes: number of axes of the array.
        index: for a NumPy array: the index as the program writes it, with "{}" for each integer.
        name: name of the array in the program, "" if it has none.
        dtype: dtype of the elements of a segment.
        count: number of elements accessed, from the index on along the last axis.
        place: file and line of the access, "" if the caller knows it.
    """

    kind: str
    axes: int = 0
    index: str = ""
    name: str = ""
    dtype: str = ""
    count: int = 1
    place: str = ""

    @property
    def words(self) -> int:
        """Number of words that are passed with it."""
        return {"domain": 4 * self.axes, "shape": self.index.count("{}") + self.axes, "segment": 4, "rank": 2}[
            self.kind
        ]

    def text(self) -> bytes:
        """The text in the machine code."""
        return json.dumps(vars(self)).encode()


class _Info(ctypes.Structure):
    """Numba's description of an exception: a pickle, its size, and three fields for what is known late."""

    _fields_ = (
        ("pickled", ctypes.c_char_p),
        ("size", ctypes.c_int32),
        ("late", ctypes.c_void_p),
        ("unwrap", ctypes.c_void_p),
        ("late_count", ctypes.c_int32),
    )


@dataclass(frozen=True)
class _Error:
    """An exception of compiled code."""

    info: _Info
    message: str
    place: str

    def write(self) -> _Error:
        """Write the error into the description."""
        text = f"{self.place}: {self.message}" if self.place else self.message
        self.info.pickled = content = pickle.dumps((IndexError, (text,), None))
        self.info.size = len(content)
        return self


_errors: OrderedDict[int, _Error] = OrderedDict()
"""Errors by the address of their description."""


def _refuse(description: int, nbytes: int, words: int) -> int:
    """Return the address of the exception for an access. Called by compiled code, on any thread, with the GIL."""
    found = Description(**json.loads(ctypes.string_at(description, nbytes)))
    numbers = list((ctypes.c_int64 * found.words).from_address(words))
    error = _Error(_Info(), message(found, numbers), found.place).write()
    address = ctypes.addressof(error.info)
    _errors[address] = error
    if len(_errors) > _KEPT:
        _errors.popitem(last=False)
    return address


def _locate(exception: int, place: int, nbytes: int) -> None:
    """Note where the access was, if an exception of this module lacks its place. Called by compiled code."""
    error = _errors.get(exception)
    if error is not None and not error.place:
        _errors[exception] = replace(error, place=ctypes.string_at(place, nbytes).decode()).write()


_called = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(_refuse)
_called_to_locate = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(_locate)
REFUSE = externs.provide("refuse", _called)
"""The name by which machine code calls `_refuse`."""
LOCATE = externs.provide("locate", _called_to_locate)
"""The name by which machine code calls `_locate`."""


def message(access: Description, words: list[int]) -> str:
    """Return the message on an access: the index, and the bounds. Local."""
    if access.kind == "segment":
        count, rank, offset, nbytes = words
        elements = f"{count} {'element' if count == 1 else 'elements'} of {access.dtype}"
        return f"{elements} at byte {offset} of rank {rank}: its part of the segment has {nbytes} bytes"
    if access.kind == "rank":
        return f"ptr.on({words[0]}): the ranks of the team of the segment are 0 to {words[1] - 1}"
    axes, name = access.axes, access.name or "the array"
    behind = f" with the {access.count - 1} elements behind it" if access.count > 1 else ""
    if access.kind == "shape":
        where = f"{name}[{access.index.format(*words)}]{behind}"
        return f"{where} is outside of {name}, whose shape is {tuple(words[-axes:])}"
    where = f"{name}[{', '.join(map(str, words[:axes]))}]{behind}"
    domain = RectDomain(words[axes : 2 * axes], words[2 * axes : 3 * axes], words[3 * axes :])
    return f"{where} is outside of {name}, which has elements on {domain}"
