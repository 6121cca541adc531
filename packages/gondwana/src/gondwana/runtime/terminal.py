"""Output of a job on a terminal: its width, and progress of long work.

MPI's launcher is between a rank and the terminal, so `gondwana run` describes it. The launcher keeps what has no end of
line, so rank 0 writes its bar to the terminal itself, if that is one of its host.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import textwrap
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Protocol, TextIO

from gondwana.inputs import whole_number
from gondwana.runtime import files
from gondwana.runtime.watching import live

VARIABLE = "GONDWANA_TERMINAL"
"""Variable with the columns of the terminals behind stdout and stderr of ``gondwana run``, 0: none, and the device of
the second: "120,0" or "120,100,name of the host,identity,/dev/pts/3"."""

SWITCH = "GONDWANA_PROGRESS"
"""Variable of users: 0 switches all progress bars off."""

Stream = Literal["stdout", "stderr"]
_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")

_INTERVAL = 0.2
"""Seconds between two refreshes on a terminal."""
_APART = 10.0
"""Seconds between two lines where there is no terminal."""


def describe() -> str:
    """Return the value of ``VARIABLE`` that the launcher of a job gives its ranks. Local."""
    words = [str(columns(stream) or 0) for stream in _STREAMS]
    with contextlib.suppress(OSError, ValueError, AttributeError):
        device = os.ttyname(sys.stderr.fileno())
        words += [socket.gethostname(), _identity(device), device]
    return ",".join(words)


def columns(stream: Stream) -> int | None:
    """Return the width of the terminal to which a stream of this process goes, or None if it is no terminal. Local.

    Args:
        stream: "stdout" or "stderr".
    """
    widths = [whole_number(width) for width in os.environ.get(VARIABLE, "").split(",")[: len(_STREAMS)]]
    if len(widths) == len(_STREAMS) and None not in widths:
        return widths[_STREAMS.index(stream)] or None
    return shutil.get_terminal_size().columns if getattr(sys, stream).isatty() else None


def folded(text: str, width: int) -> list[str]:
    """Return the lines of a text that is folded between words, which stay whole. Pure.

    Example:
        >>> folded("all ranks are fine", 10)
        ['all ranks', 'are fine']
    """
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row; columns are two blanks apart, so that programs can tell them apart. Pure.

    Args:
        rows: cells, as many in each row; empty ones are written as "-".

    Example:
        >>> aligned([["ranks", "s"], ["2", ""]])
        ['ranks  s', '2      -']
    """
    filled = [[cell or "-" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*filled, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in filled]


def _identity(device: str) -> str:
    """What tells a device from that of another container under the same name."""
    there = os.stat(device)
    return f"{there.st_dev}.{there.st_ino}.{there.st_rdev}"


def _device() -> str | None:
    """The terminal behind standard error of the launcher, None if it is not on this host.

    `gondwana run` names it; a launcher that is started directly is the parent of the ranks on its own host.
    """
    words = os.environ.get(VARIABLE, "").split(",")
    with contextlib.suppress(OSError):
        if len(words) == len(_STREAMS) + 3:
            host, identity, device = words[len(_STREAMS) :]
            return device if host == socket.gethostname() and identity == _identity(device) else None
        if not os.environ.get(VARIABLE):
            device = os.readlink(f"/proc/{os.getppid()}/fd/2")
            return device if device.startswith(("/dev/pts/", "/dev/tty")) else None
    return None


def _opened() -> TextIO | None:
    """The terminal on which a bar can be shown, None without one; not to be closed if it is standard error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if sys.stderr.isatty():
            return sys.stderr
    device = _device()
    if device is None:
        return None
    with contextlib.suppress(OSError):
        descriptor = os.open(device, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        if os.isatty(descriptor):
            return open(descriptor, "w", encoding="utf-8")
        os.close(descriptor)
    return None


class Ranked(Protocol):
    """A team, or any object with a rank."""

    @property
    def rank(self) -> int:
        """The rank of this process; rank 0 shows the bar."""


class ProgressBar:
    """A progress bar on standard error: a context manager. Local.

    Rank 0 shows how much is done, the speed, the time that is left, and its memory: on a terminal as a bar, also below
    `gondwana run` and MPI's launchers; in a notebook as a line that is replaced; else as a line every ten seconds.
    GONDWANA_PROGRESS=0 switches it off. `show` costs next to nothing between two refreshes, so it may be called at each
    step.

    Args:
        team: team whose rank 0 shows the bar.
        label: name of the work, at the left of the bar.
        total: steps of the whole work.
        done: steps done before; if all of them, there is no bar.
        transient: whether the bar disappears at the end.

    Example:
        >>> import gondwana as gw
        >>> with gw.ProgressBar(gw.world, "relaxing", 100) as bar:
        ...     for step in range(100):
        ...         bar.show(step + 1, "12.5 Mcells/s")
    """

    def __init__(self, team: Ranked, label: str, total: int, *, done: int = 0, transient: bool = False) -> None:
        self._total, self._begun, self._first = total, time.monotonic(), done
        self._told = label if team.rank == 0 else None  # to a live view
        self._shown: _Bar | _Line | None = None
        self._next = 0.0
        if team.rank == 0 and total > done and os.environ.get(SWITCH) != "0":
            notebook = in_notebook()
            terminal = None if notebook or os.environ.get("TERM", "dumb") == "dumb" else _opened()
            if terminal is not None:
                self._shown = _Bar(terminal, label, total, done, transient)
            else:
                self._shown = _Line(label, total, replaced=notebook)
                self._next = self._begun + _APART if not self._shown.shows_end else 0.0

    def __enter__(self) -> ProgressBar:
        if self._shown is not None:
            self._shown.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown is not None:
            self._shown.stop()

    def show(self, done: int, speed: str = "") -> None:
        """Show how far the work is. Local.

        Args:
            done: steps done.
            speed: current speed with its unit; default: steps a second.
        """
        if self._told is not None:
            live.note_steps(live.Steps(self._told, done, self._total, self._first, self._begun, speed))
        if self._shown is None:
            return
        now = time.monotonic()
        if now >= self._next or (done == self._total and self._shown.shows_end):
            self._next = now + self._shown.apart
            rate = (done - self._first) / max(now - self._begun, 1e-9)
            left = (self._total - done) / rate if rate else None
            self._shown.show(done, speed or f"{rate:.3g}/s", left)


class _Bar:
    """A bar on a terminal."""

    apart, shows_end = _INTERVAL, True

    def __init__(self, terminal: TextIO, label: str, total: int, done: int, transient: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._terminal = terminal
        width = columns("stderr") or os.get_terminal_size(terminal.fileno()).columns or 80
        console = Console(file=terminal, force_terminal=True, width=width)
        texts = [TextColumn("{task." + name + "}") for name in ("description", "fields[speed]", "fields[memory]")]
        # What the program prints meanwhile goes above the bar, unless it goes elsewhere.
        above = columns("stdout") is not None
        self._bar = Progress(
            *(texts[0], BarColumn(None), MofNCompleteColumn(), texts[1], TimeRemainingColumn(compact=True), texts[2]),
            console=console,
            auto_refresh=False,
            expand=True,
            transient=transient,
            redirect_stdout=above,
            redirect_stderr=above,
        )
        self._task = self._bar.add_task(label, completed=done, total=total, speed="", memory="")

    def start(self) -> None:
        """Show it; the cursor stays visible, which a rank that is killed could not show again."""
        self._bar.start()
        self._bar.console.show_cursor()

    def stop(self) -> None:
        """Leave the last state, or erase it."""
        self._bar.stop()
        if self._terminal is not sys.stderr:
            self._terminal.close()

    def show(self, done: int, speed: str, left: float | None) -> None:
        """Show a state; the bar estimates the time that is left from the last seconds."""
        self._bar.update(self._task, completed=done, speed=speed, memory=_memory(), refresh=True)


class _Line:
    """A line of text every now and then, below each other or, in notebooks, in the place of the one before."""

    def __init__(self, label: str, total: int, *, replaced: bool) -> None:
        self._label, self._total, self._replaced = label, total, replaced
        self.apart = _INTERVAL if replaced else _APART
        self.shows_end = replaced
        self._width = 0

    def start(self) -> None:
        """Begin; the first line comes with the first state."""

    def stop(self) -> None:
        """Leave the last line."""
        if self._width:
            sys.stderr.write("\n")

    def show(self, done: int, speed: str, left: float | None) -> None:
        """Show a state."""
        rest = "" if left is None else f", {_clock(left)} left"
        text = f"{self._label}: {done} of {self._total}, {speed}{rest}, {_memory()}"
        if self._replaced:
            sys.stderr.write(f"\r{text:<{self._width}}")
            self._width = max(self._width, len(text))
        else:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def in_notebook() -> bool:
    """Whether this process is a kernel of Jupyter, which shows what it prints."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules and "ipykernel" in sys.modules else None
    return shell is not None and hasattr(shell, "kernel")


def _memory() -> str:
    """The memory that this process has in use, as text."""
    nbytes = files.memory_in_use()
    return "" if nbytes is None else f"{nbytes / 2**20:.0f} MiB"


def _clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"
