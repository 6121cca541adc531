"""Points with known clusters, with the statistics of peak lists of mass spectrometry (LC-MS)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gondwana.errors import UsageError
from gondwana_apps.davs.presets import Field
from gondwana_apps.davs.validity import close_pairs

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BACKGROUND = -1
_SPACING = 1.0005
"""Mean distance of the masses of peptides of neighbouring nominal mass [Da]."""
_TRIALS = 200


class Peaks(NamedTuple):
    """Points sorted along axis 0, and their clusters: `BACKGROUND` for none."""

    points: Floats
    truth: Integers


def generate(field: Field, seed: int = 0) -> Peaks:
    """Generate points. Local.

    Args:
        field: kind of points.
        seed: seed; the same one gives the same points.

    Raises:
        UsageError: so many clusters so far apart do not fit.

    Example:
        >>> from gondwana_apps.davs.presets import PRESETS
        >>> generate(PRESETS["tiny"].field).points.shape
        (250, 2)
    """
    random = np.random.default_rng(seed)
    background = round(field.background * field.points)
    sizes = _sizes(random, field, field.points - background)
    centres = _centres(random, field)
    owner = np.repeat(np.arange(field.clusters), sizes)
    sigma = np.column_stack([field.widths[0] * centres[:, 0], np.full(field.clusters, field.widths[1])])
    members = centres[owner] + random.normal(size=(len(owner), 2)) * (field.spread * sigma)[owner]
    others = np.column_stack([_masses(random, field, background), random.uniform(*field.time, background)])
    points = np.concatenate([members, others])
    truth = np.concatenate([owner, np.full(background, BACKGROUND)])
    order = np.lexsort((points[:, 1], points[:, 0]))
    return Peaks(points[order], truth[order])


def _sizes(random: np.random.Generator, field: Field, members: int) -> Integers:
    """Numbers of members that add up, at least 2 each, or 1 for geometric ones."""
    least = 1 if field.geometric else 2
    mean = members / field.clusters - least
    if mean < 0.0:
        raise UsageError(f"davs: {members} members are too few for {field.clusters} clusters of at least {least}")
    if field.geometric:
        sizes = least - 1 + random.geometric(1.0 / (mean + 1.0), field.clusters)
    else:
        sizes = least + random.poisson(mean, field.clusters)
    while (rest := members - int(sizes.sum())) != 0:
        chosen = random.integers(field.clusters)
        if rest > 0 or sizes[chosen] > least:
            sizes[chosen] += 1 if rest > 0 else -1
    return np.asarray(sizes, np.int64)


def _masses(random: np.random.Generator, field: Field, count: int) -> Floats:
    mz = np.exp(random.uniform(np.log(field.mz[0]), np.log(field.mz[1]), count))
    if field.clumped:
        step = _SPACING / field.charge
        mz = np.clip(np.round(mz / step) * step + random.normal(0.0, 0.05, count) / field.charge, *field.mz)
    return np.asarray(mz)


def _centres(random: np.random.Generator, field: Field) -> Floats:
    """Draw centres until all are far enough from each other."""
    centres = np.column_stack([_masses(random, field, field.clusters), random.uniform(*field.time, field.clusters)])
    for _ in range(_TRIALS):
        centres = centres[np.argsort(centres[:, 0])]
        close = _too_close(centres, field)
        if not close.any():
            return centres
        count = int(close.sum())
        centres[close] = np.column_stack([_masses(random, field, count), random.uniform(*field.time, count)])
    raise UsageError(f"davs: there is no room for {field.clusters} clusters {field.apart:g} sigma apart: give fewer")


def _too_close(centres: Floats, field: Field) -> npt.NDArray[np.bool_]:
    """Mark centres, sorted along axis 0, that have one nearer than `apart` before them."""
    sigma = np.column_stack([field.widths[0] * centres[:, 0], np.full(len(centres), field.widths[1])])
    _, second = close_pairs(centres, sigma, field.apart**2)
    close = np.zeros(len(centres), bool)
    close[second] = True
    return close
