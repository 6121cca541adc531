"""`gondwana run hpcg`: HPCG 3.1, from the problem to the official result file."""

from __future__ import annotations

import math

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.results import check_writable, write_application
from gondwana_apps.free_memory import available_memory, in_gib
from gondwana_apps.hpcg import report, verdict
from gondwana_apps.hpcg.parameters import Parameters, parse
from gondwana_apps.hpcg.phases import Outcome, run
from gondwana_apps.hpcg.verdict import Rates, rates
from gondwana_apps.options import on_first_rank
from gondwana_apps.sentences import say
from gondwana_apps.timers import over_ranks

_BYTES_A_ROW = 1300
"""Upper bound for both paths, with the temporary data of the set-up."""


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse arguments that cannot run, before any rank starts. Local.

    Args:
        argv: arguments after `hpcg` on the command line.
        ranks: number of ranks that will run, if the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    parameters = parse(argv)
    if parameters.json is not None:
        check_writable(parameters.json)
    if ranks is not None:
        parameters.grid_of(ranks)
    needed, free = needs(parameters, ranks or 1), available_memory()
    if needed > free:
        raise UsageError(
            f"hpcg: {'x'.join(map(str, parameters.local))} points on each of {ranks or 1} ranks need "
            f"{in_gib(needed)} of memory and {in_gib(free)} are free: choose smaller boxes or fewer ranks"
        )


def needs(parameters: Parameters, ranks: int) -> int:
    """Estimate the bytes that a run takes in all ranks together. Local."""
    height = parameters.local[2] if parameters.zones is None else max(parameters.zones.lower, parameters.zones.upper)
    return ranks * math.prod(parameters.local[:2]) * height * _BYTES_A_ROW


def main(argv: list[str]) -> int:
    """Run the benchmark. Collective over the world.

    Args:
        argv: arguments after `hpcg` on the command line.

    Returns:
        The exit status: 0 if the run is valid and passes our own tests, else 1.
    """
    team = gw.world
    parameters = on_first_rank(team, lambda: parse(argv))
    is_first = team.rank == 0
    if is_first:
        _announce(parameters, team)
    outcome = run(parameters, team)
    spread = over_ranks(outcome.times["total"] / (outcome.iterations * len(outcome.residuals)), team)
    if is_first:
        found = rates(outcome)
        _print(outcome, found)
        say(f"result: {report.write(outcome, found)}")
        if parameters.json is not None:
            result = verdict.result(parameters, outcome, found)
            write_application(parameters.json, result | {"step_seconds_over_ranks": spread})
    verified: bool = team.bcast(outcome.verified)
    return 0 if verified else 1


def _announce(parameters: Parameters, team: gw.Team) -> None:
    sides = "x".join(map(str, parameters.local))
    grid = "x".join(map(str, parameters.grid_of(team.size)))
    length = f"at least {parameters.seconds} s of timed sets" if parameters.seconds else "quick path, one timed set"
    say(f"hpcg: {sides} points a rank, {team.size} ranks as {grid}, {gw.threads()} threads each, {length}")
    for note in parameters.notes:
        say(f"note: {note}")
    say(f"needs about {in_gib(needs(parameters, team.size))} of memory")


def _print(outcome: Outcome, found: Rates) -> None:
    say(
        f"reference: scaled residual {outcome.reference_residual:.6g} after 50 iterations; optimised: "
        f"{outcome.residuals[-1]:.6g} after {outcome.iterations}, the same in {len(outcome.residuals)} sets of "
        f"{found.seconds / len(outcome.residuals):.4g} s"
        if outcome.norms.variance == 0.0
        else f"the residuals of the sets differ: variance {outcome.norms.variance:.3g}"
    )
    if gw.threads() > 1:
        say(f"{outcome.threads} of {gw.threads()} threads work: that was faster in a trial")
    say(
        f"set-up {outcome.seconds_setup:.3g} s, conversion {outcome.seconds_optimise:.3g} s, "
        f"compiling {outcome.seconds_compile:.3g} s (not counted); raw {found.raw:.3f} GFLOP/s, "
        f"{found.moved / found.seconds / 1e9:.2f} GB/s moved"
    )
    state = "VALID" if outcome.valid else "INVALID"
    strict = "passed" if outcome.verified else "FAILED"
    say(f"{state}: {found.rating:.4f} GFLOP/s; tests of our own {strict}")
