"""`gondwana bench clustering`: patterns, what is made of the runs, and what is refused; its jobs are in parallel/."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from gondwana.errors import UsageError
from gondwana_bench.clustering import cases, speedup
from gondwana_bench.clustering.speedup import Pattern, Run

TRUTH = np.array([0, 0, 1, 1, 2, 2, -1])
PARTS = ("compute", "allreduce")


def run(seconds: float, labels=TRUTH, *, verified: bool | None = True, allreduce: float = 0.0) -> Run:
    result = {"verified": verified, "seconds_compute": seconds - allreduce, "seconds_allreduce": allreduce}
    return Run(seconds, np.array(labels), result)


def case(**rivals) -> cases.Case:
    return cases.Case("davs", "7 points", len(TRUTH), (), PARTS, lambda labels: float((labels == TRUTH).mean()), rivals)


def test_patterns_are_threads_ranks_of_a_node_and_nodes() -> None:
    one, other = speedup.parse("2x3x4, 1x1x1,2x3x4")
    assert (str(one), str(other)) == ("1x1x1", "2x3x4")
    assert (other.threads, other.ranks_per_node, other.nodes, other.ranks, other.parallelism) == (2, 3, 4, 12, 24)
    assert (one.node_kind, other.node_kind, one.crowded) == ("one", "pretended", False)
    assert Pattern(1, 100_000, 1).crowded


@pytest.mark.parametrize("text", ["", "2x1", "0x1x1", "1x1x1,", "1x-1x1", "²x1x1", "1x1x1x1", "9999999x1x1"])
def test_what_is_no_list_of_patterns_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="legal are threads x ranks of a node x nodes"):
        speedup.parse(text)


def test_speed_up_parts_and_averages_leave_out_the_first_round() -> None:
    patterns = speedup.parse("2x1x1,1x2x1,1x1x2")
    runs = {
        "1x1x1": [run(90.0), run(4.0), run(8.0), run(6.0)],
        "2x1x1": [run(1.0), run(2.0), run(4.0), run(3.0)],
        "1x2x1": [run(1.0), run(4.0, allreduce=1.0), run(8.0, allreduce=3.0), run(6.0, allreduce=2.0)],
        "1x1x2": [run(1.0), run(8.0, allreduce=4.0), run(16.0, allreduce=6.0), run(12.0, allreduce=5.0)],
    }
    rows = speedup.scaling(case(), patterns, runs)
    assert [row["median"] for row in rows] == [6.0, 3.0, 6.0, 12.0]
    assert [row["speedup"] for row in rows] == [1.0, 2.0, 1.0, 0.5]
    assert [row["efficiency"] for row in rows] == [1.0, 1.0, 0.5, 0.25]
    assert [row["seconds_allreduce"] for row in rows] == [0.0, 0.0, 2.0, 5.0]
    assert [row["node_kind"] for row in rows] == ["one", "one", "one", "pretended"]
    assert all(row["verified"] and row["labels"] == "same" for row in rows)
    assert len({row["digest"] for row in rows}) == 1
    of_ranks = speedup.averages(case(), rows, "ranks")
    assert [(row["ranks"], row["patterns"]) for row in of_ranks] == [(1, "1x1x1 2x1x1"), (2, "1x2x1 1x1x2")]
    assert [row["seconds_allreduce"] for row in of_ranks] == [0.0, 3.5]
    together = speedup.averages(case(), rows, "parallelism")
    assert [(row["parallelism"], row["median"]) for row in together] == [(1, 6.0), (2, 7.0)]
    for columns, shown in (
        (speedup.scaling_columns(case()), rows),
        (speedup.averages_columns(case(), "ranks"), of_ranks),
        (speedup.averages_columns(case(), "parallelism"), together),
    ):
        assert all(columns.keys() <= row.keys() for row in shown)


def test_other_labels_in_any_round_and_a_failed_verification_are_told() -> None:
    patterns = speedup.parse("2x1x1,1x2x1,1x1x2")
    other = [0, 0, 1, 1, 1, 2, -1]
    runs = {
        "1x1x1": [run(1.0, verified=None)] * 2,
        "2x1x1": [run(1.0), run(1.0, other)],
        "1x2x1": [run(1.0), run(1.0, verified=False)],
        "1x1x2": [run(1.0, other), run(1.0, other)],
    }
    rows = speedup.scaling(case(), patterns, runs)
    assert [row["verified"] for row in rows] == [True, False, False, False]
    assert [row["labels"][:9] for row in rows] == ["same", "OTHER, AR", "same", "OTHER, AR"]
    assert rows[0]["digest"] == rows[1]["digest"] != rows[3]["digest"]
    assert [row["verified"] for row in speedup.averages(case(), rows, "ranks")] == [False, False]


def test_rivals_are_compared_with_one_thread() -> None:
    patterns = speedup.parse("2x1x1")
    runs = {
        "1x1x1": [run(1.0), run(4.0)],
        "2x1x1": [run(1.0), run(2.0)],
        "DBSCAN": [Run(1.0, TRUTH), Run(8.0, TRUTH)],
    }
    compared = case(DBSCAN=lambda: TRUTH)
    rows = speedup.quality(compared, speedup.scaling(compared, patterns, runs), runs)
    assert [row["program"] for row in rows] == ["ours, 1x1x1", "ours, 2x1x1", "scikit-learn, DBSCAN"]
    assert [row["ratio"] for row in rows] == [None, None, 2.0]
    assert [(row["ari"], row["clusters"]) for row in rows] == [(1.0, 3)] * 3
    assert speedup.QUALITY.keys() <= rows[0].keys()


def test_rivals_get_the_same_data_and_find_their_clusters(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    for made, names in ((cases.davs("tiny"), ["DBSCAN"]), (cases.pwc(200, tmp_path), ["average linkage", "KMeans"])):
        assert list(made.rivals) == names
        for rival in made.rivals.values():
            labels = rival()
            assert len(labels) == made.points
            assert made.agreement(labels) == pytest.approx(1.0, abs=1e-3)
    assert (tmp_path / "distance.bin").stat().st_size == 200 * 200 * 2


def test_without_scikit_learn_there_are_no_rivals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr(cases, "has_rivals", lambda: False)
    assert cases.davs("tiny").rivals == cases.pwc(200, tmp_path).rivals == {}


def test_labels_of_the_sponge_are_read_as_such(tmp_path: Path) -> None:
    tiny = cases.davs("tiny")
    pattern, found = next(speedup.measure(tiny, speedup.parse("1x1x1"), tmp_path, 1))
    assert (pattern, found.result["clusters"], len(found.labels)) == ("1x1x1", 20, 250)
    assert sorted(set(found.labels.tolist())) == list(range(-1, 20))
    assert (found.labels == -1).mean() == pytest.approx(found.result["sponge_fraction"])
    assert tiny.agreement(found.labels) == pytest.approx(found.result["ari"])
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_is_told_in_one_line(tmp_path: Path) -> None:
    broken = cases.Case("davs", "", 1, ("--preset", "nothing"), PARTS, lambda labels: None)
    with pytest.raises(UsageError, match=r"davs with 1x1x1 ended with status 2: .*no preset \"nothing\""):
        list(speedup.measure(broken, speedup.parse("1x1x1"), tmp_path, 1))


def test_a_matrix_beyond_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "available_memory", lambda: 32 * 1000**2)
    cases.check_memory(1000)
    with pytest.raises(UsageError, match=r"--points 1001: needs .* of memory"):
        cases.check_memory(1001)
