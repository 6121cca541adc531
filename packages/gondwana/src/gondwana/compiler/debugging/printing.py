"""`print` in compiled code: the values go to the interpreter, which writes each line as a whole.

Machine code contains a text that describes a line, and passes the values as 64-bit words. Importing this module loads
neither Numba nor LLVM.
"""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gondwana.compiler import externs
from gondwana.compiler.types.arguments import WORD
from gondwana.domains import Point

Item: TypeAlias = tuple[str | int, ...]
"""One argument of `print`: texts, and the numbers of the values among them."""

Kind: TypeAlias = Any
"""The meaning of a value's words, as JSON: the name of a dtype, ["text", t], ["point", axes] or ["tuple", [kinds]]."""


@dataclass(frozen=True)
class Line:
    """The output of one call of `print`, apart from the values."""

    items: tuple[Item, ...]


def text_of(line: Line, kinds: list[Kind]) -> bytes:
    """Return the description of a line, for machine code. Local."""
    return json.dumps([line.items, kinds]).encode()


def _write(description: int, nbytes: int, words: int) -> None:
    """Print a line: called by compiled code, on any thread, hence with the interpreter's lock."""
    items, read = _described(ctypes.string_at(description, nbytes))
    values = read(words)
    line = " ".join("".join(part if isinstance(part, str) else str(values[part]) for part in item) for item in items)
    print(line + "\n", end="")  # one piece, so that lines of several threads do not mix


_called = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(_write)
SYMBOL = externs.provide("print", _called)
"""The name by which machine code calls `_write`."""


@functools.cache
def _described(text: bytes) -> tuple[list[Item], Callable[[int], list[Any]]]:
    items, kinds = json.loads(text)
    count = sum(map(_words, kinds))

    def read(address: int) -> list[Any]:
        words = iter(np.frombuffer(ctypes.string_at(address, count * WORD), np.int64))
        return [_value(kind, words) for kind in kinds]

    return items, read


def _words(kind: Kind) -> int:
    """Number of words that carry a value."""
    match kind:
        case str(dtype):
            return max(1, np.dtype(dtype).itemsize // WORD)
        case ["point", axes]:
            return int(axes)
        case ["tuple", members]:
            return sum(map(_words, members))
    return 0


def _value(kind: Kind, words: Iterator[Any]) -> Any:
    match kind:
        case str(dtype):
            number = np.frombuffer(b"".join(next(words).tobytes() for _ in range(_words(kind))), dtype, 1)[0]
            return number if dtype in ("float32", "complex64") else number.item()  # digits of their own precision
        case ["point", axes]:
            return Point(*[int(next(words)) for _ in range(axes)])
        case ["tuple", members]:
            return tuple(_value(member, words) for member in members)
    return kind[1]
