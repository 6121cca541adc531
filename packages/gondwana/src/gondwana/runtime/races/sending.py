"""The reporter of this process: it numbers streams and sites, and writes records to the race detector.

What orders the acts of another rank behind those of this one is sent before it happens, and what orders this rank
behind others is written afterwards. So the detector can follow any one rank until it lacks a record that is on its way.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import itertools
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, ParamSpec, TypeVar

from gondwana.errors import LaunchError
from gondwana.runtime import launcher
from gondwana.runtime.races.records import (
    DATA,
    DESCRIPTOR,
    FIRST_OPERATION,
    MAIN,
    MOST_AXES,
    READS,
    ROOM,
    USED,
    VARIABLE,
    WORD,
    Box,
    Kind,
    head,
    pack,
)
from gondwana.runtime.watching.sockets import connect_to_launcher

P = ParamSpec("P")
R = TypeVar("R")

_CAPACITY = 1 << 16
_LONGEST = WORD * (5 + 2 * MOST_AXES)
_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_RECURSIVE = 1
"""PTHREAD_MUTEX_RECURSIVE of Linux: a signal handler may report, too."""

_WRAPPERS = {"reported", "report", "call", "by_route", "by_arguments", "always_alike", "<lambda>", "<listcomp>"}
"""Functions of decorators."""
_LIBRARY = {contextlib.__file__, functools.__file__, threading.__file__}

_MOST_STREAMS = 1 << 16


class Reporter:
    """The reporter of one rank. Local. Any thread may call it.

    Args:
        place: the secret of the job, and addresses of the detector: words separated by blanks.
        launch: launch of this process; None without a launcher.

    Attributes:
        rank: rank in the world.
        address: address of the buffer.
        before: reports what compiled code has accessed before on a thread, given its identifier or None for this one,
            ahead of another record; None before there is any.
        exclusive: lock of a thread from before it changes a word that others read until it has reported that.
    """

    def __init__(self, place: str, launch: launcher.Launch | None) -> None:
        secret, *addresses = place.split()
        self.rank: Final = 0 if launch is None else launch.rank
        ranks = 1 if launch is None else launch.size or 0
        try:
            self._socket = connect_to_launcher(addresses)
        except OSError as error:
            raise LaunchError(f"{VARIABLE}: the race detector does not answer: {error}") from None
        self._buffer = ctypes.create_string_buffer(DATA + _CAPACITY)
        self.address: Final = ctypes.addressof(self._buffer)
        self._words = memoryview(self._buffer).cast("B").cast("q")
        self._words[ROOM // WORD] = _CAPACITY
        self._words[DESCRIPTOR // WORD] = self._socket.fileno()
        self._libc = ctypes.CDLL(None)
        attributes = ctypes.create_string_buffer(64)
        self._libc.pthread_mutexattr_init(attributes)
        self._libc.pthread_mutexattr_settype(attributes, _RECURSIVE)
        self._libc.pthread_mutex_init(ctypes.c_void_p(self.address), attributes)
        self._lock = functools.partial(self._libc.pthread_mutex_lock, ctypes.c_void_p(self.address))
        self._unlock = functools.partial(self._libc.pthread_mutex_unlock, ctypes.c_void_p(self.address))
        self.active = True
        self.before: Callable[[int | None], None] | None = None
        self._late: deque[tuple[int, ...]] = deque()
        self._latest: tuple[int, ...] = ()
        self._free: deque[int] = deque()
        self._operations = itertools.count(FIRST_OPERATION)
        self._acting: dict[int, int] = {}
        self._team: list[int] = []
        self._launches: dict[int, FrameType] = {}
        self.exclusive: Final = threading.RLock()
        self._sites: dict[tuple[Any, ...], int] = {}
        self._naming = threading.RLock()
        self._here: dict[tuple[CodeType, int, str], int] = {}
        self._names = itertools.count(1)
        self._socket.sendall(f"{secret} {self.rank} {ranks}\n".encode())
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    # -- records -------------------------------------------------------------------------------------------------

    def add(self, kind: int, *words: int, site: int = 0, stream: int | None = None) -> None:
        """Append a record of the calling thread. Local; blocks while the detector is behind."""
        if not self.active:
            return
        if self.before is not None:
            self.before(None)
        self._add(kind, words, site, stream)

    def _add(self, kind: int, words: Sequence[int], site: int, stream: int | None) -> None:
        count = 1 + len(words)
        first = head(kind, count, self._stream() if stream is None else stream, site)
        before, self._latest = self._latest, (first, *words)
        if kind == Kind.ATOMIC and words[-1] == READS and before == self._latest:
            return  # a flag that is polled says nothing new
        self._lock()
        try:
            while self._late:
                late = self._late.popleft()
                self._append(1 + len(late[1:]), head(late[0], len(late), MAIN, 0), late[1:])
            self._append(count, first, words)
        finally:
            self._unlock()

    def _append(self, count: int, first: int, words: Sequence[int]) -> None:
        used = self._words[USED // WORD]
        if used + WORD * count > _CAPACITY:
            self._send()
            used = 0
        self._words[USED // WORD] = used + WORD * count
        pack[count](self._buffer, DATA + used, first, *words)

    def later(self, kind: int, *words: int) -> None:
        """Append a record with the next one: for finalizers, which may run inside any statement. Local."""
        self._late.append((kind, *words))

    def flush(self) -> None:
        """Send all records: before this rank lets others go on, or waits. Local; waits for a late detector."""
        self._lock()
        try:
            self._send()
        finally:
            self._unlock()

    def _send(self) -> None:
        used = self._words[USED // WORD]
        self._words[USED // WORD] = 0
        if used and self.active:
            try:
                self._socket.sendall(memoryview(self._buffer)[DATA : DATA + used])
            except OSError:  # the detector has ended, and with it the job
                self.active = False

    def tell(self, **content: Any) -> None:
        """Send what is longer than a record: a JSON object. Local; blocks while the detector is behind."""
        if not self.active:
            return
        data = json.dumps(content).encode()
        data += b" " * (-len(data) % WORD)
        self._lock()
        try:
            self._append(2, head(Kind.TEXT, 2, self._stream(), 0), (len(data),))
            self._send()
            self._socket.sendall(data)
        except OSError:
            self.active = False
        finally:
            self._unlock()

    # -- streams and sites ---------------------------------------------------------------------------------------

    def _stream(self, thread: int | None = None) -> int:
        return self._acting.get(threading.get_ident() if thread is None else thread, MAIN)

    @contextlib.contextmanager
    def acting(self, stream: int) -> Iterator[None]:
        """Have records of this thread belong to another stream meanwhile. Local."""
        thread, before = threading.get_ident(), self._stream()
        self._acting[thread] = stream
        try:
            yield
        finally:
            self._acting[thread] = before

    @contextlib.contextmanager
    def launching(self, threads: Sequence[int], frame: FrameType) -> Iterator[None]:
        """Have what other threads do meanwhile begin and end here, each in a stream of its own. Local.

        Args:
            threads: identifiers of the threads 1, 2, ... of a launch, whose thread 0 is this one.
            frame: the launch.
        """
        self._team += itertools.islice(self._operations, max(0, len(threads) - len(self._team)))
        launched = dict(zip(threads, self._team, strict=False))
        for number, stream in enumerate(launched.values(), 1):
            self.add(Kind.FORK, stream, number)
        self._acting |= launched
        self._launches |= dict.fromkeys(threads, frame)
        try:
            yield
        finally:
            for thread, stream in launched.items():
                if self.before is not None:
                    self.before(thread)
                self.add(Kind.JOIN, stream)
                del self._acting[thread], self._launches[thread]

    def operation(self, site: int) -> int:
        """Return the number of a stream for what goes on beside the calling thread from now on. Local.

        Args:
            site: where it begins.
        """
        with_number = self._free.popleft() if self._free else next(self._operations)
        if with_number >= _MOST_STREAMS:
            raise LaunchError(f"more than {_MOST_STREAMS - FIRST_OPERATION} operations of a rank are under way")
        self.add(Kind.FORK, with_number, site=site)
        return with_number

    def joined(self, stream: int, site: int = 0) -> None:
        """Note that an operation is complete, and give its number back. Local."""
        self.add(Kind.JOIN, stream, site=site)
        self._free.append(stream)

    def site(self, what: str = "", at: tuple[str, int] | None = None, function: str = "", **more: Any) -> int:
        """Return the number of a site: what is done where. Local.

        Args:
            what: the act; "": the function of the library that the program has called.
            at: file and line; None: those of the innermost caller outside of the library.
            function: function of the program there, if they are given.
            more: further properties, for reports.
        """
        if at is None:
            frame, called = _outside(self._launches.get(threading.get_ident()) or sys._getframe(1))
            what = what or called
            key = frame.f_code, frame.f_lineno, what
            known = self._here.get(key)
            if known is None:
                code = frame.f_code
                known = self._here[key] = self._number(what, code.co_filename, frame.f_lineno, code.co_qualname, more)
            return known
        return self._number(what, *at, function, more)

    def caller(self, thread: int | None = None) -> tuple[str, str]:
        """Return where the program has called the library, as `file:line`, and the function there. Local.

        Args:
            thread: identifier of the thread; None: this one.
        """
        thread = threading.get_ident() if thread is None else thread
        frame = self._launches.get(thread) or sys._current_frames().get(thread) or sys._getframe(1)
        frame, _ = _outside(frame)
        return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}", frame.f_code.co_qualname

    def _number(self, what: str, file: str, line: int, function: str, more: dict[str, Any]) -> int:
        key = what, file, line, function, more.get("launched")
        found = self._sites.get(key)
        if found is None:
            with self._naming:  # no other thread uses the number before the detector knows it
                found = self._sites.get(key) or len(self._sites) + 1
                if found > len(self._sites):
                    self.tell(site=found, what=what, file=file, line=line, function=function, **more)
                    self._sites[key] = found
        return found

    # -- acts ----------------------------------------------------------------------------------------------------

    def access(self, kind: int, box: Box, site: int, stream: int | None = None) -> None:
        """Report accesses to elements. Local."""
        axes = [number for axis in box.axes if axis[0] != 1 for number in axis]
        if len(axes) <= 2 * MOST_AXES and all(count > 0 for count, _ in box.axes):
            self.add(kind, box.key, box.rank, box.offset, box.item, *axes, site=site, stream=stream)

    def add_late(self, kind: int, box: Box, site: int, thread: int) -> None:
        """Report accesses that compiled code has made on a thread before what is to be reported next. Local."""
        if self.active:
            axes = [number for axis in box.axes if axis[0] != 1 for number in axis]
            self._add(kind, (box.key, box.rank, box.offset, box.item, *axes), site, self._stream(thread))

    def post(self, name: tuple[int, int], stream: int | None = None) -> None:
        """Let others take what was done so far by a name. Local; sends."""
        self.add(Kind.POST, *name, stream=stream)
        self.flush()

    def take(self, name: tuple[int, int], takers: int = 1, site: int = 0) -> None:
        """Report that this stream goes on behind what was posted by a name. Local.

        Args:
            name: the name.
            takers: how many streams do so, 0 for any number.
            site: where.
        """
        self.add(Kind.TAKE, *name, takers, site=site)

    def new_name(self) -> tuple[int, int]:
        """Return a name that no rank has used. Local."""
        return -1 - self.rank, next(self._names)

    def close(self) -> None:
        """Send what is left, and say that this rank has ended. Local."""
        self.flush()
        self.active = False
        self._socket.close()

    def _forget(self) -> None:
        self.active = False


def _outside(frame: FrameType) -> tuple[FrameType, str]:
    """The innermost frame that is not of the library, and the function of the library that it has called."""
    called = ""
    while frame.f_back is not None and _is_ours(frame.f_code):
        if frame.f_code.co_name not in _WRAPPERS:
            called = frame.f_code.co_name
        frame = frame.f_back
    return frame, called


@functools.cache
def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith((_PACKAGE, "<")) or code.co_filename in _LIBRARY
