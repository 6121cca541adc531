"""Seconds of a step and efficiency on a machine, and a picture of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gondwana.errors import UsageError
from gondwana.inputs import printable
from gondwana_apps.pictures import figure, legend, plain, save, style
from gondwana_bench.model import applications
from gondwana_bench.model.costs import collective_seconds, exchange_seconds, sweep_seconds
from gondwana_bench.model.machine import Machine
from gondwana_bench.model.noise import slowest
from gondwana_bench.model.work import Work


@dataclass(frozen=True)
class Prediction:
    """A step.

    Attributes:
        compute: seconds of the sweeps, and of all other work without communication.
        communicate: seconds of messages and collectives.
        wait: seconds for the slowest of the ranks that a rank waits for.
    """

    compute: float
    communicate: float
    wait: float

    @property
    def seconds(self) -> float:
        """Time of a step."""
        return self.compute + self.communicate + self.wait


def step(machine: Machine, app: str, work: Work) -> Prediction:
    """Predict a step. Local.

    Args:
        machine: the machine.
        app: name of the application.
        work: work of the busiest rank.

    Raises:
        UsageError: the machine has one node, which is too small, or figures that give no time.
    """
    code = machine.application(app)
    sharing = min(work.ranks, machine.ranks_per_node)
    sweeps = (sweep_seconds(machine, sweep, sharing, code.rate, code.streaming) for sweep in work.sweeps)
    compute = code.overhead + sum(sweeps)
    messages = sum(e.times * (code.start + exchange_seconds(machine, e, work.ranks)) for e in work.exchanges if e.sizes)
    together = sum(c.times * (code.start + collective_seconds(machine, c)) for c in work.collectives if c.ranks > 1)
    # The median of one rank is measured: what more ranks wait is beyond that of one.
    wait = compute * (slowest(machine.noise, work.waits_for) - slowest(machine.noise, 1))
    found = Prediction(compute, messages + together, max(wait, 0.0))
    if not 0.0 < found.seconds < math.inf:
        raise UsageError(printable(f"the machine {machine.name}: its figures give a step of {found.seconds} seconds"))
    return found


def table(machine: Machine, app: str, size: str, ranks: Iterable[int], *, weak: bool) -> list[dict[str, object]]:
    """Predict steps on several numbers of ranks. Local.

    The efficiency is the time on one rank by the time on n ranks, divided by n unless `weak`.

    Args:
        machine: the machine.
        app: name of the application.
        size: size on one rank if `weak`, else of the whole problem.
        ranks: numbers of ranks.
        weak: the problem grows with the ranks.

    Raises:
        UsageError: the application or the machine cannot do that.
    """

    def size_on(count: int) -> str:
        return applications.weak(app, size, count) if weak else size

    one = step(machine, app, applications.work(app, size_on(1), 1)).seconds
    rows: list[dict[str, object]] = []
    for count in ranks:
        found = step(machine, app, applications.work(app, size_on(count), count))
        efficiency = one / found.seconds / (1 if weak else count)
        rows.append({
            "app": app, "size": size_on(count), "ranks": count, "milliseconds": 1e3 * found.seconds,
            "compute": 1e3 * found.compute, "communicate": 1e3 * found.communicate, "wait": 1e3 * found.wait,
            "efficiency": efficiency,
        })  # fmt: skip
    return rows


def draw(rows: Sequence[dict[str, Any]], title: str, file: str) -> None:
    """Draw the milliseconds of a step with their parts, and the efficiency, over the ranks. Local.

    Args:
        rows: rows of `table`.
        title: title of the picture.
        file: the picture.

    Raises:
        UsageError: matplotlib is not installed.
        ResultError: the file cannot be written.
    """
    drawn = figure(9.0, 4.0)
    drawn.suptitle(title)
    left, right = drawn.subplots(1, 2)
    ranks = [row["ranks"] for row in rows]
    for number, part in enumerate(("milliseconds", "compute", "communicate", "wait")):
        name = part if number else "a step"
        left.loglog(ranks, [row[part] or float("nan") for row in rows], **style(number), markersize=4, label=name)
    left.set(xlabel="ranks", ylabel="milliseconds, log axis")
    plain(left.yaxis)
    right.semilogx(ranks, [row["efficiency"] for row in rows], **style(0), markersize=4)
    right.set(xlabel="ranks", ylabel="efficiency", ylim=(0, max(1.05, *(1.05 * row["efficiency"] for row in rows))))
    for axes in (left, right):
        axes.grid(visible=True, alpha=0.3)
        plain(axes.xaxis)
    legend(drawn, left.lines)
    save(drawn, file, f"--plot {file}")
