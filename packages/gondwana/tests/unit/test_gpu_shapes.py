"""What NVIDIA's assembler makes of the kernels that GPUs run most, in the shapes that trials begin with."""

from __future__ import annotations

import pytest

from support import gpu_shapes

CASES = {case.name: case for case in gpu_shapes.cases()}


MOST = {
    "Gray-Scott": (64, 58),
    "Gray-Scott with noise": (80, 140),
    "7 points": (40, 20),
    "27 points": (114, 50),
    "two Gray-Scott steps": (64, 180),
}
"""The most registers and instructions at a point of the guesses in double precision, on a GPU of capability 9.0."""


@pytest.mark.parametrize(
    ("name", "capability"),
    [*((name, (9, 0)) for name in CASES if "float64" in name), *(("Gray-Scott, float64", (n, 0)) for n in (8, 10))],
)
def test_guesses_need_no_stack_and_fit(name: str, capability: tuple[int, int]) -> None:
    case = CASES[name]
    found = case.built(case.guess, capability)
    registers, instructions = MOST[name.removesuffix(", float64")]
    assert found.local_bytes == 0
    assert found.shared_bytes <= 48 << 10
    assert found.blocks >= 2
    if capability == (9, 0):
        assert 0 < found.registers <= registers
        assert 0 < found.instructions <= instructions


@pytest.mark.more
@pytest.mark.parametrize("name", CASES)
def test_shapes_of_trials_are_assembled(name: str) -> None:
    """Those that put values on the stack are tried by nobody: see `tuner.tuned`."""
    case = CASES[name]
    for shape in case.shapes(every=False):
        found = case.built(shape, (9, 0))
        assert found.shared_bytes <= 48 << 10, shape
        assert found.blocks >= 1, shape
