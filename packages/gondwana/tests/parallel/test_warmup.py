"""gondwana warmup: what it compiles is not compiled again, and what it refuses."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import gondwana
from gondwana.compiler import native
from gondwana.compiler.native import Native
from support import jobs
from support.jobs import Outcome

pytestmark = pytest.mark.parallel

PROGRAM = """
import sys

import gondwana as gw

cells = gw.zeros(gw.RectDomain((0, 0), (8, 8)), ghost=1, periodic=True)


@gw.foreach
def fill(p, cells):
    cells[p] = p[0] + 8.0 * p[1]


fill(cells.inner, cells)
fill(cells.rim, cells)
cells.exchange().wait()
total = gw.world.allreduce(float(cells.local.numpy()[0, 0]))
every = gw.world.allgather(gw.compilation().compiled)
if gw.world.rank == 0:
    print(sum(every), *sys.argv[1:])
"""


def command(cache: Path, *words: str) -> Outcome:
    return jobs.run_command(
        [sys.executable, "-m", "gondwana.cli.main", *words], variables={"GONDWANA_CACHE_DIR": str(cache)}, timeout=120
    )


def test_a_start_after_a_warmup_compiles_nothing(tmp_path: Path) -> None:
    program, cache = tmp_path / "program.py", jobs.own_cache(tmp_path / "cache")
    program.write_text(PROGRAM)
    first = command(cache, "warmup", "-n", "2", str(program), "--size", "3")
    assert first.status == 0, str(first)
    compiled, *words = first.stdout.split()
    assert int(compiled) > 0
    assert words == ["--size", "3"]
    assert " functions compiled in " in first.stderr
    later = command(cache, "run", "-n", "2", str(program))
    assert (later.status, later.stdout) == (0, "0\n"), str(later)


def test_all_of_the_library_that_python_calls_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    monkeypatch.setattr(Native, "code", lambda self: found.add((self.module, self.name, self.arguments)))
    monkeypatch.setattr(native, "_entries", lambda: None)
    native.compile_all()
    package = Path(gondwana.__file__).parent
    wanted = set()
    for source in package.rglob("*.py"):
        if "Native(" in source.read_text(encoding="utf-8") and source.name != "native.py":
            name = ".".join((package.name, *source.relative_to(package).with_suffix("").parts))
            values = vars(importlib.import_module(name)).values()
            wanted |= {(one.module, one.name, one.arguments) for one in values if isinstance(one, Native)}
    assert len(wanted) > 20
    assert wanted <= found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "gondwana warmup got neither: give the PROGRAM to run once, or --library"),
        (["--library", "a.py"], "gondwana warmup got a.py and --library: give the PROGRAM to run once, or --library"),
        (["no.py"], "there is no application and no file 'no.py': "),
        (["-n", "0", "no.py"], "0: legal is a whole number from 1 "),
    ],
)
def test_what_it_cannot_compile_is_refused(tmp_path: Path, words: list[str], message: str) -> None:
    outcome = command(tmp_path, "warmup", *words)
    assert outcome.status == 2
    assert message in outcome.stderr
    assert outcome.stderr.startswith("gondwana: error: ")


def test_a_cache_that_cannot_be_used_is_refused() -> None:
    outcome = command(Path("/proc/no"), "warmup", "--library")
    assert outcome.status == 2
    assert "nothing compiled is kept: /proc/no" in outcome.stderr
    assert "set GONDWANA_CACHE_DIR to a folder that only you can change" in outcome.stderr


def test_few_collectives_are_not_worth_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "has_machine_code", lambda: True)
    kept, lacking = Native("module", "kept", 1), Native("module", "lacking", 1)
    kept.is_kept, lacking.is_kept = True, False
    assert native.pays_off(1, kept)
    assert not native.pays_off(1, kept, lacking)
    assert not native.pays_off(native._WORTH_LOADING, lacking)
    assert native.pays_off(native._WORTH_LOADING + 1, lacking)
