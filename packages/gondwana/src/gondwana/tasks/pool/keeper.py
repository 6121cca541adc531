"""The keeper: the process that forks the workers of a pool, and with which they end.

It has imported this package before it forks, so a worker is there within milliseconds, also one that replaces another.
It ends when its pool's process does, however that ends, and the kernel then ends the workers, whatever they are doing.

Arguments: the process of the pool, and the descriptors of a socket to it and of the memory in which workers note the
tasks that they begin.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
import types
from collections.abc import Callable
from typing import Any, NoReturn

from gondwana.runtime import exits
from gondwana.runtime.supervisor import end_with_parent
from gondwana.tasks.pool import packing
from gondwana.tasks.pool.sockets import Connection, Line
from gondwana.tasks.pool.worker import NestedPool, Worker

SLOTS = 1 << 17
"""Words of the memory; worker n has word n modulo this."""

ORDER = struct.Struct("<q")
"""From the pool: the number of a worker to start, with the descriptor of its end of a socket pair."""
REPORT = struct.Struct("<qqq")
"""To the pool: the number of a worker that has ended, its process, and its exit status, negative for a signal.

For a worker that could not be started: 0 as the process, and the number of the system's error. The stack of a task that
has reached its time limit follows.
"""
MOST_STACK = 1 << 14
"""Bytes of such a stack that are reported at most."""

PATIENCE = 5.0
"""Seconds that workers have to end when their pool has closed its connections to them."""


class Keeper:
    """Forks workers and reports their ends. Local.

    Args:
        parent: the process of the pool.
        control: socket to it.
        begun: memory of the tasks that workers begin.
    """

    def __init__(self, parent: int, control: socket.socket, begun: mmap.mmap) -> None:
        self._parent = os.pidfd_open(parent)
        self._control, self._begun = control, begun
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._parent, select.POLLIN)
        self._workers: dict[int, tuple[int, int, int]] = {}

    def run(self) -> None:
        """Serve the pool until it is closed and its workers have ended, or its process has. Blocks."""
        end: float | None = None
        while end is None or (self._workers and time.monotonic() < end):
            for descriptor, _ in self._poll.poll(None if end is None else 1e3 * PATIENCE):
                if descriptor == self._parent:
                    return
                if descriptor in self._workers:
                    self._report(descriptor)
                elif not self._obey():
                    self._poll.unregister(self._control)
                    end = time.monotonic() + PATIENCE

    def _obey(self) -> bool:
        """Start a worker; return False if the pool is closed."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, ORDER.size, 1)
        except ConnectionError:  # closed before all reports were read
            return False
        if not data:
            return False
        (number,) = ORDER.unpack(data)
        try:
            if not descriptors:  # the process has no free descriptor
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self._start(number, descriptors[0])
        except OSError as error:
            self._send(number, 0, error.errno or errno.EAGAIN)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _start(self, number: int, descriptor: int) -> None:
        keeper = os.getpid()
        stack = os.memfd_create("gondwana-stack")
        process = 0
        try:
            process = os.fork()
            if process == 0:
                self._become_worker(number, descriptor, keeper, stack)
            handle = os.pidfd_open(process)
        except OSError:
            os.close(stack)
            if process:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            raise
        self._workers[handle] = number, process, stack
        self._poll.register(handle, select.POLLIN)

    def _report(self, handle: int) -> None:
        number, process, stack = self._workers.pop(handle)
        self._poll.unregister(handle)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        self._send(number, process, status, os.pread(stack, MOST_STACK, 0))
        os.close(handle)
        os.close(stack)

    def _send(self, number: int, process: int, status: int, stack: bytes = b"") -> None:
        with contextlib.suppress(OSError):  # the pool is closed
            self._control.send(REPORT.pack(number, process, status) + stack)

    def _become_worker(self, number: int, descriptor: int, keeper: int, stack: int) -> NoReturn:
        """Be a worker in this new process, and end it."""
        end_with_parent(signal.SIGKILL)
        status = 1
        try:
            if os.getppid() == keeper:
                self._control.close()
                for handle in (self._parent, *self._workers, *(other for *_, other in self._workers.values())):
                    os.close(handle)
                status = _work(socket.socket(fileno=descriptor), self._begun, number % SLOTS, stack)
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)


def _work(end: socket.socket, begun: mmap.mmap, slot: int, stack: int) -> int:
    """Be a worker until the pool ends it, and return the exit status. Blocks."""
    words = memoryview(begun).cast("q")

    def begin(number: int) -> None:
        words[slot] = number

    def within(seconds: float, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # Another thread writes the stack and ends this process, whatever this one is doing: it needs no interpreter.
        faulthandler.dump_traceback_later(seconds, file=stack, exit=True)
        try:
            return call(*args, **kwargs)
        finally:
            faulthandler.cancel_dump_traceback_later()

    line = Line(Connection(end))
    worker = Worker(line, packing.OtherProgram(), within, begin)
    try:
        (first,) = line.receive(None)
        sys.path[:], key, *initializer = first
        pool = NestedPool(key, worker)
        worker.serve(*initializer)
        del pool
    except (EOFError, OSError):
        pass  # the pool has ended
    except SystemExit as leaving:
        return exits.status_of(leaving)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Keep the workers of the pool whose process and descriptors are the arguments. Local; blocks."""
    parent, control, memory = map(int, sys.argv[1:])
    sys.modules["__main__"] = types.ModuleType("__main__")  # names of this program are not those of the pool's
    if os.getppid() == parent:
        Keeper(parent, socket.socket(fileno=control), mmap.mmap(memory, 8 * SLOTS)).run()
    os._exit(0)
