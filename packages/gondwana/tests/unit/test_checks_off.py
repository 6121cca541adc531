"""What `GONDWANA_CHECK` is when it is off, and that code of both kinds has its own names in the cache."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import gondwana as gw
from gondwana.compiler import cache, function
from gondwana.compiler.debugging import checks
from support import jobs


def gather(p, out, a, at):
    out[p] = a[at[p]]


@gw.jit
def accesses(a, v, ptr, i):
    gw.put(a[i] + v[i], ptr + i)
    ptr.local(2)[i] = gw.get(ptr)


def built(monkeypatch: pytest.MonkeyPatch) -> list[cache.ObjectCode]:
    """Compile a kernel and a function; return their machine code and that of what they call."""
    found: list[cache.ObjectCode] = []

    def get(key, build):
        found.append(build())
        return found[-1], True

    monkeypatch.setattr(function.cache, "get", get)
    cells = gw.RectDomain(0, 4)
    a, at = gw.Array.zeros(cells), gw.Array.zeros(cells, np.int64)
    gw.foreach(gather)(cells, a.copy(), a, at)
    accesses(a, np.zeros(4), gw.Segment(gw.world, 32).pointer(dtype=float), 1)
    return found


def test_machine_code_has_nothing_of_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not checks.active()
    codes = built(monkeypatch)
    assert len(codes) >= 2
    for code in codes:
        assert code.externs == []
        assert b"gondwana extern" not in code.code


def test_functions_have_other_names_in_the_cache_when_they_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    off = cache.fingerprint(gather)
    monkeypatch.setattr(checks, "active", lambda: True)
    assert cache.fingerprint(gather) != off  # errors name its lines
    monkeypatch.undo()
    assert cache.fingerprint(gather) == off


PROGRAM = """
import gondwana as gw

@gw.jit
def look(a, i):
    return a[i]

before = gw.compilation()
try:
    print(look(gw.Array.zeros(gw.RectDomain(0, 4)), 3))
    look(gw.Array.zeros(gw.RectDomain(0, 10)), {index})
except IndexError as error:
    print(error)
spent = gw.compilation() - before
print(spent.compiled, spent.loaded)
"""


def test_the_cache_keeps_code_of_both_kinds(tmp_path: Path) -> None:
    folder = jobs.own_cache(tmp_path / "cache")
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(PROGRAM.format(index=3))
    second.write_text("#\n#\n" + PROGRAM.format(index=12))

    def run(program: Path, check: str) -> list[str]:
        variables = {"GONDWANA_CHECK": check, "GONDWANA_CACHE_DIR": str(folder)}
        outcome = jobs.run_command([sys.executable, str(program)], variables=variables)
        assert outcome.status == 0, str(outcome)
        return outcome.stdout.splitlines()

    assert run(first, "0") == ["0.0", "1 0"]
    assert run(first, "1") == ["0.0", "1 0"]
    assert run(first, "") == run(first, "1") == ["0.0", "0 1"]
    message = f"{second}:8: a[12] is outside of a, which has elements on [0:9] (raised in look)"
    assert run(second, "1") == ["0.0", message, "1 0"]  # the same byte code, on other lines
    assert run(second, "1") == ["0.0", message, "0 1"]
