"""The clock, and what compilation costs, as programs see them."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gondwana as gw
from gondwana.compiler import cache, numba_imports
from gondwana.errors import UsageError
from support import jobs


def test_the_clock_is_one_for_python_and_compiled_code() -> None:
    @gw.jit
    def read() -> int:
        return gw.clock()

    moments = [gw.clock(), read(), gw.clock(), read(), gw.clock()]
    assert moments == sorted(moments)
    assert all(type(moment) is int for moment in moments)
    assert moments[-1] - time.monotonic_ns() <= 0


def test_the_clock_in_kernels_counts_nanoseconds() -> None:
    @gw.foreach
    def read(p, a):  # type: ignore[no-untyped-def]
        a[p] = gw.clock()

    a = gw.Array.zeros(gw.RectDomain(0, 3), dtype=np.int64)
    before = gw.clock()
    read(a.domain, a)
    after = gw.clock()
    assert all(before <= a[i] <= after for i in range(3))


def test_a_function_is_counted_once_for_each_type_of_its_arguments() -> None:
    @gw.jit
    def triple(x):  # type: ignore[no-untyped-def]
        return 3 * x

    before = gw.compilation()
    assert (triple(2), triple(3)) == (6, 9)
    once = gw.compilation() - before
    assert triple(2.0) == 6.0
    twice = gw.compilation() - before
    assert (once.compiled + once.loaded, twice.compiled + twice.loaded) == (1, 2)
    assert 0 < once.seconds < twice.seconds
    assert twice.seconds == twice.seconds_compiling + twice.seconds_loading


def test_the_figures_are_a_value() -> None:
    before = gw.compilation()
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.compiled = 3  # type: ignore[misc]
    assert str(gw.Compilation(2, 1, 0.5, 0.25)) == "2 functions compiled in 0.50 s, 1 loaded in 0.25 s"
    assert gw.Compilation(2, 1, 0.5, 0.25) - gw.Compilation(1, 1, 0.25, 0.0) == gw.Compilation(1, 0, 0.25, 0.25)


NUMBA_ITSELF = """
import sys
import numba
import numpy as np
import gondwana as gw

@gw.jit
def double(x):
    return 2.0 * x

@numba.njit
def product(a, b):
    return np.dot(a, b), np.linalg.solve(np.diag(a), b)[1]

print(double(1.5), "scipy.linalg" in sys.modules)
print(product(np.array([1.0, 2.0]), np.array([3.0, 4.0])), "scipy.linalg" in sys.modules)
import scipy.linalg.cython_blas
assert hasattr(scipy.linalg.cython_blas, "__pyx_capi__") and scipy.linalg.solve([[2.0]], [6.0]) == 3.0
"""


def test_scipy_is_loaded_for_those_who_use_it(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    variables = {"GONDWANA_CACHE_DIR": str(jobs.own_cache(tmp_path))}
    outcome = jobs.run_command([sys.executable, "-c", NUMBA_ITSELF], variables=variables)
    assert outcome.stdout.splitlines() == ["3.0 False", "(11.0, 2.0) True"], str(outcome)


SETTINGS = """
import sys
import gondwana as gw
@gw.foreach
def third(p, a):
    a[p] = p[0] // 3
a = gw.Array.zeros(gw.RectDomain(0, 9), "uint8")
third(a.domain, a)
assert a[8] == 2 and gw.compilation().compiled == 1
config = sys.modules["numba.core.config"]
assert config.OPT == 3 and not config.DISABLE_JIT and config.NUMBA_NUM_THREADS == 3
"""


@pytest.mark.parametrize(
    ("text", "before"),
    [(b"\xff{{{", "import gondwana.kernels"), (b"opt: 0\ndisable_jit: 1\nnum_threads: 2", "import numba")],
)
def test_settings_in_the_current_folder_are_not_read(text: bytes, before: str, tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_bytes(text)
    variables = {"GONDWANA_CACHE_DIR": str(jobs.own_cache(tmp_path / "cache")), "NUMBA_NUM_THREADS": "3"}
    outcome = jobs.run_command([sys.executable, "-c", f"{before}\n{SETTINGS}"], variables=variables, cwd=tmp_path)
    assert outcome.status == 0, str(outcome)


@pytest.mark.parametrize(
    ("name", "bad", "good"), [("DISABLE_JIT", "1", "0"), ("DEBUGINFO", "1", "0"), ("OPT", "0", "2")]
)
def test_settings_that_nothing_works_with_are_refused(
    name: str, bad: str, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"NUMBA_{name}", good)
    numba_imports.check_settings()
    monkeypatch.setenv(f"NUMBA_{name}", bad)
    with pytest.raises(UsageError, match=f"^NUMBA_{name}={bad} keeps Numba from .*: unset it; GONDWANA_INTERPRET=1"):
        numba_imports.check_settings()
    cache.toolchain.cache_clear()
    with pytest.raises(UsageError):
        cache.toolchain()


def test_settings_are_part_of_the_name_of_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name, value in (("X", "1"), ("NUMBA_NUM_THREADS", "7"), ("NUMBA_LOOP_VECTORIZE", "0"), ("NUMBA_NEW", "1")):
        monkeypatch.setenv(name, value)
        cache.toolchain.cache_clear()
        found.append(cache.toolchain())
    cache.toolchain.cache_clear()
    assert found[0] == found[1]
    assert len(set(found)) == 3
