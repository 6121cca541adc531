"""What the race detector makes of records that arrive late: the order of the ranks, not the order of arrival."""

from __future__ import annotations

import queue
import socket
import struct
import threading

import pytest

from gondwana.races.analysis import Analysis
from gondwana.races.ranks import Rank
from gondwana.runtime.races.records import BARRIER, MAIN, READS, UPDATES, WRITES, Kind, head
from gondwana.runtime.races.sending import Reporter

KEY, FLAG, NUMBER = 7, 32, 0
LOAD, STORE, ADD = READS, WRITES, READS | UPDATES | WRITES


def tell(rank: Rank, kind: Kind, *words: int, stream: int = MAIN) -> None:
    """Let a record of a rank arrive."""
    rank.feed(struct.pack(f"{1 + len(words)}q", head(kind, 1 + len(words), stream, 0), *words))


def access(rank: Rank, kind: Kind, offset: int = NUMBER, stream: int = MAIN) -> None:
    """Let an access to a number of rank 1 arrive."""
    tell(rank, kind, KEY, 1, offset, 8, stream=stream)


def atomic(rank: Rank, what: int, before: int, after: int) -> None:
    """Let the record of an atomic operation on the flag of rank 1 arrive."""
    tell(rank, Kind.ATOMIC, KEY, 1, FLAG, 8, after, before, what)


def connected(analysis: Analysis, number: int) -> Rank:
    """A rank that has told of a segment."""
    rank = analysis.new(number)
    rank.records.append({"segment": KEY, "ranks": [0, 1], "sizes": [64, 64], "table": KEY})
    return rank


@pytest.fixture
def analysis() -> Analysis:
    return Analysis()


@pytest.fixture
def ranks(analysis: Analysis) -> list[Rank]:
    return [connected(analysis, number) for number in range(2)]


def test_a_flag_whose_store_is_reported_late_orders_the_ranks(analysis: Analysis, ranks: list[Rank]) -> None:
    writer, reader = ranks
    access(writer, Kind.WRITE)
    tell(writer, Kind.INTEND, KEY, 1, FLAG)
    atomic(reader, LOAD, 1, 1)
    access(reader, Kind.READ)
    for _ in range(3):  # the writer has set the flag, and was then held up
        analysis.advance()
        analysis.settle()
    assert analysis.stuck == [1]
    atomic(writer, STORE, 0, 1)
    analysis.advance()
    assert analysis.stuck == []
    assert analysis.races == {}


def test_a_value_that_nobody_has_announced_orders_nothing(analysis: Analysis, ranks: list[Rank]) -> None:
    writer, reader = ranks
    access(writer, Kind.WRITE)
    atomic(reader, LOAD, 1, 1)
    access(reader, Kind.READ)
    analysis.advance()
    assert analysis.stuck == [1]
    analysis.settle()
    assert analysis.stuck == []
    assert len(analysis.races) == 1


def test_the_first_of_two_operations_on_an_unknown_value_goes_on_first(analysis: Analysis, ranks: list[Rank]) -> None:
    writer, reader = ranks
    access(writer, Kind.WRITE)
    for rank, before in ((reader, 6), (writer, 5)):
        tell(rank, Kind.INTEND, KEY, 1, FLAG)
        atomic(rank, ADD, before, before + 1)
    access(reader, Kind.READ)
    analysis.advance()
    assert analysis.stuck == [0, 1]
    analysis.settle()
    assert analysis.stuck == []
    assert analysis.races == {}


def test_operations_that_found_values_of_each_other_go_on(analysis: Analysis, ranks: list[Rank]) -> None:
    for rank, before in zip(ranks, (1, 2), strict=True):
        tell(rank, Kind.INTEND, KEY, 1, FLAG)
        atomic(rank, ADD, before, 3 - before)
    analysis.advance()
    analysis.settle()
    assert analysis.stuck == []


def test_a_rank_that_has_ended_is_not_waited_for(analysis: Analysis, ranks: list[Rank]) -> None:
    writer, reader = ranks
    tell(writer, Kind.INTEND, KEY, 1, FLAG)
    atomic(reader, LOAD, 1, 1)
    analysis.advance()
    analysis.settle()
    assert analysis.stuck == [1]
    writer.ended = True
    analysis.settle()
    assert analysis.stuck == []


def test_a_value_that_comes_again_is_that_of_the_later_operation(analysis: Analysis, ranks: list[Rank]) -> None:
    writer, reader = ranks
    tell(writer, Kind.INTEND, KEY, 1, FLAG)
    atomic(writer, STORE, 0, 1)
    atomic(reader, LOAD, 1, 1)
    tell(reader, Kind.INTEND, KEY, 1, FLAG)
    atomic(reader, STORE, 1, 0)
    analysis.advance()
    assert analysis.stuck == []
    atomic(writer, LOAD, 0, 0)
    access(writer, Kind.WRITE)
    tell(writer, Kind.INTEND, KEY, 1, FLAG)
    atomic(reader, LOAD, 1, 1)  # not the value of before, which the reader has replaced
    access(reader, Kind.READ)
    analysis.advance()
    analysis.settle()
    assert analysis.stuck == [1]
    atomic(writer, STORE, 0, 1)
    analysis.advance()
    assert analysis.stuck == []
    assert analysis.races == {}


def test_an_exchange_that_fails_sets_nothing(analysis: Analysis, ranks: list[Rank]) -> None:
    holder, other = ranks
    tell(holder, Kind.INTEND, KEY, 1, FLAG)
    atomic(holder, ADD, 0, 1)
    for _ in range(2):
        tell(other, Kind.INTEND, KEY, 1, FLAG)
        atomic(other, READS | UPDATES, 1, 1)
    access(holder, Kind.WRITE)
    tell(holder, Kind.INTEND, KEY, 1, FLAG)
    tell(other, Kind.INTEND, KEY, 1, FLAG)
    atomic(other, ADD, 0, 1)
    access(other, Kind.WRITE)
    analysis.advance()
    analysis.settle()
    assert analysis.stuck == [1]
    atomic(holder, STORE, 1, 0)
    analysis.advance()
    assert analysis.stuck == []
    assert analysis.races == {}


def test_what_a_given_up_wait_lets_go_on_comes_first(analysis: Analysis) -> None:
    reader, writer = connected(analysis, 1), connected(analysis, 0)
    tell(reader, Kind.ATOMIC, KEY, 1, FLAG + 8, 8, 9, 9, LOAD)
    tell(reader, Kind.POST, 1, 1)
    atomic(reader, LOAD, 1, 1)
    access(reader, Kind.READ)
    tell(writer, Kind.TAKE, 1, 1, 1)
    access(writer, Kind.WRITE)
    tell(writer, Kind.INTEND, KEY, 1, FLAG)
    atomic(writer, STORE, 0, 1)
    analysis.advance()
    assert analysis.stuck == [1, 0]
    analysis.settle()
    assert analysis.stuck == []
    assert analysis.races == {}


def launched(rank: Rank, threads: int) -> list[int]:
    """Let a launch on several threads begin; the streams of its threads."""
    streams = list(range(10, 9 + threads))
    for number, stream in enumerate(streams, 1):
        tell(rank, Kind.FORK, stream, number)
    return [MAIN, *streams]


def arrive(rank: Rank, streams: list[int], turn: int) -> None:
    """Let the threads of a launch meet."""
    for count, stream in enumerate(streams, 1):
        tell(rank, Kind.SET, BARRIER, turn * len(streams) + count, 1, stream=stream)
    for stream in reversed(streams):
        tell(rank, Kind.REACH, BARRIER, (turn + 1) * len(streams), stream=stream)


def test_threads_are_ordered_by_their_launch_and_their_barriers(analysis: Analysis, ranks: list[Rank]) -> None:
    _, rank = ranks
    for _ in range(2):
        access(rank, Kind.WRITE)
        streams = launched(rank, 3)
        for turn, stream in enumerate(streams):
            access(rank, Kind.WRITE, stream=stream)
            arrive(rank, streams, turn)
        for stream in streams:
            access(rank, Kind.READ, stream=stream)
        for stream in streams[1:]:
            tell(rank, Kind.JOIN, stream)
        access(rank, Kind.WRITE)
        analysis.advance()
    assert analysis.stuck == []
    assert analysis.races == {}


@pytest.mark.parametrize("threads", [(0, 1), (1, 0), (1, 2)])
def test_a_race_of_threads_names_both(analysis: Analysis, ranks: list[Rank], threads: tuple[int, int]) -> None:
    rank = ranks[1]
    streams = launched(rank, 3)
    arrive(rank, streams, 0)
    for thread, kind in zip(threads, (Kind.WRITE, Kind.READ), strict=True):
        access(rank, kind, stream=streams[thread])
    analysis.advance()
    (race,) = analysis.races.values()
    reading, writing = (f"thread {thread} of rank 1" for thread in reversed(threads))
    assert race.text() == (
        f"{writing} writes byte 0 of the memory of rank 1 (compiled code) while {reading} reads it (compiled code): "
        "let the threads meet in between, by barrier() of their team, or give each elements of its own"
    )
    assert [access["thread"] for access in race.about()["accesses"]] == list(threads)


def test_a_thread_that_waits_for_a_slot_is_behind_the_first_that_has_reached_the_value(
    analysis: Analysis, ranks: list[Rank]
) -> None:
    rank = ranks[1]
    first, second, waiting = launched(rank, 3)
    access(rank, Kind.WRITE, 0, stream=first)
    tell(rank, Kind.SET, 0, 2, 0, stream=first)
    access(rank, Kind.WRITE, 8, stream=second)
    tell(rank, Kind.SET, 0, 3, 0, stream=second)
    tell(rank, Kind.REACH, 0, 1, stream=waiting)
    access(rank, Kind.READ, 0, stream=waiting)
    analysis.advance()
    assert analysis.races == {}
    access(rank, Kind.READ, 8, stream=waiting)
    analysis.advance()
    assert len(analysis.races) == 1
    tell(rank, Kind.REACH, 0, 3, stream=waiting)
    access(rank, Kind.WRITE, 8, stream=waiting)
    analysis.advance()
    assert len(analysis.races) == 1


def test_threads_that_count_a_slot_up_come_behind_each_other(analysis: Analysis, ranks: list[Rank]) -> None:
    rank = ranks[1]
    for value, stream in enumerate(launched(rank, 3), 1):
        access(rank, Kind.WRITE, 8 * value, stream=stream)
        tell(rank, Kind.SET, 0, value, 1, stream=stream)
        for earlier in range(1, value):
            access(rank, Kind.READ, 8 * earlier, stream=stream)
    analysis.advance()
    assert analysis.races == {}


def test_no_thread_uses_the_number_of_a_site_before_the_detector_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    telling, told, events = threading.Event(), threading.Event(), queue.Queue[str]()
    with socket.create_server(("127.0.0.1", 0)) as server:
        reporter = Reporter(f"secret 127.0.0.1:{server.getsockname()[1]}", None)

    def tell_slowly(**_content: object) -> None:
        telling.set()
        assert told.wait(60)
        events.put("told")

    def use() -> None:
        reporter.site("store", ("program.py", 1))
        events.put("used")

    monkeypatch.setattr(reporter, "tell", tell_slowly)
    threads = [threading.Thread(target=use) for _ in range(2)]
    threads[0].start()
    assert telling.wait(60)
    threads[1].start()
    with pytest.raises(queue.Empty):
        events.get(timeout=0.2)  # long enough to show a mistake, and right however long it takes
    told.set()
    for thread in threads:
        thread.join(60)
    assert [events.get_nowait() for _ in range(3)] == ["told", "used", "used"]
    monkeypatch.undo()
    reporter.close()
