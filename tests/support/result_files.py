"""Results of benchmarks, applications, models and traces as tests need them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gondwana.results.units import units_of


def environment(**changed: Any) -> dict[str, Any]:
    return {
        "time": "2026-11-24T00:00:00+00:00", "cpu": "Processor X", "cores": 4, "caches": None, "placement": None,
        "load_average": [0.5, 0.5, 0.5], "system": "Linux", "versions": {}, "commit": None, "compiler": None,
        "mpi_library": None, **changed,
    }  # fmt: skip


def benchmark(name: str, panels: dict[str, list[dict[str, Any]]], **changed: Any) -> dict[str, Any]:
    rows = [row for of_panel in panels.values() for row in of_panel]
    return {
        "schema": 1, "benchmark": name, "command": ["gondwana", "bench", name], "verified": True, "complete": True,
        "environment": environment(), "device": {}, "units": units_of(name, rows), "panels": panels,
        "notes": [], "failures": [], **changed,
    }  # fmt: skip


def application(name: str, **keys: Any) -> dict[str, Any]:
    own = {"version": "1", "ranks": 2, "threads": 1, "device": "host", "seconds": 0.5, "verified": True, **keys}
    return {
        "schema": 1, "app": name, "command": ["gondwana", "run", name], "environment": environment(),
        "units": units_of(name, [{key: value for key, value in own.items() if key != "config"}]), **own,
    }  # fmt: skip


def model(machine: str, panels: dict[str, list[dict[str, Any]]], **changed: Any) -> dict[str, Any]:
    rows = [row for of_panel in panels.values() for row in of_panel]
    return {
        "schema": 1, "model": machine, "command": ["gondwana", "model", "predict"], "environment": environment(),
        "verified": None, "units": units_of("model", rows), "panels": panels, **changed,
    }  # fmt: skip


def trace(ranks: int = 2, **changed: Any) -> dict[str, Any]:
    square = [[0 if sender == to else 1000 * (sender + 1) for to in range(ranks)] for sender in range(ranks)]
    head = {
        "schema": 1, "trace": "heat.py", "command": ["gondwana", "run", "heat.py"], "environment": environment(),
        "verified": None, "ranks": ranks, "seconds": [1.0] * ranks, "matrix": {"bytes": square, "messages": square},
        "complete": True, "notes": [], "spans": {"compute": [0.75] * ranks, "waiting": [0.25] * ranks}, **changed,
    }  # fmt: skip
    return {"traceEvents": [], "gondwana": head}


def row(operation: str, size: int, **changed: Any) -> dict[str, Any]:
    """A row as most benchmarks write it."""
    return {
        "operation": operation, "rival": "C", "size": size,
        "microseconds": 1e-3 * size, "rival_microseconds": 2e-3 * size,
        "ratio": 2.0, "ratio_low": 1.5, "ratio_high": 2.5, "goal": ">= 1.5 x", "met": True, "verified": True,
        "foreign_load": 0.0, **changed,
    }  # fmt: skip


def write(folder: Path, content: Any, name: str = "result.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
