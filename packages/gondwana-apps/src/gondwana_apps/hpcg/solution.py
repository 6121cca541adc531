"""The results of conjugate gradients: iterations, residuals and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PARTS = ("total", "dot", "combine", "multiply", "reduce", "precondition")
"""Parts of conjugate gradients whose seconds are measured; `reduce` is within `dot`."""


@dataclass(frozen=True)
class Solution:
    """The end of conjugate gradients.

    Attributes:
        iterations: number of iterations done.
        first: norm of the residual at the start.
        last: norm of the residual at the end.
        times: seconds of each of `PARTS` on this rank; nothing for the reference.
    """

    iterations: int
    first: float
    last: float
    times: Mapping[str, float] = field(default_factory=dict)

    @property
    def scaled(self) -> float:
        """The last norm relative to the first."""
        return self.last / self.first
