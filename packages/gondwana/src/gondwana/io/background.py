"""A separate process that writes, so that no rank waits for the disk.

The alternatives were measured with the wheel (2.12) and 128 MiB a step. In a thread, ``end_step`` holds the GIL as long
as it runs, so the solver stalls just the same. ADIOS2's ``AsyncWrite`` first copies everything, which took longer than
writing to the page cache (0.15 s, not 0.10 s), and reports a full disk one step late from an engine that is then
unusable. A process costs the solver only a core from time to time, writes from the staging memory without a copy, and
if ADIOS2 ends it, the ranks survive and report it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import warnings
import weakref
from multiprocessing.connection import Connection
from typing import Any

from gondwana.errors import GondwanaError, UsageError
from gondwana.io.paths import DatasetError
from gondwana.io.staging import Plan, StagedWriter, Step

# When `serve` returns, all is written or answered for: the ranks need not wait for the end of the interpreter.
_CHILD = "import os, sys; from gondwana.io.background import serve; serve(int(sys.argv[1])); os._exit(0)"


class BackgroundWriter:
    """A writer of the steps of a plan that works in another process. Local.

    Steps are written in the order in which they were submitted. An error is raised by each later call that waits.
    The process ends by itself when this one closes it, ends, or is killed; it finishes the submitted steps.

    Args:
        plan: the dataset to write, and the places of the staged blocks; its lock is taken over.
    """

    def __init__(self, plan: Plan) -> None:
        # A group of its own: launchers that end a rank end its group.
        self._process, self._pipe = start_child(_CHILD, plan.lock, process_group=0)
        os.close(plan.lock)
        self._path = plan.path
        self._pending = 0
        self._error: GondwanaError | None = None
        # A program that does not close a writer waits for its process at exit.
        self._end = weakref.finalize(self, _end, self._process, self._pipe)
        self._send(plan)

    def submit(self, step: Step) -> None:
        """Submit a step; its buffer must not change until ``wait`` has returned for it. Does not block."""
        self._send(step)

    def wait(self, pending: int) -> None:
        """Wait until at most `pending` of the submitted steps are still to be written.

        Raises:
            DatasetError, UsageError: a step could not be written.
        """
        # Opening the dataset counts as one: an error of it must reach the caller before a second step is staged.
        while self._pending > pending and self._error is None:
            try:
                self._error = self._pipe.recv()
            except (EOFError, OSError):
                self._error = self._death()
            self._pending -= 1
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Wait until everything is written and the dataset is closed."""
        self._send(None)
        try:
            self.wait(0)
        finally:
            self._end()

    def abandon(self) -> None:
        """Do what ``close`` does, after an error elsewhere. An error of this writer is raised only if it is new."""
        if self._error is None:
            self.close()
        else:
            self._end()

    def _send(self, message: Plan | Step | None) -> None:
        self._pending += 1
        # If the process has ended, the next `wait` raises the reason.
        with contextlib.suppress(OSError):
            self._pipe.send(message)

    def _death(self) -> DatasetError:
        code = self._process.wait()
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return DatasetError(f"the process that writes {self._path} ended with {cause}; the steps before are readable")


def start_child(code: str, *passed: int, **settings: Any) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a process of this Python without standard input; return it and a pipe to it. Local.

    Args:
        code: program of the process; its argument is the descriptor of the other end of the pipe.
        passed: further descriptors for the process.
        settings: further settings of `subprocess.Popen`.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        # -P: the user's directory may contain modules that hide others.
        command = [sys.executable, "-P", "-c", code, str(theirs.fileno())]
        given = [theirs.fileno(), *passed]
        process = subprocess.Popen(command, pass_fds=given, stdin=subprocess.DEVNULL, **settings)
    return process, Connection(ours.detach())


def _end(process: subprocess.Popen[bytes], pipe: Connection) -> None:
    """Wait until the process has written the submitted steps, and ended. A step that it cannot write is a warning."""
    with contextlib.suppress(EOFError, OSError):
        pipe.send(None)
        while True:
            error = pipe.recv()
            if error is not None:
                warnings.warn(str(error), stacklevel=2)
    pipe.close()
    process.wait()


def serve(descriptor: int) -> None:
    """Run the writing process: open the dataset, write each step, answer each message by an error or None. Local."""
    # Ctrl-C, hang-ups and the batch system's signals are for the ranks, which decide what is still to be written.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # not the one core that the rank may be bound to
    with Connection(descriptor) as pipe, contextlib.suppress(EOFError, ConnectionError):
        try:
            writer = StagedWriter(pipe.recv())
            _answer(pipe, None)
            _write_all(writer, pipe)
        except (GondwanaError, OSError) as error:
            # Only the text is sent, as an error of our own.
            _answer(pipe, type(error)(str(error)) if isinstance(error, UsageError) else DatasetError(str(error)))


def _answer(pipe: Connection, error: GondwanaError | None) -> None:
    # The rank may have ended: its submitted steps are written nevertheless.
    with contextlib.suppress(ConnectionError):
        pipe.send(error)


def _write_all(writer: StagedWriter, pipe: Connection) -> None:
    try:
        while (step := pipe.recv()) is not None:
            writer.submit(step)
            _answer(pipe, None)
    except (EOFError, ConnectionError):
        writer.close()  # the rank has ended without closing the dataset
        raise
    except BaseException:
        with contextlib.suppress(GondwanaError):
            writer.close()
        raise
    writer.close()
    _answer(pipe, None)
