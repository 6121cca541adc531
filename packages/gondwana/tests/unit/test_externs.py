"""C functions of other libraries, called from Python and from compiled code."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from support import jobs

SOURCE = """
#include <complex.h>
#include <stdint.h>
static double kept = 0.0;
void keep(double value) { kept = value; }
double get(void) { return kept; }
static const double *lent; static int64_t length;
void lend(const double *a, int64_t n) { lent = a; length = n; }
double sum(const double *a, int64_t n) { double s = 0; for (int64_t i = 0; i < n; ++i) s += a[i]; return s; }
void negate(double complex *a, int32_t n) { for (int32_t i = 0; i < n; ++i) a[i] = -a[i]; }
void *first(void *memory, uint64_t bytes) { return (char *)memory + bytes; }
float mean(float a, float b) { return 0.5f * (a + b); }
int64_t digits(int8_t a, int16_t b, int32_t c, int64_t d) { return a + 10 * b + 100 * (int64_t)c + 1000 * d; }
uint64_t bits(uint8_t a, uint16_t b, uint32_t c, uint64_t d) { return (uint64_t)a + b + c + d; }
int8_t narrow(int64_t a) { return (int8_t)a; }
double total(void) { return sum(lent, length); }
uint16_t wide(int64_t a) { return (uint16_t)a; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A shared library of the functions above; without a C compiler the test is skipped."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("extern")
    (folder / "functions.c").write_text(SOURCE)
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", "functions.so", "functions.c"]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    return str(folder / "functions.so")


cbrt = gw.extern("libm.so.6", "cbrt", "f8(f8)")
hypot = gw.extern("m", "hypot", " f8 ( f8,f8 ) ")


@gw.jit
def roots(a: Any, b: Any) -> float:
    total = 0.0
    for i in range(len(a)):
        total += hypot(a[i], b[i]) + cbrt(i)
    return total


def test_functions_of_the_mathematical_library() -> None:
    a, b = np.random.default_rng(1).random((2, 9))
    assert cbrt(8) == 2.0
    assert hypot(3.0, np.float32(4)) == 5.0
    expected = 0.0
    for i in range(9):
        expected += hypot(a[i], b[i]) + cbrt(i)
    assert roots(a, b) == expected
    assert math.isclose(hypot(a[0], b[0]), math.hypot(a[0], b[0]))


def test_kernels_on_processors_call_them() -> None:
    @gw.foreach
    def root(p, out, a):  # type: ignore[no-untyped-def]
        out[p] = cbrt(a[p])

    @gw.reduce
    def total(p, a):  # type: ignore[no-untyped-def]
        return cbrt(a[p])

    a = gw.Array(np.arange(50.0) ** 3)
    out = gw.Array.zeros(a.domain)
    root(a.domain, out, a)
    assert [out[i] for i in range(50)] == [cbrt(a[i]) for i in range(50)]
    assert total(a.domain, a) == pytest.approx(sum(range(50)))


def test_arguments_and_results_of_all_types(library: str) -> None:
    keep, get = gw.extern(library, "keep", "void(f8)"), gw.extern(library, "get", "f8()")
    add, negate = gw.extern(library, "sum", "f8(f8*, i8)"), gw.extern(library, "negate", "void(c16*, i4)")
    first = gw.extern(library, "first", "void*(void*, u8)")
    mean = gw.extern(library, "mean", "f4(f4, f4)")
    digits, bits = gw.extern(library, "digits", "i8(i1, i2, i4, i8)"), gw.extern(library, "bits", "u8(u1, u2, u4, u8)")
    narrow, wide = gw.extern(library, "narrow", "i1(i8)"), gw.extern(library, "wide", "u2(i8)")

    def run(a: Any, c: Any, address: int) -> Any:
        keep(len(a))
        negate(c, 2)
        doubles = get(), add(a, len(a)), add(address, 2), add(first(a, 8), 1), mean(1, 2.5)
        integers = digits(-1, -2, -3, -4) + narrow(255) + wide(-1)
        return doubles[0], doubles[1], doubles[2], doubles[3], doubles[4], integers, bits(255, 65535, 2**32 - 1, 5)

    a = np.array([1.0, 2.0, 4.0])
    for call in run, gw.jit(run):
        c = np.array([1 + 2j, 3.0, 5.0])
        found = call(a, c, a.ctypes.data)
        assert found[:5] == (3.0, 7.0, 3.0, 2.0, 1.75)
        assert found[5:] == ((-1 - 20 - 300 - 4000) - 1 + 65535, 255 + 65535 + 2**32 - 1 + 5)
        assert c.tolist() == [-1 - 2j, -3.0, 5.0]


def test_what_a_function_was_given_lives_until_the_caller_returns(library: str) -> None:
    lend, total = gw.extern(library, "lend", "void(f8*, i8)"), gw.extern(library, "total", "f8()")
    add = gw.extern(library, "sum", "f8(void*, i8)")

    @gw.jit
    def lend_for(a):
        lend(a, len(a))

    @gw.jit
    def spoil(n):
        return np.full(n, -1.0).sum()

    @gw.jit
    def run(n, twice):
        named = np.full(n + 1, 1.0)
        lend(named[1:], n)
        taken = spoil(n + 1)
        found = total()
        lend(np.full(n, 1.0) * 2.0, n)
        taken += spoil(n)
        found += total()
        lend_for(np.full(n, 4.0))
        taken += spoil(n)
        found += total()
        for i in range(2):
            rebound = np.full(n, 4.0)
            if twice or i == 0:
                lend(rebound, n)
        if twice:
            taken += spoil(n)
            found += total()
        address = np.full(n, 8.0).ctypes.data
        taken += spoil(n)
        for i in range(n):
            found += add(address + 8 * i, 1)
        return found, taken

    before = None
    for n in (100, 1000, 100_000):
        assert run(n, True) == (19.0 * n, -5.0 * n - 1)
        assert run(n, False) == (15.0 * n, -4.0 * n - 1)
        held = allocations()
        assert before in (None, held)
        before = held


def allocations() -> int:
    """Return how many arrays of compiled code there are, of those since the first call."""
    from numba.core.runtime import _nrt_python, rtsys

    _nrt_python.memsys_enable_stats()
    stats = rtsys.get_allocation_stats()
    return stats.mi_alloc - stats.mi_free  # type: ignore[no-any-return]


PROGRAM = """
import json, sys
import numpy as np
import gondwana as gw

add = gw.extern(sys.argv[1], "sum", "f8(f8*, i8)")
cbrt = gw.extern("libm.so.6", "cbrt", "f8(f8)")

@gw.jit
def run(a):
    return add(a, a.size) + cbrt(8.0)

value, done = run(np.arange(5.0)), gw.compilation()
print(json.dumps({"value": value, "compiled": done.compiled, "loaded": done.loaded, "numba": "numba" in sys.modules}))
"""


def test_processes_share_the_machine_code(library: str, tmp_path: Path) -> None:
    """Libraries lie at other addresses in each process, machine code finds them by name."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    variables = {"GONDWANA_CACHE_DIR": str(jobs.own_cache(tmp_path / "cache"))}

    def run(path: str) -> Any:
        outcome = jobs.run_command([sys.executable, str(program), path], variables=variables)
        assert outcome.status == 0, str(outcome)
        return json.loads(outcome.stdout)

    assert run(library) == {"value": 12.0, "compiled": 1, "loaded": 0, "numba": True}
    assert run(library) == {"value": 12.0, "compiled": 0, "loaded": 1, "numba": False}
    moved = shutil.copy(library, tmp_path / "other.so")
    assert run(str(moved))["compiled"] == 1


def test_one_function_with_two_signatures() -> None:
    single = gw.extern("libm.so.6", "ldexp", "f8(f8, i4)")
    bits = gw.extern("libm.so.6", "ldexp", "f8(f8, u4)")

    @gw.jit
    def both(x: float) -> float:
        return single(x, 3) + bits(x, 1)

    assert both(1.5) == 1.5 * 8 + 3.0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("libnowhere.so.1", "f", "f8()"), "the library 'libnowhere.so.1' cannot be loaded"),
        (("nowhere", "f", "f8()"), "there is no library 'nowhere'"),
        (("libm.so.6", "nothing", "f8()"), "the library 'libm.so.6' has no function 'nothing'"),
        *(
            (("libm.so.6", "cbrt", text), "cannot be read")
            for text in ("", "f8", "f8(f9)", "f8(void)", "f8(f8,)", "c16(f8)")
        ),
    ],
)
def test_what_is_not_there(arguments: tuple[str, str, str], reason: str) -> None:
    with pytest.raises(UsageError, match=r"cannot|no ") as caught:
        gw.extern(*arguments)
    assert reason in str(caught.value)


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="takes 1 arguments, not 2"):
        cbrt(1.0, 2.0)
    ldexp, fill = gw.extern("libm.so.6", "ldexp", "f8(f8, i4)"), gw.extern("libc.so.6", "memset", "void*(f8*, i4, u8)")
    with pytest.raises(TypeError, match=r"f8 ldexp\(f8, i4\) of libm.so.6: 'float' object"):
        ldexp(1.0, 2.5)
    for array in np.zeros(4, np.float32), np.zeros(8)[::2]:
        with pytest.raises(TypeError, match="is no f8\\* without gaps"):
            fill(array, 0, 4)
    for function, arguments, reason in [
        (lambda x: cbrt(x, x), (1.0,), "takes 1 arguments, not 2"),
        (lambda x: ldexp(1.0, x), (2.5,), "argument 2 of f8 ldexp(f8, i4) of libm.so.6 is float64"),
        (
            lambda a: fill(a, 0, 4),
            (np.zeros(4, np.float32),),
            "give a NumPy array of float64 without gaps, or an address",
        ),
        (lambda a: fill(a, 0, 4), (np.zeros(8)[::2],), "without gaps"),
    ]:
        with pytest.raises(KernelError) as caught:
            gw.jit(function)(*arguments)
        assert reason in str(caught.value)


def test_kernels_on_gpus_refuse_them(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("""
import numpy as np
import gondwana as gw
cbrt = gw.extern("libm.so.6", "cbrt", "f8(f8)")

@gw.foreach
def root(p, a):
    a[p] = cbrt(a[p])

a = gw.from_numpy(np.ones(100), kind=gw.cuda(0))
root(a.owned, a)
""")
    pytest.importorskip("numba_cuda")
    outcome = jobs.run_command([sys.executable, str(tmp_path / "program.py")], variables={"GONDWANA_CUDA": "emulated"})
    assert outcome.status == 1
    assert "runs on processors, not on a GPU" in outcome.stderr.splitlines()[-1], outcome.stderr
