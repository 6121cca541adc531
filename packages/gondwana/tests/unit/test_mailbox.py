"""A mailbox sends one message at a time, whoever wants to send: threads, and finalizers that run inside of a send."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import gondwana as gw
from gondwana.calls import rings
from gondwana.calls.mailbox import Mailbox, Message
from gondwana.runtime import progress
from gondwana.teams import Team

FAR = 7


class Post:
    """Stands in for the parcels to another node: keeps what is sent, and counts sends that overlap."""

    def __init__(self, team: Team) -> None:
        self.room = True
        self.sent: list[bytes] = []
        self.during: Callable[[], object] = lambda: None
        self.overlaps = 0
        self._busy = False

    def send(self, rank: int, parts: Sequence[Any], queue: int) -> bool:
        if not self.room:
            return False
        self.overlaps += self._busy
        self._busy = True
        self.during()
        self._busy = False
        self.sent.append(b"".join(bytes(part) for part in parts[1:]))
        return True


@pytest.fixture
def box() -> Mailbox:
    """A mailbox whose rank 0 is near and all others are far."""
    alone = Mailbox(gw.world)
    alone._parcels = Post(gw.world)  # type: ignore[assignment]
    return alone


def post_of(box: Mailbox) -> Post:
    assert isinstance(box._parcels, Post)
    return box._parcels


def message(text: bytes) -> Message:
    return Message(0, 1, [text])


def send(box: Mailbox, text: bytes) -> None:
    if not box.post(FAR, rings.CALL, 0, 1, text):
        box.submit(FAR, rings.CALL, message(text))


def test_threads_send_one_after_another(box: Mailbox) -> None:
    post = post_of(box)
    post.during = lambda: time.sleep(1e-4)
    texts = [[f"{thread} {number}".encode() for number in range(50)] for thread in range(4)]
    threads = [threading.Thread(target=lambda mine=mine: [send(box, text) for text in mine]) for mine in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert post.overlaps == 0
    assert sorted(post.sent) == sorted(text for mine in texts for text in mine)
    assert [[text for text in post.sent if text in mine] for mine in texts] == texts


@pytest.mark.parametrize("how", ["post", "submit", "offer", "look"])
def test_a_finalizer_may_send_while_its_thread_sends(box: Mailbox, how: str) -> None:
    post, text = post_of(box), bytearray(b"of the finalizer")

    class Last:
        def __del__(self) -> None:
            post.during = lambda: None
            send(box, text)
            text[:] = b"may change again"

    def drop() -> None:
        Last()

    if how == "look":
        post.room = False
        send(box, b"of the program")
        post.room = True
    post.during = drop
    if how == "post":
        assert box.post(FAR, rings.CALL, 0, 1, b"of the program")
    elif how == "submit":
        box.submit(FAR, rings.CALL, message(b"of the program"))
    elif how == "offer":
        assert box.offer(FAR, rings.CALL, message(b"of the program"))
    else:
        box.poll()
    assert post.sent == [b"of the program", b"of the finalizer"]
    assert box.queued == 0


def test_a_finalizer_may_not_wait_there(box: Mailbox) -> None:
    errors: list[Exception] = []

    def wait() -> None:
        try:
            progress.wait_until(lambda: False, "something")
        except progress.ProgressError as error:
            errors.append(error)

    post_of(box).during = wait
    send(box, b"text")
    assert len(errors) == 1


def test_what_is_kept_may_change(box: Mailbox) -> None:
    post, text = post_of(box), bytearray(b"before")
    post.room = False
    waits = Message(0, 1, [text])
    box.submit(FAR, rings.CALL, waits)
    box.keep(waits)
    text[:] = b"after!"
    post.room = True
    assert box.poll()
    assert post.sent == [b"before"]
