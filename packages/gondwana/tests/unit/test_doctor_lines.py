"""The report of gondwana doctor as text."""

from __future__ import annotations

import re

from gondwana.cli.doctor.findings import Finding, Verdict, lines, sentence

PATH = "/a/folder/whose/name/is/longer/than/the/room/beside/the/subject/bin/mpirun"
FINDINGS = [
    Finding("Python", Verdict.OK, "3.11.7"),
    Finding("launcher", Verdict.OK, PATH),
    Finding("pages of large arrays in shared memory", Verdict.WARN, "4 KiB: the system gives no others", "ask " * 20),
]
TERMINAL = """\
1 of 3 checks warn: pages of large arrays in shared memory.
OK    Python                     3.11.7
OK    launcher
      /a/folder/whose/name/is/longer/than/the/room/beside/the/subject/bin/mpirun
WARN  pages of large arrays in   4 KiB: the system gives no others
      shared memory              -> ask ask ask ask ask ask ask ask ask ask ask
                                 ask ask ask ask ask ask ask ask ask
1 of 3 checks warn: pages of large arrays in shared memory."""


def test_words_stay_whole_on_a_terminal() -> None:
    assert "\n".join(lines(FINDINGS, 80)) == TERMINAL


def test_programs_read_a_finding_a_line() -> None:
    first, *rows, last = lines(FINDINGS, None)
    assert first == last == "# 1 of 3 checks warn: pages of large arrays in shared memory."
    cells = [re.split("  +", row) for row in rows]
    assert [len(row) for row in cells] == [4, 4, 4]
    assert cells[0] == ["OK", "Python", "3.11.7", "-"]


def test_the_sentence() -> None:
    assert sentence(FINDINGS[:2]) == "All 2 checks are fine: parallel runs work here."
    failed = Finding("MPI", Verdict.FAIL, "none")
    assert sentence([failed, FINDINGS[2]]) == (
        "1 of 2 checks failed: MPI; 1 of 2 checks warn: pages of large arrays in shared memory."
    )
