"""`gondwana run pwc`: from a matrix of dissimilarities to the cluster of each point."""

from __future__ import annotations

import time
from argparse import Namespace
from contextlib import nullcontext
from typing import Any

import msgspec

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.io import checkpoint
from gondwana.results import check_writable, write_application
from gondwana_apps import settings_files
from gondwana_apps.free_memory import available_memory, in_gib
from gondwana_apps.options import on_first_rank
from gondwana_apps.partitions import adjusted_rand_index, purity
from gondwana_apps.pictures import draw_annealing
from gondwana_apps.pwc import matrix, output
from gondwana_apps.pwc.annealing import Annealing, Partition
from gondwana_apps.pwc.equations import alone
from gondwana_apps.pwc.rows import Rows
from gondwana_apps.pwc.saving import Saving
from gondwana_apps.pwc.settings import Settings
from gondwana_apps.sentences import say
from gondwana_apps.timers import slowest

PARSER = settings_files.settings_parser(
    Settings, "pwc", "Cluster points of which only the dissimilarities of pairs are known."
)
PARSER.add_argument("--plot", metavar="FILE", help="draw eigenvalues and clusters over temperature, as PNG")
COMMUNICATION = ("allreduce", "send_receive", "eigen_send_receive")
_VECTORS = 20
"""Vectors of float64 that a cluster takes."""


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse settings that cannot run, before any rank starts. Local.

    Args:
        argv: arguments after `pwc` on the command line.
        ranks: number of ranks that will run, if the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    _open(PARSER.parse_args(argv), ranks or 1)


def main(argv: list[str]) -> int:
    """Cluster the points. Collective over the world.

    Args:
        argv: arguments after `pwc` on the command line.

    Returns:
        The exit status: 0 if the result is verified, else 1.
    """
    options, team = PARSER.parse_args(argv), gw.world
    settings, truth = on_first_rank(team, lambda: _open(options, team.size))
    begin = time.perf_counter()
    rows = matrix.read(matrix.locate(settings), settings, team)
    reading, before = time.perf_counter() - begin, gw.compilation()
    alone(rows)
    compiling = (gw.compilation() - before).seconds
    if team.rank == 0:
        size = f"{rows.points} points, at most {settings.MaxNcent} clusters"
        say(f"pwc: {size}, ranks x threads = {team.size} x {gw.threads()}, {settings.Exchange}")
    with gw.ProgressBar(team, "cooling", 100) as bar:
        rows.timed.seconds.clear()
        team.barrier()
        begin = time.perf_counter()
        annealing, partition = _anneal(rows, settings, bar)
        seconds = _timers(rows, time.perf_counter() - begin)
        bar.show(100, f"K={len(partition.sizes)}")
    if team.rank == 0:
        result = _result(annealing, partition, truth) | seconds | {"seconds_reading": reading}
        result |= {"seconds_compile": compiling, "config": msgspec.to_builtins(settings)}
        found = (*annealing.family.values(), partition)
        result["files"] = [str(file) for one in found for file in output.write(settings, one)]
        _print(result)
        if options.plot is not None:
            draw_annealing(annealing.trace, options.plot)
        if options.json is not None:
            write_application(options.json, result)
    return 0 if partition.verified else 1


def _anneal(rows: Rows, settings: Settings, bar: gw.ProgressBar) -> tuple[Annealing, Partition]:
    """Anneal to the end, with checkpoints. Collective over the team of the rows."""

    def watch(temperature: float, clusters: int, done: float) -> None:
        bar.show(int(99 * done), f"T={temperature:.3g}, K={clusters}")

    saving, file = Saving(settings), settings.CheckpointFile
    annealing = Annealing(rows, settings, rows.scale if rows.d.dtype.kind == "i" else 0.0, watch, saving.keep)
    if settings.Restart:
        saving.restore(annealing)
    with checkpoint.reserve(file, team=rows.team) if file else nullcontext():
        return annealing, annealing.run()


def _open(options: Namespace, ranks: int) -> tuple[Settings, list[str]]:
    """Read settings and true labels, and check the matrix and the files of results."""
    settings = settings_files.load(Settings, options)
    if gw.restarted() and settings.CheckpointFile and checkpoint.last_written(settings.CheckpointFile) is not None:
        settings = msgspec.structs.replace(settings, Restart=True)
    if settings.Restart and not settings.CheckpointFile:
        raise UsageError('pwc: Restart needs a CheckpointFile, such as "pwc.bp"')
    stored = matrix.locate(settings)
    for file in output.names(settings, settings.MaxNcent):
        check_writable(file, str(file))
    points = len(stored) * settings.Repetitions
    matrices = 0 if settings.IsMemoryMapped else stored.dtype.itemsize * points**2
    needed, free = matrices + 8 * _VECTORS * settings.MaxNcent * points * ranks, available_memory()
    if needed > free:
        what = f"pwc: {points} points and {settings.MaxNcent} clusters on {ranks} ranks need {in_gib(needed)}"
        raise UsageError(f"{what} of memory and {in_gib(free)} are free: set IsMemoryMapped = true, or take fewer")
    return settings, output.read_labels(settings.LabelFile, points) if settings.LabelFile else []


def _timers(rows: Rows, seconds: float) -> dict[str, float]:
    """The seconds of the slowest rank, in all and by purpose. Collective over the team of the rows."""
    spent = rows.timed.seconds
    own = {f"seconds_{name}": spent[name] for name in (*COMMUNICATION, "splitting")}
    own |= {"seconds": seconds, "seconds_compute": seconds - sum(spent[name] for name in COMMUNICATION)}
    return slowest(own, rows.team)


def _result(annealing: Annealing, partition: Partition, truth: list[str]) -> dict[str, Any]:
    labels = partition.labels
    return {
        "app": "pwc",
        "verified": partition.verified,
        "points": len(labels),
        "clusters": len(partition.sizes),
        "sizes": partition.sizes.tolist(),
        "sponge_fraction": 0.0,
        "ari": adjusted_rand_index(labels, truth) if truth else None,
        "purity": purity(labels, truth) if truth else None,
        "energy": partition.energy,
        "freezing": partition.freezing,
        "temperature": annealing.temperature,
        "trace": [step._asdict() for step in annealing.trace],
    }


def _print(result: dict[str, Any]) -> None:
    if result["ari"] is not None:
        say(f"adjusted Rand index {result['ari']:.4f}, purity {result['purity']:.4f}")
    parts = [f"{name} {result[f'seconds_{name}']:.3f} s" for name in ("compute", *COMMUNICATION, "splitting")]
    say(f"{result['seconds']:.3f} s: {', '.join(parts)}")
    say(f"wrote {', '.join(result['files']) or 'no files'}")
    verified = "verified" if result["verified"] else "NOT VERIFIED: a limit of the iterations or sums was passed"
    say(f"{result['clusters']} clusters of {result['sizes']} points, energy {result['energy']:.9g}: {verified}")
