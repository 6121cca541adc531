"""The native programs: compiled here, and right."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gondwana.errors import UsageError
from gondwana.fft import fftw
from gondwana_bench import build
from gondwana_bench.native.sweeps import Sweeps

pytestmark = pytest.mark.usefixtures("c_compiler")

CELLS = (5, 6, 7)
INNER = (slice(1, -1),) * 3


def shifted(a: Any, dz: int, dy: int, dx: int) -> Any:
    return a[tuple(slice(1 + d, n - 1 + d) for d, n in zip((dz, dy, dx), a.shape, strict=True))]


def classes(a: Any) -> list[Any]:
    """Sums over the centre, the 6 faces, the 12 edges and the 8 corners of each inner cell."""
    sums = [np.zeros_like(a[INNER]) for _ in range(4)]
    for offset in np.ndindex(3, 3, 3):
        d = [i - 1 for i in offset]
        sums[sum(map(abs, d))] += shifted(a, *d)
    return sums


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sweeps_equal_numpy(dtype: str, threads: int) -> None:
    sweeps = Sweeps(dtype)
    sweeps.threads = threads
    random = np.random.default_rng(1)
    tolerance = 1e-13 if dtype == "float64" else 1e-5
    a, b = (random.random(tuple(n + 2 for n in CELLS)).astype(dtype) for _ in range(2))
    out, out2 = np.full_like(a, 7.0), np.full_like(a, 7.0)
    centre, faces, edges, corners = classes(a.astype(float))

    sweeps.sweep7(out, a, 0.4, 0.1)
    np.testing.assert_allclose(out[INNER], 0.4 * centre + 0.1 * faces, rtol=tolerance)
    sweeps.sweep27(out, a, 0.4, 0.3, 0.2, 0.1)
    expected = 0.4 * centre + 0.3 * faces + 0.2 * edges + 0.1 * corners
    np.testing.assert_allclose(out[INNER], expected, rtol=tolerance)

    sweeps.gray_scott(out, out2, a, b, 0.2, 0.1, 0.02, 0.048, 1.0)
    faces_b = classes(b.astype(float))[1]
    u, v = a[INNER].astype(float), b[INNER].astype(float)
    u_new = u + 0.2 * (faces - 6 * u) / 6 - u * v * v + 0.02 * (1 - u)
    v_new = v + 0.1 * (faces_b - 6 * v) / 6 + u * v * v - 0.068 * v
    np.testing.assert_allclose(out[INNER], u_new, rtol=10 * tolerance)
    np.testing.assert_allclose(out2[INNER], v_new, rtol=10 * tolerance)

    sweeps.gray_scott_one(out, a, 0.2, 0.02, 1.0)
    u_new = u + 0.2 * (faces - 6 * u) / 6 + 0.02 * (1 - u)
    np.testing.assert_allclose(out[INNER], u_new, rtol=10 * tolerance)

    ghosts = np.ones(a.shape, bool)
    ghosts[INNER] = False
    assert np.all(out[ghosts] == 7.0)
    assert np.all(out2[ghosts] == 7.0)

    sweeps.copy(out, a)
    assert np.array_equal(out, a)
    sweeps.triad(out, a, b, 3.0)
    np.testing.assert_allclose(out, a + 3.0 * b, rtol=1e-6)


def test_arrays_of_another_kind_are_refused() -> None:
    sweeps = Sweeps("float64")
    a = np.zeros((6, 6, 6))
    for other in (a.astype("float32"), a[:, :, ::-1], a[:-1].copy(), a.reshape(-1)):
        with pytest.raises(UsageError, match="C-contiguous float64 arrays of one 3-D shape"):
            sweeps.sweep7(a, other, 1.0, 1.0)
    with pytest.raises(UsageError, match="legal are float64 and float32"):
        Sweeps("float16")


SOURCE = b"int answer(void) { return ANSWER; }\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GONDWANA_CACHE_DIR", str(tmp_path))
    return tmp_path / "native"


def test_a_source_is_compiled_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build.compiled(SOURCE, "answer", (*build.FLAGS, "-DANSWER=42"))
    assert ctypes.CDLL(str(path)).answer() == 42
    assert list(cache.iterdir()) == [path]
    other = build.compiled(SOURCE, "answer", (*build.FLAGS, "-DANSWER=43"))
    assert ctypes.CDLL(str(other)).answer() == 43
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: pytest.fail("compiled again"))
    assert build.compiled(SOURCE, "answer", (*build.FLAGS, "-DANSWER=42")) == path


def test_a_source_that_does_not_compile_leaves_nothing(cache: Path) -> None:
    with pytest.raises(UsageError, match=r"could not compile wrong-.*error"):
        build.compiled(b"int wrong(", "wrong", ())
    assert list(cache.iterdir()) == []


def test_a_library_that_others_can_change_is_compiled_again(cache: Path) -> None:
    path = build.compiled(SOURCE, "answer", (*build.FLAGS, "-DANSWER=42"))
    path.chmod(0o777)
    path.write_bytes(b"not ours")
    assert build.compiled(SOURCE, "answer", (*build.FLAGS, "-DANSWER=42")) == path
    assert path.stat().st_mode & 0o077 == 0
    assert ctypes.CDLL(str(path)).answer() == 42


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("no-such-compiler -x", r"'no-such-compiler' is not in PATH; install one .* or set CC"),
        ("false", r"^false --version ended with status 1: set CC to a C compiler$"),
        ("true", r"^true could not compile stencil-.*: it ended with status 0 and made no library; set CC"),
        ("'cc", r"^CC=\"'cc\" is not the words of a command: No closing quotation$"),
    ],
)
def test_a_program_that_is_no_compiler_is_said(
    cache: Path, monkeypatch: pytest.MonkeyPatch, given: str, message: str
) -> None:
    monkeypatch.setenv("CC", given)
    build.compiler_version.cache_clear()
    try:
        with pytest.raises(UsageError, match=message):
            build.library("stencil.c")
    finally:
        build.compiler_version.cache_clear()


def test_an_unwritable_cache_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GONDWANA_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"compiled libraries: .*file.*; set GONDWANA_CACHE_DIR"):
        build.cache_folder()


def test_no_mpi_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "loaded_mpi", lambda: None)
    with pytest.raises(UsageError, match="uses no MPI"):
        build.mpi_flags()


@pytest.mark.skipif(fftw.LIBRARY is None, reason="FFTW is not installed")
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_fftw_in_place_of_the_transforms_of_nas_ft_equals_numpy(axis: int, sign: int, in_place: bool) -> None:
    # The program is linked to FFTW by its file; here the process has FFTW's functions before it loads the others.
    assert fftw.LIBRARY is not None
    ctypes.CDLL(fftw.LIBRARY, mode=ctypes.RTLD_GLOBAL)
    transform = getattr(build.library("npb_ft.c"), f"cffts{axis}_")
    shape = (8, 4, 16)
    real, imaginary = np.random.default_rng(axis).random((2, *shape))
    x = np.asfortranarray(real + 1j * imaginary)
    given = x.copy()
    xout = x if in_place else np.zeros_like(x)
    extents = [ctypes.byref(ctypes.c_int(n)) for n in shape]
    transform(ctypes.byref(ctypes.c_int(sign)), *extents, *(ctypes.c_void_p(a.ctypes.data) for a in (x, xout)), None)
    expected = np.fft.fft(given, axis=axis - 1) if sign < 0 else np.fft.ifft(given, axis=axis - 1, norm="forward")
    np.testing.assert_allclose(xout, expected, rtol=1e-13, atol=1e-13)
    assert in_place or np.array_equal(x, given)
