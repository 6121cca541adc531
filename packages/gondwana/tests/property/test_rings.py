"""Rings against a model: a list of messages, whatever their sizes and whenever the reader polls."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gondwana.sync import rings

CAPACITY = 4096
LARGEST = CAPACITY // 2 - 2 * rings.HEADER
push_bytes = rings.native("push_one", 4, objects=1)
push_parts = rings.native("push_parts", 7)
take = rings.native("take", 2)
poll = rings.native("poll", 1)
provide = rings.native("provide", 5)


def push_one(out: int, tag: int, number: int, data: bytes, size: int) -> int:
    assert len(data) == size
    pushed: int = push_bytes(out, tag, number, data)
    return pushed


class Pair:
    """Two ends of the rings of two peers that are one process."""

    def __init__(self, peers: int = 1, start: int = 0) -> None:
        self.words = np.zeros(rings.state_words(peers), np.int64)
        self.state = self.words.ctypes.data
        self.buffer = ctypes.create_string_buffer(rings.SMALL_BYTES)
        self.words[[rings.PEERS, rings.NEAR]] = peers
        self.words[rings.BUFFER] = ctypes.addressof(self.buffer)
        self.memory = np.zeros((rings.QUEUES, peers, rings.LINE + CAPACITY), np.uint8)
        for queue in range(rings.QUEUES):
            for peer in range(peers):
                ring = self.memory[queue, peer]
                ring[:8].view(np.int64)[0] = start
                for block, place in (
                    (rings.out_block(queue, peer, peers), rings.TAIL),
                    (rings.in_block(queue, peer, peers), rings.HEAD),
                ):
                    self.words[block + rings.RING] = ring.ctypes.data
                    self.words[block + rings.CAPACITY] = CAPACITY
                    self.words[block + place] = start
                self.words[rings.out_block(queue, peer, peers) + rings.SEEN] = start
        self.long: dict[int, np.ndarray] = {}
        self.peers = peers

    def out(self, queue: int = rings.CALL, peer: int = 0) -> int:
        return self.state + 8 * rings.out_block(queue, peer, self.peers)

    def take(self, queue: int = rings.CALL) -> tuple[int, int, int, bytes] | None:
        while True:
            event = take(self.state, queue)
            peer, tag, number, length = (int(word) for word in self.words[rings.PEER : rings.LENGTH + 1])
            if event == rings.NOTHING:
                return None
            if event == rings.SMALL:
                return peer, tag, number, self.buffer.raw[:length]
            if event == rings.ASSEMBLED:
                return peer, tag, number, self.long.pop(peer).tobytes()
            self.long[peer] = np.empty(length, np.uint8)
            provide(self.state, queue, peer, self.long[peer].ctypes.data, length)


def content(size: int, seed: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8).tobytes()


sizes = st.one_of(st.integers(1, 200), st.integers(LARGEST - 20, LARGEST + 20), st.integers(1, 5 * CAPACITY))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(sizes, st.integers(1, 4), st.integers(0, 3)), max_size=40), st.integers(0, 1000))
def test_messages_arrive_whole_and_in_order(plan: list[tuple[int, int, int]], start: int) -> None:
    pair = Pair(start=rings.HEADER * start)
    arrived: list[tuple[int, bytes]] = []

    def read(count: int) -> None:
        for _ in range(count):
            found = pair.take()
            if found is None:
                return
            peer, tag, number, data = found
            assert (peer, tag) == (0, number % 100)
            arrived.append((number, data))

    expected = []
    for number, (size, pieces, looks) in enumerate(plan):
        data = content(size, number)
        expected.append((number, data))
        if pieces == 1 and push_one(pair.out(), number % 100, number, data, size):
            read(looks)
            continue
        cuts = [size * piece // pieces for piece in range(pieces + 1)]
        parts = [data[begin:end] for begin, end in itertools.pairwise(cuts)]
        buffers = [ctypes.create_string_buffer(part, len(part)) for part in parts]
        table = np.array([(ctypes.addressof(b), len(p)) for b, p in zip(buffers, parts, strict=True)], np.int64)
        done = 0
        while done < size:
            done = push_parts(pair.out(), number % 100, number, table.ctypes.data, pieces, size, done)
            if done < size:
                assert not push_one(pair.out(), 0, 0, b"x" * (2 * LARGEST), 2 * LARGEST)
                pair.words[rings.out_block(rings.CALL, 0, 1) + rings.HELD] = 1
                assert not push_one(pair.out(), 0, 0, b"x", 1)  # not into the middle of another message
                pair.words[rings.out_block(rings.CALL, 0, 1) + rings.HELD] = 0
                assert poll(pair.state) == 1 << rings.CALL
                read(1)
        read(looks)
    read(len(plan) + 1)
    assert arrived == expected
    assert poll(pair.state) == 0
    assert pair.words[rings.out_block(rings.CALL, 0, 1) + rings.COUNT] == 0  # who sends calls from Python counts them


@settings(max_examples=50, deadline=None)
@given(st.integers(1, LARGEST))
def test_a_full_ring_refuses_and_nothing_is_lost(size: int) -> None:
    pair = Pair()
    for _ in range(3):
        sent = 0
        while push_one(pair.out(), 1, sent, content(size, sent), size):
            sent += 1
        assert sent >= 1
        for number in range(sent):
            assert pair.take() == (0, 1, number, content(size, number))
        assert pair.take() is None


def test_peers_take_turns_and_a_paused_one_waits() -> None:
    pair = Pair(peers=3)
    for peer in range(3):
        for number in range(4):
            assert push_one(pair.out(peer=peer), 0, number, b"hello", 5)
    order = [pair.take()[0] for _ in range(6)]
    assert order == [0, 1, 2, 0, 1, 2]
    pair.words[rings.in_block(rings.CALL, 1, 3) + rings.PAUSED] = 1
    assert [pair.take()[0] for _ in range(4)] == [0, 2, 0, 2]
    assert pair.take() is None
    assert poll(pair.state) == 0
    pair.words[rings.in_block(rings.CALL, 1, 3) + rings.PAUSED] = 0
    assert [pair.take()[0] for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("queue", range(rings.QUEUES))
def test_lanes_are_apart(queue: int) -> None:
    pair = Pair(peers=2)
    assert push_one(pair.out(queue, 1), 7, 8, b"there", 5)
    assert poll(pair.state) == 1 << queue
    assert [pair.take(other) for other in range(rings.QUEUES) if other != queue] == [None] * 3
    assert pair.take(queue) == (1, 7, 8, b"there")
