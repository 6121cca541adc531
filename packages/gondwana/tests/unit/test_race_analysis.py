"""What the race detector makes of records that arrive late: the order of the ranks, not the order of arrival."""

from __future__ import annotations

import struct

import pytest

from gondwana.races.analysis import Analysis
from gondwana.races.ranks import Rank
from gondwana.runtime.races.records import MAIN, READS, UPDATES, WRITES, Kind, head

KEY, FLAG, NUMBER = 7, 32, 0
LOAD, STORE, ADD = READS, WRITES, READS | UPDATES | WRITES


def tell(rank: Rank, kind: Kind, *words: int) -> None:
    """Let a record of a rank arrive."""
    rank.feed(struct.pack(f"{1 + len(words)}q", head(kind, 1 + len(words), MAIN, 0), *words))


def access(rank: Rank, kind: Kind, offset: int = NUMBER) -> None:
    """Let an access to a number of rank 1 arrive."""
    tell(rank, kind, KEY, 1, offset, 8)


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
