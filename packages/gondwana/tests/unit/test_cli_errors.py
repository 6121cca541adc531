"""What a user sees of an error on the command line: one line and a status; a traceback only for a mistake of ours."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from gondwana.cli import main
from gondwana.errors import GondwanaError, KernelError
from gondwana.io.paths import DatasetError
from support import jobs

HUGE = "9" * 5000
LONG = "x" * 5000
WITH_FFTW = pytest.mark.skipif(find_spec("pyfftw") is None, reason="no pyfftw")
OBSERVED = Path(__file__).parents[4] / "docs" / "results" / "hpcg.json"


@pytest.fixture
def gondwana(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run a command line in this process; returns its status and what it wrote to standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["gondwana", *words])
        with pytest.raises(SystemExit) as leaving:
            main.main()
        return leaving.value.code, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["nonsense"], "No such command 'nonsense'; see gondwana --help"),
        (["heat", "--help"], "heat is a program: gondwana run heat --help"),
        (["run"], "Missing argument 'PROGRAM'; see gondwana run --help"),
        (["run", "--nonsense", "x"], "No such option: --nonsense"),
        (["run", "-n", "²", "hpcg"], "²: legal is a whole number from 1 to"),
        (["run", "-n", "1_0", "hpcg"], "1_0: legal is a whole number from 1 to"),
        (["run", "-n", "0", "hpcg"], "0: legal is a whole number from 1 to"),
        (["run", "-n", "99999999999999999999", "hpcg"], "legal is a whole number from 1 to"),
        (["run", "-n", HUGE, "hpcg"], "legal is a whole number from 1 to"),
        (["run", "npb-mg", "--side", "²"], "npb-mg: argument --side: '²' is not a whole number"),
        (["run", "npb-mg", "--side", HUGE], "is not a whole number; see gondwana run npb-mg --help"),
        (["run", "npb-ft", "--variant", LONG], "npb-ft: there is no --variant"),
        pytest.param(["run", "npb-ft", "--grid", "\u0663x\u0661"], "--grid \u0663x\u0661", marks=WITH_FFTW),
        (["run", "npb-cg", "--json", ""], "--json : the name is empty; name another file"),
        (["run", "npb-cg", "--json", LONG], "File name too long; name another file"),
        (["run", "hpcg", "--nx", "\u0663\u0662"], "hpcg: argument --nx: '\u0663\u0662' is not a whole number"),
        (["run", "hpcg"], "hpcg: hpcg.dat: larger than 1 MiB"),
        (["run", "hpcg", "--file", "minus.dat"], "hpcg: minus.dat is no hpcg.dat"),
        (["run", "hpcg", "--file", "huge.dat"], "hpcg: huge.dat is no hpcg.dat"),
        (["run", "hpcg", "--file", "fifo"], "hpcg: fifo: not a regular file"),
        (["run", "hpcg", "--file", "/dev/zero"], "hpcg: /dev/zero: not a regular file"),
        (["run", "hpcg", "--file", "."], "hpcg: .: this is a directory"),
        (["run", "gray-scott", "folder.json"], "folder.json: this is a directory"),
        (["run", "gray-scott", f"{LONG}.json"], "File name too long"),
        (["run", "gray-scott", "deep.json"], "deep.json: the JSON is nested too deeply"),
        (["run", "gray-scott", "binary.json"], "binary.json: holds NUL bytes"),
        (["run", "gray-scott", "digits.json"], "digits.json: a number of 5000 digits is too long"),
        (["run", "gray-scott", "empty.json", "--set", f"L={HUGE}"], "--set L: a number of 5000 digits"),
        (["run", "gray-scott", "empty.json", "--json", ""], "--json : the name is empty"),
        (["ls", "line\nbreak.bp"], "there is no dataset line\\nbreak.bp"),
        (["plot", "x.bp", "--bins", "²"], "²: legal is a whole number from 1 to"),
        (["bench", "stencil", "--sizes", "\u0663"], "--sizes \u0663: legal are whole numbers"),
        (["bench", "stencil", "--sizes", HUGE], "legal are whole numbers"),
        (["bench", "tasks", "--cases", "task,"], "--cases task,: legal are parts of names of cases"),
        (["bench", "pools", "--cases", "nil"], "--cases nil: no case has that"),
        (["bench", "stencil", "--json", "new/x"], "does not exist or cannot be written; name another file"),
        (["bench", "hpcg", "--against", "/bin/true", "--mpirun", "'"], "--mpirun ': No closing quotation"),
        (["bench", "npb", "--against", ".", "--mpirun", "no-such-launcher -n {ranks}"], "there is no such command"),
    ],
    ids=lambda value: " ".join(value)[:40].replace("\n", " ") if isinstance(value, list) else "",
)
def test_wrong_input_is_one_line_and_status_2(gondwana, words: list[str], part: str) -> None:
    Path("hpcg.dat").write_text("a\nb\n" + "16 16 16\n" * 200_000)
    Path("minus.dat").write_text("a\nb\n--16 16 16\n60\n")
    Path("huge.dat").write_text(f"a\nb\n{HUGE} 16 16\n60\n")
    Path("empty.json").write_text("{}")
    Path("deep.json").write_text('{"L": ' + "[" * 100_000 + "]" * 100_000 + "}")
    Path("digits.json").write_text(f'{{"L": {HUGE}}}')
    Path("binary.json").write_bytes(b"\x7fELF\0\0")
    Path("folder.json").mkdir()
    os.mkfifo("fifo")
    status, stderr = gondwana(*words)
    assert status == 2, stderr
    assert stderr.startswith("gondwana: error: ")
    assert part in stderr
    assert stderr.count("\n") == 1
    assert len(stderr) < 2100


INPUTS = [
    ["report", "it.json"],
    ["model", "fit", "it.json", "-o", "new"],
    ["model", "fit", "ok.json", "--record", "it.json", "-o", "new"],
    ["model", "check", "ok.json", "--machine", "it.json"],
    ["model", "predict", "--app", "heat", "--size", "8x8x8", "--machine", "it.json"],
    ["run", "--dry-run", "gray-scott", "it.json"],
    ["run", "--dry-run", "hpcg", "--file", "it.json"],
    ["run", "--dry-run", "pwc", "it.json"],
    ["run", "--dry-run", "pwc", "--set", "DistanceMatrixFile=it.json"],
    ["run", "--dry-run", "pwc", "--set", "DistanceMatrixFile=it.npy"],
    ["run", "--dry-run", "pwc", "--set", "DistanceMatrixFile=ok.npy", "--set", "LabelFile=it.json"],
    ["run", "--dry-run", "davs", "it.json"],
    ["run", "--dry-run", "davs", "--preset", "tiny", "--points", "it.json"],
    [
        "run",
        "--dry-run",
        "davs",
        "--preset",
        "tiny",
        "--set",
        "RestartClusterFile=it.json",
        "--set",
        "RestartTemperature=9",
    ],
]


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "huge", "zip", "absent"])
def test_inputs_that_are_no_files_of_their_kind(gondwana, kind: str) -> None:
    """Refused at once: nothing waits for a FIFO, reads a device, or reads what is larger than anything legal."""
    Path("ok.json").write_text(OBSERVED.read_text())
    np.save("ok.npy", np.ones((3, 3)) - np.eye(3))
    for name in "it.json", "it.npy":
        if kind == "fifo":
            os.mkfifo(name)
        elif kind == "device":
            os.symlink("/dev/zero", name)
        elif kind == "folder":
            os.mkdir(name)
        elif kind == "huge":
            Path(name).touch()
            os.truncate(name, 1 << 40)
        elif kind == "zip":
            np.savez("it", np.eye(3))
            Path(name).write_bytes(Path("it.npz").read_bytes())
    for words in INPUTS:
        if kind == "zip" and "davs" in words:
            continue  # points are read by the ranks
        begin = time.monotonic()
        status, stderr = gondwana(*words)
        assert status in (1, 2), (words, stderr)
        assert stderr.count("\n") == 1, (words, stderr)
        assert stderr.startswith("gondwana: error: "), (words, stderr)
        assert any(name in stderr for name in ("it.json", "it.npy", "memory")), (words, stderr)
        assert time.monotonic() - begin < 30, words
    assert not Path("new").exists()


@pytest.mark.parametrize("name", ["ls", "plot"])
def test_a_name_that_is_too_long_is_one_line(gondwana, name: str) -> None:
    status, stderr = gondwana(name, LONG)
    assert status in (1, 2)
    assert stderr.startswith("gondwana: error: ")
    assert stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (DatasetError("gs.bp: data.0 is damaged"), "gs.bp: data.0 is damaged"),
        (GondwanaError("the fields are not finite"), "the fields are not finite"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.png"), "a.png: No space left on device"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "gs.bp"), "gs.bp: Permission denied"),
    ],
)
def test_errors_of_data_and_disk_are_one_line_and_status_1(gondwana, monkeypatch, error, line: str) -> None:
    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr("gondwana.io.dataset.Dataset.__init__", fail)
    for command in ("ls", "plot"):
        assert gondwana(command, "gs.bp") == (1, f"gondwana: error: {line}\n")


@pytest.mark.parametrize("error", [KeyError("missing"), KernelError("in line 3"), OSError("no number")])
def test_mistakes_of_the_program_keep_their_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr("gondwana.io.dataset.Dataset.__init__", fail)
    monkeypatch.setattr(sys, "argv", ["gondwana", "ls", "gs.bp"])
    with pytest.raises(type(error)):
        main.main()


def test_without_a_command_the_help_is_shown(gondwana) -> None:
    status, stderr = gondwana()
    assert status == 2
    assert "Usage: gondwana" in stderr
    assert "error" not in stderr


def test_a_result_that_cannot_be_written_is_an_error_after_the_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "nobody reads")
    words = ["run", "npb-cg", "--class", "S", "--json", str(tmp_path / "nobody reads")]
    outcome = jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *words], cwd=tmp_path)
    assert outcome.status == 1
    assert "VERIFICATION SUCCESSFUL" in outcome.stdout
    assert "Lines of code" in outcome.stdout
    assert outcome.stderr.startswith("gondwana: error: --json ")
    assert outcome.stderr.endswith("nobody reads: the result cannot be written (No such device or address)\n")
    assert outcome.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["ls", "gs.bp"], ["--help"], ["run", "--dry-run", "-n", "1", "npb-cg"]])
def test_output_that_nobody_takes(tmp_path: Path, command: list[str]) -> None:
    """Full devices and closed pipes: one line at most, and none of those that Python's exit prints."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom gondwana.cli import main\n"
        "import gondwana.io.dataset as dataset, gondwana.io.analysis.listing as listing\n"
        "class Dataset:\n"
        "    variables = ['u']\n"
        "    def __init__(self, path): pass\n"
        "    def __enter__(self): return self\n"
        "    def __exit__(self, *args): pass\n"
        "dataset.Dataset = Dataset\n"
        "listing.listing = lambda *args, **options: ['a line'] * 10_000\n"
        "main.main()\n"
    )
    words = " ".join(command)
    full = jobs.run_command(["bash", "-c", f"{sys.executable} {program} {words} > /dev/full"])
    assert full.status == 1
    # Without buffers it is not the end of the command that fails, but a line of it, which could be for a file.
    assert full.stderr.replace(" or a file", "") == "gondwana: error: standard output: No space left on device\n"
    closed = jobs.run_command(["bash", "-c", f"{sys.executable} {program} {words} | true; exit ${{PIPESTATUS[0]}}"])
    assert (closed.status, closed.stderr) == (128 + signal.SIGPIPE, "")
    # To a file that is closed, nothing is written, and that is no error.
    nothing = jobs.run_command(["bash", "-c", f"{sys.executable} {program} nonsense 2> /dev/full"])
    assert (nothing.status, nothing.stderr) == (2, "")
