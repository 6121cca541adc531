"""The interface of a benchmark to the command line and the report."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import gondwana as gw
from gondwana_apps.npb.common.sections import Sections

Echo = Callable[[str], None]
P = TypeVar("P", bound="Problem")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a run, the same on all ranks but for the seconds.

    Attributes:
        seconds: duration of the official timed region on this rank.
        value: result that is compared with the reference: a number, or [real, imaginary] for each step.
        error: error relative to the reference, the largest of all steps; NaN without one.
        verified: whether the benchmark's own rule accepts the result; None without anything to compare with.
        reason: reason why it is not verified although the numbers are right.
        active: number of ranks that work.
        seconds_setup: duration of the set-up, outside the clock.
        seconds_compile: duration of the compilation, outside the clock.
        extra: further values for the JSON file.
    """

    seconds: float
    value: float | list[list[float]]
    error: float
    verified: bool | None
    active: int
    seconds_setup: float
    seconds_compile: float
    reason: str | None = None
    extra: dict[str, object] = field(default_factory=dict)


class Problem(Protocol):
    """The parameters of one class."""

    @property
    def letter(self) -> str:
        """The letter of the class."""

    @property
    def iterations(self) -> int:
        """The number of iterations of the timed region."""

    def size_text(self) -> str:
        """The size as the official output has it, "256x256x256" or "14000". Local."""


class Benchmark(Protocol[P]):
    """One of MG, FT and CG."""

    @property
    def name(self) -> str:
        """The name in the official output, "MG"."""

    @property
    def program(self) -> str:
        """The name for `gondwana run`, "npb-mg"."""

    @property
    def sections(self) -> tuple[str, ...]:
        """The names of the timers, in the official order."""

    @property
    def problems(self) -> Mapping[str, P]:
        """The classes by their letters."""

    @property
    def variants(self) -> tuple[str, ...]:
        """The ways to communicate; the first is the default."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Declare options that only this benchmark has. Local."""

    def check(self, problem: P, options: argparse.Namespace, ranks: int | None) -> None:
        """Raise UsageError for options that cannot run, on `ranks` ranks if that number is known. Local."""

    def needs(self, problem: P, options: argparse.Namespace, ranks: int) -> int:
        """Estimate the bytes of memory in all ranks together. Local."""

    def describe(self, problem: P, options: argparse.Namespace, team: gw.Team) -> list[str]:
        """Return the lines of the official output about the set-up. Local."""

    def run(self, problem: P, options: argparse.Namespace, team: gw.Team, sections: Sections, echo: Echo) -> Outcome:
        """Warm up, compute inside the clock, compare. Collective over team; `echo` prints on rank 0 only."""

    def mops(self, problem: P) -> float:
        """Return the nominal millions of operations in the timed region. Local."""

    def reference(self, problem: P) -> Any:
        """Return the reference of the value. Local."""

    def lines(self) -> Mapping[str, Sequence[object]]:
        """Return functions and classes of the timed region by the purpose of their lines. Local."""
