"""The messages between a pool and workers that it has started, and how long a side polls for them."""

from __future__ import annotations

import pickle
import socket
from types import SimpleNamespace

import numpy as np
import pytest

from gondwana.tasks.pool import sockets
from gondwana.tasks.pool.sockets import Connection, Patience


@pytest.mark.parametrize("step", [1, 7, 1 << 16])
def test_messages_arrive_whole_however_they_are_cut(step: int) -> None:
    arrays = [np.arange(5), np.zeros(0), np.arange(3.0)]
    messages = ["first", ("arrays", *map(pickle.PickleBuffer, arrays)), "x" * 100, ("empty", pickle.PickleBuffer(b""))]
    ours, theirs = socket.socketpair()
    there, here = socket.socketpair()
    with ours, theirs, there, here:
        sender, receiver = Connection(ours), Connection(here)
        for message in messages:
            sender.send(message)
        data = theirs.recv(1 << 16)
        found = []
        for start in range(0, len(data), step):
            there.send(data[start : start + step])
            found += receiver.receive()
        assert [found[0], found[2]] == ["first", "x" * 100]
        for array, buffer in zip(arrays, found[1][1:], strict=True):
            assert np.array_equal(np.frombuffer(buffer, array.dtype), array)
        assert bytes(found[3][1]) == b""
        assert receiver.receive() == []
        there.send(data[: len(data) - 1])
        there.close()
        assert len(receiver.receive()) == 3, "what came before the end"
        with pytest.raises(EOFError):
            receiver.receive()


@pytest.mark.parametrize("nbytes", [0, sockets._CHUNK - 16, sockets._CHUNK, 5 * sockets._CHUNK])
def test_messages_of_any_length_arrive_in_their_order(nbytes: int) -> None:
    messages = ["first", bytes(nbytes), "second", ("with", pickle.PickleBuffer(bytes(nbytes))), "last"]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender, receiver = Connection(ours), Connection(theirs)
        found = []
        for message in messages:
            sender.send(message)  # more than there is room for
        while len(found) < len(messages):
            found += receiver.receive()
            sender.flush()
        assert found[:3] == messages[:3]
        assert (found[3][0], bytes(found[3][1]), found[4]) == ("with", bytes(nbytes), "last")
        assert not sender.unsent


def test_a_side_does_not_poll_on_a_core_that_others_want(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [0.0], []
    monkeypatch.setattr(sockets, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def arrived(seconds: float | None) -> bool:
        asked.append(seconds)
        now[0] += 1.0 if seconds == 0 else 0.0  # another process runs meanwhile
        return seconds is None

    patience = Patience(arrived)
    assert patience.wait(None)
    assert asked == [0, None]
    asked.clear()
    for _ in range(sockets._SHARED):
        patience.wait(None)
    assert asked == [None] * sockets._SHARED
    patience.wait(None)
    assert asked[-2:] == [0, None], "after a while it is tried again"
