"""What type checkers make of programs: `make lint` checks it, nothing runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

import gondwana as gw


def text_of(number: int) -> str:
    """A function to be called elsewhere."""
    return str(number)


def later_text_of(number: int) -> gw.Future[str]:
    """A function whose result comes later."""
    return gw.rpc(0, text_of, number)


def calls(pool: gw.WorkerPool) -> None:
    """Results have the type that the function returns."""
    assert_type(gw.rpc(0, text_of, 1).result(), str)
    assert_type(gw.rpc(0, later_text_of, 1).result(), str)
    assert_type(gw.try_rpc(0, text_of, 1), gw.Future[str] | None)
    assert_type(gw.spawn(text_of, 1).result(), str)
    assert_type(pool.submit(text_of, 1).result(), str)
    assert_type(pool.map(text_of, [1, 2]), Iterator[str])
    assert_type(pool.pmap(text_of, [1, 2]), Iterator[str])


def collectives() -> None:
    """Sums have the type of what goes in."""
    assert_type(gw.world.allreduce(3.0), float)
    assert_type(gw.world.allreduce(3, gw.MAX), int)
    assert_type(gw.world.scan(3.0), float)
    assert_type(gw.world.reduce(3.0), float | None)
    assert_type(gw.world.allgather("word"), list[str])
    assert_type(gw.world.gather("word"), list[str] | None)
    assert_type(gw.world.alltoall([1, 2]), list[int])
