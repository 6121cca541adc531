"""Connections between watchdogs: ranks of the job get in, and whatever others send costs little and harms nobody."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gondwana.runtime.watching import channel, sockets, tree, watchdog
from gondwana.runtime.watching.channel import SPARE, Channel, accept

SECRET = b"the secret of this job" * 2
PATIENCE = 20.0


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=300) as door:
        yield door


def join(connected: socket.socket, rank: int, secret: bytes = SECRET) -> list[Channel | None]:
    """Authenticate as a rank on a thread; the list holds the channel, or None, once that is over."""
    ended: list[Channel | None] = []

    def authenticate() -> None:
        own = Channel(connected, secret, rank)
        try:
            own.authenticate(PATIENCE)
            ended.append(own)
        except (OSError, ValueError):
            own.close()
            ended.append(None)

    threading.Thread(target=authenticate).start()
    return ended


def wait_for(ended: list[Channel | None]) -> Channel | None:
    end = time.monotonic() + PATIENCE
    while not ended:
        assert time.monotonic() < end
        time.sleep(0.01)
    return ended[0]


BAD = {
    "a number": b"5\n",
    "a list": '["\u00e9", ""]\n'.encode(),
    "no text": b"\xff\xfe\n",
    "an endless line": b"a" * 100_000,
    "three words": b"1 2 3\n",
    "deep": b"[" * 250 + b"\n",
    "a null": b"\0\n\0\n",
    "nothing": b"",
}


@pytest.mark.parametrize("sent", BAD.values(), ids=BAD.keys())
def test_bad_input_keeps_no_rank_from_joining(sent: bytes, listening: socket.socket) -> None:
    with socket.create_connection(listening.getsockname()) as stranger:
        with contextlib.suppress(OSError):
            stranger.sendall(sent)
        ended = join(socket.create_connection(listening.getsockname()), 3)
        (ours,) = accept(listening, [3], SECRET, PATIENCE)
    theirs = wait_for(ended)
    assert theirs is not None
    theirs.send(["report", "é"])
    assert ours.peer == 3
    while not (messages := ours.receive()):
        time.sleep(0.01)
    assert messages == [["report", "é"]]
    ours.close()
    theirs.close()


def test_neither_a_wrong_secret_nor_a_second_one_of_a_rank_nor_an_unexpected_rank_joins(
    listening: socket.socket,
) -> None:
    address = listening.getsockname()
    refused = join(socket.create_connection(address), 1, b"another secret" * 3)
    others = [join(socket.create_connection(address), rank) for rank in (7, 1, 1, 2)]
    channels = accept(listening, [1, 2], SECRET, PATIENCE)
    assert {one.peer for one in channels} == {1, 2}
    assert len(channels) == 2
    assert wait_for(refused) is None
    for one in (*channels, *filter(None, map(wait_for, others))):
        one.close()


def test_who_listens_proves_that_it_belongs_to_the_job_too(listening: socket.socket) -> None:
    ended = join(socket.create_connection(listening.getsockname()), 1)
    connected, _ = listening.accept()
    with connected:
        connected.sendall(b"0" * 32 + b"\n")
        answer = connected.makefile().readline().split()
        # What the other side has sent is no proof in the other direction.
        connected.sendall(answer[2].encode() + b"\n")
        assert wait_for(ended) is None


def test_many_silent_strangers_do_not_keep_a_rank_out(listening: socket.socket) -> None:
    with contextlib.ExitStack() as strangers:
        for _ in range(2 * SPARE):
            strangers.enter_context(socket.create_connection(listening.getsockname()))
        ended = join(socket.create_connection(listening.getsockname()), 1)
        channels = accept(listening, [1], SECRET, PATIENCE)
    assert [one.peer for one in channels] == [1]
    for one in (*channels, wait_for(ended)):
        assert one is not None
        one.close()


def test_dripping_bytes_do_not_extend_the_time(listening: socket.socket) -> None:
    stop = threading.Event()

    def drip() -> None:
        with socket.create_connection(listening.getsockname()) as stranger, contextlib.suppress(OSError):
            while not stop.wait(0.05):
                stranger.sendall(b"0")

    dripping = threading.Thread(target=drip)
    dripping.start()
    started = time.monotonic()
    try:
        assert accept(listening, [1], SECRET, 0.5) == []
        assert time.monotonic() - started < 10
    finally:
        stop.set()
        dripping.join()


def test_before_authentication_a_line_is_bounded_more_tightly() -> None:
    stranger, ours = socket.socketpair()
    own = Channel(ours, SECRET)
    ours.setblocking(False)
    with stranger, contextlib.closing(own):
        stranger.sendall(b"a" * 300)
        assert own.receive() == []  # so much may be a line
        with pytest.raises(ValueError, match=f"a line of more than {channel.LONGEST_RESPONSE} bytes"):
            own.receive()


def test_messages_are_bounded() -> None:
    own, ours, theirs = tree_with_one_below()
    sending = threading.Thread(target=send_for_ever, args=[theirs.socket])
    sending.start()
    end = time.monotonic() + PATIENCE
    while own.below:
        assert time.monotonic() < end
        assert own.receive(ours) == []
        assert len(ours._received) <= channel.LONGEST_MESSAGE + 2**16
    sending.join(PATIENCE)
    theirs.close()


def test_a_channel_closes_once_whichever_act_finds_that_it_is_broken() -> None:
    own, ours, theirs = tree_with_one_below()
    theirs.close()
    assert own.collect([], 0.1) == {0: []}  # sending fails or reading does: the other side is gone
    assert own.receive(ours) == []  # what was about to be read when the channel was closed
    assert own.below == []
    assert own.closed == [ours]


def test_a_watchdog_takes_note_of_a_channel_that_a_question_has_closed() -> None:
    own, ours, theirs = tree_with_one_below()
    member = watchdog.own_member(0)
    dog = watchdog._Watchdog(0, 2, own, None, watchdog.Monitor(member, [member]), None)
    theirs.close()
    dog._stands(0.1)
    dog._react([])
    assert own.closed == []
    assert ours.socket not in [key.fileobj for key in dog._selector.get_map().values()]


def test_what_a_rank_asks_for_during_a_question_is_done_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    own, ours, theirs = tree_with_one_below()
    member = watchdog.own_member(0)
    dog = watchdog._Watchdog(0, 2, own, None, watchdog.Monitor(member, [member]), None)
    reasons: list[str] = []
    monkeypatch.setattr(dog, "_report", reasons.append)
    for message in (["report", "why"], ["here", 1, []], ["here", 0, []]):  # the last one answers no question
        theirs.send(message)
    assert own.collect([], PATIENCE) == {0: []}
    assert own.kept[0] == ["report", "why"]
    dog._react([])
    assert own.kept == []
    assert reasons == ["why"]
    theirs.close()
    ours.close()


def tree_with_one_below() -> tuple[tree.Tree, Channel, Channel]:
    """The tree of rank 0, its channel to rank 1, and the other side of it."""
    ends = socket.socketpair()
    ended = join(ends[0], 1)
    ours = Channel(ends[1], SECRET)
    ours.authenticate(PATIENCE)
    theirs = wait_for(ended)
    assert theirs is not None
    return tree.Tree(0, None, [ours]), ours, theirs


def send_for_ever(connected: socket.socket) -> None:
    connected.setblocking(True)
    with contextlib.suppress(OSError):
        while True:
            connected.sendall(b"a" * 2**16)


# -- sockets of one host ------------------------------------------------------------------------------------------


def test_on_a_host_only_this_user_can_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("long" * 40)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with sockets.local_listener(2) as (listening, folder):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        ended = join(sockets.connect_locally(folder), 1)
        (ours,) = accept(listening, [1], SECRET, PATIENCE)
        ours.close()
        os.chmod(folder, 0o755)
        with pytest.raises(PermissionError, match="other users can enter"):
            sockets.connect_locally(folder)
    assert os.listdir(deep) == []
    theirs = wait_for(ended)
    assert theirs is not None
    theirs.close()


def test_a_process_of_another_user_is_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    with sockets.local_listener(2) as (listening, folder):
        connected = sockets.connect_locally(folder)
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
        ended = join(connected, 1)
        assert accept(listening, [1], SECRET, 0.5) == []
        assert wait_for(ended) is None


def test_another_user_cannot_reach_the_socket() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can run a process as another user")
    with sockets.local_listener(2) as (_, folder):
        words = ["ls", f"{folder}/socket"]
        done = subprocess.run(words, user=65534, extra_groups=[], capture_output=True, text=True, timeout=60)
        assert "Permission denied" in done.stderr
        assert subprocess.run(words, stdout=subprocess.DEVNULL, timeout=60).returncode == 0


# -- sockets between hosts ----------------------------------------------------------------------------------------


def test_a_host_does_not_connect_to_itself() -> None:
    listening, addresses = sockets.network_listener(2)
    with listening, pytest.raises(ConnectionError, match="none of"):
        sockets.connect_to_host(addresses, 5.0)


def test_the_first_address_that_answers_is_taken(listening: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refusing = closed.getsockname()
    with contextlib.ExitStack() as opened:
        silent = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0)).getsockname()
        for _ in range(4):  # they fill the queue of its connections: the system answers no more of them
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent)
        with sockets.connect_to_host([refusing, silent, listening.getsockname()], PATIENCE) as connected:
            assert connected.getpeername() == listening.getsockname()
