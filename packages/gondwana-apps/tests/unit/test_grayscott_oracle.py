"""The NumPy oracle against published answers, so that it may judge the app."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from support.grayscott_oracle import (
    SUMMARY,
    laplacian,
    noise_field,
    philox,
    reference_rows,
    set_ghosts,
    simulate,
    summary,
)

REFERENCE = reference_rows("reference.csv")
NOISY = reference_rows("reference_noisy.csv")
# Rows that take a second or less each; the app is compared with all of them elsewhere.
QUICK = [row for row in REFERENCE + NOISY if row["L"] == 32 and row["steps"] in (2, 100)]


def name_of(row: dict[str, Any]) -> str:
    return f"{row['preset']}-{row['precision']}-F{row['F']}-{row['steps']}{'-noise' if 'noise' in row else ''}"


def test_tables_are_complete() -> None:
    assert (len(REFERENCE), len(NOISY)) == (59, 10)


@pytest.mark.parametrize("row", QUICK, ids=name_of)
def test_reference_rows(row: dict[str, Any]) -> None:
    single = row["precision"] == "Float32"
    parameters = {key: row[key] for key in ("F", "k", "dt", "noise", "seed") if key in row}
    dtype = np.float32 if single else np.float64
    result = summary(*simulate(row["preset"], row["L"], row["steps"], dtype=dtype, **parameters))
    for key in SUMMARY:
        # The table has 12 digits, the tiny noisy minima 8.
        tolerance = 1e-4 if single else 1e-7 if abs(row[key]) < 1e-18 else 1e-11
        assert result[key] == pytest.approx(row[key], rel=tolerance, abs=0.0), key


def test_probes_after_100_steps() -> None:
    probes = {
        "adios2": {
            (16, 16, 16): (0.597160989666, 0.0498138815025),
            (16, 16, 8): (0.577973213064, 0.133864166511),
            (10, 14, 22): (0.169180536973, 0.393860114174),
        },
        "dirichlet": {
            (16, 16, 16): (0.607344104219, 0.0487263993572),
            (16, 16, 8): (0.57925098439, 0.1340582092),
            (10, 14, 22): (0.17970499276, 0.300648145926),
        },
        "grayscott-jl": {
            (16, 16, 16): (0.607344109391, 0.0487263989026),
            (16, 16, 8): (0.579194297777, 0.134033868913),
            (10, 14, 22): (0.179718933862, 0.300631882763),
        },
    }
    for preset, points in probes.items():
        u, v = simulate(preset, 32, 100, F=0.02, k=0.048, dt=1.0)
        for point, expected in points.items():
            assert (u[point], v[point]) == pytest.approx(expected, rel=1e-10)
        if preset == "grayscott-jl":
            assert u[0, 0, 0] == pytest.approx(0.584893485971, rel=1e-11)


def test_philox_known_answers() -> None:
    for counter, key, words in (
        ((0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ):
        assert tuple(philox(np.array(counter, np.uint32), key)) == words


def test_noise_field_values() -> None:
    r = noise_field(32, 42, 1, np.dtype(np.float64))
    assert r[0, 0, :4] == pytest.approx([0.25206316, -0.81225966, 0.65704277, -0.42985986], abs=5e-9)
    assert r[1, 2, 3:7] == pytest.approx([-0.18626468, -0.88941628, 0.58414223, -0.99864081], abs=5e-9)
    assert math.fsum(r.ravel()) == pytest.approx(123.625142309, abs=1e-9)
    assert (r.min(), r.max()) == pytest.approx((-0.999984546099, 0.999971286394), abs=1e-12)
    single = noise_field(32, 42, 1, np.dtype(np.float32))
    assert single.dtype == np.float32
    assert np.abs(single - r).max() < 2.0**-23


def test_a_cosine_decays_at_the_analytic_rate() -> None:
    """One mode of U with V=0: the factor per step that the eigenvalue of the Laplacian gives."""
    side, steps = 32, 100
    x = np.arange(side)
    u, v = np.ones((side + 2,) * 3), np.zeros((side + 2,) * 3)
    u[1:-1, 1:-1, 1:-1] += np.cos(2 * np.pi * x / side)
    for step in range(steps):
        set_ghosts("adios2", u, v, step)
        inner = u[1:-1, 1:-1, 1:-1]
        inner += 0.2 * laplacian(u) + 0.02 * (1.0 - inner)
    amplitude = u[1, 1, 1] - 1.0
    growth = 1.0 + 0.2 * (2 * np.cos(2 * np.pi / side) - 2) / 6 - 0.02
    assert amplitude == pytest.approx(growth**steps, rel=1e-12)
    assert amplitude == pytest.approx(0.116359747760, rel=1e-11)
