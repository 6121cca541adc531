"""Runs with known results on a device, by all steppers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from gondwana.errors import UsageError
from gondwana.memory.cuda_kind import CudaKind
from gondwana_apps.grayscott.settings import resolve
from gondwana_apps.grayscott.verify import verify
from gondwana_bench.gpu import steppers
from gondwana_bench.gpu.fields import AMPLITUDE, RATES, SEED, Fields
from gondwana_bench.gpu.steppers import Stepper
from gondwana_bench.rows import Row, columns

SIDE = 32
STEPS = (10, 100)
CASES = (("float64", False), ("float32", False), ("float64", True))
"""Cases with known results."""
PRECISION = {"float64": "Float64", "float32": "Float32"}

COLUMNS = columns(
    "dtype noise variant steps u_sum v_sum verified",
    variant="kernel", u_sum="sum of U", v_sum="sum of V",
)  # fmt: skip


def measure(kind: CudaKind, steps: Sequence[int] = STEPS) -> Iterator[Row]:
    """Repeat runs with known results and compare extremes and sums, a row for each. Local.

    Args:
        kind: memory of the device.
        steps: numbers of steps after which to compare: even ones, in ascending order.
    """
    for dtype, noise in CASES:
        found = steppers.ours(dtype, noise)
        with contextlib.suppress(UsageError):  # the panel of the sweeps reports why
            found += steppers.rivals(kind.device, dtype, noise)
        for stepper in found:
            yield from _run(kind, stepper, dtype, noise, steps)


def _run(kind: CudaKind, stepper: Stepper, dtype: str, noise: bool, steps: Sequence[int]) -> Iterator[Row]:
    keys = RATES._asdict() | {"noise": AMPLITUDE if noise else 0.0, "seed": SEED}
    settings = resolve(
        {"preset": "adios2", "L": SIDE, "precision": PRECISION[dtype], "output": None, "steps": max(steps), **keys}
    )
    fields = Fields(SIDE, dtype, kind)
    fields.seed(*settings.seed_range)
    done = 0
    for wanted in steps:
        while done < wanted:
            fields.exchange()
            stepper.start(fields, done + 1)
            fields.swap()
            done += stepper.steps
        summary = fields.summary()
        yield {
            "dtype": dtype,
            "noise": noise,
            "variant": stepper.name,
            "steps": done,
            **summary._asdict(),
            "verified": bool(verify(settings, done, summary).verified),
        }
    fields.close()
