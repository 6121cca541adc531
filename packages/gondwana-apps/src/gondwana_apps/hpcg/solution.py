"""The results of conjugate gradients: iterations, residuals and times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from time import perf_counter


@dataclass
class Times:
    """Seconds of the parts of conjugate gradients on this rank; `reduce` is within `dot`.

    Calling it with the name of a part times the code in the context. Local.
    """

    total: float = 0.0
    dot: float = 0.0
    combine: float = 0.0
    multiply: float = 0.0
    reduce: float = 0.0
    precondition: float = 0.0

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Time the code in the context. Local."""
        started = perf_counter()
        yield
        setattr(self, part, getattr(self, part) + perf_counter() - started)

    def add(self, other: Times) -> None:
        """Add the times of another solution. Local."""
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))


@dataclass(frozen=True)
class Solution:
    """The end of conjugate gradients.

    Attributes:
        iterations: number of iterations done.
        first: norm of the residual at the start.
        last: norm of the residual at the end.
        times: times of the parts.
    """

    iterations: int
    first: float
    last: float
    times: Times = field(default_factory=Times)

    @property
    def scaled(self) -> float:
        """The last norm relative to the first."""
        return self.last / self.first
