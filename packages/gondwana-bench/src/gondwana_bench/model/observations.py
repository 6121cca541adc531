"""Measured steps, from the result files of the applications (`--json`) and of `bench heat`, `npb` and `hpcg`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from gondwana import results
from gondwana.errors import UsageError
from gondwana.inputs import printable
from gondwana_bench.model.machine import Count, Positive
from gondwana_bench.rows import grouped

_UNITS = {"ns": 1e-9, "us": 1e-6, "GB/s": 1e9, "M/s": 1e6}
"""Units of the rows of `bench rma`."""

CLASS_STEPS = {"npb-mg": 0.25, "npb-ft": 1.0, "npb-cg": 0.0}
"""Other timed work, in iterations: the first residual and the norm, the first transform."""


@dataclass(frozen=True)
class Observation:
    """A measured step.

    Attributes:
        app: name of the application.
        size: size as `applications.work` takes it.
        ranks: number of ranks of the run.
        nodes: number of nodes.
        seconds: time of a step.
        source: the file.
    """

    app: str
    size: str
    ranks: Count
    nodes: Count
    seconds: Positive
    source: str


@dataclass(frozen=True)
class Measured:
    """The contents of files of results.

    Attributes:
        steps: steps of applications.
        rma: seconds, or bytes or operations a second, of `bench rma` on a node, by operation and bytes.
        skipped: files and rows without counts in the model, with the reason.
    """

    steps: list[Observation]
    rma: dict[tuple[str, int], float]
    skipped: list[str]

    def some_steps(self) -> list[Observation]:
        """Return the steps. Local.

        Raises:
            UsageError: the files have no steps.
        """
        if not self.steps:
            raise UsageError("no measured steps: give results of applications (gondwana run ... --json FILE)")
        return self.steps


def read(paths: list[Path]) -> Measured:
    """Read results. Local.

    Raises:
        UsageError: a file is not a result.
    """
    found = Measured([], {}, [])
    for path in paths:
        for result in results.read(path):
            try:
                _add(found, result, str(path))
                _check(found)
            except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
                raise UsageError(
                    printable(f"{path}: not a result of this version ({error!r}); give files of --json")
                ) from None
    return Measured(_medians(found.steps), found.rma, found.skipped)


def _check(found: Measured) -> None:
    """Raise `ValidationError` if an entry of a file is not a measurement."""
    for step in found.steps:
        msgspec.convert(vars(step), Observation)
    msgspec.convert(list(found.rma.values()), list[Positive])


def _medians(steps: list[Observation]) -> list[Observation]:
    """One step of each kind: the median of those measured."""
    kinds = grouped(steps, lambda step: (step.app, step.size, step.ranks, step.nodes))
    return [replace(all_[0], seconds=statistics.median(step.seconds for step in all_)) for all_ in kinds.values()]


def _add(found: Measured, result: dict[str, Any], source: str) -> None:
    benchmark = result.get("benchmark")
    if benchmark == "rma":
        on_node = (row for row in result["panels"]["rma"] if row.get("nodes", 1) == 1)
        found.rma.update({(row["operation"], row["size"]): row["ours"] * _UNITS[row["unit"]] for row in on_node})
    elif benchmark in _ROWS:
        found.steps.extend(_ROWS[benchmark](result["panels"], source))
    elif "app" in result and (reason := _obstacle(result)) is None:
        found.steps.append(_of_application(result, source))
    else:
        name = result[results.kind_of(result)]
        what = f"{name}: {reason if 'app' in result else 'no steps of an application'}"
        found.skipped.append(printable(f"{source}: {what}"))


def _obstacle(result: dict[str, Any]) -> str | None:
    """Why a result is not one that is counted; None: it is."""
    app, config = result["app"], result.get("config", {})
    if app not in _STEPS:
        return "the model does not count its steps"
    if result.get("threads", 1) != 1 or result.get("device", "host") != "host":
        return "several threads a rank, or a GPU: run it with --threads 1 on the host"
    if (result.get("environment") or {}).get("cores", result["ranks"]) * _nodes(result) < result["ranks"]:
        return "more ranks than cores: their time depends on how the system shares the cores"
    if app == "gray-scott" and (config["noise"] == 0 or config["precision"] != "Float64" or result["fuse_steps"] != 1):
        return "only runs with noise, Float64 and fuse_steps = 1 are counted"
    if app == "heat" and (config["reduce"] != "step" or config["blocks"] != "balanced" or not result["step_seconds"]):
        return "only runs of many steps, with reduce = step and balanced blocks, are counted"
    return None


def _of_application(result: dict[str, Any], source: str) -> Observation:
    size, seconds = _STEPS[result["app"]](result)
    return Observation(result["app"], size, result["ranks"], _nodes(result), seconds, source)


def _nodes(result: dict[str, Any]) -> int:
    """Nodes of a pattern "threads x ranks of a node x nodes"; 1 without a pattern."""
    placement = (result.get("environment") or {}).get("placement") or {}
    return int(str(placement.get("pattern", "1x1x1")).split("x")[-1])


def _heat(result: dict[str, Any]) -> tuple[str, float]:
    return "x".join(str(result["config"][axis]) for axis in "XYZ"), result["step_seconds"]["median"]


def _gray_scott(result: dict[str, Any]) -> tuple[str, float]:
    return str(result["L"]), (result["seconds"] - result["seconds_first_step"]) / (result["steps"] - 1)


def _npb(result: dict[str, Any]) -> tuple[str, float]:
    return result["class"], result["seconds"] / (result["iterations"] + CLASS_STEPS[result["app"]])


def _hpcg(result: dict[str, Any]) -> tuple[str, float]:
    return "x".join(map(str, result["local"])), result["seconds"] / result["sets"] / result["iterations_optimised"]


_STEPS = {"heat": _heat, "gray-scott": _gray_scott, "hpcg": _hpcg, **dict.fromkeys(CLASS_STEPS, _npb)}


def _heat_rows(panels: dict[str, Any], source: str) -> Iterator[Observation]:
    from gondwana import Layout

    for row in (row for rows in panels.values() for row in rows if row["variant"] == "application"):
        edge, ranks = row["size"], row["ranks"]
        grid = Layout.divide((edge * ranks,) * 3, ranks, ghost=1).grid
        size = "x".join(str(edge * parts) for parts in grid)
        yield Observation("heat", size, ranks, 1, row["median"] * 1e-6, source)


def _npb_rows(panels: dict[str, Any], source: str) -> Iterator[Observation]:
    from gondwana_apps.npb.cg import problem as cg
    from gondwana_apps.npb.ft import problem as ft
    from gondwana_apps.npb.mg import problem as mg

    classes: dict[str, Mapping[str, Any]] = {"npb-mg": mg.PROBLEMS, "npb-ft": ft.PROBLEMS, "npb-cg": cg.PROBLEMS}
    for row in panels["time"]:
        app = f"npb-{row['benchmark'].lower()}"
        problems = classes[app]
        if row["variant"] in ("6msg", "pencils", "flags"):
            steps = problems[row["class"]].iterations + CLASS_STEPS[app]
            yield Observation(app, row["class"], row["ranks"], 1, row["median"] / steps, source)


def _hpcg_rows(panels: dict[str, Any], source: str) -> Iterator[Observation]:
    for row in panels["rating"]:
        yield Observation("hpcg", str(row["size"]), row["ranks"], 1, row["milliseconds"] * 1e-3, source)


_ROWS = {"heat": _heat_rows, "npb": _npb_rows, "hpcg": _hpcg_rows}
