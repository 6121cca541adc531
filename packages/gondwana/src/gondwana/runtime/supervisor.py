"""The process that starts MPI's launcher for ``gondwana run``, passes on signals and errors, and ends with its status.

Launchers of MPI kill the ranks half a second after SIGINT or SIGTERM, which loses the checkpoint that a program writes
then. So the ranks that handle SIGTERM get the first signal from here and have time to stop. The launcher gets a signal
that makes it end the job when they need too long, at the second signal, and when this process is killed.

The ranks keep the time limit of the job themselves, unless they are stopped (SIGSTOP): from here they are continued
when the time is over, so that they can report, and ended if even that does not help.

Standard input is for rank 0, which opens it itself: see `gondwana.runtime.beginning`. A terminal, which only
processes in its foreground may read, is read here.

Below the message of a rank that has ended the job, Open MPI's launcher prints notices of four to twelve lines between
two rules, which only repeat that the job was ended. Here they are left out of the error output.

Executed by its path and without the package, so that it is small: it stays as long as the job. Arguments: the number of
the signal that ends the launcher and its job, and the command of the launcher.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

TYPE_CHECKING = False  # as in `typing`, which takes as long to import as all the rest

if TYPE_CHECKING or __package__:
    from gondwana.runtime.watching import notices, restarts
else:
    # At the end, so that none of its files hides a module of Python's.
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "watching"))
    import notices
    import restarts

PATIENCE = 60.0
"""Seconds that ranks have to stop after they were last seen writing."""

LONGEST = 600.0
"""Seconds that they have to stop even if they write all the time."""

MUCH = 1 << 20
"""Bytes between two looks that count as writing; what a rank prints does not."""

ROLL_CALL_TIME, REST = 1.5, 0.1
"""Seconds that the ranks have for it after Ctrl-C, and for its other lines after the first."""

ECHO = 0.5
"""Seconds after a signal in which another one does not count: timeout(1), for one, sends each of its signals twice."""

OVERDUE = 60.0
"""Seconds after twice the time limit in which the job must have ended: ranks count anew when they are connected."""

KILL_AFTER = 5.0
"""Seconds that the launcher has to end the job, before all of it is killed."""

SESSIONS = "PRTE_MCA_prte_local_tmpdir_base"
"""Name of the variable with the folder in which Open MPI's launcher makes the folder of its job.

The latter is named by its process number alone; a folder left by a killed job of that number prevents the start.
"""

MEMORY = "OMPI_MCA_btl_sm_backing_directory"
"""Name of the variable with the folder of the files through which Open MPI's ranks of one host exchange messages.

Ranks that are killed leave one file each there, so a job has its own folder, which is removed with it.
"""

SHARED_MEMORY = "/dev/shm/."
"""The value that asks for such a folder in Open MPI's default place; `/.` at its end asks for one in another place."""

FAILED = 255
"""Status of ssh, and of a launcher, that could not go on."""

LETHAL = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
"""Signals by which ranks are lost."""

STDIN, TIMED_OUT, _TRACE, _PARTS = "GONDWANA_STDIN", 124, "GONDWANA_TRACE", ".parts"
_RECORD, _EVENTS, _HEAD, _EVENT, _AT = "GONDWANA_RECORD", ".events", 128, 16, 56
"""As in `gondwana.runtime`: `beginning`, `watching.watchdog`, `tracing` and `ordering`, which this process does not
import; of the logs of events the bytes of the head and of an event, and the place of their number."""

DRAIN = 2.0
"""Seconds to wait, after the launcher has ended, for errors of processes that it has left behind."""

_LOOK, _RANKS = 0.25, (b"PMIX_RANK=", b"PMI_RANK=")
_NOTE = b"GONDWANA_RANK_PROCESS="  # as in `gondwana.runtime.launcher`: children of a rank have it
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


class Supervisor:
    """A job, its process and its signals. Local; starts the launcher.

    Args:
        command: the launcher with its arguments.
        end_signal: signal that makes the launcher end the job.
        patience: seconds, see `PATIENCE`.
    """

    grants = ", more while it writes"

    def __init__(self, command: Sequence[str], end_signal: int, patience: float = PATIENCE) -> None:
        self._end_signal = end_signal
        self._patience = patience
        self._asked, self._asked_at = 0, 0.0
        self._ended = False
        self._timed_out = False
        self._printed = notices.Errors()
        self.lost = ""
        limit = _time_limit()
        self._continue_at, self._limit_at = time.monotonic() + limit, time.monotonic() + 2 * limit + OVERDUE
        self._written = 0
        self._deadline = self._latest = float("inf")
        # A shell that starts a job in the background ignores SIGINT, and so does the job.
        stops = {number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN}
        self._signals = stops | {signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._mask = mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        source, sink = os.pipe()
        self._folders = self.prepare()
        self._job = _start(command, mask, end_signal, sink)
        os.close(sink)
        self._errors = threading.Thread(target=_print_errors, args=(source, self._printed), daemon=True)
        self._errors.start()

    def prepare(self) -> list[str]:
        """Make the folders for the launcher and the ranks, and return those to remove. Local."""
        number = _readable_by_others()
        os.environ[STDIN] = f"/proc/{os.getpid()}/fd/{number} {os.fstat(number).st_ino}"
        sessions = "" if os.environ.get(SESSIONS) else _make_folder(os.environ.get("TMPDIR", "/tmp"), SESSIONS)
        return [sessions, _memory_folder()]

    def run(self) -> int:
        """Pass signals on until the job has ended, and return the exit status. Local; blocks."""
        while True:
            number = self._next_signal()
            if number in (signal.SIGINT, signal.SIGTERM):
                self._stop(number)
            elif number in (signal.SIGUSR1, signal.SIGUSR2):
                os.kill(self._job, number)
            done, status = os.waitpid(self._job, os.WNOHANG)
            if done:
                self._errors.join(DRAIN)
                for folder in self._folders:
                    _remove(folder)
                code = os.waitstatus_to_exitcode(status)
                self.lost = self._loss(code)
                signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
                return self._status(code)
            self._watch_deadline()

    def _next_signal(self) -> int:
        next_look = min(self._continue_at, time.monotonic() + _LOOK if self._deadline < float("inf") else float("inf"))
        if next_look == float("inf"):
            return signal.sigwaitinfo(self._signals).si_signo
        found = signal.sigtimedwait(self._signals, max(0.0, next_look - time.monotonic()))
        return 0 if found is None else found.si_signo

    def _stop(self, number: int) -> None:
        """Ask the ranks to stop; at the second request, or if none of them handles SIGTERM, end the job."""
        now = time.monotonic()
        if self._asked:
            if now > self._asked_at + ECHO:
                self._end()
            return
        self._asked, self._asked_at = number, now
        if not self.ask(number):
            if number == signal.SIGINT:
                self._call_roll()
            self._end()
            return
        self._deadline, self._latest = now + self._patience, now + max(LONGEST, self._patience)
        self._written = _written(descendants(self._job))
        _report(
            f"{signal.Signals(number).name}: the program has {self._patience:g} s to stop{self.grants}; "
            "a second signal ends it at once"
        )

    def _call_roll(self) -> None:
        """Have the ranks report where they are, if they can, until they have or a second signal comes. Blocks."""
        ranks = [pid for pid in descendants(self._job) if _is_rank(pid)]
        if not ranks or not all(_handles(pid, signal.SIGUSR1) for pid in ranks):
            return  # they are starting, and the signal would end them
        with contextlib.suppress(ProcessLookupError):
            os.kill(ranks[0], signal.SIGUSR1)
        end = time.monotonic() + ROLL_CALL_TIME
        while time.monotonic() < end:
            if signal.sigtimedwait({signal.SIGINT, signal.SIGTERM}, REST) is not None or self._printed.places_reported:
                break
        time.sleep(REST)

    def ask(self, number: int) -> bool:
        """Send a signal to the ranks that handle SIGTERM, and return whether any do. Local."""
        ranks = [pid for pid in descendants(self._job) if _is_rank(pid) and _handles(pid, signal.SIGTERM)]
        for pid in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return bool(ranks)

    def _watch_deadline(self) -> None:
        """Grant time while the ranks write, and end the job when the time is over."""
        now = time.monotonic()
        if now >= self._continue_at:
            self._keep_time_limit(now)
        if self._deadline == float("inf"):
            return
        written = _written(descendants(self._job))
        if not self._ended and abs(written - self._written) >= MUCH:
            self._written, self._deadline = written, min(now + self._patience, self._latest)
        if now > self._deadline:
            if not self._ended:
                _report("the program has not stopped in time: ending it")
            self._end()

    def _keep_time_limit(self, now: float) -> None:
        """Continue stopped processes of the job, so that they notice that the time is over; finally end the job."""
        self._continue_at = now + _LOOK
        for pid in (self._job, *descendants(self._job)):
            if _is_stopped(pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGCONT)
        if now >= self._limit_at and not self._ended:
            self._timed_out = True
            _report("the ranks have not ended the job in spite of its time limit: ending it")
            self._end()

    def _end(self) -> None:
        """Have the launcher end the job; if that was requested before, kill everything."""
        if self._ended:
            for pid in descendants(self._job):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        os.kill(self._job, signal.SIGKILL if self._ended else self._end_signal)
        self._ended, self._deadline = True, time.monotonic() + KILL_AFTER

    def _loss(self, status: int) -> str:
        """Return what the job has lost, "" if it has ended by itself or was ended on purpose."""
        lost = self._printed.lost
        # Open MPI's launcher ends with 0 when another host is gone.
        if (status == 0 and not lost) or self._asked or self._timed_out or self._printed.time_is_over:
            return ""
        if status < 0:
            return f"MPI's launcher was ended by {signal.Signals(-status).name}"
        if status == FAILED and not (lost or self._printed.status or self._printed.notices) and restarts.host_list():
            return "MPI's launcher has failed without a word"  # where it reaches another host through ssh that ends
        by_signal = status - 128 in LETHAL and not self._printed.status
        return lost or (f"a rank was ended by {signal.Signals(status - 128).name}" if by_signal else "")

    def without(self, command: Sequence[str]) -> list[str]:
        """Return the command that starts the job again, on the hosts that are left. Local; blocks."""
        return restarts.on_hosts_left(command, SESSIONS, _report)

    def _status(self, status: int) -> int:
        """Return the status of the job: the launcher's, or that of a signal if one has stopped the job."""
        if self._timed_out or (status and self._printed.time_is_over):
            return TIMED_OUT
        if self._asked and (self._ended or status in (0, 128 + signal.SIGTERM)):
            return 128 + self._asked
        if status < 0:
            _report(f"MPI's launcher was ended by {signal.Signals(-status).name}, and its ranks with it")
            return self._printed.status or 128 - status  # Open MPI's may crash where it ends ranks that connect
        return status or (1 if self.lost else 0)


def supervise(kind: type[Supervisor]) -> int:
    """Run the job that the arguments of this process name, and return its status. Local; blocks."""
    number = int(sys.argv[1])
    status = restarts.supervise(lambda command: kind(command, number), sys.argv[2:], _report)
    merge_trace(dict(os.environ))
    shorten_logs(os.environ.get(_RECORD, ""))
    return status


def merge_trace(environment: dict[str, str]) -> None:
    """Make the trace of a job that ended before its ranks could make it. Local; blocks.

    Args:
        environment: environment of the job.
    """
    file = environment.pop(_TRACE, "")
    if not file or not os.path.isdir(file + _PARTS):
        return
    command = [sys.executable, "-P", "-m", "gondwana.traces", file]
    with contextlib.suppress(OSError):
        os.waitpid(os.posix_spawn(sys.executable, command, environment, setsigmask=[]), 0)


def shorten_logs(folder: str) -> None:
    """Cut the logs of events of ranks that were killed, on this host, behind their last event. Local.

    Args:
        folder: folder of a recording; "": there is none.
    """
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.endswith(_EVENTS):
            with contextlib.suppress(OSError), open(os.path.join(folder, name), "r+b") as file:
                events = int.from_bytes(file.read(_HEAD)[_AT : _AT + 8], "little")
                file.truncate(min(_HEAD + _EVENT * events, os.fstat(file.fileno()).st_size))


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process, also those in process groups of their own. Local.

    Args:
        pid: the process; without one, the list is empty.
    """
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in map(int, _read(f"/proc/{pid}/task/{task}/children").split()):
                found += [child, *descendants(child)]
    return found


def end_with_parent(number: int) -> None:
    """Have the kernel send this process a signal when the thread that has started it ends. Local."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def _memory_folder() -> str:
    """Make the folder for files in memory, if requested; return "" if not."""
    place = os.environ.get(MEMORY, "")
    return _make_folder(place, MEMORY) if place.endswith("/.") else ""


def _make_folder(place: str, variable: str) -> str:
    folder = os.path.join(place, f"gondwana-{os.getpid()}-{time.time_ns():x}")
    try:
        os.mkdir(folder, 0o700)
    except OSError:  # the launcher reports the problem, or runs without the folder
        return ""
    os.environ[variable] = folder
    return folder


def _remove(folder: str) -> None:
    """Remove a folder of the job; a launcher or ranks that were killed have left files in it."""
    if not folder:
        return
    try:
        os.rmdir(folder)
    except OSError:
        import shutil  # seldom needed, and as large as all the rest

        shutil.rmtree(folder, ignore_errors=True)


def _start(command: Sequence[str], mask: set[int] | set[signal.Signals], end_signal: int, errors: int) -> int:
    """Start the launcher so that it ends with this process, and that Ctrl-C reaches it only through this process."""
    parent = os.getpid()
    job = os.fork()
    if job:
        return job
    try:
        end_with_parent(end_signal)
        if os.getppid() != parent:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, {*mask, signal.SIGINT})
        os.dup2(errors, 2)
        if STDIN in os.environ:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGTTIN, signal.SIG_DFL)
        os.execvp(command[0], list(command))
    except OSError as error:
        _report(f"error: {command[0]}: {error.strerror}")
    os._exit(127)


_input: list[int] = []


def _readable_by_others() -> int:
    """Return a descriptor of standard input that another process of the job can open and read: the same at restarts."""
    if not _input:
        _input.append(_open_input())
    return _input[0]


def _open_input() -> int:
    if not os.isatty(0):
        with contextlib.suppress(OSError):
            os.close(os.open("/proc/self/fd/0", os.O_RDONLY | os.O_NONBLOCK))
            return 0
    # A terminal, a socket, or a file of another user.
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # reading in the background is an error then
    source, sink = os.pipe()
    threading.Thread(target=_pump, args=(sink,), daemon=True).start()
    return source


def _pump(sink: int) -> None:
    """Copy standard input to a pipe until its end. While the job is in the background, the terminal waits."""
    while True:
        try:
            data = os.read(0, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO or not os.isatty(0):
                break
            time.sleep(_LOOK)
            continue
        if not data:
            break
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(sink, data) :]
    os.close(sink)


def _print_errors(source: int, errors: notices.Errors) -> None:
    while data := os.read(source, 1 << 16):
        _write_all(errors.pass_on(data))
    _write_all(errors.end())


def _write_all(data: bytes) -> None:
    """Write to standard error; if that is closed, drop the data."""
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(2, data) :]


def _is_rank(pid: int) -> bool:
    """Whether a process is a rank itself, not a child of one."""
    words = _read(f"/proc/{pid}/environ").split(b"\0")
    by = next((word.removeprefix(_NOTE).split()[0] for word in words if word.startswith(_NOTE)), b"%d" % pid)
    return any(word.startswith(_RANKS) for word in words) and by == b"%d" % pid


def _is_stopped(pid: int) -> bool:
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] == [b"T"]


def _time_limit() -> float:
    """The seconds that the ranks may take, which check the value themselves; infinite if there is no limit."""
    try:
        limit = float(os.environ.get("GONDWANA_TIME_LIMIT") or "inf")
    except ValueError:
        limit = 0.0
    return limit if limit > 0.0 else float("inf")


def _handles(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _written(pids: Sequence[int]) -> int:
    """The bytes that processes have written so far."""
    lines = [line.split() for pid in pids for line in _read(f"/proc/{pid}/io").splitlines()]
    return sum(int(count) for name, count in lines if name in (b"wchar:", b"write_bytes:"))


def _read(path: str) -> bytes:
    """Return the contents of a file, b"" if it is missing or not readable."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""


def _report(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"gondwana: {text}\n".encode())


if __name__ == "__main__":
    sys.exit(supervise(Supervisor))
