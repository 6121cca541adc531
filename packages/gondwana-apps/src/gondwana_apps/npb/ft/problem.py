"""The classes of FT and the checksums that they must give (NPB 3.4)."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

ALPHA = 1e-6
"""The factor alpha in the equation du/dt = alpha * laplacian(u)."""

TOLERANCE = 1e-12
"""Largest deviation of a checksum from the reference, relative to its modulus."""


@dataclass(frozen=True)
class Problem:
    """One class.

    Attributes:
        letter: letter of the class.
        nx: points along x, the axis that is contiguous in memory.
        ny: points along y.
        nz: points along z.
        iterations: time steps.
    """

    letter: str
    nx: int
    ny: int
    nz: int
    iterations: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Points along z, y and x."""
        return self.nz, self.ny, self.nx

    @property
    def points(self) -> int:
        """Points in the box."""
        return self.nx * self.ny * self.nz

    def size_text(self) -> str:
        """Return the size as the official output has it. Local."""
        return f"{self.nx}x{self.ny}x{self.nz}"

    @property
    def mop(self) -> float:
        """Nominal millions of operations in the timed region."""
        log = math.log(self.points)
        steps = (5.23518 + 7.21113 * log) * self.iterations
        return 1e-6 * self.points * (14.8157 + 7.19641 * log + steps)

    @cached_property
    def reference(self) -> list[complex] | None:
        """The checksum of each step; None if none are published."""
        with resources.files(__package__).joinpath("reference.csv").open() as file:
            rows = [row for row in csv.DictReader(file) if row["class"] == self.letter]
        return [complex(float(row["real"]), float(row["imaginary"])) for row in rows] or None

    def error(self, checksums: list[complex]) -> float:
        """Return the largest deviation of checksums from the reference, relative to it; NaN without one. Local."""
        if self.reference is None:
            return math.nan
        errors = [abs(c - right) / abs(right) for c, right in zip(checksums, self.reference, strict=True)]
        return max(errors, key=lambda error: math.inf if math.isnan(error) else error)

    def verified(self, error: float) -> bool | None:
        """Return whether checksums with this error pass (NPB 3.4); None without anything to compare with. Local."""
        return None if self.reference is None else error <= TOLERANCE


PROBLEMS = {
    letter: Problem(letter, *numbers)
    for letter, numbers in {
        "S": (64, 64, 64, 6),
        "W": (128, 128, 32, 6),
        "A": (256, 256, 128, 6),
        "B": (512, 256, 256, 20),
        "C": (512, 512, 512, 20),
        "D": (2048, 1024, 1024, 25),
        "E": (4096, 2048, 2048, 25),
        "F": (8192, 4096, 4096, 25),
    }.items()
}
