"""What all benchmarks know of a problem class."""

from __future__ import annotations

from typing import Protocol


class Problem(Protocol):
    """The parameters of one class."""

    @property
    def letter(self) -> str:
        """The letter of the class."""

    @property
    def iterations(self) -> int:
        """How many iterations the timed region has."""

    def size_text(self) -> str:
        """The size as the official output has it, "256x256x256" or "14000". Local."""
