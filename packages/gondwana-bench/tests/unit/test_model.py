"""The model of steps: costs that are known in closed form, counts of the applications, fits of synthetic steps."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana import results
from gondwana.errors import UsageError
from gondwana_apps.hpcg.columns import local_columns
from gondwana_apps.hpcg.grid import choose_grid, geometry
from gondwana_apps.hpcg.problem import generate
from gondwana_bench.cli.model import with_latency
from gondwana_bench.model import applications, fit, machine as machines, noise, observations, predict
from gondwana_bench.model.costs import collective_seconds, exchange_seconds, message_seconds, sweep_seconds
from gondwana_bench.model.machine import Application, Link, Machine, Memory, Noise, Tail
from gondwana_bench.model.observations import Measured, Observation
from gondwana_bench.model.work import Collective, Exchange, Sweep, Work
from gondwana_bench.report import page, read
from support import jobs

SHIPPED = Path(machines.__file__).parent / "machines"
RESULTS = Path(__file__).parents[4] / "docs" / "results"
SIZES = {"heat": "48", "gray-scott": "48", "npb-mg": "A", "npb-ft": "A", "npb-cg": "A", "hpcg": "16"}
CLUSTER = Machine(
    name="cluster",
    ranks_per_node=4,
    memory=Memory(rank=1e10, node=2e10, cache=1e11, cache_bytes=1e6),
    node=Link(latency=1e-7, overhead=1e-8, gap=2e-8, bandwidth=1e10),
    network=Link(latency=2e-6, overhead=1e-7, gap=3e-7, bandwidth=1e10),
    rate=1e10,
)
LATENCIES = st.floats(0.0, 1e6)


def messages_of(work: Work) -> float:
    """Messages that a rank sends to neighbours in a step."""
    return sum(len(exchange.sizes) * exchange.times for exchange in work.exchanges)


def sent_of(work: Work) -> float:
    """Bytes that a rank sends to neighbours in a step."""
    return sum(sum(exchange.sizes) * exchange.times for exchange in work.exchanges)


@pytest.mark.parametrize("app", applications.NAMES)
def test_one_rank_does_not_communicate(app: str) -> None:
    work = applications.work(app, SIZES[app], 1)
    assert messages_of(work) == sent_of(work) == 0
    found = predict.step(CLUSTER, app, work)
    assert found.communicate == found.wait == 0.0 < found.compute


@pytest.mark.parametrize("app", applications.NAMES)
@given(ranks=st.sampled_from([2, 3, 4, 8, 12, 16, 64]), one=LATENCIES, other=LATENCIES)
def test_a_step_does_not_get_shorter_with_latency(app: str, ranks: int, one: float, other: float) -> None:
    work = applications.work(app, SIZES[app], ranks)
    low, high = (predict.step(with_latency(CLUSTER, t), app, work).seconds for t in sorted((one, other)))
    assert low <= high


@given(sizes=st.lists(st.floats(0, 1e9), min_size=1, max_size=6), eager=st.floats(0, 1e9))
def test_messages_cost_what_loggp_says(sizes: list[float], eager: float) -> None:
    link = Link(latency=3.0, overhead=0.5, gap=2.0, bandwidth=1e6, eager=eager)
    questions = 2 if max(sizes) > eager else 0
    expected = (1 + questions) * (3.0 + 2 * 0.5) + (len(sizes) - 1) * 2.0 + sum(sizes) / 1e6
    assert message_seconds(link, tuple(sizes)) == pytest.approx(expected)


def test_no_message_costs_nothing_and_an_empty_one_a_latency() -> None:
    assert message_seconds(CLUSTER.node, ()) == 0.0
    assert message_seconds(CLUSTER.node, (0.0,)) == pytest.approx(1.2e-7)
    assert exchange_seconds(CLUSTER, Exchange((), ()), 100) == 0.0


def test_ranks_of_a_node_share_memory_caches_and_network() -> None:
    streamed = Sweep(1e9, 1e9, 0.0)
    alone, together = (sweep_seconds(CLUSTER, streamed, n, 1e10, 1.0) for n in (1, 4))
    assert alone == pytest.approx(0.1, rel=0.02)
    assert together == pytest.approx(0.2, rel=0.02)
    half = Sweep(1e6, 0.5e6, 0.0)
    assert sweep_seconds(CLUSTER, half, 1, 1e10, 1.0) < 0.5 * sweep_seconds(CLUSTER, half, 4, 1e10, 1.0)
    # Neighbours next door are on another node for one rank of four, those four ranks away for all.
    near, far = (exchange_seconds(CLUSTER, Exchange((1e6,), (distance,)), 8) for distance in (1, 4))
    assert near == pytest.approx(2.2e-6 + 1e6 / 1e10)
    assert far == pytest.approx(2.2e-6 + 4e6 / 1e10)


@pytest.mark.parametrize(("nbytes", "rounds", "moved"), [(8.0, 2, 2 * 8.0), (1e8, 4, 2 * 1e8 * 3 / 4)])
def test_sums_take_doubling_or_halving(nbytes: float, rounds: int, moved: float) -> None:
    expected = rounds * 1.2e-7 + moved / 1e10
    assert collective_seconds(CLUSTER, Collective("allreduce", nbytes, 4)) == pytest.approx(expected)


def test_more_ranks_than_the_node_has_need_a_network() -> None:
    alone = msgspec.structs.replace(CLUSTER, network=None)
    with pytest.raises(UsageError, match="at most 4 ranks fit on its one node"):
        predict.step(alone, "heat", applications.work("heat", "48", 5))


@pytest.mark.parametrize("ranks", [2, 6, 8, 27])
def test_heat_and_gray_scott_send_what_their_layouts_say(ranks: int) -> None:
    for app, layout, itemsize in (
        ("heat", gw.Layout.divide((48,) * 3, ranks, ghost=1), 8),
        ("gray-scott", gw.Layout.divide((48,) * 3, ranks, ghost=1, periodic=True, order="F"), 16),
    ):
        sent = [
            [itemsize * math.prod(p.target.shape) for p in layout.pieces(rank, corners=False) if p.owner != rank]
            for rank in range(ranks)
        ]
        work = applications.work(app, "48", ranks)
        assert messages_of(work) == max(map(len, sent))
        assert sent_of(work) == pytest.approx(max(map(sum, sent)), rel=0.05)  # blocks differ by a cell


@pytest.mark.parametrize("ranks", [2, 4, 12, 27])
def test_hpcg_sends_what_its_matrix_needs(ranks: int) -> None:
    grid = choose_grid(ranks)
    found = []
    for rank in range(ranks):
        place = geometry(rank, grid, (16, 16, 16))
        _, points, counts = generate(place)
        _, owners, _ = local_columns(place, points, counts)
        found.append(np.unique(owners, return_counts=True)[1])
    exchange = applications.work("hpcg", "16", ranks).exchanges[0]
    assert len(exchange.sizes) == max(map(len, found))
    assert sum(exchange.sizes) == 8 * max(map(sum, found))


@pytest.mark.parametrize(("app", "size"), [("heat", "0"), ("heat", "4x4"), ("gray-scott", "8x8x8"), ("npb-mg", "a"),
                                           ("hpcg", "20"), ("davs", "8"), ("heat", "2")])  # fmt: skip
def test_sizes_that_do_not_exist_are_refused(app: str, size: str) -> None:
    with pytest.raises(UsageError, match=app):
        applications.work(app, size, 64)


@given(shape=st.floats(-0.5, 0.9), ranks=st.integers(1, 10**5))
def test_the_slowest_grows_with_the_ranks(shape: float, ranks: int) -> None:
    law = Noise(body=(0.0, 0.1), tail=Tail(share=0.1, threshold=0.1, scale=0.05, shape=shape))
    assert noise.slowest(law, ranks) <= noise.slowest(law, 2 * ranks) + 1e-12


def test_the_slowest_of_exponential_draws_is_a_harmonic_sum() -> None:
    law = Noise(body=(0.0,), tail=Tail(share=1.0, threshold=0.0, scale=1.0, shape=0.0))
    for ranks in (1, 10, 1000):
        assert noise.slowest(law, ranks) == pytest.approx(sum(1 / n for n in range(1, ranks + 1)), rel=1e-3)


@pytest.mark.parametrize("shape", [-0.2, 0.0, 0.3])
def test_a_tail_is_found_again(shape: float) -> None:
    u = np.random.default_rng(7).random(200_000)
    draws = -np.log(u) if shape == 0 else (u**-shape - 1) / shape
    assert noise.fit(draws).tail.shape == pytest.approx(shape, abs=0.06)


def test_records_are_read_and_short_or_foreign_ones_refused(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("step,0,1\n" + "".join(f"{n},0.001,0.002\n" for n in range(300)))
    assert noise.fit(noise.read_record(good)).tail.scale == 0.0
    bad.write_text("step,0\n" + "".join(f"{n},x\n" for n in range(300)))
    for file in (bad, tmp_path / "none.csv"):
        with pytest.raises(UsageError, match=r"--record .*heat --record"):
            noise.read_record(file)
    with pytest.raises(UsageError, match="at least 400"):
        noise.fit(np.zeros(10))


def test_a_fit_finds_the_machine_that_made_the_steps() -> None:
    code = Application(overhead=1e-5, start=3e-6, rate=1.5e10, streaming=0.9)
    memory = Memory(rank=1.5e10, node=2.2e10, cache=8e10, cache_bytes=1.2e7)
    true = msgspec.structs.replace(
        fit.START, ranks_per_node=2, memory=memory, network=None, applications={"heat": code, "hpcg": code}
    )
    steps = [
        Observation(app, size, n, 1, predict.step(true, app, applications.work(app, size, n)).seconds, "")
        for app, sizes in (("heat", (16, 32, 48, 64, 80, 96, 128, 160, 192)), ("hpcg", (16, 24, 32, 40, 48, 64)))
        for size in map(str, sizes)
        for n in (1, 2)
    ]
    fitted, held = steps[::3], [step for place, step in enumerate(steps) if place % 3]
    found = fit.fit(Measured(fitted, {}, []), "found", 2)
    assert found.memory.node == pytest.approx(memory.node, rel=0.1)
    assert found.memory.rank * found.applications["heat"].streaming == pytest.approx(1.35e10, rel=0.1)
    assert max(abs(float(str(row["error"]))) for row in fit.errors(found, held)) < 15


def test_shipped_machines_reach_a_hundred_thousand_ranks() -> None:
    for file in sorted(SHIPPED.glob("*.json")):
        machine = machines.read(file)
        for app in applications.NAMES:
            size = {"npb-mg": "E", "npb-ft": "E", "npb-cg": "E", "hpcg": "64"}.get(app, "2048")
            (row,) = predict.table(machine, app, size, [10**5], weak=app == "hpcg")
            assert 0 < float(str(row["efficiency"])) <= 1.5, (file, app)
            assert math.isfinite(float(str(row["milliseconds"])))


def test_most_steps_that_were_held_out_are_predicted() -> None:
    machine = machines.read(SHIPPED / "two_cores.json")
    held = observations.read([RESULTS / "model-held-out.json"]).steps
    sizes = [abs(float(str(row["error"]))) for row in fit.errors(machine, held)]
    assert float(np.median(sizes)) < 6
    assert sum(size <= 15 for size in sizes) >= 0.8 * len(sizes)


def test_runs_that_are_not_counted_are_named(tmp_path: Path) -> None:
    run = next(result for result in results.read(RESULTS / "model-held-out.json") if result["app"] == "heat")
    kept = [
        run,
        {**run, "threads": 2},
        {**run, "ranks": 3},
        {**run, "config": {**run["config"], "blocks": "ceil"}},
        {**run, "app": "davs"},
    ]
    file = tmp_path / "runs.json"
    file.write_text(json.dumps({"schema": results.VERSION, "collection": "runs", "results": kept}))
    found = observations.read([file])
    assert len(found.steps) == 1
    assert [reason for reason in ("threads", "cores", "blocks", "davs") if reason not in "".join(found.skipped)] == []
    file.write_text("[1]")
    with pytest.raises(UsageError, match="not a result"):
        observations.read([file])


def test_rows_between_nodes_are_not_those_of_a_node(tmp_path: Path) -> None:
    [result] = results.read(RESULTS / "rma.json")
    rows = [{**row, "nodes": 1} for row in result["panels"]["rma"]]
    file = tmp_path / "rma.json"
    between = [{**row, "ours": 2.0 * row["ours"], "nodes": 2} for row in rows]
    units = {**result["units"], "nodes": "1"}
    file.write_text(json.dumps({**result, "units": units, "panels": {"rma": rows + between}}))
    assert observations.read([file]).rma == observations.read([RESULTS / "rma.json"]).rma != {}


def test_the_command_fits_checks_and_predicts(tmp_path: Path) -> None:
    source = (
        "import sys; from gondwana.cli import main; results, out = sys.argv[1:]\n"
        "calls = [['fit', results, '-o', out, '--cores', '2', '--latency', '20'],\n"
        " ['check', results, '--machine', out, '--json', out + '.check'],\n"
        " ['predict', '--app', 'heat', '--size', '64', '--machine', out, '--weak', '--ranks', '1,8,100000',"
        " '--json', out + '.rows', '--plot', out + '.png'],\n"
        " ['check', results.replace('model-fit', 'fib'), '--machine', out],\n"
        " ['predict', '--app', 'heat', '--size', '64', '--machine', 'nowhere'],\n"
        " ['predict', '--app', 'npb-mg', '--size', 'A', '--machine', 'frontier', '--weak']]\n"
        "for call in calls:\n"
        "    sys.argv = ['gondwana', 'model', *call]\n"
        "    try: main.main()\n"
        "    except SystemExit as end: print('status', end.code)\n"
    )
    out = tmp_path / "machine.json"
    outcome = jobs.run_command([sys.executable, "-c", source, str(RESULTS / "model-fit.json"), str(out)])
    assert [line for line in outcome.stdout.splitlines() if line.startswith("status")] == [
        "status 0", "status 0", "status 0", "status 2", "status 2", "status 2",
    ]  # fmt: skip
    assert "no measured steps" in outcome.stderr
    assert "--machine nowhere: cannot be read (No such file" in outcome.stderr
    assert "--weak: npb-mg has classes of fixed size" in outcome.stderr
    (predicted,), (checked,) = results.read(f"{out}.rows"), results.read(f"{out}.check")
    assert [row["ranks"] for row in predicted["panels"]["heat, weak scaling"]] == [1, 8, 100000]
    assert {row["app"] for row in checked["panels"]["errors"]} >= {"heat", "gray-scott"}
    assert "Model of this machine" in page(read([f"{out}.rows", f"{out}.check"]))
    with pytest.raises(UsageError, match="no measured steps"):
        observations.read([Path(f"{out}.rows")]).some_steps()
    assert Path(f"{out}.png").read_bytes().startswith(b"\x89PNG")
