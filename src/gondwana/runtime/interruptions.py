"""Exceptions that are meant for the program and strike where Python or this library would keep them from it.

A signal handler runs between any two steps of the main thread, and what it raises comes out there. Inside a finalizer
(`__del__`, a callback of a weak reference or of ctypes) Python prints "Exception ignored in ..." and goes on; and
compiling a kernel runs thousands of them. Inside a call that this rank serves it would pass for the result of the call.
Here such an exception is raised once more, in the main thread, until it comes out of the place that it strikes.
"""

from __future__ import annotations

import _thread
import math
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

PATIENCE = 2.0
"""Seconds that the main thread has to take an exception, after which it stands in compiled code and will not."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1e-3, 0.05

_waiting: deque[BaseException] = deque()


@dataclass
class _State:
    number: int | None = None  # the signal by which the main thread is told
    give_up: Callable[[BaseException], None] = lambda error: None
    ignore: Callable[[Any], object] = sys.__unraisablehook__


_state = _State()


def install(give_up: Callable[[BaseException], None]) -> None:
    """Take care of what is raised inside finalizers of the main thread. Local.

    Args:
        give_up: called on another thread with an exception that the main thread does not take; may end the process.
    """
    _state.give_up = give_up
    if sys.unraisablehook is not _on_unraisable:
        _state.ignore = sys.unraisablehook
        sys.unraisablehook = _on_unraisable


def is_interruption(error: BaseException) -> bool:
    """Tell whether an exception is the program's: an exit, Ctrl-C, or what its signal handler raised. Local."""
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return True
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def let_pass(error: BaseException) -> None:
    """Raise an exception again if it is the program's (see `is_interruption`): it has only struck here. Local.

    For those who catch what user code raises and make a result of it.
    """
    if is_interruption(error):
        raise error


def raise_in_main(error: BaseException) -> None:
    """Raise an exception in the main thread, soon and outside of finalizers. Local; any thread may call it."""
    prepare()
    _waiting.append(error)
    try:
        # Not a `threading.Thread`, whose start waits and could itself be struck.
        _thread.start_new_thread(_knock, ())
    except RuntimeError:
        return  # the interpreter is about to end: `take` finds it


def prepare() -> None:
    """Choose the signal for `raise_in_main`; only the main thread can. Local, idempotent."""
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
    """Stand in for `sys.unraisablehook`: raise later what concerns the program, and print the rest as ever."""
    error = what.exc_value
    if error is not None and threading.current_thread() is threading.main_thread() and is_interruption(error):
        raise_in_main(error)
    else:
        _state.ignore(what)


def _knock() -> None:
    """Signal the main thread until it has taken what waits; also if that strikes a finalizer again."""
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
    """Handle the signal: raise what waits, unless the finalizer that swallowed it is not left yet."""
    while frame is not None:
        if frame.f_code is _on_unraisable.__code__:
            return
        frame = frame.f_back
    error = take()
    if error is not None:
        raise error


def _code(handler: Any) -> CodeType | None:
    """Code of a signal handler: a function, a method, a partial or an object that can be called; None for others."""
    function = getattr(handler, "func", handler)
    function = getattr(function, "__func__", function)
    if not hasattr(function, "__code__") and callable(function):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
