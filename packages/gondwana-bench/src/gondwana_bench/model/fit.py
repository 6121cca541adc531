"""A machine's parameters from measured steps, and the errors of the model on others.

The logarithms of the parameters are moved until the relative errors are least, by Levenberg's and Marquardt's method
(Marquardt: An algorithm for least-squares estimation of nonlinear parameters, 1963). A weak pull to the start keeps
those in place that the steps say nothing about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from gondwana_bench.model import applications, predict
from gondwana_bench.model.machine import Application, Link, Machine, Memory, Noise
from gondwana_bench.model.observations import Measured, Observation

Vector = NDArray[np.float64]

PULL = 0.02
"""Weight of a parameter's distance from the start, beside that of an error of 1."""

FIRM = {"streaming": 0.1, "cache_bytes": 0.1}
"""The same for parameters whose start is more than an order of magnitude."""

ROUNDS = 60

START = Machine(
    name="this machine",
    ranks_per_node=1,
    memory=Memory(rank=2e10, node=4e10, cache=5e10, cache_bytes=2e7),
    node=Link(latency=2e-7, overhead=5e-8, gap=5e-8, bandwidth=1e10),
    network=Link(latency=5e-5, overhead=2e-5, gap=1e-5, bandwidth=1e9, eager=65536.0),
    rate=2e9,
)
"""Orders of magnitude of today's hosts; Open MPI's eager limit of TCP."""

_CODE = Application(overhead=2e-6, start=1e-6, rate=2e9, streaming=1.0)


def fit(
    measured: Measured, name: str, ranks_per_node: int, network: Link | None = None, noise: Noise | None = None
) -> Machine:
    """Fit a machine to measured steps. Local.

    Args:
        measured: the steps, of one node and of several if there are such, and rows of `bench rma` for its messages.
        name: of the machine.
        ranks_per_node: its cores.
        network: start values of messages between nodes, of which the latency and the hops are kept: one delay cannot
            tell them from the overhead.
        noise: of the machine.

    Raises:
        UsageError: there are no steps.
    """
    steps = measured.some_steps()
    apps = sorted({step.app for step in steps})
    far = any(step.nodes > 1 for step in steps)
    start = msgspec.structs.replace(
        START, name=name, ranks_per_node=ranks_per_node, node=_node(measured),
        network=(network or START.network) if far else None, noise=noise, applications=dict.fromkeys(apps, _CODE),
    )  # fmt: skip
    names = _names(start)
    base = np.array([_get(start, name) for name in names])
    pulls = np.array([FIRM.get(name[-1], PULL) for name in names])

    def machine_of(theta: Vector) -> Machine:
        machine = start
        for parameter, value in zip(names, base * np.exp(theta), strict=True):
            machine = _set(machine, parameter, float(value))
        return machine

    counts = [applications.work(step.app, step.size, step.ranks) for step in steps]

    def residuals(theta: Vector) -> Vector:
        machine = machine_of(theta)
        found = [
            math.log(predict.step(placed(machine, step), step.app, work).seconds / step.seconds)
            for step, work in zip(steps, counts, strict=True)
        ]
        return np.concatenate([found, pulls * theta])

    found = machine_of(least_squares(residuals, np.zeros(len(names))))
    rates = [code.rate for code in found.applications.values()]
    return msgspec.structs.replace(found, rate=float(np.exp(np.mean(np.log(rates)))))


def placed(machine: Machine, step: Observation) -> Machine:
    """Return the machine with nodes of as many ranks as the step had. Local."""
    if step.nodes == 1:
        return machine
    return msgspec.structs.replace(machine, ranks_per_node=-(-step.ranks // step.nodes))


def errors(machine: Machine, steps: Sequence[Observation]) -> list[dict[str, object]]:
    """Return measured and predicted milliseconds of steps, and the errors in percent. Local."""
    rows: list[dict[str, object]] = []
    for step in steps:
        work = applications.work(step.app, step.size, step.ranks)
        seconds = predict.step(placed(machine, step), step.app, work).seconds
        rows.append({
            "app": step.app, "size": step.size, "ranks": step.ranks, "nodes": step.nodes,
            "measured": 1e3 * step.seconds, "predicted": 1e3 * seconds, "error": 100 * (seconds / step.seconds - 1),
        })  # fmt: skip
    return rows


def least_squares(residuals: Callable[[Vector], Vector], start: Vector) -> Vector:
    """Return where the sum of squares is least near the start. Local.

    Example:
        >>> least_squares(lambda x: x - 3.0, np.zeros(1)).round(6)
        array([3.])
    """
    theta, damping = start, 1e-2
    now = residuals(theta)
    for _ in range(ROUNDS):
        steps = 1e-4 * np.eye(len(theta))
        slopes = np.stack([(residuals(theta + step) - now) / 1e-4 for step in steps], axis=1)
        normal = slopes.T @ slopes
        move = np.linalg.solve(normal + damping * np.eye(len(theta)), -slopes.T @ now)
        trial = residuals(theta + move)
        if trial @ trial < now @ now:
            done = now @ now - trial @ trial < 1e-9 * (now @ now)
            theta, now, damping = theta + move, trial, damping / 3
            if done:
                break
        else:
            damping *= 4
    return theta


def _node(measured: Measured) -> Link:
    """Messages of a node from `bench rma`, where it was run."""
    rma, usual = measured.rma, START.node
    put, signal = rma.get(("compiled put", 8)), rma.get(("compiled put + signal", 8))
    flood = [(size, value) for (operation, size), value in rma.items() if operation == "compiled put flood"]
    if put is None or signal is None or not flood:
        return usual
    return Link(latency=max(signal - 2 * put, 0.0), overhead=put, gap=put, bandwidth=max(flood)[1])


def _names(machine: Machine) -> list[tuple[str, ...]]:
    """The parameters that are fitted, as paths into the machine."""
    network = [("network", key) for key in ("overhead", "bandwidth")] if machine.network else []
    memory = [("memory", key) for key in ("rank", "node", "cache", "cache_bytes")]
    codes = [
        ("applications", app, key) for app in machine.applications for key in ("overhead", "start", "rate", "streaming")
    ]
    return [*memory, *network, *codes]


def _get(machine: Machine, path: tuple[str, ...]) -> float:
    value: object = machine
    for key in path:
        value = value[key] if isinstance(value, dict) else getattr(value, key)
    return float(value)  # type: ignore[arg-type]


def _set(machine: Machine, path: tuple[str, ...], value: float) -> Machine:
    first, *rest, last = path
    inner = getattr(machine, first)
    if rest:
        (app,) = rest
        changed = {**inner, app: msgspec.structs.replace(inner[app], **{last: value})}
    else:
        changed = msgspec.structs.replace(inner, **{last: value})
    return msgspec.structs.replace(machine, **{first: changed})
