"""How a rank ends: together with the others, or by ending the whole job with one readable message.

The message goes to standard error as it was at the start, so that it is seen although the program is captured: pytest
replaces the descriptor during tests and shows what was written when the test ends, and a job that ends during a test
would show nothing.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import io
import math
import opcode
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, NoReturn, TypeAlias

from gondwana.errors import GondwanaError, LaunchError, UsageError
from gondwana.inputs import message_of
from gondwana.runtime import idle, interruptions, launcher, ordering, progress, tracing
from gondwana.runtime.watching import waits

Communicator: TypeAlias = Any
"""The communicator of all ranks of a job, with the methods of mpi4py's communicators."""

GRACE = 0.5
"""Seconds that a rank other than 0 gives rank 0 to print the same error first."""

UNCONNECTED = 5.0
"""The same before the ranks are connected: only the launcher then ends the others, once rank 0 has ended."""

PATIENCE = 2.0
"""Seconds that a rank which exits with a non-zero status gives the others to exit too."""

INTERRUPTED = 130

_kept: list[int] = []


class RemoteError(GondwanaError, RuntimeError):
    """Another rank failed; its own traceback shows where."""


@dataclass
class _State:
    comm: Communicator = None
    main_frame: FrameType | None = None
    status: int = 0
    installed: bool = False
    application: bool = False
    leaving: bool = False
    left: bool = False
    copied: bool = False
    exiting: bool = False
    announce: Callable[[], None] = lambda: None
    last_actions: list[Callable[[], object]] = field(default_factory=list)


_state = _State()


def install() -> None:
    """Handle uncaught exceptions of this process so that the whole job ends, with one message. Local, idempotent."""
    if _state.installed:
        return
    _state.installed = True
    keep_standard_error()
    _state.main_frame = _outermost_frame()
    sys.excepthook = _on_exception
    threading.excepthook = _on_thread_exception
    sys.exit = _exit
    interruptions.install(_end_for_main)
    interruptions.end_at_second()


def report_in_one_line() -> None:
    """Report errors of data, disk and settings by their message alone, also those that are no `UsageError`. Local.

    For programs that are not the user's own, in which no traceback shows what to change.
    """
    _state.application = True


def connected(comm: Communicator) -> None:
    """Make the ranks of ``comm`` leave together. Collective over comm."""
    install()
    if comm.size > 1:
        _state.comm = comm.Dup()
    if comm.size > 1 or "mpi4py.MPI" in sys.modules:
        atexit.register(_leave)
        os.register_at_fork(after_in_child=_become_copy)


def when_all_leave(action: Callable[[], object]) -> None:
    """Register an action to be called at exit on every rank, once all ranks have finished. Local, idempotent.

    Collective work is safe there, and in no other function called at exit.
    """
    if action not in _state.last_actions:
        _state.last_actions.append(action)


def status_of(error: BaseException) -> int:
    """Return the exit status that ``error`` gives to a process. Local."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        return 1
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return 2 if isinstance(error, UsageError | LaunchError) else 1


def set_status(status: int) -> None:
    """Record that this process is about to exit with ``status``. Local."""
    _state.status = status
    if status and _state.comm is not None and not _state.exiting:
        _state.exiting = True
        with contextlib.suppress(RuntimeError):  # the interpreter is about to end
            # Not a `threading.Thread`: see `interruptions`.
            _thread.start_new_thread(_exit_in_spite_of_threads, ())


def announce_by(announce: Callable[[], None]) -> None:
    """Register a function to be called before this rank ends the job, so that the others do not report it. Local."""
    _state.announce = announce


def leaving() -> bool:
    """Return whether this rank has finished and waits for the others at exit. Local."""
    return _state.leaving


def left() -> bool:
    """Return whether all ranks have finished, so that processes may end. Local."""
    return _state.left


def alone() -> bool:
    """Return whether no other rank is connected with this one. Local."""
    return _state.comm is None


def installed() -> bool:
    """Return whether uncaught exceptions of this process end the job: once it is a rank, or is about to be. Local."""
    return _state.installed


def report(text: str) -> None:
    """Print lines with the rank and the host before each, as tracebacks have them. Local."""
    write_error(_prefixed(text))


def let_others_report() -> None:
    """Wait as long as a rank that ends the job may take to report why; its abort ends this rank too. Local; blocks."""
    if _state.comm is not None:
        time.sleep(PATIENCE + GRACE)


def abort(status: int) -> NoReturn:
    """End all ranks at once; the job exits with ``status``. Local."""
    _state.announce()
    if ordering.log is not None:
        ordering.log.end()
    flush()
    if _state.comm is not None:
        _state.comm.Abort(status)
    os._exit(status)


def _exit(status: Any = None) -> NoReturn:
    """Replace ``sys.exit``: do the same, and record the status for when the process ends."""
    error = SystemExit(status)
    set_status(status_of(error))
    raise error


def _exit_in_spite_of_threads() -> None:
    """End the job if this rank exits with a non-zero status, and Python waits for threads that do not end.

    Only the main thread has ended then, and nothing is called at exit. A program may also catch the exit and go on.
    """
    threading.current_thread().name = "gondwana-exit"
    threading.main_thread().join()
    time.sleep(PATIENCE)
    status = _state.status if _ended_by_exception(_state.main_frame) else 0
    if status and not _state.leaving:
        main = threading.main_thread()
        names = [thread.name for thread in threading.enumerate() if thread is not main and not thread.daemon]
        _end_by_exit(status, f"its threads are still running ({', '.join(names)})")


def _on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Replace ``sys.excepthook``: print the error, and with several ranks end the job."""
    rank = _rank()
    set_status(status_of(error))
    if isinstance(error, LaunchError) and rank > 0 and _state.comm is None:
        # Every process finds the same error, and rank 0 reports it; some launchers end rank 0 once another rank exits.
        time.sleep(PATIENCE)
        raise SystemExit(status_of(error))
    try:
        if _state.comm is not None:
            _state.announce()
        _wait_for_others(error, rank)
    finally:
        # In `finally`, since a signal handler may raise again meanwhile.
        flush()
        write_error(_describe(kind, error, trace, rank))
        if _state.comm is not None:
            abort(status_of(error))
    if rank == 0 and launcher.detect() is not None:
        # The others finish MPI's start first: Open MPI's launcher may crash where it ends a rank that connects to it.
        time.sleep(GRACE)
    if status_of(error) != 1:
        # Python itself would exit with 1; it takes the status of a SystemExit that its hook raises.
        raise SystemExit(status_of(error))


def _on_thread_exception(arguments: threading.ExceptHookArgs) -> None:
    """Replace ``threading.excepthook``: a rank that has lost a thread cannot do its part either."""
    error = arguments.exc_value
    if error is None or isinstance(error, SystemExit):
        return
    if _state.comm is None:
        threading.__excepthook__(arguments)
        return
    _on_exception(arguments.exc_type, error, arguments.exc_traceback)


def _wait_for_others(error: BaseException, rank: int) -> None:
    """Wait for the rank whose message helps most to report first; its abort ends this process.

    An error that all ranks raise is printed by rank 0 alone; consequences of another rank's error come last.
    """
    if rank > 0:
        alike = _state.comm is None and isinstance(error, GondwanaError)
        time.sleep((UNCONNECTED if alike else GRACE) + 0.02 * min(rank, 50))
    if isinstance(error, RemoteError):
        time.sleep(4 * GRACE)


def _describe(kind: type[BaseException], error: BaseException, trace: TracebackType | None, rank: int) -> str:
    if _state.application:
        message = message_of(error)
    else:
        message = str(error) if isinstance(error, UsageError | LaunchError) else None
    if message is not None:
        return f"gondwana: error: {message}\n"
    with contextlib.redirect_stderr(io.StringIO()) as text:
        sys.__excepthook__(
            kind, error.with_traceback(trace), trace
        )  # with "Did you mean", which `traceback` lacks before Python 3.12
    return text.getvalue() if _state.comm is None else _prefixed(text.getvalue())


def _prefixed(text: str) -> str:
    prefix = f"[rank {_rank()} on {socket.gethostname()}] "
    return "".join(prefix + line + "\n" for line in text.splitlines())


def _become_copy() -> None:
    """Note in a process that `os.fork` has made that it is not a rank: its actions concern no other rank."""
    _state.comm = None
    _state.copied = True


def _leave() -> None:
    """Wait at exit until all ranks have finished, and serve them; with a non-zero status, wait `PATIENCE` seconds."""
    status = _state.status if _ended_by_exception(_state.main_frame) else 0
    if _state.copied:
        flush()
        os._exit(status)  # the other exit functions belong to the rank: MPI would wait for the others
    if _state.comm is None:
        return
    _state.leaving = True
    arrived = _state.comm.Ibarrier()
    end = time.monotonic() + PATIENCE if status else math.inf
    while not _state.left:
        try:
            _state.left = _await_others(arrived, end)
        except BaseException as error:
            _end_for_main(error)
        else:
            if not _state.left:
                _end_by_exit(status, "other ranks are still running")
    if not status:
        _report_unfinished()
    for action in _state.last_actions:
        action()


def report_if_alone() -> None:
    """Report at exit the unfinished operations of this process, if it has no other ranks to leave with. Local."""
    if _state.comm is None and not _state.copied and not _state.status and not hasattr(sys, "last_value"):
        _report_unfinished()


def _report_unfinished() -> None:
    left_over = progress.unfinished()
    if left_over:
        ends = f"ends with {' and '.join(left_over)}"
        text = f"{ends}: wait for their futures, or call gw.quiesce, before the program ends\n"
        write_error(text if _state.comm is None else _prefixed(text))


@tracing.traced("wait", "wait for all ranks to finish")
def _await_others(arrived: Any, end: float) -> bool:
    """Return True when all ranks have finished, False at the time `end`; without a limit, serve others meanwhile."""
    pause = 1e-4
    while not arrived.Test():
        late = interruptions.take()
        if late is not None:
            raise late
        if end == math.inf and progress.serve_all():
            waits.over()
            pause = 1e-4
            continue
        now = time.monotonic()
        if now > end:
            return False
        if end == math.inf and pause >= 0.02:
            waits.note(_at_the_end, now)
        if idle.sleep(pause, progress.serve_all if end == math.inf else arrived.Test):
            waits.over()
        pause = min(2 * pause, 0.02)
    return True


def _at_the_end() -> waits.Wait:
    return waits.Wait("at the end of the program", waits.END)


def _end_for_main(error: BaseException) -> None:
    """End the job for an exception that the main thread cannot raise: it runs compiled code, or has finished.

    An exit with status 0 does not end the job, and without other ranks nothing is done here.
    """
    if _state.comm is None:
        return
    if not isinstance(error, SystemExit):
        _on_exception(type(error), error, error.__traceback__)
    elif status_of(error):
        _end_by_exit(
            status_of(error), "its program has finished" if _state.leaving else "its main thread is still running"
        )


def _end_by_exit(status: int, reason: str) -> NoReturn:
    report(f"exits with status {status}, but {reason}: ending the job")
    abort(status)


def _ended_by_exception(frame: FrameType | None) -> bool:
    """Return whether the program's outermost code was left by an exception (here: SystemExit), not at its last line.

    Python does not report this at exit, but the last instruction that the frame has executed shows it.
    """
    if frame is None or frame.f_lasti < 0:
        return False
    return not opcode.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")


def _outermost_frame() -> FrameType | None:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _rank() -> int:
    if _state.comm is not None:
        return int(_state.comm.rank)
    launch = launcher.detect()
    return 0 if launch is None else launch.rank


def flush() -> OSError | None:
    """Write out the buffers of standard output and standard error. Local.

    Returns:
        The error if that failed; Python's exit will not retry and report it again.
    """
    problem = None
    for stream in (sys.__stdout__, sys.__stderr__, sys.stdout, sys.stderr):
        # A closed or missing stream has nothing left to flush.
        with contextlib.suppress(ValueError, AttributeError):
            try:
                stream.flush()  # type: ignore[union-attr]
            except OSError as error:
                # A full disk, or a pipe without a reader.
                problem = problem or error
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[union-attr]
    return problem


def keep_standard_error() -> None:
    """Keep the present standard error for `write`. Local; only the first call has an effect."""
    if not _kept:
        with contextlib.suppress(OSError):  # it is closed: no message will be seen
            _kept.append(os.dup(2))


def standard_error() -> int:
    """Return the descriptor of the standard error that was kept. Local."""
    return _kept[0] if _kept else 2


def write_error(text: str) -> None:
    """Write in one piece, so that lines of different ranks do not mix. Local."""
    # If it is closed, the exit status still reports the failure.
    with contextlib.suppress(OSError):
        os.write(standard_error(), text.encode(errors="replace"))
