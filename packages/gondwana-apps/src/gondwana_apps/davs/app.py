"""`gondwana run davs`: from a list of peaks to clusters, a status table and a verdict."""

from __future__ import annotations

import argparse
import os
import resource
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.io import checkpoint
from gondwana.results import check_writable, write_application, write_text
from gondwana_apps import settings_files
from gondwana_apps.davs import outputs, points, quality
from gondwana_apps.davs.generator import generate
from gondwana_apps.davs.presets import PRESETS
from gondwana_apps.davs.run import Result, run
from gondwana_apps.davs.settings import Settings, load
from gondwana_apps.free_memory import available_memory, in_gib
from gondwana_apps.options import on_first_rank, whole
from gondwana_apps.partitions import adjusted_rand_index, purity
from gondwana_apps.pictures import figure
from gondwana_apps.sentences import say
from gondwana_apps.timers import slowest

_BYTES_A_POINT, _BYTES_A_CLUSTER, _BYTES_A_RANK = 700, 200, 80 << 20
"""Upper bounds: of a point, with the temporary data of reading; of a cluster on each thread; of an empty process."""
PARTS = ("compute", "allreduce", "send_receive", "splitting")
_BYTES_A_LINE = 40
"""The fewest bytes of a line in a file of points."""


class Given(NamedTuple):
    """The contents of the command line."""

    options: argparse.Namespace
    preset: str
    settings: Settings


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse settings that cannot run, before any rank starts. Local.

    Args:
        argv: arguments after `davs` on the command line.
        ranks: number of ranks that will run, if the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    given = _parse(argv)
    for path in (given.options.json, given.options.write_points):
        if path is not None:
            check_writable(path)
    if given.options.pictures is not None and not Path(given.options.pictures).is_dir():
        raise UsageError(f"davs: --pictures {given.options.pictures}: this is no folder; make it first")
    if given.options.pictures is not None:
        figure(1.0, 1.0)
    if given.settings.ClusterFile and not Path(given.settings.ClusterFile).parent.is_dir():
        raise UsageError(f"davs: ClusterFile {given.settings.ClusterFile}: its folder does not exist; make it first")
    for path in (given.settings.DistanceMatrixFile, given.settings.RestartClusterFile):
        if path:
            points.check_readable(path)
    needed, free = needs(given.settings, given.preset, ranks or 1), available_memory()
    if needed > free:
        raise UsageError(
            f"davs: needs {in_gib(needed)} of memory and {in_gib(free)} are free: take fewer ranks or points"
        )


def needs(settings: Settings, preset: str, ranks: int) -> int:
    """Estimate the bytes that a run takes in all ranks together. Local."""
    path = settings.DistanceMatrixFile
    count = os.path.getsize(path) // _BYTES_A_LINE if path else PRESETS[preset].field.points
    clusters = min(count // 2, settings.MaxNcentTotal or count)
    each = _BYTES_A_RANK + clusters * _BYTES_A_CLUSTER * gw.threads()
    return count * settings.Replicate * _BYTES_A_POINT + ranks * each


def main(argv: list[str]) -> int:
    """Cluster peaks. Collective over the world.

    Args:
        argv: arguments after `davs` on the command line.

    Returns:
        The exit status: 1 if the result is wrong, that of a signal if one has stopped the run, else 0.
    """
    team = gw.world
    given, peaks, start = _read(team, argv)
    settings = given.settings
    if peaks is not None:
        _announce(given, peaks, team)
        if given.options.write_points is not None:
            write_text(given.options.write_points, outputs.raw(peaks, settings.SelectedInputLabel))
    result = run(None if peaks is None else peaks.points, settings, team, start)
    if result.stopped is not None:
        if peaks is not None:
            say(f"stopped at T = {result.progress.temperature:.4g}: {result.stopped}")
        return result.status
    own = {f"seconds_{part}": result.timers.seconds[part] for part in PARTS} | {"seconds": result.seconds}
    times = slowest(own, team)
    memory = int(team.allreduce(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
    verified = None
    if peaks is not None:
        report = _report(given, peaks, result, times, memory)
        verified = report["verified"]
        _finish(given, peaks, result, report)
    verified = team.bcast(verified)
    return 1 if verified is False else 0


def _parse(argv: list[str]) -> Given:
    parser = settings_files.settings_parser(
        Settings, "davs", "Cluster points by deterministic annealing with a sponge."
    )
    parser.add_argument("--preset", metavar="NAME", help=f"settings to start from: {', '.join(PRESETS)} [charge5]")
    parser.add_argument("--points", metavar="FILE", help="points to read: replaces the key DistanceMatrixFile")
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="number that chooses a preset's points [0]")
    parser.add_argument("--write-points", metavar="FILE", help="write the points as a raw file")
    parser.add_argument("--pictures", metavar="FOLDER", help="draw clusters and their number in this folder")
    options = parser.parse_args(argv)
    if options.seed < 0:
        raise UsageError(f"davs: --seed {options.seed}: give 0 or more")
    preset, settings = load(options.settings, options.preset, options.set)
    if options.points is not None:
        settings = msgspec.structs.replace(settings, DistanceMatrixFile=options.points)
    if gw.restarted() and settings.CheckpointFile and checkpoint.last_written(settings.CheckpointFile) is not None:
        settings = msgspec.structs.replace(settings, Restart=True)
    if not settings.DistanceMatrixFile and settings.dimension != 2:
        raise UsageError("davs: presets generate points with two axes: give points for other SigmaVectorParameters")
    return Given(options, preset, settings)


def _read(team: gw.Team, argv: list[str]) -> tuple[Given, points.Points | None, Any]:
    """Rank 0 reads everything, so that all ranks do the same; the points stay there. Collective over team."""
    peaks: list[points.Points] = []

    def read() -> tuple[Given, Any]:
        given = _parse(argv)
        s = given.settings
        start = points.restart_rows(s.RestartClusterFile, s) if s.RestartClusterFile else None
        peaks.append(_points(given))
        return given, start

    given, start = on_first_rank(team, read)
    return given, peaks[0] if peaks else None, start


def _points(given: Given) -> points.Points:
    s = given.settings
    if s.DistanceMatrixFile:
        found = points.read(s.DistanceMatrixFile, s, kind=s.InputFileType, selected=s.SelectedInputLabel)
    else:
        x, truth = generate(PRESETS[given.preset].field, given.options.seed)
        found = points.Points(x, truth, np.arange(len(x)), np.full(len(x), s.SelectedInputLabel))
    if s.Replicate == 1:
        return found
    again = np.repeat(np.arange(len(found.points)), s.Replicate)
    owners = None if found.truth is None else found.truth[again]
    return points.Points(found.points[again], owners, found.number[again], found.labels[again])


def _announce(given: Given, peaks: points.Points, team: gw.Team) -> None:
    source = given.settings.DistanceMatrixFile or f"generated, seed {given.options.seed}"
    say(
        f"davs: {len(peaks.points)} points ({source}), preset {given.preset}, ranks x threads = "
        f"{team.size} x {gw.threads()}"
    )
    say(f"needs at most about {in_gib(needs(given.settings, given.preset, team.size))} of memory")


def _report(given: Given, peaks: points.Points, result: Result, times: dict[str, float], memory: int) -> dict[str, Any]:
    labels, progress = result.labels, result.progress
    ari, pure = agreement(labels, peaks.truth)
    verified, reason = _verdict(given, ari, len(result.rows))
    return {
        "app": "davs", "preset": given.preset, "verified": verified, "reason": reason, "points": len(labels),
        "clusters": len(result.rows), "sponge_fraction": float((labels == quality.SPONGE).mean()), "ari": ari,
        "purity": pure, **times, "temperatures": progress.steps,
        "temperature_first": progress.first, "temperature_last": progress.temperature, "divided": progress.divided,
        "iterations": progress.iterations, "unconverged": progress.unconverged,
        "moved_to_clusters": int(result.moved[0]), "moved_to_sponge": int(result.moved[1]), "peak_memory": memory,
        "config": msgspec.to_builtins(given.settings),
    }  # fmt: skip


def agreement(labels: Any, truth: Any) -> tuple[float | None, float | None]:
    """Return the adjusted Rand index and the purity of true members, None without truth. Local.

    Points without a true cluster are left out, points in the sponge are clusters of one point.
    """
    members = truth >= 0 if truth is not None else np.zeros(0, bool)
    if not members.any():
        return None, None
    found = labels[members].copy()
    alone = found == quality.SPONGE
    found[alone] = -1 - np.arange(alone.sum())
    return adjusted_rand_index(found, truth[members]), purity(found, truth[members])


def _verdict(given: Given, ari: float | None, clusters: int) -> tuple[bool | None, str]:
    if given.settings.DistanceMatrixFile or ari is None:
        return None, "nothing to compare with: points from a file"
    preset = PRESETS[given.preset]
    error = abs(clusters - preset.field.clusters) / preset.field.clusters
    text = (
        f"adjusted Rand index {ari:.4f} (at least {preset.least_ari:g}), {clusters} clusters of "
        f"{preset.field.clusters} (within {preset.count_error:.0%})"
    )
    passed = ari >= preset.least_ari and error <= preset.count_error
    return passed, f"verification {'passed' if passed else 'FAILED'}: {text}"


def _finish(given: Given, peaks: points.Points, result: Result, report: dict[str, Any]) -> None:
    """Print the result and write the files."""
    say(
        f"{report['clusters']} clusters, {report['sponge_fraction']:.2%} of the points in the sponge, "
        f"{report['temperatures']} temperatures from {report['temperature_first']:.4g} to "
        f"{report['temperature_last']:.3g}, {report['iterations']} iterations, {report['seconds']:.2f} s"
    )
    say(", ".join(f"{name.replace('_', ' ')} {report[f'seconds_{name}']:.2f} s" for name in PARTS))
    if given.settings.ClusterFile:
        total = len(result.labels)
        about = quality.measure(peaks.points, result.labels, result.rows, total, given.settings, result.conditions)
        for path in outputs.write(given.settings, peaks, result.labels, result.rows, about, result.progress):
            say(f"result: {path}")
    if given.options.pictures is not None:
        for picture in outputs.draw(given.options.pictures, peaks.points, result):
            say(f"picture: {picture}")
    if given.options.json is not None:
        write_application(given.options.json, report)
    say(report["reason"])
