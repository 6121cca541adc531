"""The methods of atomic domains in compiled code: they return values, not futures. Imports Numba."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.errors import TypingError
from numba.extending import overload_method

from gondwana.compiler import memory_order as atomics
from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.types.handle_types import family_type, handle_word, is_handle
from gondwana.compiler.types.unpack import scalar_type
from gondwana.memory.pointer_overloads import check_bytes, element_size
from gondwana.memory.segment import TABLE_HEAD
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


@overload_method(_FAMILY, "load", strict=False, jit_options=INLINED)
def _load(domain: Any, target: Any) -> Any:
    kind = _word_type("load", domain, target)
    if domain.parameters[2] == "mpi":
        return reader(kind, _swaps(domain))
    return lambda domain, target: atomics.atomic_load(_address(target), kind(0))


@overload_method(_FAMILY, "store", strict=False, jit_options=INLINED)
def _store(domain: Any, target: Any, value: Any) -> Any:
    kind = _word_type("store", domain, target, value)
    if domain.parameters[2] == "mpi":
        return writer(kind, _swaps(domain))
    return lambda domain, target, value: atomics.atomic_store(_address(target), kind(value))


@overload_method(_FAMILY, "compare_exchange", strict=False, jit_options=INLINED)
def _compare_exchange(domain: Any, target: Any, expected: Any, value: Any) -> Any:
    kind = _word_type("compare_exchange", domain, target, expected, value)
    if domain.parameters[2] == "mpi":
        return compare_and_swap(kind)
    return lambda domain, target, expected, value: atomics.compare_exchange(
        _address(target), kind(expected), kind(value)
    )


def _swaps(domain: Any) -> bool:
    return "compare_exchange" in domain.parameters[1]


def _register(name: str) -> None:
    plain = name.removeprefix("fetch_")
    fetches = plain != name or name == "exchange"
    operation = getattr(atomics, "exchange" if name == "exchange" else f"fetch_{plain}")

    @overload_method(_FAMILY, name, strict=False, jit_options=INLINED)
    def method(domain: Any, target: Any, value: Any) -> Any:
        kind = _word_type(name, domain, target, value)
        if domain.parameters[2] == "mpi":
            return updater(plain, kind, _swaps(domain), fetches)
        if fetches:
            return lambda domain, target, value: operation(_address(target), kind(value))

        def run(domain: Any, target: Any, value: Any) -> None:
            operation(_address(target), kind(value))

        return run


for _name in NAMES:
    if _name not in ("load", "store", "compare_exchange"):
        _register(_name)
