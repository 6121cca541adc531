"""The findings of ``gondwana doctor`` in an allocation of Slurm: its nodes, and the network between them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from gondwana.cli import launch, slurm
from gondwana.cli.doctor.findings import Finding, Verdict, answer, judged
from gondwana.errors import LaunchError

PROGRAM = "gondwana.cli.doctor.nodes_trial"
PATIENCE = 120
"""Seconds for the examination of all nodes."""


def allocation() -> Iterator[Finding]:
    """Report on the nodes of the allocation, if this process is in one, by one rank on each. Local: starts a job."""
    if not slurm.starts_ranks():
        return
    # In the current folder, since datasets go there, and folders for temporary files are not on all nodes.
    with tempfile.TemporaryDirectory(prefix=".gondwana-doctor-", dir=".") as folder:
        program = ["-P", "-m", PROGRAM, folder]
        number = slurm.nodes()
        try:
            command = launch.command(
                number, program, threads=1, ranks_per_node=1, time_limit=PATIENCE - 20, variables={"GONDWANA_MPI": "1"}
            )
        except LaunchError as error:
            yield Finding("nodes", Verdict.FAIL, str(error), "install the launcher of this MPI, or put it in PATH")
            return
        found = answer("nodes", command, "NODES ", PATIENCE, f"try it by hand: {command}")
        if isinstance(found, Finding):
            yield found
            return
        yield from describe(found, command.argv[0])


def describe(found: dict[str, Any], launcher: str) -> Iterator[Finding]:
    """Report the findings of the ranks; differences between nodes are named. Pure.

    Args:
        found: findings, as `nodes_trial` prints them.
        launcher: launcher of the ranks.
    """
    nodes: Sequence[dict[str, Any]] = found["nodes"]
    names = [node["host"] for node in nodes]
    apart = len(set(names)) == len(names)
    remedy = "one rank on each was asked for: give `gondwana run` --ranks-per-node"
    yield judged("nodes", apart, f"{', '.join(names)}; ranks are started by {launcher}", remedy)
    for subject in nodes[0]["same"]:
        values = [node["same"][subject] for node in nodes]
        if len(set(values)) == 1:
            yield Finding(f"{subject} of nodes", Verdict.OK, f"{values[0]}, on each")
        else:
            listed = "; ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
            yield Finding(f"{subject} of nodes", Verdict.WARN, listed, "the nodes differ: ask for equal ones")
    if found["network"]:
        latencies, widths = zip(*found["network"], strict=True)
        slowest = names[1 + latencies.index(max(latencies))]
        yield Finding(
            "network",
            Verdict.OK,
            f"a message from {names[0]} takes {min(latencies) * 1e6:.1f} to {max(latencies) * 1e6:.1f} us ({slowest}), "
            f"{min(widths) / 1e9:.2f} to {max(widths) / 1e9:.2f} GB/s",
        )
    problem = found["dataset"]
    text = problem or f"1 MB written by {len(nodes)} nodes and read back, in the current folder"
    yield judged("dataset of all nodes", not problem, text, "use a folder that all nodes share", Verdict.FAIL)
