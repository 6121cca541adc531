"""`python -m gondwana.races DESCRIPTOR FILE COMMAND...`: runs a job and reports its races. Started by `gondwana run`.

DESCRIPTOR is that of the socket at which the ranks report; FILE is the file for the list of races, "" without one. The
variable GONDWANA_RACES_OF_JOB has what the ranks find in GONDWANA_RACES.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
from pathlib import Path

from gondwana.races.analysis import Analysis
from gondwana.races.listening import STATUS
from gondwana.races.ranks import Rank
from gondwana.races.report import summary
from gondwana.runtime import files
from gondwana.runtime.races.records import VARIABLE, VARIABLE_OF_JOB
from gondwana.runtime.supervisor import end_with_parent

_QUIET = 0.2
"""Seconds without records after which a value of an atomic word counts as one that was there from the start."""
_AFTERWARDS = 10.0
"""Seconds that ranks have to send their last records when the job has ended."""
_PIECE = 1 << 18
_LONGEST_GREETING = 256


class Detector:
    """The detector of one job. Local.

    Args:
        listening: socket at which the ranks report.
        secret: first word of those who belong to the job.
    """

    def __init__(self, listening: socket.socket, secret: str) -> None:
        self._secret = secret
        self._ready = selectors.DefaultSelector()
        self._ready.register(listening, selectors.EVENT_READ, None)
        self._printed: set[object] = set()
        self.analysis = Analysis()
        self.connections = 0

    def run(self, job: int) -> int:
        """Follow the job until it has ended, and return its status. Local; blocks.

        Args:
            job: number of its process.
        """
        ended = os.pidfd_open(job)
        self._ready.register(ended, selectors.EVENT_READ, job)
        status: int | None = None
        while status is None or self.connections:
            events = self._ready.select(_QUIET if status is None else _AFTERWARDS)
            if not events:
                if status is not None:
                    break
                self.analysis.settle()
                self._print()
            for key, _ in events:
                if key.data is None:
                    self._accept(key.fileobj)  # type: ignore[arg-type]
                elif key.data is job:
                    self._ready.unregister(ended)
                    status = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
                else:
                    self._take(key.fileobj, key.data)  # type: ignore[arg-type]
            self.analysis.advance()
            self._print()
        while self.analysis.settle():
            pass
        self._print()
        return 128 - status if status < 0 else status

    def _accept(self, listening: socket.socket) -> None:
        connected, _ = listening.accept()
        self._ready.register(connected, selectors.EVENT_READ, bytearray())
        self.connections += 1

    def _take(self, connected: socket.socket, whose: Rank | bytearray) -> None:
        try:
            data = connected.recv(_PIECE)
        except OSError:
            data = b""
        if isinstance(whose, bytearray) and data:
            whose += data
            greeting, newline, rest = bytes(whose).partition(b"\n")
            if not newline and len(whose) < _LONGEST_GREETING:
                return
            words = greeting.decode("ascii", "replace").split()
            if len(words) == 3 and words[0] == self._secret and words[1].isdecimal():
                rank = self.analysis.new(int(words[1]))
                self._ready.modify(connected, selectors.EVENT_READ, rank)
                rank.feed(rest)
                return
            data = b""
        if data and isinstance(whose, Rank):
            whose.feed(data)
        else:
            if isinstance(whose, Rank):
                whose.ended = True
            self._ready.unregister(connected)
            connected.close()
            self.connections -= 1

    def _print(self) -> None:
        for name, race in list(self.analysis.races.items()):
            if name not in self._printed:
                self._printed.add(name)
                print(f"gondwana: race: {race.text()}", file=sys.stderr, flush=True)


def _pass_on(job: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may have ended
        os.kill(job, number)


def main(descriptor: int, file: str, command: list[str]) -> int:
    """Run a job, report its races, and return the exit status. Local; blocks."""
    place = os.environ.pop(VARIABLE_OF_JOB)
    listening = socket.socket(fileno=descriptor)
    parent = os.getpid()
    job = os.fork()
    if not job:
        end_with_parent(signal.SIGTERM)
        if os.getppid() == parent:
            os.close(descriptor)
            os.environ[VARIABLE] = place
            os.execvp(command[0], command)
        os._exit(127)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the job, too
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: _pass_on(job, number))
    detector = Detector(listening, place.split()[0])
    status = detector.run(job)
    races = list(detector.analysis.races.values())
    stuck = detector.analysis.stuck
    if stuck and not status:
        print(
            f"gondwana: the race detector lacks records that order rank {stuck[0]}: races may be missing",
            file=sys.stderr,
        )
    if left := sorted(detector.analysis.left):
        shown = ", ".join(left[:3]) + (", ..." if len(left) > 3 else "")
        print(f"gondwana: races may be missing in compiled code, followed for a while only: {shown}", file=sys.stderr)
    print(summary(races), file=sys.stderr, flush=True)
    if file:
        files.write(Path(file), json.dumps([race.about() for race in races], indent=1).encode())
    return status or (STATUS if races else 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
