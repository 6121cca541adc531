"""Every application on two hosts of a Slurm, which share a home and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gondwana_apps.pwc import generators
from support.cluster.hosts import CannotBuildError
from support.cluster.slurm import Cluster, slurm

pytestmark = [pytest.mark.parallel, pytest.mark.more]

SIMULATION = {
    "L": 16, "Du": 0.2, "Dv": 0.1, "F": 0.02, "k": 0.048, "dt": 1.0, "steps": 20, "plotgap": 5, "noise": 0.01,
    "seed": 1, "output": "gs.bp", "checkpoint": True, "checkpoint_freq": 10,
}  # fmt: skip

RUNS = {
    "gray-scott": "gray-scott simulation.json",
    "heat": "heat -X 16 -Y 16 -Z 16 -N 10 -I 5",
    "hpcg": "hpcg 16 16 16 --rt 0",
    "npb-cg": "npb-cg --class S",
    "npb-ft": "npb-ft --class S",
    "npb-mg": "npb-mg --class S",
    "davs": "davs --preset tiny",
    "pwc": "pwc --set MaxNcent=3 --set FreezingLimit=0.02 --set WaitIterations=1",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        with slurm(("alpha", "beta")) as running:
            running.write("simulation.json", json.dumps(SIMULATION))
            distances, _ = generators.genes(80, 3, seed=1)
            distances.astype("<i2").tofile(running.login.seen(running.home / "distance.bin"))
            yield running
    except CannotBuildError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("app", RUNS)
def test_an_application_on_two_hosts(cluster: Cluster, app: str) -> None:
    words = RUNS[app].split()
    outcome = cluster.run("salloc", "-Q", "-N2", "gondwana", "run", *words, "--json", f"{app}.json", timeout=200)
    assert outcome.status == 0, str(outcome)
    result = json.loads(cluster.read(f"{app}.json"))
    assert result["ranks"] == 2
    assert result["verified"] in (True, None), result
    assert result["environment"]["placement"]["pattern"] == "1x1x2"
