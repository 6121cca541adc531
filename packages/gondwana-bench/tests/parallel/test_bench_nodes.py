"""Nodes of benchmarks: real ones on two hosts, and pretended ones where there are too few."""

from __future__ import annotations

import sys

import pytest

from gondwana import results
from gondwana.cli import launch
from gondwana.errors import UsageError
from gondwana_bench import processes
from support import jobs, two_hosts

JOBS = {
    "scaling": "heat --kind strong --ranks 2,4 --ranks-per-node 1 --size 16 --steps 2 --jobs 1",
    "clustering": "--app pwc --points 200 --patterns 1x1x2 --repeat 1",
    "kinds": "--kind fake_device --ranks-per-node 1 --sizes 8 --windows 1 --volume 65536 --repeat 1 --batch 0.0001",
}
KINDS = {
    "scaling": {"heat, strong": [(2, 2, "real"), (4, 4, "pretended")]},
    "clustering": {"pwc, speed-up": [(1, 1, "one"), (2, 2, "real")]},
    "kinds": {"transfers": [(None, None, "real")] * 12, "memories": [(None, None, "real")] * 16},
}
"""Ranks, nodes and what they are, of the rows of each panel."""


def test_nodes_are_real_where_the_launcher_has_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "nodes", lambda: 2)
    monkeypatch.setenv("GONDWANA_RANKS_PER_NODE", "7")
    monkeypatch.setenv("HYDRA_HOST_FILE", "hosts")
    real, pretended, one = (processes.nodes_for(ranks, 2) for ranks in (4, 6, 1))
    assert (real.options(), real.kind(2)) == (["--ranks-per-node", "2"], "real")
    assert "GONDWANA_RANKS_PER_NODE" not in real.environment()
    assert real.environment()["HYDRA_HOST_FILE"] == "hosts"
    assert (pretended.options(), pretended.kind(3)) == ([], "pretended")
    assert pretended.environment()["GONDWANA_RANKS_PER_NODE"] == "2"
    assert "HYDRA_HOST_FILE" not in pretended.environment()  # all ranks are on this host
    assert (one.options(), one.kind(1)) == (["--ranks-per-node", "1"], "one")
    assert processes.nodes_for(5, None).kind(3) == "pretended"  # by the variable of the user
    with pytest.raises(UsageError, match="--ranks-per-node 2: 5 ranks do not fill nodes of 2"):
        processes.nodes_for(5, 2)


@pytest.mark.parallel
@pytest.mark.usefixtures("mpi4py_there")
@pytest.mark.parametrize(
    "name", ["scaling", *(pytest.param(name, marks=pytest.mark.more) for name in ("clustering", "kinds"))]
)
def test_the_nodes_are_two_hosts(name: str) -> None:
    with two_hosts.pair() as two:
        words = [sys.executable, "-P", "-m", "gondwana.cli.main", "bench", name, *JOBS[name].split()]
        argv = [*two.first.enter(two.folder), *words, "--json", "out.json"]
        outcome = jobs.run_command(argv, variables=two.reached(), timeout=200)
        assert outcome.status == 0, str(outcome)
        panels = results.read(two.folder / "out.json")[0]["panels"]
    found = {
        panel: [(row.get("ranks"), row.get("nodes"), row["node_kind"]) for row in panels[panel]]
        for panel in KINDS[name]
    }
    assert found == KINDS[name], outcome.stdout
