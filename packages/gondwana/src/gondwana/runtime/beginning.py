"""What comes before all other imports: standard streams that are open, and Ctrl-C that ends what still imports.

A stream that the caller has closed would leave its number to the next file that is opened, and what is printed would go
there. Importing takes some tenths of a second, in which Python answers Ctrl-C by a traceback from anywhere inside. The
command `gondwana` and the ranks that it starts have nothing to clean up then: the signal itself ends them. So does any
other signal, as Python leaves it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

_MODULES = ("gondwana.cli.main", "gondwana.cli.rank")


def begin() -> None:
    """Open /dev/null for each standard stream that is closed; in a command, let SIGINT end the process. Local."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(descriptor, True)
    if not is_command(sys.orig_argv) or threading.current_thread() is not threading.main_thread():
        return
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as the process
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # `kept_signal` has blocked it


def all_is_imported() -> None:
    """Answer Ctrl-C by KeyboardInterrupt again. Local, idempotent."""
    if is_command(sys.orig_argv) and signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def kept_signal() -> Iterator[None]:
    """Keep a Ctrl-C that comes now for the program that takes the place of this one; if none does, answer it. Local."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def is_command(words: Sequence[str]) -> bool:
    """Return whether the words that started Python name the command `gondwana`, or a rank that it starts. Pure."""
    for place, word in enumerate(words[1:], 1):
        if word == "-m":
            return words[place + 1 : place + 2] != [] and words[place + 1] in _MODULES
        if not word.startswith("-"):
            return os.path.basename(word) == "gondwana"
    return False


begin()
