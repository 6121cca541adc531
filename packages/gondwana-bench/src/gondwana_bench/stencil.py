"""The speed of `foreach` sweeps over a block, beside the same loops in C: threads of one process, no communication."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gondwana import GlobalArray, Intermediate, RectDomain, X, Y, Z, foreach, fused, reduce, set_threads, threads, zeros
from gondwana_bench import build
from gondwana_bench.measure import interleave, timed
from gondwana_bench.native.sweeps import Field, Sweeps
from gondwana_bench.rows import Row, beside_c, check_names, check_numbers, columns

SIZES = (64, 128, 256)
DTYPES = ("float64", "float32")
REST_SECONDS = 0.1
_PAIR = "_pair"
"""Ends the names of cases of two steps."""

# Relative to the largest value: the two compilers may order and fuse the operations of a cell differently.
TOLERANCE = {"float64": 1e-13, "float32": 1e-5}

COLUMNS = columns(
    "kernel size dtype threads compiler ns_per_cell c_ns_per_cell gb_per_s ratio ratio_of_best verified",
    size="side", c_ns_per_cell="C", ratio="C/ours (95 %)", verified="same",
)  # fmt: skip


@foreach
def sweep7(p: Any, out: Any, a: Any, c0: float, c1: float) -> None:
    """Weigh the centre and the sum of the 6 faces."""
    out[p] = c0 * a[p] + c1 * (a[p - X] + a[p + X] + a[p - Y] + a[p + Y] + a[p - Z] + a[p + Z])


@foreach
def sweep27(p: Any, out: Any, a: Any, c0: float, c1: float, c2: float, c3: float) -> None:
    """Weigh the centre and the sums of the 6 faces, 12 edges and 8 corners."""
    faces = a[p - X] + a[p + X] + a[p - Y] + a[p + Y] + a[p - Z] + a[p + Z]
    edges = (
        a[p - Y - X] + a[p - Y + X] + a[p + Y - X] + a[p + Y + X]
        + a[p - Z - X] + a[p - Z + X] + a[p + Z - X] + a[p + Z + X]
        + a[p - Z - Y] + a[p - Z + Y] + a[p + Z - Y] + a[p + Z + Y]
    )  # fmt: skip
    corners = (
        a[p - Z - Y - X] + a[p - Z - Y + X] + a[p - Z + Y - X] + a[p - Z + Y + X]
        + a[p + Z - Y - X] + a[p + Z - Y + X] + a[p + Z + Y - X] + a[p + Z + Y + X]
    )  # fmt: skip
    out[p] = c0 * a[p] + c1 * faces + c2 * edges + c3 * corners


@foreach
def gray_scott(
    p: Any, u_new: Any, v_new: Any, u: Any, v: Any, du: float, dv: float, feed: float, kill: float, dt: float
) -> None:
    """Do one step of the Gray-Scott model without noise."""
    lap_u = (u[p - X] + u[p + X] + u[p - Y] + u[p + Y] + u[p - Z] + u[p + Z] - 6.0 * u[p]) * (1.0 / 6.0)
    lap_v = (v[p - X] + v[p + X] + v[p - Y] + v[p + Y] + v[p - Z] + v[p + Z] - 6.0 * v[p]) * (1.0 / 6.0)
    reaction = u[p] * v[p] * v[p]
    u_new[p] = u[p] + dt * (du * lap_u - reaction + feed * (1.0 - u[p]))
    v_new[p] = v[p] + dt * (dv * lap_v + reaction - (feed + kill) * v[p])


@foreach
def gray_scott_one(p: Any, u_new: Any, u: Any, du: float, feed: float, dt: float) -> None:
    """Do one step of one variable of the Gray-Scott model: U without the reaction and without noise."""
    lap = (u[p - X] + u[p + X] + u[p - Y] + u[p + Y] + u[p - Z] + u[p + Z] - 6.0 * u[p]) * (1.0 / 6.0)
    u_new[p] = u[p] + dt * (du * lap + feed * (1.0 - u[p]))


@foreach
def copy(p: Any, out: Any, a: Any) -> None:
    """Copy an array, which is the limit of a sweep without arithmetic."""
    out[p] = a[p]


@foreach
def triad(p: Any, out: Any, a: Any, b: Any, s: float) -> None:
    """Read two arrays and write one."""
    out[p] = a[p] + s * b[p]


@reduce(op="fsum")
def fsum(p: Any, a: Any) -> Any:
    """Add up an array exactly."""
    return a[p]


@dataclass(frozen=True)
class Case:
    """One operation: our kernel takes the outputs, the inputs and the constants, and so does the C function.

    Attributes:
        kernel: ours.
        outputs: arrays that it writes.
        inputs: arrays that it reads.
        constants: numbers that it takes.
        ghosts: whether the kernel also covers the ghosts.
        steps: time steps of one call; two are one fused sweep of ours and two sweeps in C.
        rival: kernel that takes the place of the C function, or None.
    """

    kernel: Any
    outputs: int
    inputs: int
    constants: tuple[float, ...] = ()
    ghosts: bool = False
    steps: int = 1
    rival: Any = None

    def cells(self, size: int) -> int:
        """Cells that one call computes in a block of `size` cells a side, those of each step counted."""
        side = size + 2 if self.ghosts else size
        return self.steps * side**3


CASES = {
    "sweep7": Case(sweep7, 1, 1, (0.4, 0.1)),
    "sweep27": Case(sweep27, 1, 1, (0.4, 0.05, 0.02, 0.0075)),
    "gray_scott": Case(gray_scott, 2, 2, (0.2, 0.1, 0.02, 0.048, 1.0)),
    "gray_scott_one": Case(gray_scott_one, 1, 1, (0.2, 0.02, 1.0)),
    f"sweep7{_PAIR}": Case(sweep7, 1, 1, (0.4, 0.1), steps=2),
    f"gray_scott{_PAIR}": Case(gray_scott, 2, 2, (0.2, 0.1, 0.02, 0.048, 1.0), steps=2),
    "copy": Case(copy, 1, 1, ghosts=True),
    "triad": Case(triad, 1, 2, (3.0,), ghosts=True),
    "fsum": Case(fsum, 0, 1, rival=reduce(op="sum")(fsum.py_func)),
}


def check(kernels: Sequence[str], sizes: Sequence[int], dtypes: Sequence[str], thread_counts: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    check_names("--kernels", kernels, CASES)
    check_names("--dtypes", dtypes, DTYPES)
    for option, numbers in (("--sizes", sizes), ("--threads", thread_counts)):
        check_numbers(option, numbers, "numbers of at least 1, such as 1,2")


def measure(
    kernels: Sequence[str] = tuple(CASES),
    sizes: Sequence[int] = SIZES,
    dtypes: Sequence[str] = DTYPES,
    thread_counts: Sequence[int] = (1,),
    **timing: Any,
) -> Iterator[Row]:
    """Measure every combination and yield a row for each compiler of C as soon as it is done. Local.

    Args:
        kernels: names in `CASES`.
        sizes: cells a side of the cube.
        dtypes: "float64", "float32".
        thread_counts: threads of this process that share the sweep, ours and OpenMP's.
        timing: options of `measure.interleave`.

    Returns:
        Rows with ns a cell, effective GB/s (every array counted once), the speed relative to C with its interval
        (above 1: ours is faster), and whether both computed the same.
    """
    check(kernels, sizes, dtypes, thread_counts)
    before = threads()
    try:
        for dtype in dtypes:
            for size in sizes:
                for count in thread_counts:
                    set_threads(count)
                    for name in kernels:
                        yield from _measure_one(name, size, dtype, count, timing)
    finally:
        set_threads(before)


def _measure_one(name: str, size: int, dtype: str, count: int, timing: Mapping[str, Any]) -> Iterator[Row]:
    case = CASES[name]
    box = RectDomain((0, 0, 0), (size, size, size))
    arrays = case.outputs + case.inputs
    ours = [zeros(box, dtype=dtype, ghost=case.steps, order="F") for _ in range(arrays)]
    domain = ours[0].local.domain if case.ghosts else box
    theirs: dict[str, list[Field]] = {}
    variants = {"ours": timed(call_of(case, domain, ours))}
    compilers = build.compilers(count) if case.rival is None else {build.FIRST: "Numba"}
    for compiler in compilers:
        sweeps = Sweeps(dtype, compiler)
        sweeps.threads = count
        number = arrays + (case.steps - 1) * case.outputs
        theirs[compiler] = [sweeps.empty((size, size, size)) for _ in range(number)]
        _fill(ours, theirs[compiler], sweeps)
        if case.rival is None:
            rival = _native_call(case, getattr(sweeps, name.removesuffix(_PAIR)), theirs[compiler])
        else:
            rival = call_of(replace(case, kernel=case.rival), domain, ours)
        variants[compiler] = timed(rival)
    samples = interleave(variants, rest_seconds=REST_SECONDS if count > 1 else 0.0, **timing)
    for compiler, called in compilers.items():
        verified = all(
            _equal(mine, other, TOLERANCE[dtype], case.steps)
            for mine, other in zip(ours[: case.outputs], theirs[compiler][: case.outputs], strict=True)
        )
        if case.rival is not None:
            verified = fsum(domain, ours[0]) == math.fsum(ours[0].local.restrict(domain).numpy().ravel())
        pair = {"ours": samples["ours"], "c": samples[compiler]}
        yield row_of(name, size, dtype, count, pair, verified=verified) | {"compiler": called}


def call_of(case: Case, domain: Any, arrays: list[GlobalArray]) -> Callable[[], None]:
    """Return a function that does the steps of a case with our kernel, on outputs and inputs. Local."""
    if case.steps == 1:
        return lambda: case.kernel(domain, *arrays, *case.constants)
    outputs, inputs = arrays[: case.outputs], arrays[case.outputs :]
    between = [Intermediate(array.dtype) for array in outputs]
    first, second = (
        (case.kernel, *between, *inputs, *case.constants),
        (case.kernel, *outputs, *between, *case.constants),
    )

    def pair() -> None:
        fused(domain, first, second)

    return pair


def _native_call(case: Case, native: Callable[..., None], arrays: list[Field]) -> Callable[[], None]:
    """A function that does the steps of a case in C; the arrays behind the inputs hold the state between two steps."""
    count = case.outputs + case.inputs
    outputs, inputs, between = arrays[: case.outputs], arrays[case.outputs : count], arrays[count:]

    def run() -> None:
        if between:
            native(*between, *inputs, *case.constants)
        native(*outputs, *(between or inputs), *case.constants)

    return run


def _fill(ours: list[GlobalArray], theirs: list[Field], sweeps: Sweeps) -> None:
    """Set the same values on both sides; each thread first touches its planes of the C arrays."""
    random = np.random.default_rng(0)
    values = random.random(theirs[0].shape, dtype=np.float64).astype(sweeps.dtype)
    for other in theirs:
        sweeps.copy(other, values)
    for mine in ours:
        _as_in_c(mine)[...] = values.T


def _as_in_c(array: GlobalArray) -> Field:
    """The block and one ghost layer."""
    return array.local.restrict(array.owned.accrete(1)).numpy()


def _equal(mine: GlobalArray, other: Field, tolerance: float, steps: int) -> bool:
    """Whether results agree outside the reach of the ghosts, which C does not compute between two steps."""
    inside = (slice(2, -2),) * 3 if steps == 2 else ...
    difference = np.abs(_as_in_c(mine).T - other)[inside].max(initial=0.0)
    return bool(difference <= tolerance * np.abs(other).max())


def row_of(name: str, size: int, dtype: str, count: int, samples: dict[str, list[float]], *, verified: bool) -> Row:
    """Return the row of the samples of one combination. Local."""
    compared = beside_c(samples, verified, **figures_of(name, size, dtype))
    return {"kernel": name, "size": size, "dtype": dtype, "threads": count, **compared}


def figures_of(name: str, size: int, dtype: str) -> dict[str, Any]:
    """Return the function that computes the figures of a case from the seconds of a call. Local."""
    case = CASES[name]
    cells = case.cells(size)
    gigabytes = (case.outputs + case.inputs) * cells * np.dtype(dtype).itemsize / 1e9
    return {"ns_per_cell": lambda seconds: seconds / cells * 1e9, "gb_per_s": lambda seconds: gigabytes / seconds}
