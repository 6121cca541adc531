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
    """Decode Numba's description of an exception: a pointer to a pickle, its size, and more for arguments known late."""
    pointer, size = ctypes.c_void_p.from_address(address).value, ctypes.c_int32.from_address(address + 8).value
    if pointer is None or size <= 0:
        return RuntimeError(f"{name} raised an exception in compiled code")
    cls, args, _ = pickle.loads(ctypes.string_at(pointer, size))
    known = args is not None and all(not isinstance(arg, bytes) for arg in args)
    text = " ".join(str(arg) for arg in args) if known and args else "in compiled code"
    error: BaseException = cls(f"{text} (raised in {name})") if cls is not None else RuntimeError(f"error in {name}")
    return error


_NOISE = re.compile(r"^(During: |Failed in |Enable logging|This error may have been|\[\d+\]|<source|There are \d+)")


def readable(error: Exception, name: str, arguments: list[str]) -> KernelError:
    """Turn Numba's report into a few lines: the reason, the user's source line, what the arguments were."""
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()]
    where = next((line for line in lines if line.startswith("File ")), "")
    at = lines.index(where) if where else 0
    source = [line for line in lines[at + 1 :] if line.strip()][:6] if where else []
    reasons = [line for line in lines[: at or len(lines)] if line and not _NOISE.match(line.strip())]
    text = [f"{name} cannot be compiled for ({', '.join(arguments)}):", *(f"  {line}" for line in reasons[:8])]
    if where:
        text += [f"  {where}", *(f"  {line}" for line in source)]
    hint = _hint("\n".join(lines))
    return KernelError("\n".join([*text, *([f"  {hint}"] if hint else [])]))


def _hint(report: str) -> str:
    if "Untyped global name" in report or "cannot determine Numba type of <class 'function'>" in report:
        return "A function called from compiled code must be decorated with @gw.jit; other globals must be constants."
    if "is indexed by a point" in report or "no axis" in report:
        return "Points, offsets and arrays that meet must have the same number of axes."
    return ""
