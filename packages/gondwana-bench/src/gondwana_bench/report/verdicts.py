"""The outcome of every row that has a rival: faster or slower, its goal, its load, and what has changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gondwana.results import units_of
from gondwana_bench.disturbance import LIMIT
from gondwana_bench.report import layouts
from gondwana_bench.report.comparisons import Comparison, compare, goal_met, label_of
from gondwana_bench.report.rows import Panel, Row, figure
from gondwana_bench.report.scales import drawable
from gondwana_bench.report.sources import Source
from gondwana_bench.rows import grouped

SLOWER, MISSED, CHANGED = "slower", "missed", "changed"
"""What rows can be filtered by."""

_GOAL = re.compile(r"(<=|>=) (\S+)( x)?")


@dataclass(frozen=True)
class Verdict:
    """A row beside a rival.

    Attributes:
        label: what was measured: it tells the row from all others of its file.
        one: the comparison.
        panel: the table with the row.
        source: the result with the table.
        met: whether its goal is met, None without one.
        distance: how many times as good as its goal it is; without one, as its rival.
        before: the comparison of the same row in the results that these are compared with.
    """

    label: str
    one: Comparison
    panel: Panel
    source: Source
    met: bool | None
    distance: float
    before: Comparison | None = None

    @property
    def outcome(self) -> str:
        """`SLOWER` or "faster"; "even" if the interval holds 1."""
        return SLOWER if self.one.high < 1.0 else "faster" if self.one.low > 1.0 else "even"

    @property
    def load(self) -> float | None:
        """The processors that other programs kept busy meanwhile, if they were enough to disturb it."""
        load = figure(self.one.row.get("foreign_load"))
        return load if load is not None and load > LIMIT else None

    @property
    def marks(self) -> list[str]:
        """The filters that show it."""
        changed = self.before is not None and not (
            self.before.low <= self.one.high and self.one.low <= self.before.high
        )
        found = {SLOWER: self.outcome == SLOWER, MISSED: self.met is False, CHANGED: changed}
        return [name for name, holds in found.items() if holds]


def verdicts(sources: Sequence[Source], since: Sequence[Source] = ()) -> list[Verdict]:
    """Return the outcomes of our rows beside rivals, those farthest from their goals first. Local.

    Args:
        sources: results of one benchmark.
        since: results that they are compared with, of any benchmarks. A row is compared with that of the file of the
            same name; without one, with the only row that measured the same.
    """
    old = _known(since)
    names = _names(sources)
    found = [
        Verdict(
            _label(panel, key, one, names[panel.name]), one, panel, source, goal_met(panel, one.row),
            distance(panel, one), old.get((source.file, what)) or old.get((None, what)),
        )
        for source, panel, key, one in _compared(sources)
        for what in (_identity(source, panel, key, one),)
    ]  # fmt: skip
    return sorted(found, key=lambda verdict: verdict.distance)


def in_a_sentence(found: Sequence[Verdict]) -> str:
    """Return how many rows miss their goals, and how many are slower than their rivals. Local."""
    missed, slower = (sum(mark in one.marks for one in found) for mark in (MISSED, SLOWER))
    goals, faster = sum(one.met is not None for one in found), sum(one.outcome == "faster" for one in found)
    beside = f"{slower} of {len(found)} rows are slower than their rival, {faster} faster"
    return f"{missed} of {goals} rows with a goal miss it; {beside}" if goals else beside


def verdict_of_panel(benchmark: str, panel: str, rows: Sequence[Row]) -> str:
    """Return what the rows of a panel say, in a sentence. Local."""
    wrong = sum(row.get("verified") is False for row in rows)
    content = {"panels": {panel: rows}, "units": units_of(benchmark, rows), "environment": {}}
    found = verdicts([Source("", "benchmark", benchmark, content)])
    count = f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
    said = in_a_sentence(found) if found else count
    return f"{wrong} of {count} WRONG; {said}" if wrong else said


def distance(panel: Panel, one: Comparison) -> float:
    """Return how many times as good as its goal a row is; without a goal, as its rival. Local."""
    row, met = one.row, goal_met(panel, one.row)
    if met is None:
        return one.ratio
    said = _GOAL.fullmatch(str(row.get("goal")))
    keys = (("goal", "ours"), ("goal_us", "ours_us"))
    known = [(row.get(goal), row.get(ours), panel.is_time(ours, row)) for goal, ours in keys]
    if said is not None:
        known.append((_number(said[2]), one.ratio if said[3] else row.get("ours"), said[1] == "<="))
    for goal, there, less in known:
        wanted, reached = figure(goal), figure(there)
        if drawable(wanted, log=True) and drawable(reached, log=True):
            assert wanted is not None
            assert reached is not None
            return wanted / reached if less else reached / wanted
    return max(one.ratio, 1.0) if met else min(one.ratio, 1.0)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _compared(sources: Sequence[Source]) -> Iterator[tuple[Source, Panel, str, Comparison]]:
    """Our rows beside rivals, with their results, tables and columns."""
    for source in sources:
        for panel in source.panels if source.kind == "benchmark" else ():
            how = layouts.layout(panel.benchmark, panel.name)
            if layouts.RATIOS in how.kinds:  # else another panel has these ratios
                for key in panel.ratios():
                    yield from ((source, panel, key, one) for one in compare(panel, key, how) if one.who == "ours")


def _identity(source: Source, panel: Panel, key: str, one: Comparison) -> tuple[Any, ...]:
    """What was measured: the same for the same row of another run."""
    named = tuple((name, str(one.row[name])) for name in panel.named())
    return source.name, panel.name, key, one.rival, named


def _known(sources: Sequence[Source]) -> Mapping[tuple[str | None, tuple[Any, ...]], Comparison]:
    """Comparisons by the file and what was measured, and by the latter alone where one file has it."""
    found: dict[tuple[str | None, tuple[Any, ...]], list[Comparison]] = {}
    for source, panel, key, one in _compared(sources):
        for file in (source.file, None):
            found.setdefault((file, _identity(source, panel, key, one)), []).append(one)
    return {what: of[0] for what, of in found.items() if len(of) == 1}


def _names(sources: Sequence[Source]) -> dict[str, list[str]]:
    """The columns that tell the rows of all results apart, by the names of the panels."""
    panels = grouped((panel for source in sources for panel in source.panels if panel.rows), lambda panel: panel.name)
    found = {}
    for name, of in panels.items():
        common = [key for key in of[0].keys if all(key in panel.keys for panel in of)]
        rows = [{key: row[key] for key in common} for panel in of for row in panel.rows]
        found[name] = Panel(of[0].benchmark, name, rows, of[0].units).names()
    return found


def _label(panel: Panel, key: str, one: Comparison, names: Sequence[str]) -> str:
    own = panel.names()
    label = label_of(panel, one.row, [name for name in panel.named() if name in own or name in names])
    prefix = "" if panel.name == panel.benchmark or label.startswith(panel.name) else f"{panel.name}: "
    part = "" if key in ("ratio", "speed") else f", {key.removesuffix('_ratio').replace('_', ' ')}"
    return f"{prefix}{label}{part}"
