"""What comes before all other imports: standard streams that are open, and Ctrl-C that ends what still imports.

A stream that the caller has closed would leave its number to the next file that is opened, and what is printed would go
there. Importing takes some tenths of a second, in which Python answers Ctrl-C by a traceback from anywhere inside. The
command `gondwana` and the ranks that it starts have nothing to clean up then: the signal itself ends them. So does any
other signal, as Python leaves it.

Later rank 0 gets the standard input that `gondwana run` has been given, as one rank alone would. Launchers of MPI read
all of it in advance, whether or not a rank wants it, and do not pass on where it ends. So they get none of it, and rank
0 opens that of the supervisor, which is a file of the same host.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

_MODULES = ("gondwana.cli.main", "gondwana.cli.rank")

STDIN = "GONDWANA_STDIN"
"""Name of the variable with the path and the inode of rank 0's input. As in `gondwana.runtime.supervisor`."""


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


def receive_stdin(*, first: bool) -> None:
    """Take over the standard input of the job on rank 0, and nothing to read on the others. Local.

    Without a supervisor the standard input stays unchanged.

    Args:
        first: True on rank 0.
    """
    path, _, inode = os.environ.pop(STDIN, "").partition(" ")
    if not path:
        return
    try:
        # A pipe would wait for a writer, which may have ended.
        source = os.open(path if first else os.devnull, os.O_RDONLY | os.O_NONBLOCK)
        if first and str(os.fstat(source).st_ino) != inode:
            os.close(source)  # rank 0 is on another host, where another process has the number of the supervisor
            source = os.open(os.devnull, os.O_RDONLY)
    except OSError:  # rank 0 is on another host
        source = os.open(os.devnull, os.O_RDONLY)
    os.set_blocking(source, True)
    with contextlib.suppress(OSError, ValueError, IndexError):  # a pipe has no position
        os.lseek(source, _position(path), os.SEEK_SET)
    os.dup2(source, 0)
    os.close(source)


def _position(path: str) -> int:
    """The position of the supervisor, or of its caller, in a file: the path is /proc/PROCESS/fd/NUMBER."""
    with open(path.replace("/fd/", "/fdinfo/")) as lines:
        return int(next(line for line in lines if line.startswith("pos:")).split()[1])


begin()
