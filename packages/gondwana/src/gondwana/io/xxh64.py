"""The hash XXH64 at the speed of memory: in machine code, or in the interpreter for what is short.

It is the one that ``xxhsum -H1`` prints. Stripes of 32 bytes enter four lanes, one word each, by steps that can be
undone: two texts that differ in one word always leave different lanes.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from gondwana.compiler.native import Native

PRIME_1 = 0x9E3779B185EBCA87
PRIME_2 = 0xC2B2AE3D27D4EB4F
_PRIME_3 = 0x165667B19E3779F9
_PRIME_4 = 0x85EBCA77C2B2AE63
_PRIME_5 = 0x27D4EB2F165667C5
_WORD = (1 << 64) - 1
STRIPE = 32

#: Fewer stripes are not worth loading machine code: the interpreter takes a few milliseconds for them.
_FEW = 1024

_enter = Native("gondwana.io.xxh64_native", "enter", 3)


class XXH64:
    """The hash of a text that arrives in parts. Local.

    Example:
        >>> hashed = XXH64()
        >>> hashed.update(np.frombuffer(b"abc", np.uint8))
        >>> hex(hashed.value())
        '0x44bc2cf5ad770999'
    """

    def __init__(self) -> None:
        self._lanes = np.array([PRIME_1 + PRIME_2 & _WORD, PRIME_2, 0, -PRIME_1 & _WORD], np.uint64)
        self._length = 0
        self._rest = np.empty(0, np.uint8)

    def update(self, part: npt.NDArray[np.uint8]) -> None:
        """Append contiguous bytes. The interpreter is left to other threads while many are hashed."""
        self._length += part.size
        if self._rest.size:
            part = np.concatenate([self._rest, part])
        stripes = part.size // STRIPE
        if stripes < _FEW:
            _enter_interpreted(self._lanes, part, stripes)
        else:
            _enter.call(self._lanes.ctypes.data, part.ctypes.data, stripes)
        self._rest = part[stripes * STRIPE :].copy()

    def value(self) -> int:
        """Return the hash of what has been appended."""
        mixed = self._merged() + self._length & _WORD
        rest = self._rest.tobytes()
        words = len(rest) // 8 * 8
        for (word,) in struct.iter_unpack("<Q", rest[:words]):
            mixed = _rotated(mixed ^ _round(0, word), 27) * PRIME_1 + _PRIME_4 & _WORD
        if len(rest) - words >= 4:
            (half,) = struct.unpack_from("<I", rest, words)
            mixed = _rotated(mixed ^ half * PRIME_1 & _WORD, 23) * PRIME_2 + _PRIME_3 & _WORD
            words += 4
        for byte in rest[words:]:
            mixed = _rotated(mixed ^ byte * _PRIME_5 & _WORD, 11) * PRIME_1 & _WORD
        mixed = (mixed ^ mixed >> 33) * PRIME_2 & _WORD
        mixed = (mixed ^ mixed >> 29) * _PRIME_3 & _WORD
        return mixed ^ mixed >> 32

    def _merged(self) -> int:
        """Return one word of the four lanes."""
        if self._length < STRIPE:
            return _PRIME_5
        lanes = [int(lane) for lane in self._lanes]
        mixed = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _WORD
        for lane in lanes:
            mixed = (mixed ^ _round(0, lane)) * PRIME_1 + _PRIME_4 & _WORD
        return mixed


def _enter_interpreted(lanes: npt.NDArray[np.uint64], part: npt.NDArray[np.uint8], stripes: int) -> None:
    """Do what ``xxh64_native.enter`` does."""
    a, b, c, d = (int(lane) for lane in lanes)
    for w, x, y, z in struct.iter_unpack("<4Q", part[: stripes * STRIPE].tobytes()):
        a, b, c, d = _round(a, w), _round(b, x), _round(c, y), _round(d, z)
    lanes[:] = a, b, c, d


def _round(lane: int, word: int) -> int:
    """Mix a word into a lane."""
    return _rotated(lane + word * PRIME_2 & _WORD, 31) * PRIME_1 & _WORD


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _WORD
