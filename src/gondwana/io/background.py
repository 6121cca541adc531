"""A process of its own that writes, so that no rank waits for the disk.

Why not ADIOS2's asynchronous writing, or a thread? Tried with the wheel (2.12), 128 MiB a step: ``end_step`` holds
Python's lock for as long as it runs, so a thread stalls the solver just the same; and with ``AsyncWrite`` it first
copies everything, which took half as long again as writing to the page cache (0.15 s against 0.10 s), and reports a
full disk one step late from an engine that is then unusable. A process costs the solver nothing but a core now and
then, writes straight from the staging memory without a copy, and if ADIOS2 should end it, the ranks survive to say so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection

from gondwana.errors import GondwanaError, UsageError
from gondwana.io.paths import DatasetError
from gondwana.io.staged import Plan, StagedWriter, Step

_CHILD = "import sys; from gondwana.io.background import serve; serve(int(sys.argv[1]))"


class BackgroundWriter:
    """Writes the steps of a plan in another process. Local.

    Steps are written in the order in which they were submitted. An error is raised by the next call that waits.
    The process ends by itself when this one closes it, dies or is killed; it finishes what was submitted.

    Args:
        plan: what to write, and where the blocks are staged.
    """

    def __init__(self, plan: Plan) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # -P: the user's directory may hold modules that hide others.
            command = [sys.executable, "-P", "-c", _CHILD, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._pipe = Connection(ours.detach())
        self._path = plan.path
        self._pending = 0
        self._send(plan)

    def submit(self, step: Step) -> None:
        """Hand one step over; its buffer must not change until ``wait`` has returned for it. Does not block."""
        self._send(step)

    def wait(self, pending: int) -> None:
        """Block until at most so many of the submitted steps are still to be written.

        Raises:
            DatasetError, UsageError: a step could not be written.
        """
        # Opening the dataset counts as one: an error of it must reach the caller before a second step is staged.
        while self._pending > pending:
            try:
                error = self._pipe.recv()
            except (EOFError, ConnectionError):
                raise self._death() from None
            if error is not None:
                raise error
            self._pending -= 1

    def close(self) -> None:
        """Block until everything is written and the dataset is closed."""
        self._send(None)
        try:
            self.wait(0)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let the process finish what was submitted, and end. Blocks until it did."""
        self._pipe.close()
        self._process.wait()

    def _send(self, message: Plan | Step | None) -> None:
        self._pending += 1
        # If the process is gone, the reason comes with the next `wait`.
        with contextlib.suppress(ConnectionError):
            self._pipe.send(message)

    def _death(self) -> DatasetError:
        code = self._process.wait()
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return DatasetError(f"the process that writes {self._path} ended with {cause}; the steps before are readable")


def serve(descriptor: int) -> None:
    """Be the writing process: open the dataset, write what comes, answer each message with an error or None. Local."""
    # Ctrl-C and the batch system's signals are for the ranks: they decide what is still to be written.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # not the one core that the rank may be bound to
    with Connection(descriptor) as pipe, contextlib.suppress(EOFError, ConnectionError):
        try:
            writer = StagedWriter(pipe.recv())
            pipe.send(None)
            _write_all(writer, pipe)
        except (GondwanaError, OSError) as error:
            # Only text crosses: an error of our own kind, whatever went wrong.
            pipe.send(type(error)(str(error)) if isinstance(error, UsageError) else DatasetError(str(error)))


def _write_all(writer: StagedWriter, pipe: Connection) -> None:
    try:
        while (step := pipe.recv()) is not None:
            writer.submit(step)
            pipe.send(None)
    except (EOFError, ConnectionError):
        writer.close()  # the rank died: what it submitted is complete
        raise
    except BaseException:
        with contextlib.suppress(GondwanaError):
            writer.close()
        raise
    writer.close()
    pipe.send(None)
