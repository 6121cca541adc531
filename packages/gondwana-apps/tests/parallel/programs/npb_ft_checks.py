"""What FT must do on any number of ranks, against NumPy's transforms and the official checksums."""

from __future__ import annotations

import numpy as np
from checks import run_checks

import gondwana as gw
from gondwana.fft.fftw import BACKWARD, FORWARD
from gondwana.teams import world
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.ft import app, blocks, solver, transform
from gondwana_apps.npb.ft.kernels import Factors
from gondwana_apps.npb.ft.layout import Layout, choose
from gondwana_apps.npb.ft.problem import PROBLEMS, Problem

UNEVEN = Problem("uneven", 20, 9, 7, 3)


def sections() -> Sections:
    return Sections(world, app.FT.sections, enabled=False)


def layouts(problem: Problem) -> list[Layout]:
    return list(dict.fromkeys(choose(problem, world.size, name, None) for name in ("1D", "2D")))


def part(array: np.ndarray, domain: gw.RectDomain) -> np.ndarray:
    return array[tuple(slice(axis.start, axis.stop) for axis in domain.axes)]


def check_transforms_against_numpy() -> None:
    rng = np.random.default_rng(7)
    u = rng.random(UNEVEN.shape) + 1j * rng.random(UNEVEN.shape)
    factors = [rng.random(points) for points in UNEVEN.shape]
    waves = np.fft.fftn(u)
    damped = np.fft.ifftn(waves * np.einsum("z,y,x->zyx", *factors)) * UNEVEN.points
    for variant in transform.VARIANTS:
        for layout in layouts(UNEVEN):
            stages = blocks.stages(UNEVEN, layout, world)
            first, last = stages[0], stages[-1]
            forward, inverse = (transform.Transform(stages, sign, variant, sections()) for sign in (FORWARD, BACKWARD))
            forward.plan()
            inverse.plan()
            first.planes[...] = part(u, first.domain_of(world.rank)).transpose(first.order)
            world.barrier()
            forward()
            expected = part(waves, last.domain_of(world.rank)).transpose(last.order)
            np.testing.assert_allclose(last.planes, expected, atol=1e-11, err_msg=f"{variant} {layout}")
            own = Factors(*(factors[axis][owned] for axis, owned in zip(last.order, last.owned.axes, strict=True)))
            for _ in range(3):
                inverse(own)
                expected = part(damped, first.domain_of(world.rank)).transpose(first.order)
                np.testing.assert_allclose(first.planes, expected, atol=1e-9, err_msg=f"{variant} {layout}")
                world.barrier()


def solve(letter: str, layout: Layout, variant: str) -> list[complex]:
    stages = blocks.stages(PROBLEMS[letter], layout, world)
    solving = solver.Solver(PROBLEMS[letter], stages, variant, sections())
    return solving.solve(lambda line: None)


def check_the_checksums_of_class_s() -> None:
    for layout in layouts(PROBLEMS["S"]):
        found = [solve("S", layout, variant) for variant in transform.VARIANTS]
        for variant, checksums in zip(transform.VARIANTS, found, strict=True):
            assert PROBLEMS["S"].error(checksums) < 1e-12, (variant, layout)
            np.testing.assert_allclose(checksums, found[0], rtol=1e-13, err_msg=f"{variant} {layout}")


if __name__ == "__main__":
    run_checks(globals())
