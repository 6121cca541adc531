"""A second Ctrl-C ends the process at once if the first one has not been answered.

Python answers a signal between two steps of the main thread, so not before compiled code returns. The kernel can be
told to call a signal's handler once only and to end the process at the next signal; each answer renews that.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from types import FrameType
from typing import Never

_SA_RESETHAND = 0x80000000
_python_handler = signal.default_int_handler


class _Action(ctypes.Structure):
    """The `struct sigaction` of the C libraries of Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_uint),
        ("restorer", ctypes.c_void_p),
    )


def install() -> None:
    """Have a second SIGINT end this process while the first one waits for an answer. Local, idempotent.

    In an interactive session, which would lose more than it gains, and if the program handles SIGINT itself, nothing
    is done. Else `signal.default_int_handler` is replaced, too: `asyncio.run` takes over SIGINT only from that.
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
    install()
    _python_handler(number, frame)
