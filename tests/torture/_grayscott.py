"""Runs of Gray-Scott in a folder, and whether a run that was disturbed came to the same end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.trials import GONDWANA, Judged, judge

NAME, OUTPUT, CHECKPOINT = "settings.json", "gs.bp", "ck.bp"
SUMS = ("steps", "u_sum", "v_sum", "u_max", "v_max")


def settings(side: int, steps: int, **others: Any) -> dict[str, Any]:
    """Settings of a run with output and checkpoints."""
    keys: dict[str, Any] = {
        "L": side, "steps": steps, "plotgap": max(1, steps // 4), "noise": 0.01, "seed": 5, "output": OUTPUT,
        "checkpoint": True, "checkpoint_freq": 2, "checkpoint_output": CHECKPOINT, "restart_input": CHECKPOINT,
    }  # fmt: skip
    return keys | others


def words(folder: Path, keys: Mapping[str, Any], ranks: int, *options: str) -> Sequence[str]:
    """Write the settings into a folder, and return the command that runs them there."""
    (folder / NAME).write_text(json.dumps(keys))
    return [*GONDWANA, "run", "-n", str(ranks), "-t", "1", "gray-scott", NAME, *options]


def result_of(folder: Path, keys: Mapping[str, Any], ranks: int) -> tuple[Judged, dict[str, Any]]:
    """Run settings to their end, and return what came out, or nothing if it failed."""
    file = folder / "result.json"
    file.unlink(missing_ok=True)
    ended = judge(words(folder, keys, ranks, "--json", file.name), cwd=folder, timeout=300)
    found = json.loads(file.read_text()) if file.exists() else {}
    return ended, {name: found.get(name) for name in SUMS}


@cache
def undisturbed(side: int, steps: int) -> Mapping[str, Any]:
    """The result of a run that nothing disturbs; the same on any number of ranks."""
    with TemporaryDirectory() as folder:
        ended, found = result_of(Path(folder), settings(side, steps), 1)
        assert ended.verdict == "ran", str(ended)
        return found


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, unfinished ones left out."""
    return sorted(folder.glob("ck.*[0-9].bp"))
