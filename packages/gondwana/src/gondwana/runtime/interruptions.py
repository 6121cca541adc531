"""Exceptions of signal handlers: delivered where Python or this library would discard them; and a second Ctrl-C.

A signal handler runs between any two steps of the main thread, and what it raises is raised there. Inside a finalizer
(`__del__`, a callback of a weak reference or of ctypes) Python prints "Exception ignored in ..." and continues, and
compiling a kernel runs thousands of finalizers. Inside a remote call that this rank serves, the exception would become
the result of the call. Here such an exception is raised again in the main thread until it reaches the program.
Packages that are being imported discard exceptions, too: large ones are imported by another thread.

Python answers a signal between two steps of the main thread, so not before compiled code returns: a second Ctrl-C ends
the process at once if the first one has not been answered. By an option of the kernel, a signal calls its handler once
only, and the next one ends the process; each answer sets the option again.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import importlib
import math
import opcode
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any, Never

PATIENCE = 2.0
"""Seconds in which the main thread takes an exception, unless it runs compiled code and cannot."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1e-3, 0.05

_waiting: deque[BaseException] = deque()

_SA_RESETHAND = 0x80000000
_python_handler = signal.default_int_handler


@dataclass
class _State:
    number: int | None = None  # the signal that has the main thread raise the exception
    give_up: Callable[[BaseException], None] = lambda error: None
    ignore: Callable[[Any], object] = sys.__unraisablehook__
    claimed: BaseException | None = None


_state = _State()


def install(give_up: Callable[[BaseException], None]) -> None:
    """Handle what is raised inside finalizers of the main thread. Local.

    Args:
        give_up: called on another thread with an exception that the main thread does not take; may end the process.
    """
    _state.give_up = give_up
    if sys.unraisablehook is not _on_unraisable:
        _state.ignore = sys.unraisablehook
        sys.unraisablehook = _on_unraisable


def is_interruption(error: BaseException) -> bool:
    """Return whether an exception is the program's: an exit, Ctrl-C, or raised by its signal handler. Local."""
    return isinstance(error, SystemExit | KeyboardInterrupt) or is_delivered(error)


def is_delivered(error: BaseException) -> bool:
    """Return whether an exception was only delivered where it was raised: by a signal handler, or claimed. Local.

    An exit, or a KeyboardInterrupt from a `raise` statement, was not.
    """
    if error is _state.claimed:
        return True
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    trace, last = error.__traceback__, None
    while trace is not None:
        code = trace.tb_frame.f_code
        if code in handlers:
            return True
        last, trace = trace, trace.tb_next
    # Python's own handler of SIGINT leaves no frame, and asyncio's has the loop raise the KeyboardInterrupt.
    return isinstance(error, KeyboardInterrupt) and (last is None or not _is_raised(last))


def claim(error: BaseException) -> None:
    """Have an exception that is about to be raised reach the program, whatever code it passes through. Local."""
    _state.claimed = error


def let_pass(error: BaseException) -> None:
    """Raise an exception again if it is the program's (see `is_interruption`) and was only delivered here. Local.

    For code that catches exceptions of user code and turns them into a result.
    """
    if is_interruption(error):
        raise error


def let_delivered_pass(error: BaseException) -> None:
    """Raise an exception again if it was only delivered here (see `is_delivered`). Local.

    For code that turns every exception of user code into a result, even exits.
    """
    if is_delivered(error):
        raise error


def import_on_thread(module: str) -> None:
    """Import a module on another thread, so that signal handlers' exceptions are raised here meanwhile. Local; blocks.

    An error of the import is left to the statement that imports the module next.
    """
    if module in sys.modules or threading.current_thread() is not threading.main_thread():
        return

    def run() -> None:
        with contextlib.suppress(Exception):
            importlib.import_module(module)

    thread = threading.Thread(target=run, name="gondwana-import")
    thread.start()
    thread.join()


def raise_in_main(error: BaseException) -> None:
    """Raise an exception in the main thread, soon and outside of finalizers. Local; any thread may call it."""
    prepare()
    _waiting.append(error)
    try:
        # Not a `threading.Thread`, whose start waits and could itself be interrupted.
        _thread.start_new_thread(_signal_main_thread, ())
    except RuntimeError:
        return  # the interpreter is about to end: `take` returns the exception


def prepare() -> None:
    """Choose the signal for `raise_in_main`, which only the main thread can do. Local, idempotent."""
    if _state.number is None and threading.current_thread() is threading.main_thread():
        for number in range(signal.SIGRTMAX, signal.SIGRTMIN - 1, -1):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _deliver)
                _state.number = number
                return


def take() -> BaseException | None:
    """Return an exception that waits to be raised in the main thread, for the caller to raise. Local."""
    try:
        return _waiting.popleft()
    except IndexError:
        return None


def _on_unraisable(what: Any) -> None:
    """Replace `sys.unraisablehook`: raise the program's exceptions later, and print others as before."""
    error = what.exc_value
    if error is not None and threading.current_thread() is threading.main_thread() and is_interruption(error):
        raise_in_main(error)
    else:
        _state.ignore(what)


def _signal_main_thread() -> None:
    """Signal the main thread until it has raised the waiting exceptions, even if finalizers swallow some signals."""
    main, pause = threading.main_thread().ident, _FIRST_PAUSE
    end = time.monotonic() + PATIENCE
    while _waiting:
        if _state.number is not None and main is not None:
            signal.pthread_kill(main, _state.number)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
        if time.monotonic() > end and (error := next(iter(_waiting), None)) is not None:
            end = math.inf
            _state.give_up(error)


def _deliver(number: int, frame: FrameType | None) -> None:
    """Handle the signal: raise a waiting exception, unless the finalizer that swallowed it is still running."""
    while frame is not None:
        if frame.f_code is _on_unraisable.__code__:
            return
        frame = frame.f_back
    error = take()
    if error is not None:
        raise error


def _is_raised(trace: TracebackType) -> bool:
    """Return whether an exception comes from a `raise` statement of the program."""
    code, frame = trace.tb_frame.f_code, trace.tb_frame
    if trace.tb_lasti < 0 or frame.f_globals.get("__name__") == "asyncio.runners":
        return False
    return opcode.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def _code(handler: Any) -> CodeType | None:
    """Return the code of a signal handler (a function, a method, a partial or a callable object), None for others."""
    function = getattr(handler, "func", handler)
    function = getattr(function, "__func__", function)
    if not hasattr(function, "__code__") and callable(function):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


class _Action(ctypes.Structure):
    """The `struct sigaction` of the C libraries of Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_uint),
        ("restorer", ctypes.c_void_p),
    )


def end_at_second() -> None:
    """Have a second SIGINT end this process while the first one waits for an answer. Local, idempotent.

    Nothing is done in an interactive session, which would lose more than it gains, or if the program handles SIGINT
    itself. Else `signal.default_int_handler` is replaced, too: `asyncio.run` takes over SIGINT only from that.
    """
    if threading.current_thread() is not threading.main_thread() or hasattr(sys, "ps1") or "IPython" in sys.modules:
        return
    if signal.getsignal(signal.SIGINT) in (_python_handler, _interrupt):
        signal.default_int_handler = _interrupt
        signal.signal(signal.SIGINT, _interrupt)
        answer_one(signal.SIGINT)


def answer_one(number: int) -> None:
    """Have the handler of a signal called once, and this process ended by the next one. Local."""
    libc, action = ctypes.CDLL(None), _Action()
    libc.sigaction(number, None, ctypes.byref(action))
    action.flags |= _SA_RESETHAND
    libc.sigaction(number, ctypes.byref(action), None)


def _interrupt(number: int, frame: FrameType | None, /) -> Never:
    """Answer SIGINT as Python does, and be ready for the next one."""
    end_at_second()
    _python_handler(number, frame)
