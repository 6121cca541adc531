"""Gray-Scott steps on a device: cells per second, and the fraction of a copy's bandwidth in the same run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from gondwana import Device
from gondwana.errors import GondwanaError, UsageError
from gondwana.gpu.interface import CudaError
from gondwana.memory.cuda_kind import CudaKind
from gondwana_bench.gpu import steppers
from gondwana_bench.gpu.devices import launched, on_device, shortage
from gondwana_bench.gpu.fields import Fields, noise_of
from gondwana_bench.gpu.steppers import FUSED, ONE_SWEEP, Stepper
from gondwana_bench.measure import interleave
from gondwana_bench.rows import Row, check_names, check_numbers, columns, with_interval
from gondwana_bench.statistics import ratio, summarize

SIZES = (1024, 512, 256)
"""Sizes, the largest first, since it matters most if the time runs out."""
DTYPES = ("float64", "float32")
TOLERANCE = {"float64": 1e-11, "float32": 1e-4}
"""Largest relative difference of device and host, on which multiplications and additions may be fused."""

ITEM = {"float64": 8, "float32": 4}
COPY = "copy"

GOALS = {
    ("float64", False, ONE_SWEEP): 120.0,
    ("float64", False, FUSED): 160.0,
    ("float64", True, ONE_SWEEP): 90.0,
    ("float32", False, ONE_SWEEP): 230.0,
}
"""Goals in Gcell/s on an H200, for the largest size."""
GOAL_OF_COPY = 0.9
"""The goal of one sweep in double precision without noise, relative to a copy."""

COLUMNS = columns(
    "size dtype noise variables variant ms_per_step gcells_per_s t_eff paper_gb_per_s of_copy registers local_bytes "
    "goal met verified",
    size="side", variant="kernel", ms_per_step="ms", gcells_per_s="Gcell/s", t_eff="T_eff, GB/s",
    paper_gb_per_s="paper's GB/s", of_copy="of copy (95 %)", registers="regs", local_bytes="local",
)  # fmt: skip


class Case(NamedTuple):
    """One combination."""

    size: int
    dtype: str
    noise: bool
    variables: int = 2

    def __str__(self) -> str:
        return f"{self.size}^3, {self.dtype}{', noise' * self.noise}{', one variable' * (self.variables == 1)}"


def cases(sizes: Sequence[int], dtypes: Sequence[str]) -> list[Case]:
    """Return the combinations in the order of measurement. Local."""
    kinds = (False, 2), (True, 2), (False, 1)
    return [Case(size, dtype, *kind) for size, dtype, kind in itertools.product(sizes, dtypes, kinds)]


def check(sizes: Sequence[int], dtypes: Sequence[str]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    check_numbers("--sizes", sizes, "numbers of at least 4, such as 256,1024", least=4)
    check_names("--dtypes", dtypes, DTYPES)


def measure(
    kind: CudaKind,
    sizes: Sequence[int] = SIZES,
    dtypes: Sequence[str] = DTYPES,
    *,
    note: Callable[[str], None] = print,
    fail: Callable[[str], None] = print,
    in_time: Callable[[str], bool] = lambda what: True,
    **timing: Any,
) -> Iterator[Row]:
    """Measure our steps and those in CUDA C interleaved, beside a copy of the arrays, a row for each. Local.

    Args:
        kind: memory of the device.
        sizes: cells a side of the cube.
        dtypes: "float64", "float32".
        note: function that is called with each case that was left out, and the reason.
        fail: function that is called with each case that an error kept from being measured.
        in_time: function that returns whether the time suffices for one more case, whose name it gets.
        timing: options of `measure.interleave`.
    """
    for case in cases(sizes, dtypes):
        missing = shortage(kind, Fields.nbytes(case.size, case.dtype))
        if missing is not None:
            note(f"left out {case}: {missing}")
        elif in_time(str(case)):
            found = _steppers(kind.device, case, note)
            yield from _measure_case(kind, case, found, fail, timing)


def _measure_case(
    kind: CudaKind,
    case: Case,
    found: Sequence[Stepper],
    fail: Callable[[str], None],
    timing: Mapping[str, Any],
) -> Iterator[Row]:
    device = kind.device
    fields = Fields(case.size, case.dtype, kind)
    fields.spread()
    verified: dict[str, bool] = {}
    for stepper in found:
        try:
            stepper.prepare(fields)
            verified[stepper.name] = _is_right(fields, stepper, case)
        except (GondwanaError, CudaError) as error:
            fail(f"{case}: {stepper.name}: {error}")
    measured = [stepper for stepper in found if stepper.name in verified]
    start, end = fields.arrays[2].local.extent
    target = fields.arrays[0].local.extent[0]
    variants = {
        stepper.name: on_device(device, lambda stepper=stepper: stepper.start(fields, 1))  # type: ignore[misc]
        for stepper in measured
    }
    variants[COPY] = on_device(device, lambda: device.driver.copy(target, start, end - start, device.compute))
    samples = interleave(variants, **timing)
    copied = [2e-9 * (end - start) / seconds for seconds in samples[COPY]]
    for stepper in measured:
        seconds = [s / stepper.steps for s in samples[stepper.name]]
        row = _row(case, stepper.name, seconds, copied, device.facts.name, verified[stepper.name])
        yield row | launched(device, lambda stepper=stepper: stepper.start(fields, 1))  # type: ignore[misc]
    fields.close()


def _steppers(device: Device, case: Case, note: Callable[[str], None]) -> list[Stepper]:
    found = steppers.ours(*case[1:])
    try:
        found += steppers.rivals(device, *case[1:])
    except UsageError as error:
        note(f"nothing to compare with: {error}")
    return found


def _is_right(fields: Fields, stepper: Stepper, case: Case) -> bool:
    """Compare a plane at each end and the central one with the host's results."""
    noise = [noise_of(1 + number) if case.noise else None for number in range(stepper.steps)]
    for array in fields.arrays[:2]:
        array.local.restrict(fields.domain).fill(-1.0)
    stepper.start(fields, 1)
    planes = (0, case.size // 2, case.size - 1)
    pairs = [
        pair
        for z in planes
        for pair in zip(fields.plane(z, case.variables), fields.plane_by_host(z, noise, case.variables), strict=True)
    ]
    return all(np.allclose(mine, right, rtol=0.0, atol=TOLERANCE[case.dtype]) for mine, right in pairs)


def _row(
    case: Case, variant: str, seconds: Sequence[float], copied: Sequence[float], device: str, verified: bool
) -> Row:
    found = summarize(seconds)
    moved = 2 * case.variables * case.size**3 * ITEM[case.dtype] * 1e-9
    of_copy = ratio([moved / s for s in seconds], copied)
    rate = case.size**3 * 1e-9 / found.median
    goal, met = judge(case, variant, rate, of_copy.value, device)
    return {
        "size": case.size,
        "dtype": case.dtype,
        "noise": case.noise,
        "variables": case.variables,
        "variant": variant,
        "ms_per_step": found.median * 1e3,
        "gcells_per_s": rate,
        "t_eff": moved / found.median,
        "paper_gb_per_s": effective_bytes(case.size, ITEM[case.dtype], case.variables) * 1e-9 / found.median,
        "copy_gb_per_s": summarize(copied).median,
        **with_interval("of_copy", of_copy.value, of_copy.low, of_copy.high),
        "goal": goal,
        "met": met,
        "verified": verified,
        "seconds": asdict(found),
    }


def effective_bytes(size: int, item: int, variables: int = 2) -> int:
    """Return the bytes of a step as W. Godoy et al. count them, SC-W 2023, equations 4 and 5, for all species. Local.

    Example:
        >>> effective_bytes(1024, 8)
        34259075200
    """
    fetched = size**3 - 8 - 12 * (size - 2)
    written = (size - 2) ** 3
    return variables * item * (fetched + written)


def judge(case: Case, variant: str, rate: float, of_copy: float, device: str) -> tuple[str | None, bool | None]:
    """Return the goal of a case as text and whether it is met; None for both without a goal. Local."""
    if case.size != max(SIZES) or case.variables == 1:
        return None, None
    wanted, met = [], []
    gcells = GOALS.get((case.dtype, case.noise, variant)) if "H200" in device else None
    if gcells is not None:
        wanted.append(f">= {gcells:g}")
        met.append(rate >= gcells)
    if (case.dtype, case.noise, variant) == ("float64", False, ONE_SWEEP):
        wanted.append(f">= {GOAL_OF_COPY:g} of copy")
        met.append(of_copy >= GOAL_OF_COPY)
    return (", ".join(wanted), all(met)) if wanted else (None, None)
