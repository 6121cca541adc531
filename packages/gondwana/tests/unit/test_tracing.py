"""Traces without ranks: what is recorded and read again, clocks, sums of times, and what is printed."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import random
import shutil
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import gondwana as gw
from gondwana.cli.run import trace_file
from gondwana.errors import UsageError
from gondwana.gpu.driver import RecordedDriver, readable
from gondwana.gpu.interface import Driver
from gondwana.kernels import foreach_kernels
from gondwana.runtime import supervisor
from gondwana.runtime.tracing import part, recorder, recorders
from gondwana.runtime.tracing.recorders import Recorder, now
from gondwana.traces import __main__ as by_hand, closing, rank_events
from gondwana.traces.merge import Trace, merge
from support import jobs, trace_format


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Recorder]:
    """A recorder of this process, beside what the library does."""
    made = Recorder(tmp_path / "trace.json", None, 100)
    yield made
    made.finish()


def test_nothing_is_wrapped_where_nothing_records() -> None:
    assert recorder is None, "the tests run without a trace"
    assert gw.span("a") is gw.span("b")
    for function in (gw.put, gw.exchange, gw.rpc, gw.Signal.wait, gw.Team.barrier, gw.fused):
        assert not hasattr(function, "__wrapped__")


def test_spans_are_ranges_of_nvidias_profilers(tmp_path: Path) -> None:
    """The package is a stand-in that says what it is told: profilers need a driver of NVIDIA's."""
    (tmp_path / "nvtx.py").write_text(
        "import itertools\n"
        "numbers, names = itertools.count(), {}\n"
        "def start_range(message, domain):\n"
        "    names[number := next(numbers)] = message\n"
        "    print('begin', message, domain)\n"
        "    return number\n"
        "def end_range(number):\n"
        "    print('end', names[number])\n"
    )
    program = tmp_path / "program.py"
    program.write_text(
        "import gondwana as gw\n"
        "T, block = gw.zeros((4, 4), ghost=1), gw.span('one block')\n"
        "for _ in range(2):\n"
        "    with block:\n"
        "        gw.exchange(T)\n"
    )
    command = ["gondwana", "run", "-n", "1", "--trace", str(tmp_path / "trace.json"), str(program)]
    done = jobs.run_command(command, variables={"PYTHONPATH": str(tmp_path)})
    lines = [line.removesuffix(" gondwana") for line in done.stdout.splitlines() if line.startswith(("begin", "end"))]
    inside = lines[lines.index("begin one block") + 1 : lines.index("end one block")]
    assert Counter(line.removeprefix("begin ") for line in inside if line.startswith("begin ")) == Counter(
        line.removeprefix("end ") for line in inside if line.startswith("end ")
    )
    assert inside
    assert lines.count("begin one block") == lines.count("end one block") == 2


@pytest.mark.parametrize("name", ["", 123, None, b"name"])
def test_a_span_has_a_name(name: Any) -> None:
    with pytest.raises(UsageError, match=r"gw\.span\(.*\): give a name, a text that is not empty"):
        gw.span(name)


def test_records_are_read_as_they_were_written(one: Recorder) -> None:
    kernel, copy = one.number_of("sweep", "kernel"), one.number_of('a "name" \\ of\nlines ☃', "copy")
    assert one.number_of("sweep", "kernel") == kernel
    begin = now()
    one.add_at(begin, 1000, kernel, 0)
    one.add_at(begin + 2000, 500, copy, 0, 4096)
    one.finish()
    one.add(begin, kernel)  # too late
    found = part.read(one.folder, 0)
    assert found is not None
    assert found.finished
    assert found.begin <= begin <= found.end
    assert [row[:5].tolist() for row in found.records if row[part.NAME] in (kernel, copy)] == [
        [begin, 1000, kernel, 0, -1],
        [begin + 2000, 500, copy, 0, 4096],
    ]
    about = merge(one.file).about
    trace = trace_format.read(one.file)
    assert trace["gondwana"] == about
    (span,) = trace_format.spans(trace, 0, 'a "name" \\ of\nlines ☃')
    assert (span["dur"], span["cat"], span["args"]) == (0.5, "copy", {"bytes": 4096})
    assert about["spans"]["kernel"] == [1e-6]
    assert about["complete"]
    assert not one.folder.exists()


def test_what_has_no_room_is_counted_and_reported(one: Recorder) -> None:
    number = one.number_of("often", "span")
    for _ in range(120):
        one.add(now(), number)
    one.words[part.COMPILED] = 107  # compiled code counts what it has no room for as well
    one.finish()
    about = merge(one.file).about
    assert about["events"] == [100]
    assert not about["complete"]
    (note,) = about["notes"]
    assert "rank 0 had no room for 28 records" in note  # 21 of Python, with the one of its start, and 7
    assert "set GONDWANA_TRACE_EVENTS to more than 100" in note
    assert note in closing.summary(Trace(one.file, about))


def test_a_part_that_was_cut_off_is_read_as_far_as_it_goes(one: Recorder) -> None:
    one.add(now(), one.number_of("first", "span"))
    with part.names(one.folder, 0)[1].open("a") as lines:
        lines.write('{"number": 99, "na')
    found = part.read(one.folder, 0)
    assert found is not None
    assert not found.finished
    about = merge(one.file).about
    assert about["notes"] == ["rank 0 ended before its time: its trace ends with what it recorded last"]
    assert len(trace_format.spans(trace_format.read(one.file), 0, "first")) == 1


def test_parts_are_merged_where_folders_have_no_locks(one: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, how: int) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))  # NFS locks what is open for writing

    monkeypatch.setattr(fcntl, "flock", refuse)
    one.add(now(), one.number_of("first", "span"))
    one.finish()
    assert len(trace_format.spans(trace_format.read(merge(one.file).file), 0, "first")) == 1


@pytest.mark.parametrize("damage", ["short", "format", "empty"])
def test_a_damaged_part_is_none(one: Recorder, damage: str) -> None:
    one.finish()
    path = part.names(one.folder, 0)[0]
    content = path.read_bytes()
    changed = {"short": content[:-40], "format": struct.pack("q", 7) + content[8:], "empty": b""}[damage]
    path.write_bytes(changed)
    assert part.read(one.folder, 0) is None
    with pytest.raises(UsageError, match="has no part of a trace"):
        merge(one.file)


def test_spans_say_what_they_work_on(tmp_path: Path) -> None:
    """Kernels have cells, threads and their line; exchanges bytes and ranks, also in the curve of a rank."""
    one = Recorder(tmp_path / "trace.json", cast(Any, FakeLaunch(0, 3)), 20)
    begin, smooth = now(), foreach_kernels.Foreach(_smooth)
    kernel = one.number_of("smooth", "kernel", lambda: foreach_kernels.origin(smooth, None))
    assert kernel == one.number_of("smooth", "kernel", pytest.fail)
    one.note(plan=0, key=255, to=[1, 2], of=[2], stored={1: 80, 2: 20})
    start, wait = (one.number_of(name, name, plan=0, starts=name == "start") for name in ("start", "wait"))
    cells = foreach_kernels.cells(smooth, gw.RectDomain((0, 0), (3, 4)))
    for place, (number, value) in enumerate([(kernel, cells), (start, 1), (wait, 1), (start, 2)]):
        one.add_at(begin + 2000 * place, 1000, number, 0, value)
    one.finish()
    about = merge(one.file).about
    trace = trace_format.read(one.file)
    line = _smooth.__code__.co_firstlineno
    (span,) = trace_format.spans(trace, 0, "smooth")
    assert span["args"] == {"source": f"{__file__}:{line}", "threads": gw.threads(), "cells": 12}
    span, _ = trace_format.spans(trace, 0, "start")
    assert span["args"] == {"round": 1, "to": "ranks 1, 2", "from": "rank 2", "bytes": 100}
    (span,) = trace_format.spans(trace, 0, "wait")
    assert span["args"] == {"round": 1, "to": "ranks 1, 2", "from": "rank 2"}
    assert [event["args"] for event in trace["traceEvents"] if event["ph"] == "C"] == [{"bytes": 100}, {"bytes": 200}]
    rows = {row["name"]: row for row in about["operations"]}
    assert rows["start"] == {"name": "start", "category": "start", "seconds": [2e-6]}
    assert sum(row["seconds"][0] for row in rows.values()) == pytest.approx(about["seconds"][0])


def _smooth(p: Any, new: Any, old: Any) -> None:
    new[p] = old[p]


PAIRS = """
import gondwana as gw

def kernels():
    @gw.foreach
    def spread(p, out, a):
        out[p] = a[p]

    @gw.reduce
    def add(p, a):
        return a[p]

    return spread, add

spread, add = kernels()
box, between = gw.RectDomain((0, 0, 0), (5, 6, 7)), gw.Intermediate()
a, b = gw.Array.full(box, 1.0), gw.Array.zeros(box)
gw.fused(box.shrink(1), (spread, between, a), (spread, b, between))
gw.fused(box.shrink(2), second=(add, between), first=(spread, between, a))
for wrong in ((None,), 5):
    try:
        gw.fused(box, wrong, wrong)
    except ValueError as error:
        print(error)
print(gw.threads())
"""


def test_fused_kernels_say_what_they_work_on(tmp_path: Path) -> None:
    (tmp_path / "pairs.py").write_text(PAIRS)
    words = [sys.executable, "pairs.py"]
    outcome = jobs.run_command(words, cwd=tmp_path, variables={"GONDWANA_TRACE": "t.json", "GONDWANA_INTERPRET": "1"})
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout.count("fused takes pairs") == 2
    trace = trace_format.read(tmp_path / "t.json")
    found = {span["name"]: span.get("args") for span in trace_format.spans(trace, 0) if span["cat"] == "kernel"}
    lines = {name: f"{tmp_path}/pairs.py:{line}" for name, line in (("spread", 5), ("add", 9))}
    assert found["spread and spread"] == {
        "source": f"{lines['spread']} and {lines['spread']}",
        "threads": int(outcome.stdout.splitlines()[-1]),
        "cells": 3 * 4 * 5,
    }
    assert found["spread and add"]["source"] == f"{lines['spread']} and {lines['add']}"
    assert found["spread and add"]["cells"] == 1 * 2 * 3
    assert "source" not in found["? and ?"], "what is no pair of kernels is refused as without a trace"


def test_each_thread_has_a_track(one: Recorder) -> None:
    """Compiled code knows the identifiers of its threads only; one of them is a thread of Python."""
    begin, own = now(), 1 << 40
    one.track_of(own + 7, "reader")
    for strand in range(2):
        one.track_of(-1000 - strand, "tasks", main=True)
    for place, thread in enumerate([own, own + 7, own + 8, own]):
        one.add_at(begin + 2000 * place, 1000, part.SIGNAL_WAIT, thread)
    one.finish()
    merge(one.file)
    trace = trace_format.read(one.file)
    waits = [span["tid"] for span in trace_format.spans(trace, 0, "gw.wait")]
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    threads = ["compiled thread 1", "compiled thread 2", "reader"]
    assert sorted(names.values()) == sorted([*threads, "program", "tasks 1", "tasks 2"])
    assert sorted(names[track] for track in waits) == sorted([*threads, threads[0]])


def test_damage_of_any_byte_or_line_is_left_out_or_refused(tmp_path: Path) -> None:
    """Whatever a disk or a hand does to the parts: a trace that viewers take, or one line."""
    file, stored = tmp_path / "trace.json", {}
    for rank in range(2):
        one = Recorder(file, cast(Any, FakeLaunch(rank, 2)), 20)
        begin, kernel = now(), one.number_of("sweep", "kernel")
        one.note(plan=0, key=255, to=[1 - rank], of=[1 - rank], stored={1 - rank: 80})
        start = one.number_of("start", "exchange", plan=0, starts=True)
        wait = one.number_of("wait", "wait", plan=0, starts=False)
        track = one.track_of(-7, "tasks", main=True)
        for number, span in enumerate((kernel, start, wait, kernel)):
            one.add_at(begin + 2000 * number, 1000, span, track if number == 3 else 0, 1)
        one.words[one.layout.plans] = 1
        one.note(size=2)
        one.finish()
        stored |= {path: path.read_bytes() for path in part.names(one.folder, rank)}
    outcomes: Counter[str] = Counter()
    for seed in range(600):
        shutil.rmtree(one.folder, ignore_errors=True)
        one.folder.mkdir()
        file.unlink(missing_ok=True)
        for path, content in stored.items():
            path.write_bytes(_damaged(random.Random(f"{seed} {path.name}"), path, content))
        try:
            about = merge(file).about
        except UsageError:
            outcomes["refused"] += 1
        else:
            closing.summary(Trace(file, about))
            for event in json.loads(file.read_text())["traceEvents"]:
                assert min(event.get(key, 0) for key in ("ts", "dur", "tid", "pid")) >= 0, event
            outcomes["read"] += 1
    assert min(outcomes["refused"], outcomes["read"]) > 20, outcomes


def _damaged(rng: random.Random, path: Path, content: bytes) -> bytes:
    """A file of a part with a word, a byte, a key or the end changed; now and then as it was."""
    how = rng.randrange(5)
    if how == 0:
        return content
    if how == 1:
        return content[: rng.randrange(len(content))]
    place = rng.randrange(len(content))
    if how == 2:
        return content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
    if path.suffix == ".records":
        words = np.frombuffer(content, np.int64).copy()
        place = rng.choice([rng.randrange(part.HEAD // 4), int(rng.choice(list(np.flatnonzero(words))))])
        words[place] = rng.choice([-1, 0, 1, 5, 2**40, 2**62, -(2**63), 2**63 - 1])
        return words.tobytes()
    lines = [json.loads(line) for line in content.splitlines()]
    line = rng.choice(lines)
    line[rng.choice(list(line))] = rng.choice(
        [None, -1, 0, 1e308, 10**30, 2**62, "", "x", "\udcff", [], [[]], {}, {"1": -5}]
    )
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def test_a_fifo_among_the_parts_is_not_waited_for(one: Recorder) -> None:
    one.finish()
    for path in part.names(one.folder, 0):
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(UsageError, match="has no part of a trace"):
        merge(one.file)


def test_a_trace_is_a_regular_file(tmp_path: Path) -> None:
    """A device or a FIFO of that name stays what it is."""
    file = tmp_path / "fifo"
    os.mkfifo(file)
    with pytest.raises(UsageError, match="this is no regular file; name another file"):
        merge(file)
    assert file.is_fifo()


def test_parts_of_an_earlier_and_larger_job_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    ranks = [Recorder(file, cast(Any, FakeLaunch(rank, 3)), 10) for rank in range(3)]
    ranks[0].note(size=2)
    for one in ranks:
        one.count_sent(1, 10)
        one.count_fetched(0, 3)
        one.finish()
    about = merge(file).about
    assert about["ranks"] == 2
    assert about["matrix"] == {"bytes": [[0, 13], [0, 0]], "messages": [[0, 2], [0, 0]]}


class FakeLaunch:
    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


def test_files_in_a_folder_of_another_user_are_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trace.json.parts").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    made = Recorder(tmp_path / "trace.json", None, 10)
    assert not made.active
    assert made.problem is not None
    assert "trace.json.parts is there and belongs to another user" in made.problem


def test_a_process_that_is_no_rank_leaves_nothing(one: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONDWANA_TRACE", "")  # so that what follows is undone
    monkeypatch.delenv("GONDWANA_TRACE")
    one.withdraw()
    assert not one.folder.exists()
    assert os.environ["GONDWANA_TRACE"] == str(one.file)


def test_names_are_limited(one: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gondwana.runtime.tracing.recorders._MOST_NAMES", 3)
    numbers = {one.number_of(f"step {n}", "span") for n in range(10)}
    assert len(numbers) == 3  # of two, since there was one before, and of all others


# -- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_clocks_are_compared_within_the_error(seed: int) -> None:
    dice, time, true = random.Random(seed), itertools.count(), 123_456_789
    moment = 0

    def read() -> int:
        next(time)
        return moment

    def ask() -> int:
        nonlocal moment
        moment += dice.randrange(1000, 20_000)
        there = moment + true
        moment += dice.randrange(1000, 20_000)
        return there

    found = recorders.estimate(ask, now=read)
    assert abs(found.offset - true) <= found.error <= 20_000


def test_the_ranks_of_a_host_have_one_clock() -> None:
    class Comm:
        """What rank 0 sees of a job on two hosts, of which the second answers at once."""

        size, rank = 3, 0

        def __init__(self) -> None:
            self.answers: list[list[Any]] = [["a", "a", "b"], [recorders.SAME, recorders.SAME, recorders.Clock(5, 2)]]
            self.served = 0

        def allgather(self, own: Any) -> list[Any]:
            return self.answers.pop(0)

        def recv(self, obj: None, source: int, tag: int) -> None:
            assert source == 2

        def send(self, obj: int, dest: int, tag: int) -> None:
            assert dest == 2
            self.served += 1

    comm = Comm()
    assert recorders.align(comm, "a") == recorders.SAME
    assert comm.served == recorders.ROUNDS


# -- sums ------------------------------------------------------------------------------------------------------------


def test_an_instant_counts_once() -> None:
    spans = [(10, 60, "kernel"), (20, 30, "wait"), (25, 28, "call"), (70, 200, "io"), (0, 5, "startup")]
    found = rank_events.by_category(0, 100, spans)
    assert found == {"startup": 5, "python": 15, "kernel": 40, "wait": 7, "call": 3, "io": 30}


@pytest.mark.parametrize("seed", range(20))
def test_times_against_counting_each_instant(seed: int) -> None:
    dice = random.Random(seed)
    spans = []
    for number in range(dice.randrange(12)):
        begin = dice.randrange(-10, 60)
        spans.append((begin, begin + dice.randrange(0, 40), f"kind {number}"))
    found = rank_events.by_category(0, 50, spans)
    assert sum(found.values()) == 50
    expected = {"python": 0}
    for moment in range(50):
        open_ones = [span for span in spans if span[0] <= moment < span[1]]
        # The one that began last; of those that began together the shortest, which is inside of the others.
        latest = max(open_ones, key=lambda span: (span[0], -span[1]), default=(0, 0, "python"))
        expected[latest[2]] = expected.get(latest[2], 0) + 1
    ties = len({(begin, end) for begin, end, _ in spans}) < len(spans)
    assert ties or {name: count for name, count in found.items() if count} == {
        name: count for name, count in expected.items() if count
    }


# -- what is printed -------------------------------------------------------------------------------------------------


def about(nbytes: list[list[int]]) -> dict[str, Any]:
    size = len(nbytes)
    return {
        "ranks": size, "seconds": [2.0] * size, "events": [10] * size, "notes": ["a note"],
        "spans": {"kernel": [1.5] * size, "wait": [0.5] * size, "io": [0.0] * size},
        "operations": [
            {"name": "step", "category": "kernel", "seconds": [1.0] + [2.0] * (size - 1)},
            {"name": "wait for the exchange of ghosts", "category": "wait", "seconds": [0.5] + [0.0] * (size - 1)},
            {"name": "open", "category": "io", "seconds": [1e-5] * size},
        ],
        "matrix": {"bytes": nbytes, "messages": [[int(count > 0) for count in row] for row in nbytes]},
    }  # fmt: skip


def test_small_matrices_are_printed_whole(tmp_path: Path) -> None:
    lines = closing.summary(Trace(tmp_path / "t.json", about([[0, 3 << 20], [512, 0]])))
    assert lines == [
        f"trace of 2 ranks: {tmp_path}/t.json, 20 records",
        "time of the ranks: kernel 75.0%, wait 25.0%",
        "operation                        kind      mean   slowest  rank  share",
        "step                           kernel    1.50 s    2.00 s     1  75.0%",
        "the exchange of ghosts           wait   0.250 s   0.500 s     0  12.5%",
        "sent: 3.0 MiB in 2 messages",
        "    sent by        to 0       to 1",
        "      rank 0          -    3.0 MiB",
        "      rank 1      512 B          -",
        "a note",
    ]


def test_of_large_matrices_the_largest_entries_are_printed(tmp_path: Path) -> None:
    nbytes = [[1024 if b == a + 1 else 0 for b in range(12)] for a in range(12)]
    nbytes[11][0] = 1 << 40
    lines = closing.summary(Trace(tmp_path / "t.json", about(nbytes)))
    assert all(len(f"gondwana: {line}") <= 80 for line in lines[2:5])
    assert lines[5].startswith("sent: 1.0 TiB in 12 messages; most from 11 to 0: 1.0 TiB, ")
    assert len(lines) == 7


# -- devices ---------------------------------------------------------------------------------------------------------


class FakeDriver:
    """A driver whose launches take one second each, and whose events say when they were recorded."""

    name = "fake"

    def __init__(self) -> None:
        self.clock, self.events, self.numbers = 0.0, dict[int, float](), itertools.count(1)

    def new_event(self, *, timing: bool = False) -> int:
        assert timing
        return next(self.numbers)

    def record(self, event: int, stream: int) -> None:
        self.events[event] = self.clock

    def reached(self, event: int) -> bool:
        return True

    def await_event(self, event: int) -> None:
        assert event in self.events

    def seconds(self, first: int, last: int) -> float:
        return self.events[last] - self.events[first]

    def entry(self, module: int, name: str) -> int:
        return 77

    def launch(self, *_: Any) -> None:
        self.clock += 1.0

    def copy(self, *_: Any) -> None:
        self.clock += 0.5

    def replay(self, *_: Any) -> None:
        self.clock += 2.0

    def begin_capture(self, stream: int) -> None:
        pass

    def end_capture(self, stream: int) -> int:
        return 5

    def finish(self, stream: int) -> None:
        pass


def test_devices_have_tracks_with_their_own_times(one: Recorder) -> None:
    fake = FakeDriver()
    driver = cast(Driver, RecordedDriver(cast(Driver, fake), one))
    assert driver.name == "fake"
    entry = driver.entry(1, "_ZN4heat4stepB2v1B4abcdE")
    for _ in range(300):
        driver.launch(entry, (1, 1, 1), (1, 1, 1), 0, 9, b"")
    driver.begin_capture(9)
    driver.launch(entry, (1, 1, 1), (1, 1, 1), 0, 9, b"")
    driver.replay(driver.end_capture(9), 9)
    driver.copy(1, 2, 4096, 8)
    driver.finish(9)
    one.finish()
    merge(one.file)
    trace = trace_format.read(one.file)
    launches = trace_format.spans(trace, 0, "heat.step")
    # One hundred records have room: the times of the launches that were recorded are those of the device.
    assert 90 < len(launches) <= 100
    starts = [launch["ts"] for launch in launches]
    assert {round((after - before) / 1e6, 6) for before, after in itertools.pairwise(starts)} == {1.0}
    assert {launch["dur"] for launch in launches} == {1e6}
    assert {launch["tid"] for launch in launches} != {0}


def test_the_names_of_kernels_are_readable() -> None:
    assert readable("_ZN8__main__3incB2v2B88cw51cXE") == "__main__.inc"
    assert readable("pack") == "pack"
    assert readable("_ZN") == "_ZN"


# -- commands --------------------------------------------------------------------------------------------------------


def python(program: str, cwd: Path | None = None, **variables: str) -> jobs.Outcome:
    return jobs.run_command([sys.executable, "-c", program], variables=variables, cwd=cwd)


@pytest.mark.parametrize(("name", "reason"), [(".", "this is a folder"), ("/dev/null", "this is no regular file")])
def test_run_refuses_what_is_no_file(name: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(UsageError) as refused:
        trace_file(path)
    assert str(refused.value) == f"--trace {path}: {reason}; name another file"


def test_run_takes_the_variable_and_traces_no_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    file = tmp_path / "t.json"
    words = [sys.executable, "-m", "gondwana.cli.main", "run", "--dry-run", str(tmp_path / "x.py")]
    outcome = jobs.run_command(words, variables={"GONDWANA_TRACE": str(file)})
    assert outcome.status == 0
    assert f"GONDWANA_TRACE={file}" in outcome.stdout
    assert os.listdir(tmp_path) == ["x.py"]


@pytest.mark.parametrize(("end", "statuses"), [("raise SystemExit(3)", {3}), ("raise KeyboardInterrupt", {-2, 130})])
def test_an_error_of_a_program_leaves_a_trace(end: str, statuses: set[int], tmp_path: Path) -> None:
    """Of one process, without any launcher."""
    program = f"import gondwana as gw\nwith gw.span('a'): pass\n{end}"
    outcome = python(program, GONDWANA_TRACE=str(tmp_path / "t.json"))
    assert outcome.status in statuses
    assert len(trace_format.spans(trace_format.read(tmp_path / "t.json"), 0, "a")) == 1
    assert "trace of 1 rank: " in outcome.stderr


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"GONDWANA_TRACE": "nowhere/t.json"}, "the folder {}/nowhere does not exist or cannot be written"),
        ({"GONDWANA_TRACE_EVENTS": "many", "GONDWANA_TRACE": "t.json"}, "legal are 1 to 67108864 records of a rank"),
    ],
)
def test_a_rank_refuses_what_cannot_be_recorded(variables: dict[str, str], reason: str, tmp_path: Path) -> None:
    outcome = python("import gondwana as gw; gw.world.barrier()", cwd=tmp_path, **variables)
    name, value = next(iter(variables.items()))
    assert outcome.status == 2
    assert outcome.stderr.startswith(f"gondwana: error: {name}={value}: {reason.format(tmp_path)}")
    assert os.listdir(tmp_path) == []


def test_parts_are_merged_by_hand(one: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    assert by_hand.main([]) == 2
    one.add(now(), one.number_of("x", "span"))
    assert by_hand.main([str(one.file)]) == 0
    assert "rank 0 ended before its time" in capsys.readouterr().err
    assert json.loads(one.file.read_text())["gondwana"]["ranks"] == 1
    assert by_hand.main([str(one.file)]) == 2
    assert "a job leaves this folder when it ends before its time" in capsys.readouterr().err


def test_the_supervisor_merges_what_was_left(one: Recorder) -> None:
    one.add(now(), one.number_of("x", "span"))
    supervisor.merge_trace({**os.environ, "GONDWANA_TRACE": str(one.file)})
    assert one.file.exists()
    one.file.unlink()
    supervisor.merge_trace({**os.environ, "GONDWANA_TRACE": str(one.file)})
    supervisor.merge_trace(dict(os.environ))
    assert not one.file.exists()
    assert (supervisor._TRACE, supervisor._PARTS) == (part.VARIABLE, part.PARTS)
