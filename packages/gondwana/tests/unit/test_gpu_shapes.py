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
def test_shapes_that_a_trial_may_choose_need_no_stack_and_fit(name: str) -> None:
    case = CASES[name]
    found = [case.built(shape, (9, 0)) for shape in case.shapes(every=False)]
    assert all(one.shared_bytes <= 48 << 10 for one in found)
    chosen = [one for one in found if one.is_sound]
    assert all(one.local_bytes == 0 and one.blocks >= 2 for one in chosen)
    assert found[0].is_sound
    assert len(chosen) > len(found) // 2
