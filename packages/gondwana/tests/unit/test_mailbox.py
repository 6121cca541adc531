"""A mailbox sends one message at a time, whoever wants to send: threads, and finalizers that run inside of a send."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import gondwana as gw
from gondwana.calls.mailbox import Mailbox, Message
from gondwana.runtime import progress
from gondwana.sync import rings

OTHER = 7


class Post:
    """Stands in for the rings to other ranks: keeps what is written to them, and counts writes that overlap."""

    def __init__(self) -> None:
        self.room = True
        self.sent: list[bytes] = []
        self.during: Callable[[], object] = lambda: None
        self.overlaps = 0
        self.words = np.zeros(rings.BLOCK, np.int64)
        self._busy = False

    def is_near(self, rank: int) -> bool:
        return True

    def out_block(self, queue: int, rank: int) -> int:
        return 0

    def poll(self) -> int:
        return 0

    def push_parts(self, rank: int, queue: int, tag: int, number: int, parts: tuple[int, int, int], done: int) -> int:
        if not self.room:
            return 0
        self.overlaps += self._busy
        self._busy = True
        self.during()
        self._busy = False
        table, count, total = parts
        places = [(ctypes.c_int64 * 2).from_address(table + 16 * part) for part in range(count)]
        self.sent.append(b"".join(ctypes.string_at(address, length) for address, length in places))
        return total


@pytest.fixture
def box() -> Mailbox:
    """A mailbox that sends by a stand-in."""
    alone = Mailbox(gw.world)
    alone.rings = Post()  # type: ignore[assignment]
    return alone


def post_of(box: Mailbox) -> Post:
    assert isinstance(box.rings, Post)
    return box.rings


def message(text: bytes) -> Message:
    return Message(0, 1, [text])


def send(box: Mailbox, text: bytes) -> None:
    box.submit(OTHER, rings.CALL, message(text))


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


@pytest.mark.parametrize("how", ["submit", "offer", "look"])
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
    if how == "submit":
        box.submit(OTHER, rings.CALL, message(b"of the program"))
    elif how == "offer":
        assert box.offer(OTHER, rings.CALL, message(b"of the program"))
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
    box.submit(OTHER, rings.CALL, waits)
    box.keep(waits)
    text[:] = b"after!"
    post.room = True
    assert box.poll()
    assert post.sent == [b"before"]
