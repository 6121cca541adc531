"""`gondwana run --trace`: the trace of jobs of several ranks, in the format of viewers and against what they did."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support import jobs, trace_format

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "traced_work.py"
LATE, ROUNDS = 0.6, 5  # as there


def run(folder: Path, ranks: int, *words: str, **variables: str) -> tuple[dict[str, Any], dict[int, Any], str]:
    """The trace of a job, what its ranks have printed, and its errors."""
    file = folder / "trace.json"
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", str(ranks), "-t", "1", "--trace", str(file)]
    outcome = jobs.run_command([*command, str(PROGRAM), *words], variables=variables)
    assert outcome.status == 0, str(outcome)
    assert sorted(path.name for path in folder.iterdir()) == ["trace.json"]
    lines = [json.loads(line) for line in outcome.stdout.splitlines()]
    return trace_format.read(file), {line["rank"]: line for line in lines}, outcome.stderr


EVERYTHING = ("exchange", "copies", "messages", "late")


@pytest.mark.parametrize("ranks", [1, 2, 3, pytest.param(4, marks=pytest.mark.more)])
def test_a_trace_has_all_time_and_all_traffic(ranks: int, tmp_path: Path) -> None:
    """With two ranks from compiled code too, with three on as many nodes and with tasks."""
    more = {2: ("compiled",), 3: ("tasks",)}.get(ranks, ())
    variables = {"GONDWANA_RANKS_PER_NODE": "1"} if ranks == 3 else {}
    trace, printed, errors = run(tmp_path, ranks, *EVERYTHING, *more, **variables)
    about = trace["gondwana"]
    assert (about["schema"], about["trace"], about["ranks"]) == (1, "traced_work.py", ranks)
    assert about["complete"]
    assert not about["notes"]
    assert [event["name"] for event in trace["traceEvents"] if "<" in event["name"]] == [], "names are plain"
    assert about["command"][:4] == ["gondwana", "run", "-n", str(ranks)]
    assert f"trace of {ranks} rank" in errors
    for rank in range(ranks):
        # A rank has run at least as long as its program says, and the kinds of spans have all of that time.
        wall = (printed[rank]["last"] - printed[rank]["first"]) / 1e9
        assert about["seconds"][rank] >= 0.98 * wall
        of_rank = sum(seconds[rank] for seconds in about["spans"].values())
        assert of_rank == pytest.approx(about["seconds"][rank], rel=1e-9)
        assert about["spans"]["startup"][rank] > 0.0
        (whole,) = trace_format.spans(trace, rank, "rank")
        assert whole["dur"] / 1e6 == pytest.approx(about["seconds"][rank], abs=1e-6)
    for name, place in (("bytes", 0), ("messages", 1)):
        assert about["matrix"][name] == [[sent[place] for sent in printed[rank]["sent"]] for rank in range(ranks)]
    arrows = [event for event in trace["traceEvents"] if event["ph"] == "f"]
    neighbours = len({(rank, (rank + step) % ranks) for rank in range(ranks) for step in (-1, 1)}) if ranks > 1 else 0
    assert len(arrows) == ROUNDS * neighbours * (2 if "compiled" in more else 1)
    # Rank 0 was late, in a span of the program's own, and the others waited for it.
    assert about["spans"]["span"][0] >= 0.95 * LATE
    for rank in range(1, ranks):
        waited = about["spans"]["wait"][rank] + about["spans"]["collective"][rank]
        assert waited >= 0.5 * LATE
    if "compiled" in more:
        check_compiled(trace)
    if "tasks" in more:
        check_tasks(trace)


def check_compiled(trace: dict[str, Any]) -> None:
    """The waits of compiled code are inside of its call, on the track of the program."""
    for rank in range(2):
        (call,) = trace_format.spans(trace, rank, "turns")
        file, line = call["args"]["source"].split(":")
        assert (file, "def turns" in PROGRAM.read_text().splitlines()[int(line)]) == (str(PROGRAM), True)
        for name in ("gw.wait", "gw.allreduce", "gw.barrier", "start plan", "wait for plan"):
            found = trace_format.spans(trace, rank, name)
            assert len(found) == ROUNDS, name
            assert all(span["tid"] == 0 for span in found)
            assert all(call["ts"] <= span["ts"] <= call["ts"] + call["dur"] for span in found)


def check_tasks(trace: dict[str, Any]) -> None:
    """Tasks that are under way together have tracks; while all of them sleep the rank waits, which counts once."""
    for rank in range(3):
        inside = [trace_format.spans(trace, rank, f"in task {n}")[0] for n in range(3)]
        assert len({span["tid"] for span in inside} - {0}) == 3
        idle = trace_format.spans(trace, rank, "no task is ready")
        assert sum(span["dur"] for span in idle) >= 0.1e6


def test_time_counts_from_the_start_of_the_process(tmp_path: Path) -> None:
    """The clock of the test starts before Python does; two per cent of the time leave room for a loaded machine."""
    program = """
        import atexit, pathlib, sys, time
        import gondwana as gw
        atexit.register(lambda: pathlib.Path(sys.argv[1]).write_text(str(time.monotonic_ns())))
        with gw.span("sleep"):
            time.sleep(10)
    """
    file, last = tmp_path / "trace.json", tmp_path / "last"
    first = time.monotonic_ns()
    outcome = jobs.run_ranks(1, program, str(last), variables={"GONDWANA_TRACE": str(file)})
    assert outcome.status == 0, str(outcome)
    about = trace_format.read(file)["gondwana"]
    wall = (int(last.read_text()) - first) / 1e9
    assert sum(seconds[0] for seconds in about["spans"].values()) >= 0.98 * wall
    assert 10.0 <= about["spans"]["span"][0] < 20.0


def test_what_was_recorded_stays_when_a_rank_is_killed(tmp_path: Path) -> None:
    program = """
        import os, signal, time
        import gondwana as gw
        a = gw.zeros(gw.RectDomain(0, 64), ghost=1, periodic=True)
        for _ in range(4):
            gw.exchange(a).wait()
        gw.world.barrier()
        if gw.world.rank == 1:
            with gw.span("last one"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        gw.world.barrier()
    """
    path = tmp_path / "program.py"
    path.write_text("\n".join(line[8:] for line in program.splitlines()))
    file = tmp_path / "trace.json"
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "--trace", str(file), str(path)]
    outcome = jobs.run_command(command)
    assert outcome.status != 0
    trace = trace_format.read(file)
    about = trace["gondwana"]
    assert not about["complete"]
    assert [note.split(":")[0] for note in about["notes"]] == [
        f"rank {rank} ended before its time" for rank in range(2)
    ]
    assert len(trace_format.spans(trace, 1, "last one")) == 1
    assert len(trace_format.spans(trace, 0, "start exchange")) == 4
    assert about["matrix"]["messages"] == [[0, 4], [4, 0]]
    assert not Path(f"{file}.parts").exists()
    assert "ended before its time" in outcome.stderr


def test_a_launcher_of_another_kind_sets_the_variable(tmp_path: Path) -> None:
    """Ranks that fork, and start programs: these are no ranks."""
    program = """
        import os, subprocess, sys
        import gondwana as gw
        gw.world.barrier()
        with gw.span("before"):
            pass
        if os.fork() == 0:
            with gw.span("in the child"):
                os._exit(0)
        os.wait()
        subprocess.run([sys.executable, "-c", "import gondwana as gw\\nwith gw.span('elsewhere'): pass"], check=True)
    """
    outcome = jobs.run_ranks(2, program, variables={"GONDWANA_TRACE": "trace.json"}, cwd=tmp_path)
    assert outcome.status == 0, str(outcome)
    trace = trace_format.read(tmp_path / "trace.json")
    assert trace["gondwana"]["ranks"] == 2
    assert len(trace_format.spans(trace, None, "before")) == 2
    assert not trace_format.spans(trace, None, "in the child")
    assert not trace_format.spans(trace, None, "elsewhere")
