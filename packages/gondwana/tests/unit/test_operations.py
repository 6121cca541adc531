"""Operations of reductions: one vocabulary for collectives, kernels, compiled code and atomic domains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.teams.ops import named

COLLECTIVES = ("reduce", "allreduce", "scan", "exscan")
ON_BUFFERS = ("Reduce", "Allreduce", "Reduce_scatter_block", "Ireduce", "Iallreduce")
A = gw.Array(np.array([3.0, -7.0, 5.0]))


def test_every_operation_has_a_name() -> None:
    for op in gw.Op:
        assert named(op) is op
        assert named(op.name.lower()) is op
    for other in ("MAX", "maximum", "", None, 3, max, np.add, ["max"]):
        assert named(other) is None


@pytest.mark.parametrize("name", COLLECTIVES)
def test_objects_are_combined_by_operations_and_functions_only(name: str) -> None:
    call = getattr(gw.world, name)
    for op in (gw.MAX, "max", "maxloc", max, np.maximum):
        call(1, op)
    for op in ("maximum", 3, None):
        with pytest.raises(UsageError, match=rf"^{name} has no operation .*: legal are sum, prod, max, .*function"):
            call(1, op)


@pytest.mark.parametrize("name", ON_BUFFERS)
def test_buffers_are_combined_by_operations_that_fit(name: str) -> None:
    call = getattr(gw.world, name)
    for op, dtype in (("max", "f8"), (gw.MAX, "i2"), ("land", "?"), ("lor", "i4"), ("bxor", "u8"), ("sum", "c16")):
        received = np.zeros(2, dtype)
        call(np.ones(2, dtype), received, op)
        assert received.tolist() == [1, 1]
    for op in ("maximum", "maxloc", gw.MAXLOC, max, 3, None):
        with pytest.raises(UsageError, match=rf"^{name} has no operation"):
            call(np.ones(2), np.zeros(2), op)
    for op, dtype in (("band", "f8"), ("max", "c16"), ("sum", "?"), ("land", "f4")):
        with pytest.raises(UsageError, match=rf"^{name} cannot do '{op}' on .*: legal are"):
            call(np.ones(2, dtype), np.zeros(2, dtype), op)


def test_kernels_fold_by_the_same_names() -> None:
    def value(p: Any, a: Any) -> Any:
        return a[p]

    found = [gw.reduce(op=op)(value)(A.domain, A) for op in (gw.MAX, "max", gw.SUM, "fsum", gw.MIN, gw.PROD)]
    assert found == [5.0, 5.0, 1.0, 1.0, -7.0, -105.0]
    for op in (gw.LAND, "band", "maxloc", max, ["sum"]):
        with pytest.raises(UsageError, match=r"the operations are sum, fsum, prod, min, max"):
            gw.reduce(op=op)


def test_atomic_domains_take_the_operations_of_reductions() -> None:
    word = gw.Segment(gw.world, 8).pointer(dtype="i8")
    domain = gw.AtomicDomain("i8", [gw.SUM, "max", gw.MIN, "prod", gw.BAND, "bor", "bit_xor", "load"], gw.world)
    assert domain.ops == {"add", "max", "min", "mul", "bit_and", "bit_or", "bit_xor", "load"}
    domain.add(word, 3).wait()
    domain.max(word, 9).wait()
    assert domain.load(word).result() == 9
    assert gw.AtomicDomain("i8", gw.MAX, gw.world).ops == gw.AtomicDomain("i8", "max", gw.world).ops == {"max"}
    for ops in ([gw.LAND], ["lor", "add"], [gw.MAXLOC], [max], 3):
        with pytest.raises(UsageError, match="legal are load, store"):
            gw.AtomicDomain("i8", ops, gw.world)


@gw.jit
def by_global(team: Any, x: Any) -> Any:
    return gw.allreduce(team, x, gw.MAX)


@gw.jit
def by_argument(team: Any, x: Any, op: Any) -> Any:
    return gw.allreduce(team, x, op)


@gw.jit
def of_pairs(team: Any, x: Any) -> Any:
    return gw.allreduce(team, x, gw.MAXLOC)


def test_compiled_code_takes_the_objects_too() -> None:
    assert by_global(gw.world, 3) == by_argument(gw.world, 3, gw.BXOR) == by_argument(gw.world, 3, "bxor") == 3
    with pytest.raises(gw.errors.KernelError, match="cannot do 'band' on float64"):
        by_argument(gw.world, 3.0, gw.BAND)
    with pytest.raises(gw.errors.KernelError, match="has no operation"):
        of_pairs(gw.world, 3)
    assert gw.allreduce(gw.world, 3, gw.MAX) == 3
    with pytest.raises(UsageError, match=r"^allreduce has no operation 'maximum'"):
        gw.allreduce(gw.world, 3, "maximum")
