"""Errors of compiled code, made readable: which function, which line, what to change."""

from __future__ import annotations

import ctypes
import pickle
import re
from typing import Any

from gondwana.errors import KernelError

STATUS_WORDS = 2
_USER_EXCEPTION = 1


def raise_from_block(block: Any, name: str) -> None:
    """Raise the exception that compiled code left in the argument block of a call of `name`, if any."""
    status, address = ctypes.cast(block, ctypes.POINTER(ctypes.c_int64))[0:2]
    if status == 0:
        return
    raise _exception(address, name) if address else RuntimeError(f"{name} failed in compiled code (status {status})")


def _exception(address: int, name: str) -> BaseException:
    """Decode Numba's description of an exception: a pointer to a pickle, its size, and more that is known late."""
    pointer, size = ctypes.c_void_p.from_address(address).value, ctypes.c_int32.from_address(address + 8).value
    if pointer is None or size <= 0:
        return RuntimeError(f"{name} raised an exception in compiled code")
    cls, args, _ = pickle.loads(ctypes.string_at(pointer, size))
    known = args is not None and all(not isinstance(arg, bytes) for arg in args)
    text = " ".join(str(arg) for arg in args) if known and args else "in compiled code"
    try:
        error: BaseException = cls(f"{text} (raised in {name})")
    except TypeError:  # not a class, or one whose instances need other arguments
        error = RuntimeError(f"{getattr(cls, '__name__', 'an error')}: {text} (raised in {name})")
    return error


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PRECISE = re.compile(r"^\s*\w*Error: (.*(?:\n(?!\s*(?:raised from|- Of which|During)).+)*)", re.MULTILINE)
_CANDIDATES = re.compile(r"^There are \d+ candidate", re.MULTILINE)
_NOISE = re.compile(r"^(Failed in |Enable logging|This error may have been|\[\d+\]|<source)")
_PLACE = re.compile(r'^File "(.*)", line (\d+):\n((?:.*\S.*\n?)*)', re.MULTILINE)
_OURS = re.compile(r"(read-only )?Array\((\w+), (\d)d, [^)]*\)")


def readable(error: Exception, name: str, arguments: list[str]) -> KernelError:
    """Turn Numba's report into one paragraph: the reason, the user's source lines, what the arguments were."""
    report = _OURS.sub(r"\1array(\2, \3d)", _COLOUR.sub("", str(error)))
    places = list(dict.fromkeys(match.groups() for match in _PLACE.finditer(report)))
    text = [f"{name} cannot be compiled for ({', '.join(arguments)}):", *(f"  {line}" for line in _reasons(report))]
    for number, (file, line, source) in enumerate(places):
        text.append(f"  {'called from' if number else 'in'} {file}, line {line}:")
        text += [f"    {row}" for row in source.splitlines() if "<source elided>" not in row]
    hint = _hint(report)
    return KernelError("\n".join([*text, *([f"  {hint}"] if hint else [])]))


def _reasons(report: str) -> list[str]:
    """What Numba reports as wrong; where an operation of ours refused its arguments, only the message of that."""
    precise = _PRECISE.findall(report)
    if precise:
        return [line.strip() for line in precise[-1].splitlines()]
    head = _CANDIDATES.split(report.partition("\nDuring: ")[0].partition('\nFile "')[0])[0]
    return [line.strip() for line in head.splitlines() if line.strip() and not _NOISE.match(line.strip())][:6]


def _hint(report: str) -> str:
    if "Untyped global name" in report or "cannot determine Numba type of <class 'function'>" in report:
        return "A function called from compiled code must be decorated with @gw.jit; other globals must be constants."
    if "failed to unpack" in report or "getiter" in report:
        return (
            "Points are read by axis (p[0], p[1]), and tuples of unlike things are not iterated: write the terms out."
        )
    return ""
