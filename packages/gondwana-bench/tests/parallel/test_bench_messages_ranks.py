"""`gondwana bench ping-pong`, `ring` and `osu`: every variant is measured, and its data are right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gondwana import results
from gondwana_bench.messages import osu, ping_pong, ring

pytestmark = [pytest.mark.parallel, pytest.mark.usefixtures("mpi4py_there", "c_compiler")]
QUICK = "--repeat 1 --batch 0.0001"

OFFICIAL = """#!/bin/sh
echo '# OSU MPI {title} v5.3'
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0
echo "# Size      Latency (us)"
echo "65536                   9.62"
echo "131072                 11.23         0.99"
echo "$@" >&2
"""


def bench(what: str, options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gondwana.cli.main", "bench", what, *options.split()]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)


def rows_of(what: str, file: Path, options: str, **variables: str) -> list[dict[str, Any]]:
    done = bench(what, f"--json {file} {options}", **variables)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = results.read(file)[0]["panels"][what]
    assert rows
    assert all(row["verified"] and row["microseconds"] > 0 and row["rival_microseconds"] > 0 for row in rows)
    assert "theirs/ours" in done.stdout
    return rows


def test_round_trips_in_every_way(tmp_path: Path) -> None:
    rows = rows_of("ping-pong", tmp_path / "a.json", f"-n 3 --sizes 1,5000 {QUICK}")
    expected = [(size, pair.ours, pair.rival) for size in (1, 5000) for pair in ping_pong.PAIRS]
    assert [(row["size"], row["operation"], row["rival"]) for row in rows] == expected
    assert all(row["mb_per_s"] == pytest.approx(2e-6 * row["size"] / row["seconds"]["mean"]) for row in rows)
    one_sided = {row["size"]: row["goal"] for row in rows if row["operation"] == "compiled put + signal"}
    assert one_sided == {1: ">= 3 x", 5000: None}


def test_messages_and_sums_by_the_procedure_of_osu(tmp_path: Path) -> None:
    rows = rows_of("osu", tmp_path / "a.json", "--sizes 65536 --repeat 1")  # large: few calls
    assert [(row["test"], row["operation"]) for row in rows] == [
        (test, pair.ours) for test in osu.PAIRS for pair in osu.PAIRS[test]
    ]


def test_supersteps_on_a_node_and_between_nodes(tmp_path: Path) -> None:
    options = f"-n 2,4 --ranks-per-node 2 --communications 3 --size 40 --reads 3 --writes 9 --flops 4 {QUICK}"
    rows = rows_of("ring", tmp_path / "a.json", options, GONDWANA_RANKS_PER_NODE="2")
    expected = [(count, nodes, pair.ours) for count, nodes in ((2, 1), (4, 2)) for pair in ring.PAIRS]
    assert [(row["ranks"], row["nodes"], row["operation"]) for row in rows] == expected
    assert [row["ranks"] for row in rows if row["goal"] == ">= 1.5 x"] == [2]
    for row in rows:
        for side in ("", "rival_"):
            assert sum(row[f"{side}{phase}_share"] for phase in ring.PHASES) == pytest.approx(1.0)


def official(folder: Path) -> Path:
    for name, title in (("osu_latency", "Latency Test"), ("osu_allreduce", "Allreduce Latency Test")):
        (folder / name).write_text(OFFICIAL.format(title=title))
        (folder / name).chmod(0o755)
    return folder


def test_official_programs_run_in_turns_with_ours(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    done = bench("osu", f"--tests latency --against {official(tmp_path)} --sizes 65536 --repeat 1 --json {file}")
    assert done.returncode == 0, done.stderr
    rows = results.read(file)[0]["panels"]["against"]
    variants = {side for pair in osu.PAIRS[osu.LATENCY] for side in (pair.ours, pair.rival)}
    assert [row["test"] for row in rows] == ["latency"] * len(variants)
    assert {row["operation"] for row in rows} == variants
    assert {row["size"] for row in rows} == {65536}
    assert all(row["official_microseconds"] == 9.62 and row["verified"] for row in rows)


def test_official_programs_that_fail_are_named(tmp_path: Path) -> None:
    program = tmp_path / "osu_latency"
    program.write_text("#!/bin/sh\necho no such device >&2\nexit 3\n")
    program.chmod(0o755)
    done = bench("osu", f"--tests latency --against {tmp_path}")
    assert done.returncode == 2
    assert "osu_latency ended with status" in done.stderr
    assert "no such device" in done.stderr


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("ping-pong -n 1", "between 2 ranks"),
        ("ping-pong --ranks-per-node 1", "2 ranks need 2 nodes, but this job has 1"),
        ("ring --size 12", "multiple of 8"),
        ("ring -n 2,3 --ranks-per-node 2", "3 ranks do not fill nodes of 2"),
        ("osu --sizes 6", "multiples of 4"),
        ("osu --ranks-per-node 1 --against .", "--against leaves it to the launcher"),
    ],
)
def test_what_cannot_be_measured_is_refused(what: str, message: str) -> None:
    done = bench(*what.split(" ", 1))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
