"""Launches that are noted and replayed, on the emulated GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.testing.gpu import emulated_gpu


@pytest.fixture(autouse=True)
def _gpu() -> Iterator[None]:
    with emulated_gpu():
        yield


@gw.foreach
def step(p: gw.Point, target: Any, source: Any) -> None:
    target[p] = source[p - gw.X] + source[p + gw.X]


@gw.reduce
def total(p: gw.Point, a: Any) -> float:
    return a[p]


def _fields(kind: gw.MemoryKind) -> tuple[gw.GlobalArray, gw.GlobalArray]:
    first = gw.zeros((12, 5), ghost=1, periodic=True, kind=kind)
    first.block(gw.world.rank).restrict(first.owned).copy_from(gw.Array(np.arange(60.0).reshape(12, 5)))
    return first, gw.zeros_like(first)


def _two_steps(a: gw.GlobalArray, b: gw.GlobalArray) -> None:
    for source, target in ((a, b), (b, a)):
        source.exchange().wait()
        step(source.owned, target, source)


def test_a_replay_does_what_the_function_does() -> None:
    device, host = _fields(gw.cuda(0)), _fields(gw.host)
    _two_steps(*device)  # compiles
    again = gw.capture(lambda: _two_steps(*device))
    assert again.on_device
    for _ in range(3):
        again()
    for _ in range(4):
        _two_steps(*host)
    assert np.array_equal(device[0].to_numpy(), host[0].to_numpy())


def test_nothing_is_launched_by_a_capture() -> None:
    a, b = _fields(gw.cuda(0))
    _two_steps(a, b)
    before = a.to_numpy()
    gw.capture(lambda: _two_steps(a, b))
    assert np.array_equal(a.to_numpy(), before)


@pytest.mark.parametrize("what", ["reduce", "read", "synchronize"])
def test_what_cannot_be_replayed_is_refused(what: str) -> None:
    a, b = _fields(gw.cuda(0))
    _two_steps(a, b)
    total(a.owned, a)
    doing = {
        "reduce": lambda: total(a.owned, a),
        "read": lambda: a.local[1, 1],
        "synchronize": gw.synchronize,
    }[what]

    def function() -> None:
        step(a.owned, b, a)
        doing()

    with pytest.raises(UsageError, match="capture"):
        gw.capture(function)
    _two_steps(a, b)  # the device still works
    assert np.isfinite(a.to_numpy()).all()


def test_errors_of_the_function_pass_through() -> None:
    a, b = _fields(gw.cuda(0))
    _two_steps(a, b)

    def function() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        gw.capture(function)
    _two_steps(a, b)


def test_captures_do_not_nest() -> None:
    a, b = _fields(gw.cuda(0))
    _two_steps(a, b)
    with pytest.raises(UsageError, match="capturing already"):
        gw.capture(lambda: gw.capture(lambda: None))
