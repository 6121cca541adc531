"""FT on one rank: classes, layouts, initial values, checksums of a small box by NumPy alone."""

from __future__ import annotations

import argparse
import math
from types import SimpleNamespace

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps.npb.common import stream
from gondwana_apps.npb.common.sections import Sections
from gondwana_apps.npb.ft import app, blocks, solver
from gondwana_apps.npb.ft.layout import Layout, choose
from gondwana_apps.npb.ft.problem import ALPHA, PROBLEMS, Problem

S = PROBLEMS["S"]


@pytest.mark.parametrize(
    ("letter", "mop"),
    [("S", 177.2), ("W", 372.7), ("A", 7136.4), ("B", 92053.6), ("C", 396388.2), ("D", 8963744.3), ("E", 78407398.9)],
)
def test_classes(letter, mop):
    problem = PROBLEMS[letter]
    assert problem.mop == pytest.approx(mop, abs=0.06)
    assert len(problem.reference) == problem.iterations


def test_errors_of_checksums():
    assert S.error(S.reference) == 0.0
    assert S.error([*S.reference[:5], S.reference[5] * (1 + 1e-9)]) == pytest.approx(1e-9)
    assert S.verified(1e-12)
    assert not S.verified(1.1e-12)
    error = S.error([complex(math.nan, 0.0), *S.reference[1:]])
    assert math.isnan(error)
    assert not S.verified(error)
    assert PROBLEMS["F"].verified(PROBLEMS["F"].error([])) is None


@pytest.mark.parametrize(
    ("ranks", "name", "grid", "layout"),
    [
        (1, None, None, Layout(1, 1)),
        (2, None, None, Layout(1, 2)),
        (64, None, None, Layout(1, 64)),
        (128, None, None, Layout(16, 8)),
        (8, "2D", None, Layout(4, 2)),
        (3, "2D", None, Layout(3, 1)),
        (8, None, "2x4", Layout(2, 4)),
        (8, "1D", "1x8", Layout(1, 8)),
        (1, "1D", None, Layout(1, 1)),
    ],
)
def test_layouts(ranks, name, grid, layout):
    assert choose(S, ranks, name, grid) == layout


@pytest.mark.parametrize(
    ("ranks", "name", "grid", "message"),
    [
        (2, "0D", None, "--layout 0D is for one rank, not for 2"),
        (4, None, "2x3", "--grid 2x3: give np1xnp2 whose product is the number of ranks, 4"),
        (4, None, "four", "--grid four: give np1xnp2"),
        (4, "1D", "2x2", "--grid 2x2 is of layout 2D, not 1D"),
        (65, "1D", None, "no part for every rank of a grid 1x65: legal are grids up to 64x64"),
    ],
)
def test_layouts_that_cannot_be(ranks, name, grid, message):
    with pytest.raises(UsageError, match=message):
        choose(S, ranks, name, grid)


def test_options_that_cannot_be():
    for argv, message in [
        (["--class", "Q"], "there is no --class Q"),
        (["--class", "F"], "--class F needs"),
        (["--variant", "fast"], "there is no --variant fast: legal are pencils, slabs, blocking-slabs, alltoall"),
        (["--layout", "3D"], "invalid choice: '3D'"),
    ]:
        with pytest.raises(UsageError, match=message):
            app.check(argv, 2)


@pytest.mark.parametrize(("nodes", "variant", "told"), [(1, "pencils", 0), (2, "pencils", 1), (2, "slabs", 0)])
def test_the_better_variant_between_nodes(nodes, variant, told):
    options = argparse.Namespace(layout=None, grid=None, variant=variant)
    lines = app.BENCHMARK.describe(S, options, SimpleNamespace(size=4, node_count=nodes))
    assert lines[3].split() == ["Processor", "array", ":", "1x", "4"]
    assert sum("--variant slabs" in line for line in lines) == told


def numbers(count):
    state = stream.SEED
    for _ in range(count):
        state = stream.MULTIPLIER * state % stream.MODULUS
        yield state * stream.UNIT


def test_a_small_box_against_numpy():
    problem = Problem("small", 12, 5, 6, 4)
    values = np.array(list(numbers(2 * problem.points))).reshape(*problem.shape, 2)
    waves = np.fft.fftn(values[..., 0] + 1j * values[..., 1])
    k2 = sum(k**2 for k in np.meshgrid(*(n * np.fft.fftfreq(n) for n in problem.shape), indexing="ij"))
    j = np.arange(1, 1025)
    expected = []
    for step in range(1, 5):
        u = np.fft.ifftn(waves * np.exp(-4 * ALPHA * math.pi**2 * k2 * step))
        expected.append(u[5 * j % 6, 3 * j % 5, j % 12].sum())
    said: list[str] = []
    sections = Sections(gw.world, app.FT.sections, enabled=True)
    solving = solver.Solver(problem, blocks.stages(problem, Layout(1, 1), gw.world), "slabs", sections)
    np.testing.assert_allclose(solving.solve(said.append), expected, rtol=1e-13)
    assert said[0].startswith(" T =    1     Checksum = ")
    assert sections.spreads(1.0)["fftlow"].maximum > 0
