"""The parameters of a machine, as a file: strict JSON in SI units (seconds, bytes, bytes a second)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from gondwana.errors import UsageError
from gondwana.inputs import MAX_TEXT, printable, read_file
from gondwana.results import write_json

Positive = Annotated[float, Meta(gt=0.0, le=1e30)]
Amount = Annotated[float, Meta(ge=0.0, le=1e30)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys that the file must have, and no others."""


class Link(Strict, frozen=True, kw_only=True):
    """LogGP's parameters of messages between two ranks (Alexandrov, Ionescu, Schauser, Scheiman 1995).

    Attributes:
        latency: L, seconds on the way.
        overhead: o, seconds of the processor at either end.
        gap: g, seconds between two messages of a rank.
        bandwidth: 1/G in bytes a second: of a rank on a node, of all ranks of a node together between nodes.
        hops: latencies one after the other until an exchange is complete: 1 for a message; a put that is acknowledged
            before its signal is sent has 3.
        eager: bytes of the longest message that is sent at once; for a longer one the sender first asks and waits for
            the answer, two more messages (LogGPS: Ino, Fujimoto, Hagihara 2001).
    """

    latency: Amount
    overhead: Amount
    gap: Amount
    bandwidth: Positive
    hops: Annotated[float, Meta(ge=1.0, le=100.0)] = 1.0
    eager: Amount = 1e30


class Memory(Strict, frozen=True, kw_only=True):
    """The bandwidths of the ranks of a node.

    Attributes:
        rank: bytes a second of a rank that is alone on its node, from memory.
        node: bytes a second of all ranks of a node together, from memory.
        cache: bytes a second of a rank, from its caches.
        cache_bytes: capacity of the caches of a node, for all of its ranks together.
    """

    rank: Positive
    node: Positive
    cache: Positive
    cache_bytes: Amount


class Tail(Strict, frozen=True, kw_only=True):
    """A generalised Pareto law above a threshold: P(X > threshold + y) = share (1 + shape y/scale)^(-1/shape).

    Attributes:
        share: fraction of the draws above the threshold.
        threshold: beginning of the tail.
        scale: scale of the law, in the unit of the draws.
        shape: shape of the law; 0 is the exponential law; from 1 on the mean is infinite.
    """

    share: Share
    threshold: Amount
    scale: Amount
    shape: Annotated[float, Meta(ge=-1.0, lt=1.0)]


class Noise(Strict, frozen=True, kw_only=True):
    """The distribution of the time of a step of a rank, relative to the median.

    Attributes:
        body: excesses at equidistant probabilities from 0 to `1 - tail.share`.
        tail: law of the largest ones.
    """

    body: Annotated[tuple[float, ...], Meta(min_length=1)]
    tail: Tail


class Application(Strict, frozen=True, kw_only=True):
    """The parts of a machine's speed that the code of an application reaches.

    Attributes:
        overhead: seconds of a step that depend neither on the size nor on the ranks.
        start: seconds of software for each exchange and each collective, beside those of the machine.
        rate: operations a second of a rank whose data are in its caches.
        streaming: part of a rank's bandwidth that it reaches, by how many of its accesses are under way at once.
    """

    overhead: Amount
    start: Amount = 0.0
    rate: Positive
    streaming: Positive = 1.0


class Machine(Strict, frozen=True, kw_only=True):
    """A machine.

    Attributes:
        name: name of the machine.
        ranks_per_node: cores or GPUs of a node; each has one rank.
        memory: memory of a node.
        node: messages between ranks of a node.
        network: messages between nodes; None: the machine is one node.
        noise: noise of the steps, or None.
        rate: operations a second of a rank, for applications that are not listed.
        applications: efficiencies of applications, by name.
        sources: sources of the values, for readers.
    """

    name: str
    ranks_per_node: Count
    memory: Memory
    node: Link
    network: Link | None = None
    noise: Noise | None = None
    rate: Positive
    applications: dict[str, Application] = {}
    sources: dict[str, str] = {}

    def application(self, name: str) -> Application:
        """Return the efficiency of an application, or of the machine for those that were not measured. Local."""
        return self.applications.get(name) or Application(overhead=0.0, rate=self.rate)


def read(path: str | Path) -> Machine:
    """Read a machine file. Local.

    Raises:
        UsageError: the file does not exist, or does not describe a machine.
    """
    content = read_file(path, f"--machine {path}", MAX_TEXT, "name a file that `model fit` wrote")
    try:
        return msgspec.json.decode(content, type=Machine)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            printable(f"--machine {path}: not a machine file: {error}; see the guide to the model")
        ) from None


def write(path: str | Path, machine: Machine) -> None:
    """Write a machine file. Local.

    Raises:
        ResultError: the file cannot be written.
    """
    write_json(path, msgspec.to_builtins(machine))
