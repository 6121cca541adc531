"""What gondwana doctor says of the nodes of an allocation."""

from __future__ import annotations

from typing import Any

from gondwana.cli.doctor.allocation import describe
from gondwana.cli.doctor.findings import Verdict


def node(host: str, **same: str) -> dict[str, Any]:
    return {"host": host, "launcher": "srun", "same": same}


def test_nodes_that_differ_are_named() -> None:
    nodes = [node("a", cores="4", memory="8 GiB"), node("b", cores="2", memory="8 GiB")]
    report = {"nodes": nodes, "network": [(2e-6, 5e9)], "dataset": ""}
    findings = {finding.subject: finding for finding in describe(report, "srun")}
    assert findings["nodes"].found == "a, b; ranks are started by srun"
    assert (findings["cores of nodes"].verdict, findings["cores of nodes"].found) == (Verdict.WARN, "a: 4; b: 2")
    assert (findings["memory of nodes"].verdict, findings["memory of nodes"].found) == (Verdict.OK, "8 GiB, on each")
    assert findings["network"].found == "a message from a takes 2.0 to 2.0 us (b), 5.00 to 5.00 GB/s"
    assert findings["dataset of all nodes"].verdict is Verdict.OK


def test_ranks_on_one_node_and_no_dataset_are_reported() -> None:
    report = {"nodes": [node("a"), node("a")], "network": [], "dataset": "no room"}
    findings = {finding.subject: finding for finding in describe(report, "mpirun")}
    assert findings["nodes"].verdict is Verdict.WARN
    assert (findings["dataset of all nodes"].verdict, findings["dataset of all nodes"].found) == (
        Verdict.FAIL,
        "no room",
    )
