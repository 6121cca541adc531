"""Ranks that disagree about an order: of names, of arrays in a call, of elements in memory.

A job ends with the right values, or with one line that refuses; never with those of another name or place.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.trials import GONDWANA, Judged, Trials, judge

PROGRAM = """
import json, random, sys
import numpy as np
import gondwana as gw
from gondwana.io import checkpoint
from gondwana.io.dataset import Dataset
from gondwana.io.writer import StepWriter

case = json.loads(sys.argv[1])
world, dtype, shape = gw.world, case["dtype"], tuple(case["shape"])
order = case["orders"][world.rank]


def see(what, found, expected):
    if not np.array_equal(found, expected):
        at = np.argwhere(np.broadcast_to(found != expected, np.shape(found)))[0]
        print("WRONG", what, "on rank", world.rank, "at", at.tolist())
        sys.exit(1)


@gw.jit
def add(team, array):
    gw.allreduce(team, array)


@gw.jit
def give(team, array, root):
    gw.bcast(team, array, root)


def collectives():
    def of(rank):
        return np.arange(rank, rank + np.prod(shape)).reshape(shape).astype(dtype)

    def lay(values, letter):
        return np.array(values, order=letter)

    everyone = [of(rank) for rank in range(world.size)]
    mine, total, root = of(world.rank), sum(everyone[1:], everyone[0]), world.size - 1
    given, taken = order
    for call in case["calls"]:
        send, recv = lay(mine, given), np.zeros(shape, dtype, taken)
        whole = np.zeros((world.size, *shape), dtype, taken)
        if call == "Allreduce":
            world.Allreduce(send, recv)
            see(call, recv, total)
        elif call == "Iallreduce":
            world.Iallreduce(send, recv).wait()
            see(call, recv, total)
        elif call == "in place":
            world.Allreduce(gw.IN_PLACE, send)
            see(call, send, total)
        elif call == "gw.allreduce":
            gw.allreduce(world, send, "sum")
            see(call, send, total)
        elif call == "compiled allreduce":
            add(world, send)
            see(call, send, total)
        elif call == "Reduce":
            world.Reduce(send, recv, gw.SUM, root)
            see(call, recv, total if world.rank == root else 0 * total)
        elif call == "Bcast":
            world.Bcast(send, root)
            see(call, send, everyone[root])
        elif call == "compiled bcast":
            give(world, send, root)
            see(call, send, everyone[root])
        elif call == "Allgather":
            world.Allgather(send, whole)
            see(call, whole, everyone)
        elif call == "Gather":
            world.Gather(send, whole, root)
            see(call, whole, everyone if world.rank == root else 0 * whole)
        elif call == "Scatter":
            world.Scatter(lay(everyone, given), recv, root)
            see(call, recv, mine)
        elif call == "Alltoall":
            world.Alltoall(lay([(k + 1) * mine for k in range(world.size)], given), whole)
            see(call, whole, [(world.rank + 1) * other for other in everyone])


def arrays(ghost):
    names = case["names"]
    made = {n: gw.full(shape, names.index(n) + 1, dtype=dtype, order="F", ghost=ghost, periodic=True) for n in names}
    return {names[k]: made[names[k]] for k in order}


def see_value(name, found):
    see(name, found, np.full(found.shape, case["names"].index(name) + 1))


def exchange():
    given = arrays(1)
    for _ in range(case["times"]):
        gw.exchange(*given.values()).wait()
    for name, array in given.items():
        see_value(name, array.local.numpy())


def write():
    given = arrays(0)
    with StepWriter("out.bp", given if case["alike"] else dict(sorted(given.items()))) as out:
        for step in range(case["times"]):
            out.write(step, given)
    read("out.bp", given)


def save():
    given = arrays(0)
    path = checkpoint.save("saved.bp", given, step=1)
    read(path, given)
    for array in given.values():
        array.fill(0)
    checkpoint.load("saved.bp", dict(reversed(given.items())) if case["alike"] else given)
    for name, array in given.items():
        see_value(name, array.local.numpy())


def read(path, given):
    world.barrier()
    with Dataset(path) as data:
        for name in sorted(given):
            see_value(name, data.read(name, 0))


{"collectives": collectives, "exchange": exchange, "write": write, "save": save}[case["what"]]()
"""
CALLS = (
    "Allreduce", "Iallreduce", "in place", "gw.allreduce", "compiled allreduce", "Reduce", "Bcast", "compiled bcast",
    "Allgather", "Gather", "Scatter", "Alltoall",
)  # fmt: skip

REFUSED = "is in Fortran's order"


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    for rng in trials:
        ranks, per_node = rng.choice(((1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (4, 2)))
        with TemporaryDirectory() as folder:
            ended = run(make(rng, ranks), ranks, per_node, Path(folder))
        trials.record(verdict_of(ended), str(ended))
    return trials.counts


def verdict_of(ended: Judged) -> str:
    """Whether the values were right, or an order was refused: in Python by an exception of the call."""
    if "WRONG" in ended.stdout:
        return "wrong"
    return "refused" if ended.verdict == "traceback" and REFUSED in ended.stderr else ended.verdict


def make(rng: random.Random, ranks: int) -> dict[str, Any]:
    """Return one case: what is called, with which values, and in which order by which rank."""
    case: dict[str, Any] = {
        "what": rng.choice(("collectives", "exchange", "write", "save")),
        "dtype": rng.choice(("f8", "f4", "i8", "i4")),
        "alike": rng.random() < 0.5,
        "times": rng.choice((1, 3)),
    }
    if case["what"] == "collectives":
        # A few numbers, more than a short message, more than shared memory takes.
        case["shape"] = rng.choice(((2, 3), (1, 5), (3, 1, 4), (40, 30), (90, 7, 11)))
        case["orders"] = ["".join(rng.choices("CF", k=2)) for _ in range(ranks)]
        case["calls"] = rng.sample(CALLS, 4)
    else:
        case["shape"] = (12, rng.choice((4, 9)))
        case["names"] = rng.sample(["U", "V", "W", "pressure", "T"], rng.choice((2, 3, 5)))
        places = range(len(case["names"]))
        case["orders"] = [rng.sample(places, len(places)) for _ in range(ranks)]
    return case


def run(case: Mapping[str, Any], ranks: int, per_node: int, folder: Path) -> Judged:
    (folder / "program.py").write_text(PROGRAM)
    words = [*GONDWANA, "run", "-n", str(ranks), "-t", "1", "--time-limit", "60", "program.py", json.dumps(case)]
    variables = {"GONDWANA_RANKS_PER_NODE": str(per_node)} if per_node else {}
    return judge(words, cwd=folder, variables=variables, timeout=120)
