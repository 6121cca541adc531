"""Machine code on disk: compiled once, found by every later process, and never out of date."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gondwana.compiler import cache
from gondwana.compiler.cache import ROOMS, ObjectCode
from support import jobs
from support.cluster import hosts
from support.forked import Forked, forked

HELPER = """
import gondwana as gw

RATE = 2.0

@gw.jit
def grow(x):
    return RATE * x
"""

KERNEL = """
import json, sys
import numpy as np
import gondwana as gw
import helper

K = 1.0

def make(bias):
    @gw.foreach
    def kernel(p, a):
        a[p] = helper.grow(a[p]) + K + bias
    return kernel

a = gw.Array.full(gw.RectDomain(0, 4), 3.0)
make(0.5)(a.domain, a)
loaded = sorted({name.partition(".")[0] for name in sys.modules} & {"numba", "mpi4py", "llvmlite"})
done = gw.compilation()
print(json.dumps({"value": a[2], "compiled": done.compiled, "loaded": done.loaded, "modules": loaded}))
"""


class Program:
    """A program of two modules in a folder, with a cache of its own."""

    def __init__(self, folder: Path, compiler: Forked) -> None:
        self.folder = folder
        self.compiler = compiler
        self.cache = folder / "cache"
        self.variables = {"GONDWANA_CACHE_DIR": str(self.cache), "GONDWANA_THREADS": "1"}
        self.write("helper.py", HELPER)
        self.write("program.py", KERNEL)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        jobs.rewrite(self.folder / name, text.replace(old, new))

    def run(self) -> dict[str, object]:
        """Run it in a process that has the compiler already."""
        return self._result(self.compiler.run("program.py", self.folder, self.variables))

    def start(self) -> dict[str, object]:
        """Run it by an interpreter of its own."""
        return self._result(jobs.run_command([sys.executable, "program.py"], cwd=self.folder, variables=self.variables))

    def _result(self, outcome: jobs.Outcome) -> dict[str, object]:
        assert outcome.status == 0, str(outcome)
        return json.loads(outcome.stdout)

    @property
    def objects(self) -> list[Path]:
        return sorted(self.cache.rglob("*.o"))


@pytest.fixture(scope="module")
def compiler() -> Iterator[Forked]:
    with forked() as found:
        yield found


@pytest.fixture
def program(tmp_path: Path, compiler: Forked) -> Program:
    found = Program(tmp_path, compiler)
    jobs.own_cache(found.cache)
    return found


def test_a_second_process_compiles_nothing_and_loads_no_numba(program: Program) -> None:
    first, second = program.run(), program.start()
    assert first["value"] == second["value"] == 7.5
    assert first["compiled"] == len(program.objects) > 0
    assert second["compiled"] == 0
    assert second["loaded"] == first["compiled"]
    assert second["modules"] == ["llvmlite"]
    assert {file.suffix for file in program.cache.rglob("*") if file.is_file()} == {".o", ".json"}


DEVICE = """
import json, sys
import numpy as np
import gondwana as gw

BOX = gw.RectDomain((0, 0, 0), (6, 6, 6))

@gw.foreach
def grow(p, out, a):
    out[p] = a[p - gw.X] + a[p + gw.X]

@gw.reduce
def total(p, a):
    return a[p]

kind = gw.cuda(0)
a, b, between = gw.from_numpy(np.ones(BOX.shape), kind=kind), gw.zeros(BOX.shape, kind=kind), gw.Intermediate()
grow(a.owned.shrink(1), b, a)
gw.fused(a.owned.shrink(2), (grow, between, a), (grow, b, between))
value = total(b.owned, b)
compilers = sorted(name for name in ("gondwana.kernels.cuda.compiler", "numba.cuda") if name in sys.modules)
done = gw.compilation()
print(json.dumps({"value": value, "compiled": done.compiled, "loaded": done.loaded, "modules": compilers}))
"""


def test_a_second_process_compiles_nothing_for_devices(program: Program) -> None:
    program.write("program.py", DEVICE)
    program.variables["GONDWANA_CUDA"] = "emulated"
    first, second = program.run(), program.start()
    assert first["value"] == second["value"] == (64 - 8) * 2 + 8 * 4
    assert (first["compiled"], first["loaded"]) == (3, 0)
    assert (second["compiled"], second["loaded"]) == (0, 3)
    assert second["modules"] == []


def test_every_edit_that_changes_the_meaning_is_noticed(program: Program) -> None:
    program.run()
    for file, old, new, value in [
        ("program.py", "a[p] = helper.grow(a[p]) + K + bias", "a[p] = helper.grow(a[p]) + K - bias", 6.5),
        ("program.py", "K = 1.0", "K = 2.0", 7.5),
        ("program.py", "make(0.5)", "make(1.5)", 6.5),
        ("helper.py", "return RATE * x", "return RATE * x + 10", 16.5),
        ("helper.py", "RATE = 2.0", "RATE = 3.0", 19.5),
    ]:
        program.edit(file, old, new)
        found = program.run()
        assert found["value"] == value, new
        assert found["compiled"] == 1, new
    program.edit("program.py", "K = 2.0", "K = 2.0  # a comment and a new line\nUNUSED = 1")
    found = program.run()
    assert (found["value"], found["compiled"]) == (19.5, 0)
    program.edit(
        "program.py", "    def kernel(p, a):\n", '    def kernel(p, a):\n        """Grow."""\n\n        # faster\n'
    )
    program.edit("helper.py", "def grow(x):\n", '\n\ndef grow(x):\n    """Grow."""\n')
    found = program.run()
    assert (found["value"], found["compiled"]) == (19.5, 0)


OTHERS = """
import enum, json
from typing import NamedTuple
import numpy as np
import gondwana as gw

class Colour(enum.IntEnum):
    RED = 1

class Model(NamedTuple):
    rate: float

TABLE = np.array([1.0, 2.0])
PAIR = (1.0, 2.0)
MODEL = Model(5.0)
STEP = gw.X

@gw.foreach
def kernel(p, a, b):
    a[p] = Colour.RED.value + TABLE[1] + PAIR[0] + MODEL.rate + b[p + STEP]

b = gw.Array(np.arange(10.0, 16.0))
a = gw.Array.zeros(b.domain)
kernel(gw.RectDomain(1, 4), a, b)
print(json.dumps({"value": a[1], "compiled": gw.compilation().compiled}))
"""


def test_the_name_covers_every_part_of_compiled_code() -> None:
    """An edit of what Numba compiles for the library itself, or of what it lowers, makes old machine code unknown."""
    source = Path(cache.__file__).parents[1]
    parts = {path for path in source.rglob("*.py") if re.search(r"^from numba|^import numba", path.read_text(), re.M)}
    rooms = {path.relative_to(source).parts[0] for path in parts} - {"testing"}
    assert rooms <= set(ROOMS)
    assert all((source / room).is_dir() for room in ROOMS)


def test_constants_of_all_kinds_belong_to_the_name(program: Program) -> None:
    program.write("program.py", OTHERS)
    assert program.run()["value"] == 1 + 2 + 1 + 5 + 12
    for old, new, value in [
        ("RED = 1", "RED = 7", 27.0),
        ("np.array([1.0, 2.0])", "np.array([1.0, 3.0])", 28.0),
        ("PAIR = (1.0,", "PAIR = (2.0,", 29.0),
        ("Model(5.0)", "Model(6.0)", 30.0),
        ("STEP = gw.X", "STEP = -gw.X", 28.0),
    ]:
        program.edit("program.py", old, new)
        assert program.run() == {"value": value, "compiled": 1}, new
    assert program.run()["compiled"] == 0


LARGE = """
import numpy as np
import gondwana as gw

TABLE = np.arange(300_000.0)

@gw.foreach
def kernel(p, a):
    a[p] = TABLE[p[0] + 299_000]

a = gw.Array.zeros(gw.RectDomain(0, 4))
kernel(a.domain, a)
"""

POINTER = """
import ctypes
import gondwana as gw

sine = ctypes.CDLL("libm.so.6").sin
sine.restype, sine.argtypes = ctypes.c_double, [ctypes.c_double]

@gw.foreach
def kernel(p, a):
    a[p] = sine(a[p])

a = gw.Array.zeros(gw.RectDomain(0, 4))
kernel(a.domain, a)
"""


@pytest.mark.parametrize(("source", "said"), [(LARGE, "TABLE"), (POINTER, "address of this process")])
def test_addresses_of_this_process_are_not_kept(program: Program, source: str, said: str) -> None:
    program.write("program.py", source)
    outcome = program.compiler.run("program.py", program.folder, program.variables)
    assert outcome.status == 1
    assert f"{said}" in outcome.stderr
    assert "pass" in outcome.stderr.splitlines()[-1]
    assert not program.objects


RUNTIME = """
import json, sys
import numpy as np
import gondwana as gw

@gw.jit
def sorted_sum(a):
    work = np.sort(a)
    if work[0] < 0:
        raise ValueError("negative")
    return work.sum() + np.sin(work[0]) + work[1] ** 0.3

value = sorted_sum(np.array([0.0, 3.0, 1.0]))
try:
    sorted_sum(np.array([-1.0, 2.0]))
    error = ""
except ValueError as problem:
    error = str(problem)
print(json.dumps({"value": value, "compiled": gw.compilation().compiled, "error": error}))
"""


def test_code_that_needs_the_run_time_of_the_compiler(program: Program) -> None:
    program.write("program.py", RUNTIME)
    first, second = program.run(), program.start()
    assert first == {"value": 5.0, "compiled": 1, "error": "negative (raised in sorted_sum)"}
    assert second == first | {"compiled": 0}


def test_processes_that_start_together_compile_once(program: Program) -> None:
    found = start_together(program, [[]] * 8)
    assert sum(one["compiled"] for one in found) == len(program.objects)


NO_LOCKS = """
import errno, fcntl

def refuse(*given):
    raise OSError(errno.ENOLCK, "No locks available")

fcntl.flock = fcntl.lockf = refuse
"""

LOCKS_OF_THE_HOST = """
import fcntl, os, zlib

fcntl.flock = lambda file, how: fcntl.lockf(file, how, 1, zlib.crc32(os.uname().nodename.encode()))
"""
"""Other hosts lock other bytes, and so do not notice."""


def test_without_locks_each_process_may_compile(program: Program) -> None:
    program.write("sitecustomize.py", NO_LOCKS)
    found = start_together(program, [[]] * 3)
    assert len(program.objects) <= sum(one["compiled"] for one in found) <= 3 * len(program.objects)
    check_the_cache(program)


@pytest.mark.more
def test_hosts_that_do_not_see_each_others_locks_compile_once_each(program: Program) -> None:
    if (reason := hosts.missing()) is not None:
        pytest.skip(reason)
    program.write("sitecustomize.py", LOCKS_OF_THE_HOST)
    with hosts.hosts(["a", "b", "c"], shared=[program.folder]) as made:
        found = start_together(program, [host.enter(program.folder) for host in made for _ in range(2)])
    of_hosts = [first["compiled"] + second["compiled"] for first, second in zip(found[::2], found[1::2], strict=True)]
    assert max(of_hosts) <= len(program.objects) <= sum(of_hosts)
    check_the_cache(program)


def start_together(program: Program, places: list[list[str]]) -> list[dict[str, Any]]:
    """Run a program by several processes with an empty cache, behind the words that say where."""
    variables = {**jobs.clean_environment(), **program.variables, "PYTHONPATH": str(program.folder)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    commands = [[*place, sys.executable, "program.py"] for place in places]
    together = [subprocess.Popen(command, cwd=program.folder, env=variables, **pipes) for command in commands]
    outputs = [process.communicate(timeout=200) for process in together]
    assert [errors for _, errors in outputs] == [""] * len(places)
    found = [json.loads(output) for output, _ in outputs]
    assert all(one["value"] == 7.5 for one in found)
    return found


def check_the_cache(program: Program) -> None:
    """Check that nothing of those who made it is left, and that a later process finds what it needs."""
    assert not [file for file in program.cache.rglob("*") if file.name.startswith(".") or file.suffix == ".lock"]
    assert program.run()["compiled"] == 0


DAMAGES = [
    lambda data: b"nonsense",
    lambda data: data[: len(cache.MAGIC) + 5],
    lambda data: data[:-1],
    lambda data: data[:-400] + bytes(400),
]


def test_who_must_import_numba_first_leaves_compiling_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that is not the first of its job; the first one stores the entry while this one waits."""
    code = cache.ObjectCode(b"code", "entry", needs_numba=False, needs_mpi=False, externs=[], about={})
    folder = cache.folder()
    assert folder is not None
    file = folder / "head-start.o"
    monkeypatch.setattr("gondwana.runtime.launcher.is_first", lambda: False)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr("time.sleep", lambda _seconds: file.write_bytes(code.to_bytes("head-start")))
    try:
        file.unlink(missing_ok=True)
        assert cache.get("head-start", pytest.fail) == (code, False)
    finally:
        file.unlink()


def test_a_damaged_entry_is_compiled_again(program: Program) -> None:
    first = program.run()
    for damage in DAMAGES:
        for file in program.objects:
            file.write_bytes(damage(file.read_bytes()))
        assert program.run() == first
    assert program.run()["compiled"] == 0


def test_entries_of_other_names_and_of_others_are_compiled_again(program: Program) -> None:
    """Valid machine code under another name, behind a link, or in a file that others can write is not run."""
    program.edit("program.py", "done =", "make(0.25)(a.domain, a)\ndone =")
    program.run()
    one, two = program.objects
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert program.run()["compiled"] == 2
    one.rename(program.folder / "moved")
    one.symlink_to(program.folder / "moved")
    two.chmod(0o660)
    assert program.run()["compiled"] == 2
    assert program.run()["compiled"] == 0


@pytest.mark.parametrize("kind", ["missing", "file", "unwritable"])
def test_a_folder_that_cannot_be_used_means_no_cache(tmp_path: Path, kind: str, compiler: Forked) -> None:
    program = Program(tmp_path, compiler)
    if kind == "missing":
        program.variables["GONDWANA_CACHE_DIR"] = "/proc/no/such/folder"
    elif kind == "file":
        program.cache.write_text("")
    else:
        program.cache.mkdir()
        (program.cache / "objects").mkdir(mode=0o500)
        if os.access(program.cache / "objects", os.W_OK):
            pytest.skip("this user may write everywhere")
    assert program.run()["value"] == 7.5
    assert program.run()["compiled"] != 0


def test_the_folder_is_private_and_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.folder.cache_clear()
    monkeypatch.setenv("GONDWANA_CACHE_DIR", str(tmp_path / "here"))
    try:
        assert cache.folder() == tmp_path / "here" / "objects"
        assert stat.S_IMODE((tmp_path / "here" / "objects").stat().st_mode) == 0o700
    finally:
        cache.folder.cache_clear()


def test_entries_survive_the_way_to_disk() -> None:
    code = ObjectCode(
        b"\x7fELF\n\n\x00binary", "name", True, False, ["x"], {"footprints": {"0": {"lo": [-1]}}, "result": ""}
    )
    assert ObjectCode.from_bytes(code.to_bytes("name"), "name") == code
    for data in (b"", b"x", cache.MAGIC, cache.MAGIC + b"{}\n", code.to_bytes("name")[:-1], code.to_bytes("other")):
        assert ObjectCode.from_bytes(data, "name") is None


def test_importing_gondwana_starts_nothing() -> None:
    source = textwrap.dedent("""
        import sys, threading
        import gondwana
        heavy = {"numba", "llvmlite", "mpi4py", "matplotlib", "typer", "rich", "adios2", "xarray", "cuda", "msgspec"}
        assert not heavy & {name.partition(".")[0] for name in sys.modules}, heavy & set(sys.modules)
        assert threading.active_count() == 1
        assert gondwana.world is gondwana.world and "comm" not in vars(gondwana.world)
    """)
    outcome = jobs.run_command([sys.executable, "-c", source])
    assert outcome.status == 0, str(outcome)
