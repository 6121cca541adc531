"""`gondwana run pwc`: from a matrix of dissimilarities to the cluster of each point."""

from __future__ import annotations

import argparse
import time
from typing import Any

import msgspec
import numpy as np

import gondwana as gw
from gondwana.apps import settings_files
from gondwana.apps.free_memory import available_memory, in_gib
from gondwana.apps.options import Parser
from gondwana.apps.partitions import adjusted_rand_index, purity
from gondwana.apps.pwc import matrix, output
from gondwana.apps.pwc.annealing import Annealing, Partition
from gondwana.apps.pwc.rows import Rows
from gondwana.apps.pwc.settings import Settings
from gondwana.errors import UsageError
from gondwana.results import check_writable, environment, write_json

_VECTORS = 20
"""Vectors of float64 that a cluster takes."""


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse what cannot run, before any rank starts. Local.

    Args:
        argv: what follows `pwc` on the command line.
        ranks: number of ranks that will run, where the launcher knows it.

    Raises:
        UsageError: one line that says what to change.
    """
    options = _parser().parse_args(argv)
    for name in "json", "plot":
        if getattr(options, name) is not None:
            check_writable(getattr(options, name), f"--{name} {getattr(options, name)}")
    _open(options, ranks or 1)


def main(argv: list[str]) -> int:
    """Cluster the points. Collective over the world.

    Args:
        argv: what follows `pwc` on the command line.

    Returns:
        The exit status: 0 if the result is verified, else 1.
    """
    options, team = _parser().parse_args(argv), gw.world
    settings, truth = _of_rank_0(team, options)
    source = matrix.locate(settings)
    begin = time.perf_counter()
    rows = matrix.read(source, settings, team)
    quantum = rows.scale if rows.d.dtype.kind == "i" else 0.0
    seconds_reading, before = time.perf_counter() - begin, gw.compilation()
    for vectors in 1, 2:
        rows.multiply(np.zeros((vectors, rows.points)))
    seconds_compile = (gw.compilation() - before).seconds
    if team.rank == 0:
        print(
            f"pwc: {source.points} points, at most {settings.MaxNcent} clusters, "
            f"ranks x threads = {team.size} x {gw.threads()}, exchange by {settings.Exchange}",
            flush=True,
        )
    rows.seconds.clear()
    with gw.ProgressBar(team, "cooling", 100) as bar:
        team.barrier()
        begin = time.perf_counter()
        annealing = Annealing(
            rows, settings, quantum, lambda t, k, done: bar.show(int(99 * done), f"T = {t:.3g}, {k} clusters")
        )
        partition = annealing.run()
        seconds = time.perf_counter() - begin
        bar.show(100, f"{len(partition.sizes)} clusters")
    timers = _timers(team, rows, seconds)
    if team.rank == 0:
        files = [file for one in (*annealing.family.values(), partition) for file in output.write(settings, one)]
        result = _result(settings, annealing, partition, team, timers, truth)
        result |= {
            "seconds_reading": seconds_reading,
            "seconds_compile": seconds_compile,
            "files": list(map(str, files)),
        }
        _print(result, partition)
        if options.plot is not None:
            output.draw(annealing.trace, options.plot)
        if options.json is not None:
            write_json(options.json, result)
    return 0 if partition.verified else 1


def _parser() -> Parser:
    parser = Parser("pwc", "Cluster points of which only the dissimilarities of pairs are known.")
    parser.add_argument("settings", nargs="?", metavar="SETTINGS", help="settings file, in TOML")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="replace a key of the file; may be repeated"
    )
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON")
    parser.add_argument("--plot", metavar="FILE", help="draw eigenvalues and clusters over temperature, as PNG")
    return parser


def _open(options: argparse.Namespace, ranks: int) -> tuple[Settings, list[str]]:
    """Read the settings and true labels, and look at the matrix and at where results go."""
    settings = settings_files.load(Settings, options.settings, options.set)
    source = matrix.locate(settings)
    for file in output.names(settings, settings.MaxNcent):
        check_writable(file, str(file))
    truth = output.read_labels(settings.LabelFile, source.points) if settings.LabelFile else []
    stored = 0 if settings.IsMemoryMapped else source.stored.dtype.itemsize * source.points**2
    needed, free = stored + 8 * _VECTORS * settings.MaxNcent * source.points * ranks, available_memory()
    if needed > free:
        raise UsageError(
            f"pwc: {source.points} points and {settings.MaxNcent} clusters on {ranks} ranks need {in_gib(needed)} of "
            f"memory and {in_gib(free)} are free: set IsMemoryMapped = true, or take fewer points"
        )
    return settings, truth


def _of_rank_0(team: gw.Team, options: argparse.Namespace) -> tuple[Settings, list[str]]:
    """Rank 0 reads the files, so that all ranks run the same."""
    found, problem = None, None
    if team.rank == 0:
        try:
            found = _open(options, team.size)
        except UsageError as error:
            problem = error
    team.agree(problem)
    shared: tuple[Settings, list[str]] = team.bcast(found)
    return shared


def _timers(team: gw.Team, rows: Rows, seconds: float) -> dict[str, float]:
    """The seconds of the slowest rank in each part, of the run and in all. Collective."""
    names = ("allreduce", "send_receive", "eigen_send_receive")
    own: dict[str, float] = {name: rows.seconds[name] for name in (*names, "splitting")}
    own |= {"compute": seconds - sum(own[name] for name in names)}
    ranks = team.allgather(own)
    return {"seconds": max(team.allgather(seconds))} | {
        f"seconds_{name}": max(rank[name] for rank in ranks) for name in own
    }


def _result(
    settings: Settings,
    annealing: Annealing,
    partition: Partition,
    team: gw.Team,
    timers: dict[str, float],
    truth: list[str],
) -> dict[str, Any]:
    measures = {"ari": adjusted_rand_index, "purity": purity}
    return {
        "app": "pwc",
        "version": gw.__version__,
        "verified": partition.verified,
        "ranks": team.size,
        "threads": gw.threads(),
        "device": "host",
        "points": len(partition.labels),
        "clusters": len(partition.sizes),
        "sizes": partition.sizes.tolist(),
        "widths": partition.widths.tolist(),
        "energy": partition.energy,
        "freezing": partition.freezing,
        "temperature": annealing.temperature,
        **({name: measure(partition.labels, truth) for name, measure in measures.items()} if truth else {}),
        **timers,
        "trace": [step._asdict() for step in annealing.trace],
        "config": msgspec.to_builtins(settings),
        "environment": environment(),
    }


def _print(result: dict[str, Any], partition: Partition) -> None:
    print("cluster   points   centre   width, and mean dissimilarity from each cluster by the widths")
    for cluster, related in enumerate(_related(partition)):
        row = f"{cluster:7d} {partition.sizes[cluster]:8d} {partition.centers[cluster]:8d}   "
        print(f"{row}{partition.widths[cluster]:.4g}  {' '.join(f'{value:.3g}' for value in related[:12])}")
    if "ari" in result:
        print(f"adjusted Rand index {result['ari']:.4f}, purity {result['purity']:.4f}")
    parts = ("compute", "allreduce", "send_receive", "eigen_send_receive", "splitting")
    print(f"{result['seconds']:.3f} s: " + ", ".join(f"{name} {result[f'seconds_{name}']:.3f} s" for name in parts))
    print(f"wrote {', '.join(result['files'])}" if result["files"] else "wrote no files")
    verified = "verified" if result["verified"] else "NOT VERIFIED: a limit of the iterations or of the sums was passed"
    print(f"{result['clusters']} clusters, energy {result['energy']:.9g}: {verified}", flush=True)


def _related(partition: Partition) -> Any:
    """R_kl by sqrt(R_kk R_ll), where that is not zero."""
    scale = np.sqrt(np.outer(partition.widths, partition.widths))
    return np.divide(partition.related, scale, out=np.zeros_like(scale), where=scale > 0.0)
