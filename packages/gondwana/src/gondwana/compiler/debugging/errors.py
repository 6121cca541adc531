"""Errors of compiled code, made readable: which function, which line, what to change."""

from __future__ import annotations

import ctypes
import linecache
import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gondwana.errors import KernelError
from gondwana.runtime import exits, launcher
from gondwana.runtime.watching import waits

STATUS_WORDS = 2
_USER_EXCEPTION = 1


def raise_from_block(block: Any, name: str) -> None:
    """Raise the exception that compiled code left in the argument block of a call of `name`, if any."""
    status, address = ctypes.cast(block, ctypes.POINTER(ctypes.c_int64))[0:2]
    if status == 0:
        return
    waits.compiled_over()
    raise _exception(address, name) if address else RuntimeError(f"{name} failed in compiled code (status {status})")


def _exception(address: int, name: str) -> BaseException:
    """Decode Numba's description of an exception: a pointer to a pickle, its size, and fields filled in late."""
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
_FRONT_END = re.compile(r"^(.*)\. Raised from (.*) \((\d+)\)$", re.DOTALL)
_KERNEL = re.compile(r"Untyped global name '(\w+)':\s*Cannot determine Numba type of <class 'gondwana\.kernels\.")
_OPCODE = re.compile(r"\((?:\w+:)?([A-Z_]{4,})\)|opcode \(?([A-Z_]{4,})")
_STATEMENTS = {
    "IMPORT_NAME": "`import` does not work in compiled code: import at the top of the file.",
    "STORE_GLOBAL": "Compiled code cannot set globals: return the value, or write it into an array argument.",
    "DELETE_GLOBAL": "Compiled code cannot delete globals.",
    "BEFORE_WITH": "`with` does not work in compiled code.",
    "SETUP_WITH": "`with` does not work in compiled code.",
}
_OURS = Path(__file__).parents[1]
_WITHOUT_COMPILER = "With GONDWANA_INTERPRET=1 it runs in the interpreter."


def as_seen_by_users(error: KernelError) -> KernelError:
    """Return an error without the frames of the compiler, to be raised by what the user called. Local.

    Uncaught, it is printed once a job, even if that has not started MPI yet.
    """
    if launcher.detect() is not None:
        exits.install()
    return error.with_traceback(None)


@contextmanager
def readable_errors(name: str, kinds: Sequence[Any]) -> Iterator[None]:
    """Turn an error of Numba, raised while it compiles a function for these argument types, into a KernelError."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("numba."):
            raise
        raise readable(error, name, [*map(str, kinds)]) from None


def readable(error: Exception, name: str, arguments: list[str]) -> KernelError:
    """Turn Numba's report into one paragraph: the reason, the user's source lines, the types of the arguments."""
    report = _COLOUR.sub("", str(error))
    front_end = _FRONT_END.match(report)
    if front_end:
        report = _front_end_report(*front_end.groups())
    places = [place for place in dict.fromkeys(match.groups() for match in _PLACE.finditer(report)) if _is_users(place)]
    text = [f"{name} cannot be compiled for ({', '.join(arguments)}):", *(f"  {line}" for line in _reasons(report))]
    for number, (file, line, source) in enumerate(places):
        text.append(f"  {'called from' if number else 'in'} {file}, line {line}:")
        source = source or linecache.getline(file, int(line)).rstrip()
        text += [f"    {row}" for row in source.splitlines() if "<source elided>" not in row]
    hint = _hint(report)
    return KernelError("\n".join([*text, *([f"  {hint}"] if hint else [])]))


def _is_users(place: tuple[str, ...]) -> bool:
    """Whether a place is in code that a user wrote."""
    return not Path(place[0]).resolve().is_relative_to(_OURS)


def _front_end_report(reason: str, file: str, line: str) -> str:
    """The report of a statement that Numba cannot read, in the form of its other reports."""
    code = _OPCODE.search(reason)
    found = _STATEMENTS.get((code[1] or code[2]) if code else "")
    reason = found or f"{reason[:1].upper()}{reason[1:]}. {_WITHOUT_COMPILER}"
    source = linecache.getline(file, int(line)).rstrip()
    return f'{reason}\nFile "{file}", line {line}:\n{source}\n'


def _reasons(report: str) -> list[str]:
    """The problems in Numba's report; if an operation of ours refused its arguments, only its message."""
    kernel = _KERNEL.search(report)
    if kernel:
        return [f"{kernel[1]} is a kernel, which only Python launches: compiled code cannot call it."]
    precise = _PRECISE.findall(report)
    if precise:
        return [line.strip() for line in precise[-1].splitlines()]
    head = _CANDIDATES.split(report.partition("\nDuring: ")[0].partition('\nFile "')[0])[0]
    return [line.strip() for line in head.splitlines() if line.strip() and not _NOISE.match(line.strip())][:6]


def _hint(report: str) -> str:
    if _KERNEL.search(report):
        return (
            "Launch it from Python, or make its function a @gw.jit and call that at each point: "
            "for p in domain: function(p, ...)."
        )
    if "Untyped global name" in report or "cannot determine Numba type of <class 'function'>" in report:
        return "A function called from compiled code must be decorated with @gw.jit; other globals must be constants."
    if "Unsupported array index type Point(" in report:
        return (
            "A NumPy array is indexed by integers from zero: write v[p[0]] or v[p[0], p[1]], or pass gw.Array(v, "
            "domain), which is indexed by the points of its domain."
        )
    if "context-manager" in report:
        return _STATEMENTS["BEFORE_WITH"]
    if "failed to unpack" in report or "getiter" in report:
        return (
            "Points are read by axis (p[0], p[1]), and tuples of unlike things are not iterated: write the terms out."
        )
    return ""
