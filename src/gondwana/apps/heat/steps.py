"""The time loop: compiled, or from Python where devices or other nodes take part."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.apps.heat import exchange
from gondwana.apps.heat.kernels import Rates, conduct, heat, sweep
from gondwana.apps.heat.settings import Settings


class Plan(NamedTuple):
    """When things change or happen.

    Attributes:
        half: the last step with the power on.
        last: number of the last step.
        every: steps between two sums of the temperature.
        overlap: whether the cells that need no neighbour are computed while the ghosts are under way.
    """

    half: int
    last: int
    every: int
    overlap: bool


class Parts(NamedTuple):
    """The cells of a rank, as `sweep` takes them: those that need no neighbour, the others, and all."""

    inner: NDArray[np.int64]
    rim: NDArray[np.int64]
    owned: NDArray[np.int64]


class Record(NamedTuple):
    """What was measured in steps of this rank.

    Attributes:
        nanoseconds: of each step.
        sums: of the temperature before each step, over all ranks; NaN where it was not taken.
    """

    nanoseconds: NDArray[np.int64]
    sums: NDArray[np.float64]


Loop = Callable[[int, Record], None]
"""Does steps from a number on, as many as the record has room for. Collective over the team of the arrays; blocks."""


def rates_of(settings: Settings) -> Rates:
    """Return the constants of the model. Local."""
    return Rates(settings.dt, settings.q, settings.sigma, settings.P)


def make_loop(settings: Settings, T: gw.GlobalArray, other: gw.GlobalArray) -> Loop:
    """Return the time loop. Collective over the team of the arrays; blocks.

    Args:
        settings: of the run.
        T: the temperature before even steps.
        other: before odd steps.
    """
    every = 1 if settings.reduce == "step" else settings.I
    plan, rates = Plan(settings.N // 2, settings.N, every, settings.overlap), rates_of(settings)
    if not T.kind.host or (settings.variant != "two-sided" and T.team.node_count > 1):
        return _interpreted(settings, T, other, plan, rates)
    ghosts_of = COMPILED[settings.variant][2]
    function, ghosts = _loops[settings.variant], (ghosts_of(T), ghosts_of(other))
    parts = Parts(
        exchange.as_rows([T.inner]), exchange.as_rows(list(T.rim.rects)), exchange.as_rows([T.owned])
    )  # fmt: skip

    def run(first: int, record: Record) -> None:
        gw.parallel(function, T, other, *ghosts, T.team, parts, T.domain, rates, plan, first, record)

    return run


def compiled_loop(begin: Any, finish: Any, sweep: Any = sweep) -> Any:
    """Return the loop in compiled code. Local.

    Args:
        begin: starts an exchange; called by thread 0 with the ghosts of an array and the array.
        finish: waits for it, in the same way.
        sweep: computes the cells of boxes, as `kernels.sweep` does.
    """

    @gw.jit
    def step(
        threads: Any,
        T_next: Any,
        T: Any,
        ghosts: Any,
        team: gw.Team,
        parts: Parts,
        box: Any,
        k: Rates,
        plan: Plan,
        summed: bool,
    ) -> float:
        total = 0.0
        if threads.index == 0:
            begin(ghosts, T)
        if plan.overlap:
            total += sweep(threads, T_next, T, parts.inner, box, k, summed)
        if threads.index == 0:
            finish(ghosts, T)
        threads.barrier()
        total += sweep(threads, T_next, T, parts.rim if plan.overlap else parts.owned, box, k, summed)
        if not summed:
            threads.barrier()
            return np.nan
        total = threads.sum(total)
        return gw.allreduce(team, total) if threads.index == 0 else total  # type: ignore[no-any-return]

    @gw.jit
    def run(
        threads: Any, T: Any, other: Any, ghosts: Any, ghosts_of_other: Any, team: gw.Team, parts: Parts, box: Any,
        rates: Rates, plan: Plan, first: int, record: Record,
    ) -> None:  # fmt: skip
        start = gw.clock()
        for number in range(first, first + len(record.sums)):
            k = Rates(rates.dt, rates.q, rates.sigma, rates.P if number <= plan.half else 0.0)
            summed = number % plan.every == 0 or number == plan.last
            if number % 2 == 0:
                total = step(threads, other, T, ghosts, team, parts, box, k, plan, summed)
            else:
                total = step(threads, T, other, ghosts_of_other, team, parts, box, k, plan, summed)
            if threads.index == 0:
                end = gw.clock()
                record.nanoseconds[number - first] = end - start
                record.sums[number - first] = total
                start = end

    return run


COMPILED: dict[str, tuple[Any, Any, Callable[[gw.GlobalArray], Any]]] = {
    "one-sided": (exchange.begin_stores, exchange.finish_stores, lambda T: exchange.OneSided(T).plan),
    "two-sided": (exchange.begin_messages, exchange.finish_messages, lambda T: exchange.messages(T.layout, T.team)),
    "copy-notify": (exchange.begin_copies, exchange.finish_copies, lambda T: exchange.notified(T.layout, T.team)),
}
"""The variants in compiled code, in the memory of one node: what starts an exchange, what waits for it, and what makes
the ghosts of an array that both take."""

_loops = {variant: compiled_loop(begin, finish) for variant, (begin, finish, _) in COMPILED.items()}


@gw.jit
def _sweep_all(threads: Any, T_next: Any, T: Any, parts: Any, box: Any, k: Rates, summed: bool) -> float:
    total = sweep(threads, T_next, T, parts, box, k, summed)
    return threads.sum(total)  # type: ignore[no-any-return]


def _interpreted(settings: Settings, T: gw.GlobalArray, other: gw.GlobalArray, plan: Plan, rates: Rates) -> Loop:
    """The loop from Python: on devices the kernels of a step are only started, unless its sum is wanted."""
    exchanges = [exchange.EXCHANGES[settings.variant](array) for array in (T, other)]
    compute = _on_host if T.kind.host else _on_device

    def step(number: int, k: Rates, summed: bool) -> float:
        present, following = (T, other) if number % 2 == 0 else (other, T)
        ghosts = exchanges[number % 2]
        ghosts.begin()
        total = compute(present.inner, following, present, k, summed) if plan.overlap else 0.0
        ghosts.finish()
        total += compute(present.rim if plan.overlap else present.owned, following, present, k, summed)
        return float(T.team.allreduce(total)) if summed else np.nan

    def run(first: int, record: Record) -> None:
        start = gw.clock()
        for place in range(len(record.sums)):
            number = first + place
            k = rates if number <= plan.half else rates._replace(P=0.0)
            record.sums[place] = step(number, k, number % plan.every == 0 or number == plan.last)
            end = gw.clock()
            record.nanoseconds[place] = end - start
            start = end
        gw.synchronize()
        gw.quiesce(T.team)  # replies to notifications

    return run


def _on_host(domain: Any, T_next: gw.GlobalArray, T: gw.GlobalArray, k: Rates, summed: bool) -> float:
    return float(gw.parallel(_sweep_all, T_next, T, _rows(domain), T.domain, k, summed))


def _on_device(domain: Any, T_next: gw.GlobalArray, T: gw.GlobalArray, k: Rates, summed: bool) -> float:
    total = float(heat(domain, T)) if summed else 0.0
    conduct(domain, T_next, T, T.domain, k)
    return total


@functools.lru_cache(64)
def _rows(domain: Any) -> NDArray[np.int64]:
    return exchange.as_rows([domain] if isinstance(domain, gw.RectDomain) else list(domain.rects))
