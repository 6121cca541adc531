"""The methods of atomic domains in compiled code: they return values, not futures. Imports Numba."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload_method

from gondwana.compiler import memory_order as atomics
from gondwana.compiler.externs_overloads import calling
from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import bits_of, load_word
from gondwana.compiler.reports import orders_overloads as reports
from gondwana.compiler.types.handle_types import family_type, handle_word, is_handle
from gondwana.compiler.types.unpack import scalar_type
from gondwana.memory.pointer_overloads import check_bytes, element_size
from gondwana.memory.segment import TABLE_HEAD
from gondwana.runtime.races import reporter
from gondwana.sync.atomic_paths import DTYPES, OPERATIONS, REPORT
from gondwana.sync.atomics import NAMES
from gondwana.sync.mpi_atomics import compare_and_swap, reader, updater, writer

_TABLE, _RANK, _OFFSET = 0, 1, 2
_WORD = 8
_FAMILY = family_type("atomic_domain")


@inlined
def _address(target: Any) -> int:
    """Return the address of the word in this process."""
    check_bytes(target, element_size(target))
    base = load_word(handle_word(target, _TABLE) + (TABLE_HEAD + handle_word(target, _RANK)) * _WORD)
    if base == 0:
        raise ValueError("an atomic operation got a pointer that is not to host memory of this node")
    return base + handle_word(target, _OFFSET)  # type: ignore[no-any-return]


def _word_type(name: str, domain: Any, target: Any, *values: Any) -> Any:
    """Return the type of a word after checking that the domain has this method and the arguments fit."""
    dtype, ops, _ = domain.parameters
    if name not in ops:
        raise TypingError(f"this AtomicDomain was not made for {name}: give all operations when you make it")
    if not is_handle(target, "global_ptr") or target.parameters != (dtype,):
        raise TypingError(f"{name} of an AtomicDomain of {dtype} takes a GlobalPtr to {dtype}, not {target}")
    kind = scalar_type(dtype)
    for value in values:
        if not isinstance(value, types.Integer | types.Float if isinstance(kind, types.Float) else types.Integer):
            raise TypingError(f"{name} of an AtomicDomain of {dtype} takes numbers of that type, not {value}")
    return kind


@intrinsic
def _report(
    typingctx: Any, table: Any, rank: Any, offset: Any, number: Any, fetch: Any, old: Any, value: Any, expected: Any
) -> Any:
    return types.none(*[types.int64] * 8), calling(REPORT)


def _reported(name: str, domain: Any, kind: Any, fetch: bool) -> Any:
    """Return a function of target, value and expected value that performs an operation and reports it."""
    perform = _fetching("exchange" if name == "store" else name, domain, kind)
    number = DTYPES.index(domain.parameters[0]) * len(OPERATIONS) + OPERATIONS.index(name)
    announced = name != "load"

    @inlined
    def run(domain: Any, target: Any, value: Any, expected: Any) -> Any:
        table, rank, offset = handle_word(target, _TABLE), handle_word(target, _RANK), handle_word(target, _OFFSET)
        reports.report(reports.INTEND, table if announced else 0, rank, offset, 0)
        old = kind(perform(domain, target, value, expected))
        _report(table, rank, offset, number, fetch, bits_of(old), bits_of(kind(value)), bits_of(kind(expected)))
        return old

    return run


def _fetching(name: str, domain: Any, kind: Any) -> Any:
    """Return a function of target, value and expected value that performs an operation and returns the old value."""
    if domain.parameters[2] == "mpi":
        swaps = _swaps(domain)
        if name == "load":
            load = inlined(reader(kind, swaps))
            return inlined(lambda domain, target, value, expected: load(domain, target))
        if name == "compare_exchange":
            swap = inlined(compare_and_swap(kind))
            return inlined(lambda domain, target, value, expected: swap(domain, target, expected, value))
        update = inlined(updater(name, kind, swaps, True))
        return inlined(lambda domain, target, value, expected: update(domain, target, value))
    if name == "load":
        return inlined(lambda domain, target, value, expected: atomics.atomic_load(_address(target), kind(0)))
    if name == "compare_exchange":
        return inlined(
            lambda domain, target, value, expected: atomics.compare_exchange(
                _address(target), kind(expected), kind(value)
            )
        )
    operation = getattr(atomics, "exchange" if name == "exchange" else f"fetch_{name}")
    return inlined(lambda domain, target, value, expected: operation(_address(target), kind(value)))


def _performing(name: str, domain: Any, kind: Any, fetch: bool) -> Any:
    """Return a function of domain, target, value and expected value that returns the old value."""
    return _fetching(name, domain, kind) if reporter is None else _reported(name, domain, kind, fetch)


@overload_method(_FAMILY, "load", strict=False, jit_options=INLINED)
def _load(domain: Any, target: Any) -> Any:
    perform = _performing("load", domain, _word_type("load", domain, target), True)
    return lambda domain, target: perform(domain, target, 0, 0)


@overload_method(_FAMILY, "compare_exchange", strict=False, jit_options=INLINED)
def _compare_exchange(domain: Any, target: Any, expected: Any, value: Any) -> Any:
    kind = _word_type("compare_exchange", domain, target, expected, value)
    perform = _performing("compare_exchange", domain, kind, True)
    return lambda domain, target, expected, value: perform(domain, target, value, expected)


def _swaps(domain: Any) -> bool:
    return "compare_exchange" in domain.parameters[1]


def _register(name: str) -> None:
    plain = name.removeprefix("fetch_")
    fetches = plain != name or name == "exchange"

    @overload_method(_FAMILY, name, strict=False, jit_options=INLINED)
    def method(domain: Any, target: Any, value: Any) -> Any:
        kind = _word_type(name, domain, target, value)
        if fetches or reporter is not None:
            perform = _performing(plain, domain, kind, fetches)
            if fetches:
                return lambda domain, target, value: perform(domain, target, value, 0)
        elif domain.parameters[2] == "mpi":
            return writer(kind, _swaps(domain)) if name == "store" else updater(plain, kind, _swaps(domain), False)
        elif name == "store":
            return lambda domain, target, value: atomics.atomic_store(_address(target), kind(value))
        else:
            perform = _fetching(plain, domain, kind)

        def run(domain: Any, target: Any, value: Any) -> None:
            perform(domain, target, value, 0)

        return run


for _name in NAMES:
    if _name not in ("load", "compare_exchange"):
        _register(_name)
