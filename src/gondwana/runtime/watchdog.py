"""Reports on where the ranks are in the program: on SIGUSR1, and at the end of a time limit, which also ends the job.

It also reports when another rank of the host terminated abnormally.

Every rank has a thread that sleeps until it is asked, over TCP, for the stack of the main thread. It answers while the
main thread waits inside MPI. Rank 0 asks all ranks and prints a roll call that names the one that differs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import math
import os
import secrets
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import FrameType

from gondwana.errors import UsageError
from gondwana.runtime import cores, exits, liveness
from gondwana.runtime.rollcall import Stack, roll_call

ANSWER_TIME = 3.0
"""Seconds that a rank has to answer with its stack."""

LAUNCHER_GRACE = 0.02
"""Seconds that the launcher has to end this rank too; after that, this rank reports that another one terminated."""

TIMED_OUT = 124
"""The exit status of a job that has reached its time limit, as timeout(1) has it."""

Address = tuple[str, int]


def time_limit() -> float | None:
    """Return GONDWANA_TIME_LIMIT, seconds since the start of the program, or None. Local."""
    given = os.environ.get("GONDWANA_TIME_LIMIT", "")
    if not given:
        return None
    try:
        limit = float(given)
    except ValueError:
        limit = math.nan
    if not 0 < limit < 1e7:
        raise UsageError(
            f"GONDWANA_TIME_LIMIT={given!r}: legal is a positive number of seconds below 1e7; unset it for no limit"
        )
    return limit


def start(comm: exits.Communicator, limit: float | None) -> None:
    """Start this rank's watchdog. Collective over comm.

    With one rank and no time limit nothing is started.
    """
    if comm.size == 1 and limit is None:
        return
    members = comm.allgather(liveness.member(comm.rank))
    watch = liveness.Monitor(members[comm.rank], members)
    exits.announce_by(watch.announce)
    cores.share([member.cores for member in members if member.host == members[comm.rank].host])
    hosts = [member.host for member in members]
    one_host = len(set(hosts)) == 1
    listener = socket.create_server(("127.0.0.1" if one_host else "", 0), backlog=64)
    address = ("127.0.0.1" if one_host else hosts[comm.rank], listener.getsockname()[1])
    # Only ranks of this job may ask: a stack shows more of a program than others on the network should see.
    token = comm.bcast(secrets.token_hex(16), 0)
    addresses: list[Address] = comm.allgather(address)
    deadline = None if limit is None or comm.rank else time.monotonic() + limit
    dog = _Watchdog(comm.rank, addresses, token, listener, _signal_pipe(), watch, limit, deadline)
    threading.Thread(target=dog.run, name="gondwana-watchdog", daemon=True).start()
    arm(limit, first=comm.rank == 0)


def arm(limit: float | None, *, first: bool) -> None:
    """Make the C runtime print this process's stacks after the limit, should Python be unable to run then. Local.

    That is the case while compiled code holds the interpreter. A watchdog that can run cancels this: on rank 0 when it
    reports, on the others when they answer. Uncancelled, it also ends the process of rank 0, and with it the job.
    """
    if limit is not None:
        faulthandler.dump_traceback_later(limit + ANSWER_TIME * (2 if first else 0.5), exit=first)


def _signal_pipe() -> socket.socket | None:
    """Return a socket that becomes readable at SIGUSR1, even while the main thread runs C; None if it is in use."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL:
        return None
    reader, writer = socket.socketpair()
    for end in (reader, writer):
        end.setblocking(False)
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    if previous != -1:
        signal.set_wakeup_fd(previous)
        return None
    _kept_open.append(writer)
    signal.signal(signal.SIGUSR1, _noted)
    return reader


_kept_open: list[socket.socket] = []


def _noted(number: int, frame: FrameType | None) -> None:
    """Handle SIGUSR1: do nothing, since the byte on the wake-up socket has woken the watchdog."""


@dataclass
class _Watchdog:
    rank: int
    addresses: list[Address]
    token: str
    listener: socket.socket
    signals: socket.socket | None
    watch: liveness.Monitor
    limit: float | None
    deadline: float | None
    quiet_until: float = 0.0

    def run(self) -> None:
        """Sleep until a rank asks, a signal arrives, a process ends or the time limit is reached, and react."""
        selector = selectors.DefaultSelector()
        selector.register(self.listener, selectors.EVENT_READ)
        if self.signals is not None:
            selector.register(self.signals, selectors.EVENT_READ)
        for handle in self.watch.handles:
            selector.register(handle, selectors.EVENT_READ)
        while True:
            left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
            ready = [key.fileobj for key, _ in selector.select(left)]
            if self.deadline is not None and time.monotonic() >= self.deadline:
                faulthandler.cancel_dump_traceback_later()
                self.report(f"the time limit of {self.limit:g} s is over")
                exits.abort(TIMED_OUT)
            if self.listener in ready:
                self.answer()
            if self.signals is not None and self.signals in ready and signal.SIGUSR1 in self.signals.recv(4096):
                self.on_signal()
            for handle in self.watch.handles.keys() & ready:
                selector.unregister(handle)
                self.on_death(self.watch.handles[handle])

    def on_death(self, member: liveness.Member) -> None:
        """Report a rank that terminated abnormally, before the launcher ends this one, and end the job."""
        time.sleep(LAUNCHER_GRACE)
        if exits.leaving():
            time.sleep(ANSWER_TIME / 3)
        text = None if exits.left() else self.watch.text(member)
        if text is not None:
            os.write(2, text.encode())
            time.sleep(ANSWER_TIME / 3)
            exits.abort(1)

    def on_signal(self) -> None:
        """Report, or make rank 0 report: a launcher signals all ranks, a user perhaps only one."""
        reason = f"signal SIGUSR1 to rank {self.rank}"
        if self.rank == 0:
            self.report_once(reason)
        else:
            with contextlib.suppress(OSError), self.send(0, reason):
                pass  # no answer is expected

    def answer(self) -> None:
        """Send the main thread's stack to the rank that asks, or report if it asks for a report."""
        connection, _ = self.listener.accept()
        with connection:
            connection.settimeout(ANSWER_TIME)
            try:
                token, wanted_report = json.loads(connection.makefile("r").readline())
                if not secrets.compare_digest(str(token), self.token):
                    return
                faulthandler.cancel_dump_traceback_later()
                if not wanted_report:
                    connection.sendall(json.dumps(main_stack()).encode() + b"\n")
                    return
            except (OSError, ValueError):
                return  # the rank that asked has ended, or was none of this job
        self.report_once(wanted_report)

    def report_once(self, reason: str) -> None:
        """Report, unless the same signal has just caused a report."""
        if time.monotonic() > self.quiet_until:
            self.report(reason)
            self.quiet_until = time.monotonic() + 1.0

    def report(self, reason: str) -> None:
        """Ask every rank for its stack and print the roll call."""
        others = [rank for rank in range(len(self.addresses)) if rank != self.rank]
        with ThreadPoolExecutor(max_workers=32) as pool:
            answers = dict(zip(others, pool.map(self.ask, others), strict=True))
        answers[self.rank] = main_stack()
        text = roll_call(reason, {rank: answers[rank] for rank in sorted(answers)})
        os.write(2, text.encode(errors="replace"))

    def ask(self, rank: int) -> Stack | None:
        """Return the stack of the main thread of ``rank``, or None if it does not answer."""
        try:
            with self.send(rank, "") as connection:
                return [(name, file, line) for name, file, line in json.loads(connection.makefile("r").readline())]
        except (OSError, ValueError):
            return None

    def send(self, rank: int, wanted_report: str) -> socket.socket:
        """Connect to the watchdog of ``rank`` and request its stack, or a report for a given reason."""
        connection = socket.create_connection(self.addresses[rank], timeout=ANSWER_TIME)
        connection.sendall(json.dumps([self.token, wanted_report]).encode() + b"\n")
        return connection


def main_stack() -> Stack:
    """Return the stack of the main thread, outermost frame first. Local."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return [(entry.name, entry.filename, entry.lineno or 0) for entry in traceback.extract_stack(frame)]
