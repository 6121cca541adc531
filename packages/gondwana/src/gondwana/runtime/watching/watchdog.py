"""Reports on where the ranks are in the program: on SIGUSR1, at the end of a time limit, and when none can go on.

Every rank has a thread that sleeps until it is asked for the stack of the main thread. It answers while the main
thread waits inside MPI. Rank 0 asks all ranks and prints a roll call that names the one that differs.

Once a second rank 0 looks whether it waits for other ranks itself, and as long as it does, whether all others do, too.
If each of them has been polling in the same wait for two looks and found nothing, none of them can go on: the job ends
with a report on who waits for whom.

While a live view is open, it asks rank 0 what it shows, which asks the others in the same way.

It also reports when another rank of the host terminated abnormally: killed, crashed, or ended by `os._exit`. Launchers
end the job then, but not all of them report which rank it was. A rank that ends the job on purpose, with a traceback or
a message of its own, first announces that in a page of memory that the ranks of the host share.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import itertools
import math
import mmap
import os
import select
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import numpy as np
import numpy.typing as npt

from gondwana.errors import LaunchError, UsageError
from gondwana.runtime import cores, exits
from gondwana.runtime.placement import report
from gondwana.runtime.shared_file import ForeignFileError, SharedFile
from gondwana.runtime.watching import live, still, tree
from gondwana.runtime.watching.channel import Channel, Message
from gondwana.runtime.watching.deadlock import explain
from gondwana.runtime.watching.rollcall import FINISHED, Stack, Stand, has_user_code, roll_call
from gondwana.runtime.watching.waits import Standing

ANSWER_TIME = 3.0
"""Seconds that the ranks have to answer with their stacks."""

LAUNCHER_GRACE = 0.02
"""Seconds that the launcher has to end this rank too; after that, this rank reports that another one terminated."""

HOST_GRACE = 5.0
"""Seconds that the launcher has to end this rank after the channel to another host has closed; see `LAUNCHER_GRACE`."""

TIMED_OUT = 124
"""The exit status of a job that has reached its time limit, as timeout(1) has it."""

OVERDUE = 2 * ANSWER_TIME + 2.0
"""Seconds after the time limit in which rank 0 must have ended the job; then the others do."""

REPORT_TIME = 2 * ANSWER_TIME
"""Seconds that a rank which is about to raise an error gives rank 0 at most to report where the others are."""

LOOK = 1.0
"""Seconds between two looks at whether all ranks stand still."""

DEEPEST = 200
"""The most frames of a stack that are reported, the innermost ones."""


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


def start(comm: exits.Communicator, limit: float | None, view: str = "") -> None:
    """Start this rank's watchdog. Collective over comm.

    With one rank, no time limit and no live view nothing is started.

    Args:
        comm: all ranks.
        limit: seconds until the job ends, None for no limit.
        view: the value of `live.VARIABLE`; "": there is no live view.
    """
    if comm.size == 1 and limit is None and not view:
        return
    members = comm.allgather(own_member(comm.rank))
    watch = Monitor(members[comm.rank], members)
    exits.announce_by(watch.announce)
    report.record(members)
    cores.share([member.cores for member in members if member.host == members[comm.rank].host])
    channels = tree.connect(comm, [member.host for member in members])
    if view and comm.rank == 0:
        channels.above = live.connect(view)
    dog = _Watchdog(comm.rank, comm.size, channels, _signal_pipe(), watch, limit)
    _running.append(dog)
    threading.Thread(target=dog.run, name="gondwana-watchdog", daemon=True).start()
    arm(limit, first=comm.rank == 0)


def show_at(place: str, comm: exits.Communicator) -> None:
    """Have rank 0 answer a live view that is not that of its launcher. Local, on rank 0; blocks for a moment.

    Args:
        place: the value of `live.VARIABLE`.
        comm: all ranks.
    """
    if not _running:  # there is one rank only
        start(comm, None, place)
        return
    channel = live.connect(place)
    if channel is not None:
        _running[0].ask(lambda: _running[0].answer_to(channel))


def call_roll(reason: str) -> None:
    """Have rank 0 report where the ranks are, before this one raises an error. Local; blocks until it has.

    Args:
        reason: cause of the report.
    """
    for dog in _running:
        dog.reported.clear()
        dog.ask(functools.partial(dog.report_once, reason))
        dog.reported.wait(REPORT_TIME)


def arm(limit: float | None, *, first: bool) -> None:
    """Make the C runtime print this process's stacks after the limit, in case Python cannot run then. Local.

    That is the case while compiled code holds the interpreter. A watchdog that can run cancels this when the limit is
    over: the stack of a thread that runs meanwhile may be read wrongly, which ends the process. Uncancelled, it also
    ends the process of rank 0, and with it the job.
    """
    if limit is not None:
        patience = ANSWER_TIME * (2 if first else 0.5)
        faulthandler.dump_traceback_later(limit + patience, exit=first, file=exits.standard_error())


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
_running: list[_Watchdog] = []


def _noted(number: int, frame: FrameType | None) -> None:
    """Handle SIGUSR1: do nothing, since the byte on the wake-up socket has woken the watchdog."""


class _Watchdog:
    """The watchdog thread of one rank.

    Args:
        rank: number of this rank.
        size: number of all ranks.
        channels: channels to the other watchdogs.
        signals: socket that is readable after a signal, None if the program handles SIGUSR1.
        watch: monitor of the processes of this host.
        limit: seconds that the job may take, None for no limit.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        channels: tree.Tree,
        signals: socket.socket | None,
        watch: Monitor,
        limit: float | None,
    ) -> None:
        self._rank = rank
        self._size = size
        self._channels = channels
        self._watch = watch
        self._limit = limit
        # Rank 0 ends the job in time. If it is stopped, or cannot be reached, one of the others does it later.
        late = OVERDUE + 0.1 * min(rank, 50) if rank else 0.0
        self._over = math.inf if limit is None else time.monotonic() + limit
        self._deadline = self._over + late
        self._next_look = math.inf if rank else time.monotonic() + LOOK
        self._first: dict[int, Standing] = {}
        self._asked: list[Callable[[], None]] = []
        self.reported = threading.Event()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._quiet_until = 0.0
        self._viewed_until, self._next_glance = 0.0, math.inf
        self._selector = selectors.DefaultSelector()
        if signals is not None:
            self._on_readable(signals, lambda: self._on_signal(signals))
        self._on_readable(self._wake, self._on_asked)
        for handle in watch.handles:
            self._on_readable(handle, functools.partial(self._on_death, handle))
        for channel in channels.channels:
            self._on_readable(channel.socket, functools.partial(self._on_message, channel))

    def run(self) -> None:
        """Sleep until a rank asks, a signal arrives, a process ends or a time has come, and react."""
        while True:
            next_time = min(self._over, self._deadline, self._next_look, self._next_glance)
            self._react(
                self._selector.select(None if next_time == math.inf else max(0.0, next_time - time.monotonic()))
            )

    def _react(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        now = time.monotonic()
        self._disarm(now)
        if now >= self._deadline:
            self._on_deadline()
        if now >= self._next_look:
            self._look()
        if now >= self._next_glance:
            live.glance()
            self._next_glance = now + live.GLANCE if now < self._viewed_until else math.inf
        for key, _ in ready:
            key.data()
        while self._channels.kept:
            self._handle(self._channels.kept.pop(0))
        while self._channels.closed:
            self._on_closed(self._channels.closed.pop())

    def _disarm(self, now: float) -> None:
        """Cancel what `arm` has started, if the time limit is over at a time: Python can run here."""
        if now >= self._over:
            faulthandler.cancel_dump_traceback_later()
            self._over = math.inf

    def ask(self, action: Callable[[], None]) -> None:
        """Have the watchdog call a function. Local; any thread may call it."""
        self._asked.append(action)
        os.eventfd_write(self._wake, 1)

    def answer_to(self, view: Channel) -> None:
        """Answer a live view from now on."""
        self._channels.above = view
        self._on_readable(view.socket, functools.partial(self._on_message, view))

    def _on_asked(self) -> None:
        os.eventfd_read(self._wake)
        while self._asked:
            self._asked.pop()()

    def _look(self) -> None:
        """End the job if no rank can go on: each has finished, or waits for other ranks, and did so a look before."""
        now = self._still_ranks()
        first = self._first
        if now and _marks(now) == _marks(first) and all(now[rank].has_polled(first[rank], self._size) for rank in now):
            stands = self._stands(LOOK)
            waiting = {rank: stand.wait for rank, stand in stands.items() if stand.wait is not None}
            # Once more, since only now it is known what they wait for.
            if len(waiting) == self._size and _marks(self._still_ranks()) == _marks(now):
                found = explain(waiting)
                if found is not None:
                    exits.write_error(roll_call(found.reason, stands, found.advice))
                    exits.abort(1)
        if _marks(now) != _marks(first):
            self._first = now
        self._next_look = time.monotonic() + LOOK

    def _still_ranks(self) -> dict[int, Standing]:
        """Return how the ranks stand still; nothing if one of them does not, or has not answered."""
        own = still.standing()
        answers = {} if own is None else self._channels.collect([*own], LOOK, "still")
        if len(answers) < self._size or not all(answers.values()):
            return {}
        return {rank: Standing(*answer) for rank, answer in answers.items()}

    def _stands(self, seconds: float) -> dict[int, Stand]:
        """Ask all ranks where they are."""
        answers = self._channels.collect(_own_stand(), seconds)
        return {rank: Stand.read(answers.get(rank, [[], None])) for rank in range(self._size)}

    def _on_deadline(self) -> None:
        """Report that the time limit is over, and end the job."""
        reason = f"the time limit of {self._limit:g} s is over"
        if self._rank:
            reason += f", and rank 0 does not end the job: rank {self._rank} does"
        self._report(reason)
        exits.abort(TIMED_OUT)

    def _on_readable(self, what: socket.socket | int, react: Callable[[], None]) -> None:
        self._selector.register(what, selectors.EVENT_READ, react)

    def _on_death(self, handle: int) -> None:
        """Report a rank that terminated abnormally, before the launcher ends this one, and end the job."""
        self._selector.unregister(handle)
        time.sleep(LAUNCHER_GRACE)
        if exits.leaving():
            time.sleep(ANSWER_TIME / 3)
        text = None if exits.left() else self._watch.text(self._watch.handles[handle])
        if text is not None:
            exits.write_error(text)
            time.sleep(ANSWER_TIME / 3)
            exits.abort(1)

    def _on_signal(self, signals: socket.socket) -> None:
        """Report, or make rank 0 report: a launcher signals all ranks, a user perhaps only one."""
        if signal.SIGUSR1 in signals.recv(4096):
            self.report_once(f"signal SIGUSR1 to rank {self._rank}")

    def _on_message(self, channel: Channel) -> None:
        for message in self._channels.receive(channel):
            self._handle(message)

    def _handle(self, message: Message) -> None:
        """Do what another watchdog asks for."""
        match message:
            case ["where", int(question), float(seconds)]:
                self._disarm(time.monotonic() + seconds)
                self._channels.answer(question, self._channels.collect(_own_stand(), seconds))
            case ["still", int(question), float(seconds)]:
                own = still.standing()
                self._channels.answer(question, self._channels.collect([*own] if own else [], seconds, "still"))
            case ["live", int(question), float(seconds)]:
                self._viewed_until = time.monotonic() + live.VIEWED
                self._next_glance = min(self._next_glance, time.monotonic() + live.GLANCE)
                self._channels.answer(question, self._channels.collect([*_own_stand(), live.facts()], seconds, "live"))
            case ["report", str(reason)]:
                self.report_once(reason)
            case ["reported"]:
                self._on_reported()

    def _on_closed(self, channel: Channel) -> None:
        """Report that the host of a rank is gone, if the launcher does not end this rank, and end the job."""
        self._selector.unregister(channel.socket)
        rank = 0 if channel.peer is None else channel.peer
        host = self._watch.elsewhere.get(rank)
        if host is None:
            return  # a rank of this host, whose process is watched
        time.sleep(HOST_GRACE)
        if not exits.left():
            exits.write_error(
                f"gondwana: host {host} does not answer any more: it is gone, or what has started rank {rank} there; "
                "ending the job\n"
            )
            exits.abort(1)

    def report_once(self, reason: str) -> None:
        """Report on rank 0, unless the same signal has just caused a report; elsewhere, ask the rank above."""
        if self._rank:
            self._channels.request("report", reason)
            return
        if time.monotonic() > self._quiet_until:
            self._report(reason)
            self._quiet_until = time.monotonic() + 1.0
        self._on_reported()

    def _on_reported(self) -> None:
        """Let this rank and those below go on that have asked for the report."""
        self.reported.set()
        self._channels.tell("reported")

    def _report(self, reason: str) -> None:
        """Ask every rank for its stack and print the roll call."""
        exits.write_error(roll_call(reason, self._stands(ANSWER_TIME)))


def _marks(stands: dict[int, Standing]) -> dict[int, int]:
    """Return the numbers of the waits."""
    return {rank: standing.mark for rank, standing in stands.items()}


def _own_stand() -> Message:
    """Describe where this rank is, as `Stand.read` takes it."""
    return [main_stack(), still.wait()]


def main_stack() -> Stack:
    """Return the stack of the main thread, outermost frame first. Local."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    frames = itertools.islice(traceback.walk_stack(frame), DEEPEST)
    stack = [(frame.f_code.co_name, frame.f_code.co_filename, line) for frame, line in frames][::-1]
    # A rank that has finished may still run what others call on it.
    return [FINISHED] if exits.leaving() and not has_user_code(stack) else stack


@dataclass(frozen=True)
class Member(report.Location):
    """A rank, where it is, and its process."""

    rank: int
    page: SharedFile


class Monitor:
    """Watches the processes of the other ranks of this host. Local; the members come from an allgather.

    Attributes:
        handles: file descriptors that become readable when a process has ended, with the member.
        elsewhere: the hosts of the ranks that are not on this one.
    """

    def __init__(self, own: Member, members: list[Member]) -> None:
        neighbours = [member for member in members if member.host == own.host]
        self._own = own
        self.elsewhere = {member.rank: member.host for member in members if member.host != own.host}
        self._page = _map(neighbours[0])
        self.handles: dict[int, Member] = {}
        for member in neighbours:
            if member.rank != own.rank:
                with contextlib.suppress(OSError):  # an old kernel, or an invisible process: it is not watched
                    self.handles[os.pidfd_open(member.page.process)] = member

    def announce(self) -> None:
        """Announce that this rank ends the job and reports the reason itself. Local."""
        if self._page is not None:
            self._page[0] = 1

    @property
    def announced(self) -> bool:
        """Whether a rank of this host has announced the end."""
        return self._page is not None and bool(self._page[0])

    def text(self, member: Member) -> str | None:
        """Return the report on a member that has ended; None if another rank prints it or it was announced. Local."""
        lower = [handle for handle, other in self.handles.items() if other.rank < self._own.rank]
        gone = {handle for handle, _ in _poll(lower)}
        if self.announced or any(handle not in gone for handle in lower):
            return None
        return (
            f"gondwana: rank {member.rank} (process {member.page.process} on {member.host}) terminated abnormally: "
            "it was killed, crashed, or called os._exit; ending the job\n"
        )


def own_member(rank: int) -> Member:
    """Describe this process; the ranks of a host use the page of the first one. Local."""
    try:
        page = SharedFile.create("gondwana-end", mmap.PAGESIZE)
    except OSError as error:
        raise LaunchError(f"this system provides no shared memory (memfd_create): {error}") from error
    location = report.own_location()
    return Member(location.host, location.machine, location.cores, rank, page)


def _map(first: Member) -> npt.NDArray[np.uint8] | None:
    """Map the page of the first rank of this host; return None if its process is not visible."""
    try:
        return first.page.map(mmap.PAGESIZE)
    except (OSError, ForeignFileError):
        return None


def _poll(handles: list[int]) -> list[tuple[int, int]]:
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return poll.poll(0)
