"""`gondwana otf2`: an archive is read back by OTF2's own reader, and has what the trace has."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from gondwana.errors import UsageError
from gondwana_bench.cli.otf2 import otf2 as convert
from support import jobs

PROGRAM = """
import gondwana as gw

@gw.foreach
def smooth(p, new, old):
    new[p] = 0.5 * (old[p - gw.X] + old[p + gw.X])

u, v = (gw.zeros(gw.RectDomain(0, 64), ghost=1, periodic=True) for _ in range(2))
for _ in range(3):
    gw.exchange(u).wait()
    with gw.span("sweep"):
        smooth(u.owned, v, u)
"""


def test_an_archive_has_the_spans_messages_and_bytes_of_a_job(tmp_path: Path) -> None:
    otf2 = pytest.importorskip("otf2", reason="the package otf2 is not installed")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "gondwana.cli.main"]
    words = [*command, "run", "-n", "2", "-t", "1", "--time-limit", "200", "--trace", "t.json", "program.py"]
    outcome = jobs.run_command(words, cwd=tmp_path, variables={"GONDWANA_INTERPRET": "1"})
    assert outcome.status == 0, str(outcome)
    outcome = jobs.run_command([*command, "otf2", "t.json"], cwd=tmp_path)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "t-otf2/traces.otf2\n", "")
    expected = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    with otf2.reader.open(str(tmp_path / "t-otf2" / "traces.otf2")) as archive:
        assert archive.timer_resolution == 10**9
        found, sent, moved = contents(otf2, archive)
        known = archive.definitions
        assert [group.name for group in known.location_groups] == ["rank 0", "rank 1"]
        (smooth,) = (region for region in known.regions if region.name == "smooth")
        assert smooth.source_file == "program.py"
        assert (smooth.begin_line_number, smooth.region_role) == (4, otf2.RegionRole.KERNEL)
        (kernels,) = (group for group in known.groups if group.name == "kernel")
        assert kernels.members == (smooth,)
    rank = {
        event["pid"]: event["args"]["name"].split(" on ")[0] for event in expected if event["name"] == "process_name"
    }
    assert found == Counter(
        (rank[event["pid"]], event["name"], round(1000 * event["ts"]), round(1000 * event["dur"]),
         event.get("args", {}).get("cells"))
        for event in expected if event["ph"] == "X"
    )  # fmt: skip
    assert sent == {("rank 0", 1): [16] * 3, ("rank 1", 0): [16] * 3}
    for pid, name in rank.items():
        assert moved[name] == [
            event["args"]["bytes"] for event in expected if event["ph"] == "C" and event["pid"] == pid
        ]


def contents(otf2: Any, archive: Any) -> tuple[Counter[Any], dict[Any, list[int]], dict[str, list[int]]]:
    """Spans, bytes of messages by sender and receiver, and the metric of each rank; receives match sends."""
    spans: Counter[Any] = Counter()
    sent, received, moved = defaultdict(list), defaultdict(list), defaultdict(list)
    open_ones = defaultdict(list)
    last = 0
    for location, event in archive.events:
        rank = location.group.name
        assert event.time >= last
        last = event.time
        if isinstance(event, otf2.events.Enter):
            open_ones[location].append(event)
        elif isinstance(event, otf2.events.Leave):
            begin = open_ones[location].pop()
            assert event.region == begin.region
            numbers = {attribute.name: value for attribute, value in (begin.attributes or {}).items()}
            spans[rank, event.region.name, begin.time, event.time - begin.time, numbers.get("cells")] += 1
        elif isinstance(event, otf2.events.MpiSend):
            sent[rank, event.receiver].append(event.msg_length)
        elif isinstance(event, otf2.events.MpiRecv):
            received[f"rank {event.sender}", int(rank[-1])].append(event.msg_tag)
        else:
            moved[rank].append(event.value)
    assert not any(open_ones.values())
    assert {key: len(value) for key, value in received.items()} == {key: len(value) for key, value in sent.items()}
    return spans, dict(sent), moved


def test_streams_of_devices_and_spans_that_begin_together(tmp_path: Path) -> None:
    otf2 = pytest.importorskip("otf2", reason="the package otf2 is not installed")
    names = [("process_name", 0, "rank 0 on x"), ("thread_name", 0, "program"), ("thread_name", 3, "device, stream 1")]
    spans = [(0, 0, 9, "rank"), (0, 0, 2, "outer"), (0, 0, 1, "inner"), (0, 2, 0, "nothing"), (3, 1, 5, "kernel")]
    spans += [(0, 8, 3, "cut off")]  # as of damaged records
    events = [{"ph": "M", "pid": 0, "tid": tid, "name": key, "args": {"name": name}} for key, tid, name in names]
    events += [
        {"ph": "X", "pid": 0, "tid": tid, "ts": ts, "dur": dur, "name": name, "cat": "device"}
        for tid, ts, dur, name in spans
    ]
    (tmp_path / "t.json").write_text(json.dumps({"gondwana": {"command": ["x"]}, "traceEvents": events}))
    convert(tmp_path / "t.json", tmp_path / "out")
    with otf2.reader.open(str(tmp_path / "out" / "traces.otf2")) as archive:
        kinds = {location.name: location.type for location in archive.definitions.locations}
        found = [
            (location.name, type(event).__name__, event.time, event.region.name) for location, event in archive.events
        ]
    kind = otf2.LocationType
    assert kinds == {"program": kind.CPU_THREAD, "device, stream 1": kind.ACCELERATOR_STREAM}
    assert [event[1:] for event in found if event[0] == "program"] == [
        ("Enter", 0, "rank"), ("Enter", 0, "outer"), ("Enter", 0, "inner"), ("Leave", 1000, "inner"),
        ("Leave", 2000, "outer"), ("Enter", 2000, "nothing"), ("Leave", 2000, "nothing"), ("Enter", 8000, "cut off"),
        ("Leave", 9000, "cut off"), ("Leave", 9000, "rank"),
    ]  # fmt: skip
    assert [event[1:3] for event in found if event[0] != "program"] == [("Enter", 1000), ("Leave", 6000)]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "t.json: not a trace"),
        ('{"gondwana": {"trace": "x", "command": []}, "traceEvents": [{"ph": "X"}]}', "t.json: not a trace"),
        ('{"gondwana": {"trace": "x", "command": []}, "traceEvents": [{"ph": "X", "ts": -1}]}', "t.json: not a trace"),
    ],
)
def test_what_is_no_trace_is_refused(content: str, reason: str, tmp_path: Path) -> None:
    pytest.importorskip("otf2", reason="the package otf2 is not installed")
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(UsageError, match=reason):
        convert(tmp_path / "t.json", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_an_archive_replaces_nothing(tmp_path: Path) -> None:
    pytest.importorskip("otf2", reason="the package otf2 is not installed")
    with pytest.raises(UsageError, match="this is there already; name a new folder"):
        convert(tmp_path / "t.json", tmp_path)
    with pytest.raises(UsageError, match="nowhere is no folder that can be written; name a new folder"):
        convert(tmp_path / "t.json", tmp_path / "nowhere" / "out")


def test_without_the_package_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "otf2", None)
    with pytest.raises(UsageError, match=r"pip install 'gondwana\[otf2\]'"):
        convert(tmp_path / "t.json", None)
