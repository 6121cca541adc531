"""The workers of a pool that starts them itself, from a plain Python process or a notebook."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import threading

from gondwana.runtime import cores, launcher
from gondwana.tasks.pool import messages
from gondwana.tasks.pool.keeper import MOST_STACK, ORDER, REPORT, SLOTS
from gondwana.tasks.pool.messages import Message
from gondwana.tasks.pool.sockets import Connection, Patience

_KEEP = """
import os, traceback
try:
    from gondwana.tasks.pool.keeper import main
except BaseException:
    traceback.print_exc()
    os._exit(1)
main()
"""
"""The program of the process that keeps the workers. Libraries that could not start their threads may hang at exit."""

_ENDING = 10.0
"""Seconds that the workers and their keeper have to end."""


class Processes:
    """Connections to workers that are separate processes. Local; threads may share it.

    Args:
        workers: number of workers to start.
        first: first message to each worker, before tasks.

    Attributes:
        obstacle: reason why the last worker to start could not be started.

    Raises:
        OSError: the workers cannot be started.
    """

    def __init__(self, workers: int, first: Message) -> None:
        self._first = first
        self._lock = threading.Lock()
        self._connections: dict[int, Connection] = {}
        self._by_descriptor: dict[int, int] = {}
        self._unreported: set[int] = set()
        self.obstacle: OSError | None = None
        self._started = 0
        self._keeper, self._control, self._begun = _start_keeper(workers)
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        events = self._events = select.epoll()
        self._patience = Patience(lambda seconds: events.poll(seconds, 1))
        self._events.register(self._control, select.EPOLLIN)
        self._events.register(self._woken, select.EPOLLIN)
        if not all(self.replace() for _ in range(workers)):
            self.stop(at_once=True)
            raise self.obstacle or ChildProcessError(f"the process that keeps them {_how(self._keeper.returncode)}")

    @property
    def workers(self) -> int:
        """Number of workers, including those that are starting."""
        return len(self._connections)

    def replace(self) -> bool:
        """Start a worker; return whether that is possible. Local; does not wait for it."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            self.obstacle = error
            return False
        with self._lock, theirs:
            number = self._started = self._started + 1
            try:
                socket.send_fds(self._control, [ORDER.pack(number)], [theirs.fileno()])
            except OSError:  # it has ended, which is reported
                ours.close()
                return False
            self._connections[number] = Connection(ours)
            self._unreported.add(number)
            self._by_descriptor[ours.fileno()] = number
            self._events.register(ours, select.EPOLLIN)
        self.send(number, self._first)
        return True

    def name(self, worker: int) -> str:
        """Return the name of a worker for messages. Local."""
        return f"worker {worker}"

    def send(self, worker: int, message: Message) -> None:
        """Send a message; parts that do not fit now are kept. Local; does not block."""
        with self._lock:
            connection = self._connections.get(worker)
            if connection is not None:
                with contextlib.suppress(OSError):  # it has ended, which will be noticed
                    connection.send(message)
                    if connection.unsent:
                        self._events.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)

    def receive(self) -> list[tuple[int, Message]]:
        """Return the messages that have arrived, with the numbers of their workers. Local; does not block."""
        arrived: list[tuple[int, Message]] = []
        for descriptor, event in self._events.poll(0):
            if (worker := self._by_descriptor.get(descriptor)) is not None:
                if event & select.EPOLLOUT:
                    self._flush(worker)
                self._read(worker, arrived)
            elif descriptor == self._control.fileno():
                self._read_reports(arrived)
            elif descriptor == self._woken.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
        return arrived

    def _flush(self, worker: int) -> None:
        with self._lock, contextlib.suppress(OSError):
            connection = self._connections[worker]
            connection.flush()
            if not connection.unsent:
                self._events.modify(connection.socket, select.EPOLLIN)

    def _read(self, worker: int, arrived: list[tuple[int, Message]]) -> None:
        """Read the messages of a worker; if it has ended, wait for it no longer."""
        connection = self._connections.get(worker)
        if connection is None:
            return
        try:
            arrived += [(worker, message) for message in connection.receive()]
        except (EOFError, OSError):
            self._disconnect(worker)

    def _disconnect(self, worker: int) -> None:
        with self._lock:
            connection = self._connections.pop(worker, None)
            if connection is not None:
                del self._by_descriptor[connection.socket.fileno()]
                self._events.unregister(connection.socket)
                connection.close()

    def _read_reports(self, arrived: list[tuple[int, Message]]) -> None:
        """Read which workers have ended, after the last messages of each."""
        data = b""
        with contextlib.suppress(OSError):
            data = self._control.recv(REPORT.size + MOST_STACK)
        if data:
            worker, process, status = REPORT.unpack_from(data)
            self._unreported.discard(worker)
            self._read(worker, arrived)
            self._disconnect(worker)
            if not process:
                arrived.append((worker, (messages.MISSING, OSError(status, os.strerror(status)))))
                return
            begun = memoryview(self._begun).cast("q")[worker % SLOTS]
            stack = data[REPORT.size :].decode(errors="replace")
            arrived.append((worker, (messages.LOST, f"(process {process}) {_how(status)}", begun, stack)))
            return
        self._events.unregister(self._control)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(_ENDING)
        how = f" (which {_how(self._keeper.returncode)})" if self._keeper.returncode is not None else ""
        with self._lock:
            left = sorted(self._unreported)  # also those whose connection has ended, and whose report did not come
        for worker in left:
            self._disconnect(worker)
            begun = memoryview(self._begun).cast("q")[worker % SLOTS]
            arrived.append((worker, (messages.LOST, f"ended with the process that keeps the workers{how}", begun, "")))

    def sleep(self, seconds: float, *, spin: bool) -> None:
        """Wait until something has arrived, `wake` is called, or the time is over. Blocks."""
        self._patience.wait(seconds, spin=spin)

    def wake(self) -> None:
        """End a `sleep` of another thread. Local."""
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def stop(self, *, at_once: bool) -> None:
        """Let the workers end when they have read their messages, or end them at once. Blocks until they have."""
        if at_once:
            self._keeper.kill()
        for worker in list(self._connections):
            self._disconnect(worker)
        for end in (self._control, self._woken, self._waker):
            end.close()
        self._events.close()
        try:
            self._keeper.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()


def _how(status: int) -> str:
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"exited with status {status}"


def _start_keeper(workers: int) -> tuple[subprocess.Popen[bytes], socket.socket, mmap.mmap]:
    """Start the process that keeps the workers; return it with the socket to it and the memory that all share."""
    memory = os.memfd_create("gondwana-pool", os.MFD_CLOEXEC)
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError:
        os.close(memory)
        raise
    try:
        os.fchmod(memory, 0o600)
        os.ftruncate(memory, 8 * SLOTS)
        given = [str(number) for number in (os.getpid(), theirs.fileno(), memory)]
        keeper = subprocess.Popen(
            [sys.executable, "-P", "-c", _KEEP, *given],
            env=_environment(workers),
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), memory),
            start_new_session=True,  # Ctrl-C is for the program, which then ends its pool
        )
        cores.unpin(keeper.pid)
        return keeper, ours, mmap.mmap(memory, 8 * SLOTS)
    except OSError:
        ours.close()
        raise
    finally:
        os.close(memory)
        theirs.close()


def _environment(workers: int) -> dict[str, str]:
    """Return the environment of workers: each is alone, with its share of the cores."""
    threads = str(max(1, cores.count() // (workers * cores.ranks())))
    shared = dict.fromkeys(("GONDWANA_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"), threads)
    return {**launcher.without(os.environ), **shared, "GONDWANA_MPI": "0"}
