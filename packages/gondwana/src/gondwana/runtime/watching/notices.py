"""What a job prints on standard error: notices of MPI's launcher that only repeat others, and why the job has ended.

Read by the supervisor, which is executed without the package: this module imports nothing of it.
"""

from __future__ import annotations

NOTICES = (
    b"MPI_ABORT was invoked on rank ",
    b"Primary job  terminated normally, but ",
    b"prterun has exited due to process rank ",
    b"prterun detected that one or more processes exited with non-zero status",
)
"""Beginnings of the first line of a notice; the launcher's words about a rank killed by a signal are not one."""

REFUSAL = b"gondwana: error: "
PLACES = b"gondwana: where the ranks stand"
"""Beginning of the report on where the ranks are."""

REPORTS = (b"[rank ", REFUSAL, b"gondwana: rank ", PLACES)
"""Beginnings of the lines in which a rank says why the job ends."""

TIME_OVER = b"gondwana: where the ranks stand (the time limit of "
"""Beginning of the report after which MPICH's launcher may end with the status of another rank."""

RULE = 60
"""The fewest hyphens in the line above and below a notice."""

LINES = 20
"""The most lines of a notice."""

KILLED = b"prterun noticed that process rank "
"""Beginning of the first line of the launcher's words about a rank that a signal has ended."""

LOST_HOST = b"PRTE has lost communication"
LOSSES, GONE = (b"gondwana: rank ", b"gondwana: host ", LOST_HOST), b"ending the job"
"""Beginnings of the lines in which a rank says that another one, or a host, is gone, and their end; the launcher's."""

SRUN, DEATHS = b"srun: error: ", (b": Killed", b": Segmentation fault", b": Bus error", b": Aborted")
"""Beginning and ends of the lines in which Slurm's launcher says that a signal has ended ranks."""

LONGEST_WORDS = 512
"""Bytes of a line that are looked at."""

_STRAY = b"\0"  # prterun 5.0.11 prints it after its last notice, before or after the words of a rank


class Errors:
    """Separates notices of the launcher from the error output of a job, which comes in pieces of any length. Pure."""

    def __init__(self) -> None:
        self._line = b""
        self._held = b""
        self.notices = b""
        self.status = 0  # of the first rank that has reported; 0: none has
        self.time_is_over = self.places_reported = False
        self.lost = ""  # what says that a rank or a host is gone, "" if nothing does

    def pass_on(self, data: bytes) -> bytes:
        """Return the data that can be printed now: all but what is, or may become, a notice. Local."""
        passed = b""
        for piece in data.splitlines(keepends=True):
            if self._line:  # its start has been passed on
                passed += self._passed(piece)
                continue
            self._held = _without_stray(self._held + piece)
            while self._held and not _may_be_notice(self._held):
                line, newline, rest = self._held.partition(b"\n")
                passed += self._passed(line + newline)
                self._held = _without_stray(rest)
            if _is_notice(self._held):
                if KILLED in self._held:
                    passed += self._death(self._held)
                else:
                    self.notices += self._held
                self._held = b""
        return passed

    def end(self) -> bytes:
        """Return the data to print when no more will come; notices only if no rank has reported. Local."""
        held = b"" if self.notices and not self._held.strip(_STRAY) else self._held
        return held + (b"" if self.status else self.notices)

    def _death(self, notice: bytes) -> bytes:
        """Return one line on a rank that a signal has ended before others could report it; else the notice itself."""
        import re  # seldom needed, and large

        words = rb"process rank (\d+) with PID (\d+) on node (\S+) exited on (signal \d+(?: \([^)]*\))?)"
        found = re.search(words, b" ".join(notice.split()))
        if found is None:
            return notice
        said = b"rank %b (process %b on %b) was ended by %b" % found.groups()
        self.lost = self.lost or said.decode(errors="replace")
        if self.status:
            return notice
        self.status = 1
        return b"gondwana: %b; ending the job\n" % said

    def _passed(self, piece: bytes) -> bytes:
        self._line = (self._line + piece)[:LONGEST_WORDS]
        self.time_is_over = self.time_is_over or self._line.startswith(TIME_OVER)
        self.places_reported = self.places_reported or self._line.startswith(PLACES)
        if not self.status and self._line.startswith(REPORTS):
            self.status = 2 if self._line.startswith(REFUSAL) else 1
        if piece.endswith(b"\n"):
            if self._line.startswith(LOSSES) and (GONE in self._line or self._line.startswith(LOST_HOST)):
                said = self._line.decode(errors="replace").removeprefix("gondwana: ")
                self.lost = self.lost or said.partition(":")[0].rstrip(".\n")
            elif self._line.startswith(SRUN) and b": task" in self._line and not self.status:
                death = self._line.removeprefix(SRUN).strip().removesuffix(b" (core dumped)")
                if death.endswith(DEATHS):
                    self.lost = self.lost or death.decode(errors="replace")
            self._line = b""
        return piece


def _is_rule(line: bytes) -> bool:
    return len(line) >= RULE and line == b"-" * len(line)


def _is_notice(text: bytes) -> bool:
    """Return whether a possible notice is complete."""
    lines = text.split(b"\n")
    return len(lines) > 3 and lines[-1] == b"" and _is_rule(lines[-2])


def _without_stray(text: bytes) -> bytes:
    """Return a text at the start of a line without the launcher's stray bytes before the words of a rank."""
    rest = text.lstrip(_STRAY)
    return rest if rest.startswith(REPORTS) else text


def _may_be_notice(text: bytes) -> bool:
    """Return whether a text at the start of a line is a notice, or the beginning of one."""
    rule, *lines = text.split(b"\n")
    if not lines:
        stray = rule.startswith(_STRAY) and any(start.startswith(rule.lstrip(_STRAY)) for start in REPORTS)
        return stray or rule == b"-" * len(rule)
    first = lines[0]
    fits = any(first.startswith(start) or (len(lines) == 1 and start.startswith(first)) for start in (*NOTICES, KILLED))
    return _is_rule(rule) and fits and len(lines) <= LINES
