"""The log of events without ranks: what it notes, and what it lets happen when the order is repeated."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gondwana.cli import recorded
from gondwana.errors import GondwanaError, UsageError
from gondwana.runtime import ordering, supervisor
from gondwana.runtime.ordering import AT, CALLBACK, ENVELOPE, FULL, STEP, TAKE, TIMEOUT, TURN, WAKE, Log, steps
from gondwana.sync import rings

CALL, REPLY = rings.CALL, rings.CALL_REPLY


@pytest.fixture
def record(tmp_path: Path) -> Log:
    """A log of this process, in a folder of the test."""
    return Log(tmp_path / "run", None, False)


def repeated(log: Log) -> Log:
    """Return the same log as a later run repeats it."""
    log.end()
    return Log(log._path.parent, None, True)


def test_a_recording_keeps_events_and_their_steps(record: Log) -> None:
    record.happens(CALL, 2)
    record.words[STEP] += TURN
    record.happens(REPLY, 1)
    assert record.is_due(CALL, 7)
    assert record.caught_up()
    replay = repeated(record)
    assert os.path.getsize(record._path) == ordering.WORD * (ordering.HEAD + 2 * ordering.EVENT)
    assert (replay.next_of(CALL), replay.next_of(REPLY)) == (2, None)
    assert not replay.caught_up()
    replay.happens(CALL, 2)
    assert replay.caught_up()
    assert replay.next_of(REPLY) is None  # of the next step
    replay.words[STEP] += TURN
    assert not replay.caught_up()
    assert (replay.is_due(REPLY, 0), replay.is_due(REPLY, 1)) == (False, True)
    replay.happens(REPLY, 1)
    assert replay.is_over()
    assert replay.is_due(CALL, 5)  # behind the end anything may happen


def test_the_log_of_a_killed_rank_is_shortened(record: Log) -> None:
    record.happens(CALL, 2)
    assert os.path.getsize(record._path) > 1 << 24
    for _ in range(2):
        supervisor.shorten_logs(str(record._path.parent))
        assert os.path.getsize(record._path) == ordering.WORD * (ordering.HEAD + ordering.EVENT)
    supervisor.shorten_logs("")


def test_what_arrives_while_a_call_waits_for_room_is_late_at_most(record: Log) -> None:
    record.words[ordering.LOOSE] = 1
    record.happens(CALL, 1)
    record.words[ordering.LOOSE] = 0
    replay = repeated(record)
    assert replay.is_due(CALL, 1)
    assert replay.caught_up()
    replay.words[STEP] += TURN
    assert not replay.caught_up()


def test_the_next_task_may_first_take_an_item(record: Log) -> None:
    for kind, value in ((TAKE, 4), (WAKE, 2), (CALLBACK, 0)):
        record.happens(kind, value)
    replay = repeated(record)
    assert replay.waking() == 2
    replay.happens(TAKE, 4)
    replay.happens(WAKE, 2)
    assert replay.waking() is None


def test_a_wait_ends_by_its_time_limit_if_it_did(record: Log) -> None:
    record.words[STEP] += TURN
    record.happens(CALL, 1)
    record.happens(TIMEOUT)
    replay = repeated(record)
    assert not replay.times_out()
    replay.words[STEP] += TURN
    assert replay.times_out()
    assert replay.next_of(TIMEOUT) is None  # the call comes before


def test_another_program_is_noticed(record: Log) -> None:
    record.happens(ENVELOPE, 3)
    with pytest.raises(GondwanaError, match="differs from the recorded run at event 0 of rank 0"):
        repeated(record).caught_up()


def test_a_full_log_says_so(record: Log, capsys: pytest.CaptureFixture[str]) -> None:
    record.words[ordering.ROOM] = 1
    record.happens(CALL, 1)
    record.happens(CALL, 2)
    assert (record.words[AT], record.words[FULL]) == (1, 1)
    replay = repeated(record)
    assert "rank 0: only its first" in capsys.readouterr().err
    replay.end()
    assert "rank 0: 1 of 1 recorded events were not repeated" in capsys.readouterr().err


def test_a_replay_needs_as_many_ranks_and_nodes(record: Log) -> None:
    record.connected(4, 2)
    replay = repeated(record)
    replay.connected(4, 2)
    with pytest.raises(UsageError, match="had 4 ranks, 2 of them on the node of rank 0, not 4 and 4"):
        replay.connected(4, 4)


def test_a_log_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name the folder of a recorded run"):
        Log(tmp_path, None, True)
    (tmp_path / "0.events").write_bytes(bytes(1000))
    with pytest.raises(UsageError, match="is no log of recorded events"):
        Log(tmp_path, None, True)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="name another folder"):
        Log(tmp_path / "file" / "run", None, False)


def test_calls_are_steps_unless_nested(record: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "log", record)

    def call(inner: Callable[[], object] = bool) -> object:
        return inner()

    outer, stepping = ordering.counted(call), ordering.stepping(call)
    outer(outer)
    assert record.words[STEP] == TURN
    outer(stepping)
    assert record.words[STEP] == 3 * TURN

    @ordering.each_counted
    class Blocking:
        def wait(self) -> None: ...
        def Istart(self) -> None: ...  # noqa: N802 - as MPI's
        def _help(self) -> None: ...

    @ordering.uncounted("wait")
    class Quick(Blocking): ...

    for method in (Blocking().wait, Blocking().Istart, Blocking()._help, Quick().wait):
        method()
    assert record.words[STEP] == 4 * TURN


def test_nothing_is_decorated_without_a_log() -> None:
    assert ordering.log is None
    for decorate in (ordering.counted, ordering.stepping, ordering.caught_up):
        assert decorate(test_nothing_is_decorated_without_a_log) is test_nothing_is_decorated_without_a_log


def test_the_command_keeps_what_was_run(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    assert recorded.variables(folder, None, ["x.py", "a b"], 3, dry_run=False) == {ordering.RECORD: str(folder)}
    assert recorded.variables(None, folder, ["x.py", "a b"], 3, dry_run=False) == {ordering.REPLAY: str(folder)}
    with pytest.raises(UsageError, match=r"of x.py on 2 ranks, but what was recorded is x.py 'a b' on 3 ranks"):
        recorded.variables(None, folder, ["x.py"], 2, dry_run=False)
    with pytest.raises(UsageError, match="give one of them"):
        recorded.variables(folder, folder, ["x.py"], 3, dry_run=False)
    with pytest.raises(UsageError, match="name the folder of a recorded run"):
        recorded.variables(None, tmp_path, ["x.py"], 3, dry_run=False)
    (folder / "run.json").write_text("[")
    with pytest.raises(UsageError, match="what was recorded is nothing on no ranks"):
        recorded.variables(None, folder, ["x.py"], 3, dry_run=False)
