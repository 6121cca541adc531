"""The channels of a job: rank 0 has one to the first rank of every other host; that rank to the others of its host.

They are made while the job starts. Afterwards no watchdog listens, so that nobody can connect any more.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from gondwana.runtime.watching import sockets
from gondwana.runtime.watching.channel import SPARE, Channel, Message, accept

Communicator: TypeAlias = Any
"""As in `gondwana.runtime.exits`."""

CONNECT_TIME = 3.0
"""Seconds in which another host must answer."""

AUTHENTICATION_TIME = 10.0
"""Seconds in which the ranks that have connected to a listener must have authenticated themselves."""

RELAYED = 0.8
"""Share of the time for an answer that is left to the ranks below the questioned one."""


class Tree:
    """The channels of one rank. Local.

    Attributes:
        above: channel to the rank that asks this one; None on rank 0, or if it could not be reached.
        below: channels to the ranks that this one asks.
        closed: channels found closed, by whichever act, and not handled yet.
        kept: other messages that arrived during a question, and not handled yet.
    """

    def __init__(self, rank: int, above: Channel | None, below: Sequence[Channel]) -> None:
        self.above = above
        self.below = list(below)
        self.closed: list[Channel] = []
        self.kept: list[Message] = []
        self._rank = rank
        self._question = 0

    @property
    def channels(self) -> list[Channel]:
        """All open channels."""
        return self.below if self.above is None else [*self.below, self.above]

    def collect(self, own: Message, seconds: float, verb: str = "where") -> dict[int, Message]:
        """Return the answers of this rank and of those below it that answer in time. Local; blocks.

        Args:
            own: answer of this rank.
            seconds: time limit.
            verb: question to the ranks below.
        """
        self._question += 1
        end = time.monotonic() + seconds
        answers = {self._rank: own}
        with selectors.DefaultSelector() as asked:
            for channel in list(self.below):
                if self._send(channel, [verb, self._question, RELAYED * seconds]):
                    asked.register(channel.socket, selectors.EVENT_READ, channel)
            while asked.get_map() and (left := end - time.monotonic()) > 0:
                for key, _ in asked.select(left):
                    answers.update(self._answer(key.data, asked))
        return answers

    def answer(self, question: int, answers: dict[int, Message]) -> None:
        """Send answers to the rank above. Local."""
        if self.above is not None:
            self._send(self.above, ["here", question, list(answers.items())])

    def request(self, *message: str) -> None:
        """Ask the rank above for something that concerns all ranks. Local."""
        if self.above is not None:
            self._send(self.above, [*message])

    def tell(self, *message: str) -> None:
        """Send a message to the ranks directly below. Local."""
        for channel in list(self.below):
            self._send(channel, [*message])

    def receive(self, channel: Channel) -> list[Message]:
        """Return the messages that have arrived on a channel; it is closed if no more can arrive. Local."""
        try:
            return channel.receive()
        except (OSError, ValueError, RecursionError):
            self._close(channel)
            return []

    def _answer(self, channel: Channel, asked: selectors.BaseSelector) -> dict[int, Message]:
        """Return the answers that have arrived on a channel; it is asked no longer once it has answered or closed."""
        found: dict[int, Message] = {}
        answered = False
        for message in self.receive(channel):
            match message:
                case ["here", self._question, list(answers)]:
                    found = dict(answers)
                    answered = True
                case _:
                    self.kept.append(message)
        if answered or channel not in self.below:
            asked.unregister(channel.socket)
        return found

    def _send(self, channel: Channel, message: Message) -> bool:
        try:
            channel.send(message)
        except OSError:
            self._close(channel)
            return False
        return True

    def _close(self, channel: Channel) -> None:
        """Close a channel, unless a failed `send` has closed it before its received data were read."""
        if channel in self.channels:
            channel.close()
            self.closed.append(channel)
            self.below = [other for other in self.below if other is not channel]
            self.above = None if self.above is channel else self.above


class _Offer(NamedTuple):
    """The offer of a rank: where it listens for ranks of its host and of others; rank 0 adds the secret."""

    folder: str | None
    addresses: list[sockets.Address]
    secret: bytes


def connect(comm: Communicator, hosts: Sequence[str]) -> Tree:
    """Connect the watchdogs of all ranks. Collective over comm.

    Args:
        comm: all ranks.
        hosts: host of each rank.
    """
    first: dict[str, int] = {}
    for rank, host in enumerate(hosts):
        first.setdefault(host, rank)
    leader = first[hosts[comm.rank]]
    here = [rank for rank, host in enumerate(hosts) if first[host] == comm.rank != rank]
    elsewhere = [rank for rank in first.values() if rank] if comm.rank == 0 else []
    with contextlib.ExitStack() as listeners:
        expected: list[tuple[socket.socket, list[int]]] = []
        folder: str | None = None
        addresses: list[sockets.Address] = []
        if here:
            with contextlib.suppress(OSError):
                listening, folder = listeners.enter_context(sockets.local_listener(len(here) + SPARE))
                expected.append((listening, here))
        if elsewhere:
            with contextlib.suppress(OSError):
                listening, addresses = sockets.network_listener(len(elsewhere) + SPARE)
                expected.append((listeners.enter_context(listening), elsewhere))
        secret = secrets.token_bytes(32) if comm.rank == 0 else b""
        offers: list[_Offer] = comm.allgather(_Offer(folder, addresses, secret))
        secret = offers[0].secret
        connected = _connect(comm.rank, leader, offers)
        has_connected: list[bool] = comm.allgather(connected is not None)
        below: list[Channel] = []
        for listening, ranks in expected:
            below += accept(listening, [rank for rank in ranks if has_connected[rank]], secret, AUTHENTICATION_TIME)
    return Tree(comm.rank, _authenticate(connected, secret, comm.rank), below)


def _connect(rank: int, leader: int, offers: Sequence[_Offer]) -> socket.socket | None:
    """Connect to the rank above, which need not accept now; return None on rank 0 and where that is impossible."""
    folder = offers[leader].folder
    try:
        if rank != leader:
            return None if folder is None else sockets.connect_locally(folder)
        return sockets.connect_to_host(offers[0].addresses, CONNECT_TIME) if rank else None
    except OSError:
        return None


def _authenticate(connected: socket.socket | None, secret: bytes, rank: int) -> Channel | None:
    if connected is None:
        return None
    channel = Channel(connected, secret, rank)
    try:
        # Rank 0 may first have to wait for the ranks of its own host.
        channel.authenticate(2 * AUTHENTICATION_TIME)
    except (OSError, ValueError):
        channel.close()
        return None
    return channel
