"""The Gray-Scott model in NumPy alone, on one process: the oracle of the application.

Arrays are indexed (z, y, x) and have one ghost layer on every side.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gondwana_apps.grayscott

DATA = Path(gondwana_apps.grayscott.__file__).parent
SEED_WIDTH = {"adios2": 12, "dirichlet": 13, "grayscott-jl": 13}
SUMMARY = ("u_min", "u_max", "u_sum", "v_min", "v_max", "v_sum")

Field = NDArray[Any]


def reference_rows(name: str) -> list[dict[str, Any]]:
    """Read the application's `name`: numbers as numbers, names as text."""
    with (DATA / name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    texts, integers = {"preset", "precision"}, {"L", "steps", "seed"}
    return [
        {key: text if key in texts else int(text) if key in integers else float(text) for key, text in row.items()}
        for row in rows
    ]


def philox(counter: NDArray[np.uint32], key: tuple[int, int]) -> NDArray[np.uint32]:
    """Philox4x32-10 of Salmon et al. (SC11): four words for each row of four counter words."""
    low_word = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = (counter[..., word].astype(np.uint64) for word in range(4))
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            p1 & low_word,
            (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            p0 & low_word,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def noise_field(side: int, seed: int, step: int, dtype: np.dtype[Any]) -> Field:
    """The draws r of one step: uniform in [-1, 1), a function of seed, cell and step alone."""
    quads = np.arange((side + 3) // 4)
    z, y, quad = np.meshgrid(np.arange(side), np.arange(side), quads, indexing="ij")
    counter = np.stack([quad, y, z, np.full_like(z, step)], axis=-1).astype(np.uint32)
    words = philox(counter, (seed & 0xFFFFFFFF, seed >> 32)).reshape(side, side, -1)[..., :side].view(np.int32)
    if dtype == np.float32:
        return (words >> 8).astype(np.float32) * np.float32(2.0**-23)
    return words * 2.0**-31


def set_ghosts(preset: str, u: Field, v: Field, step: int) -> None:
    """Fill the ghost layer of both fields as `preset` has it for the step that comes."""
    for axis in range(3):
        for field, outside in ((u, 0.0 if preset == "grayscott-jl" and step % 2 == 0 else 1.0), (v, 0.0)):
            lines = np.moveaxis(field, axis, 0)
            lines[0], lines[-1] = (lines[-2], lines[1]) if preset == "adios2" else (outside, outside)


def laplacian(a: Field) -> Field:
    """The normalised Laplacian of the inner cells, summed in the order of the C++ example."""
    inner = slice(1, -1)
    total = a[inner, inner, :-2] + a[inner, inner, 2:]
    total = total + a[inner, :-2, inner] + a[inner, 2:, inner]
    total = total + a[:-2, inner, inner] + a[2:, inner, inner]
    six = a.dtype.type(6.0)
    return (total + -six * a[inner, inner, inner]) / six


def simulate(
    preset: str,
    side: int,
    steps: int,
    *,
    F: float,  # noqa: N803
    k: float,
    dt: float,
    Du: float = 0.2,  # noqa: N803
    Dv: float = 0.1,  # noqa: N803
    noise: float = 0.0,
    seed: int = 0,
    dtype: Any = np.float64,
    observe: Callable[[int, Field, Field], None] = lambda step, u, v: None,
) -> tuple[Field, Field]:
    """Compute `steps` steps and return U and V without ghosts; `observe` sees them after every step."""
    kind = np.dtype(dtype)
    f, kill, time_step, du, dv, amplitude = (kind.type(value) for value in (F, k, dt, Du, Dv, noise))
    one = kind.type(1.0)
    u, v = np.ones((side + 2,) * 3, kind), np.zeros((side + 2,) * 3, kind)
    width = SEED_WIDTH[preset]
    start = 1 + side // 2 - width // 2
    cube = (slice(start, start + width),) * 3
    u[cube], v[cube] = 0.25, 0.33
    inner = (slice(1, -1),) * 3
    for step in range(1, steps + 1):
        set_ghosts(preset, u, v, step)
        cu, cv = u[inner], v[inner]
        rate_u = du * laplacian(u) + (-cu * cv * cv + f * (one - cu))
        rate_v = dv * laplacian(v) + (cu * cv * cv - (f + kill) * cv)
        if noise:
            rate_u = rate_u + amplitude * noise_field(side, seed, step, kind)
        u[inner], v[inner] = cu + rate_u * time_step, cv + rate_v * time_step
        observe(step, u[inner], v[inner])
    return u[inner], v[inner]


def summary(u: Field, v: Field) -> dict[str, float]:
    """Extrema and exact sums, under the names of the reference tables."""
    values = (u.min(), u.max(), math.fsum(u.ravel()), v.min(), v.max(), math.fsum(v.ravel()))
    return dict(zip(SUMMARY, map(float, values), strict=True))
