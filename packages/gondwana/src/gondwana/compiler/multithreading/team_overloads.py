"""`ThreadTeam` in compiled code, and the compilation of a function that a team calls. Imports Numba.

A team is four words: the address of its memory (see `team.ARRIVED`), the index of this thread, the number of threads
and the number of slots. A thread that changes a word that others wait for rings the bell if any thread sleeps; a thread
that is about to sleep announces it, then polls once more. Both use sequentially consistent operations, so one of them
sees the other.

Each thread calls the function with arguments from the same block, and leaves errors in its own line.
"""

from __future__ import annotations

import types as pytypes
from typing import Any

import numpy as np
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, overload_attribute, overload_method

from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.codegen import compile_entry, guarded, result_names, storer, typed
from gondwana.compiler.inlining import INLINED, called, inlined
from gondwana.compiler.memory_order import (
    atomic_load,
    atomic_store,
    bits_of,
    compare_exchange,
    current_core,
    fetch_add_word,
    futex_wait,
    futex_wake,
    leave_core,
    load_acquire,
    load_word,
    pause,
    sched_yield,
    store_release,
    value_of,
)
from gondwana.compiler.multithreading.pool import LINE
from gondwana.compiler.multithreading.team import (
    ARRIVED,
    BELL,
    FAILED,
    HEADER_WORDS,
    RETURNED,
    SLEEPERS,
    SLOTS,
    SPINS,
    STATUS,
    THREADS,
    TURN,
    VALUES,
    WAKER,
    parallel,
)
from gondwana.compiler.reports import orders_overloads as reports
from gondwana.compiler.types.arguments import WORD, HandleSpec, Spec
from gondwana.compiler.types.handle_types import build, family_type, handle_word
from gondwana.compiler.types.unpack import Typing, loader

_MEMORY, _INDEX, _SIZE, _SLOTS = range(4)
_TeamType = family_type("thread_team")
TEAM = _TeamType(HandleSpec("thread_team", (), 4))
"""The type of a team."""
_YIELDS = 200
"""Number of times that a waiting thread yields the processor before it sleeps."""
_ALL = 1 << 30
_ZERO = np.int64(0)


@intrinsic
def make_team(typingctx: Any, memory: Any, index: Any, size: Any, slots: Any) -> Any:
    """The team as one of its threads sees it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return build(context, builder, TEAM, list(args))

    return TEAM(types.int64, types.int64, types.int64, types.int64), codegen


@inlined
def leave(memory: int, thread: int) -> None:
    """Note that a thread has returned, and whether it was the first to fail; wake the waiting threads."""
    if load_word(memory + THREADS + thread * LINE + STATUS) != 0:
        compare_exchange(memory + FAILED, _ZERO, np.int64(thread + 1))
    fetch_add_word(memory + RETURNED, 1)
    _ring(memory)


@inlined
def _ring(memory: int) -> None:
    """Wake the threads that sleep, to poll the word that the caller has just changed."""
    if atomic_load(memory + SLEEPERS, _ZERO) > 0:
        fetch_add_word(memory + BELL, 1)
        store_release(memory + WAKER, current_core())
        futex_wake(memory + BELL, _ALL)


@inlined
def _is_hopeless(memory: int, spare: int) -> bool:
    """Whether a thread has failed, or more than `spare` threads have returned."""
    return atomic_load(memory + FAILED, _ZERO) != 0 or atomic_load(memory + RETURNED, _ZERO) > spare  # type: ignore[no-any-return]


@called
def _wait_until(memory: int, address: int, least: int, spare: int) -> None:
    """Wait until the word at an address is `least` or more; raise if no thread is left that could change it.

    Args:
        memory: memory of the team.
        address: address of a word in it.
        least: value to reach.
        spare: number of threads that may have returned while there is hope.
    """
    spins = load_word(memory + SPINS)
    polls = 0
    while load_acquire(address) < least:
        polls += 1
        if polls <= spins:
            pause()
            continue
        if _is_hopeless(memory, spare):
            if load_acquire(address) >= least:  # it was reached before the thread returned
                return
            raise RuntimeError("a thread of the team has failed or returned, and another one would wait permanently")
        if polls <= spins + _YIELDS:
            sched_yield()
            continue
        fetch_add_word(memory + SLEEPERS, 1)
        bell = atomic_load(memory + BELL, _ZERO)
        if atomic_load(address, _ZERO) < least and not _is_hopeless(memory, spare):
            futex_wait(memory + BELL, bell)
            if spins > 0 and load_word(memory + WAKER) == current_core():
                leave_core(current_core())
        fetch_add_word(memory + SLEEPERS, -1)


@called
def _barrier_of(memory: int, size: int) -> None:
    turn = load_acquire(memory + TURN)
    reports.report(reports.INTEND, 0, 0, 0, 0)
    arrived = fetch_add_word(memory + ARRIVED, 1)
    reports.report(reports.SET, reports.BARRIER, turn * size + arrived + 1, 1, 0)
    if arrived == size - 1:
        store_release(memory + ARRIVED, 0)
        atomic_store(memory + TURN, np.int64(turn + 1))
        _ring(memory)
    else:
        _wait_until(memory, memory + TURN, turn + 1, 0)
    reports.report(reports.REACH, reports.BARRIER, (turn + 1) * size, 0, 0)


@inlined
def _slot(team: Any, slot: int) -> int:
    """The address of a slot."""
    if slot < 0 or slot >= handle_word(team, _SLOTS):
        raise IndexError("the team of threads has no such slot: see slots= of gw.parallel")
    return handle_word(team, _MEMORY) + THREADS + (handle_word(team, _SIZE) + slot) * LINE  # type: ignore[no-any-return]


def _check_integers(name: str, *kinds: Any) -> None:
    if not all(isinstance(kind, types.Integer) for kind in kinds):
        raise TypingError(f"{name} of a team of threads takes integers, not {', '.join(map(str, kinds))}")


@overload_attribute(_TeamType, "index", jit_options=INLINED)
def _index(team: Any) -> Any:
    def read(team: Any) -> int:
        return handle_word(team, _INDEX)  # type: ignore[no-any-return]

    return read


@overload_attribute(_TeamType, "size", jit_options=INLINED)
def _size(team: Any) -> Any:
    def read(team: Any) -> int:
        return handle_word(team, _SIZE)  # type: ignore[no-any-return]

    return read


@overload_method(_TeamType, "barrier", jit_options=INLINED)
def _barrier(team: Any) -> Any:
    def wait(team: Any) -> None:
        if handle_word(team, _SIZE) > 1:
            _barrier_of(handle_word(team, _MEMORY), handle_word(team, _SIZE))

    return wait


_LARGEST = 1 << 60
"""Upper limit of the begin and the length of a part of a range, which are not negative.

From these limits LLVM knows that a loop over a part of `range(0, n)` has no negative indices, which would count from
the end of an array, and loads and stores whole vectors instead of gathering and scattering their elements.
"""


@overload_method(_TeamType, "share", jit_options=INLINED)
def _share(team: Any, first: Any, last: Any) -> Any:
    _check_integers("share", first, last)

    def part(team: Any, first: Any, last: Any) -> tuple[int, int]:
        count, index, size = last - first, handle_word(team, _INDEX), handle_word(team, _SIZE)
        begin, end = count * index // size, count * (index + 1) // size
        start = first + min(max(begin, 0), _LARGEST)
        return start, start + min(max(end - begin, 0), _LARGEST)

    return part


@overload_method(_TeamType, "fetch_add", jit_options=INLINED)
def _fetch_add(team: Any, slot: Any, value: Any) -> Any:
    _check_integers("fetch_add", slot, value)

    def add(team: Any, slot: Any, value: Any) -> int:
        address = _slot(team, slot)
        reports.report(reports.INTEND, 0, 0, 0, 0)
        before = fetch_add_word(address, value)
        reports.report(reports.SET, slot, before + value, 1, 0)
        _ring(handle_word(team, _MEMORY))
        return before  # type: ignore[no-any-return]

    return add


@overload_method(_TeamType, "publish", jit_options=INLINED)
def _publish(team: Any, slot: Any, value: Any) -> Any:
    _check_integers("publish", slot, value)

    def store(team: Any, slot: Any, value: Any) -> None:
        address = _slot(team, slot)
        if handle_word(team, _SIZE) > 1:
            reports.report(reports.INTEND, 0, 0, 0, 0)
            atomic_store(address, np.int64(value))
            reports.report(reports.SET, slot, value, 0, 0)
            _ring(handle_word(team, _MEMORY))
        else:
            store_release(address, value)

    return store


@overload_method(_TeamType, "wait_for", jit_options=INLINED)
def _wait_for(team: Any, slot: Any, value: Any) -> Any:
    _check_integers("wait_for", slot, value)

    def wait(team: Any, slot: Any, value: Any) -> None:
        address = _slot(team, slot)
        if load_acquire(address) < value:
            _wait_until(handle_word(team, _MEMORY), address, value, handle_word(team, _SIZE) - 2)
        reports.report(reports.REACH, slot, value, 0, 0)

    return wait


def _smaller(a: Any, b: Any) -> Any:
    return a if a < b or a != a else b


def _larger(a: Any, b: Any) -> Any:
    return a if a > b or a != a else b


def _sum(a: Any, b: Any) -> Any:
    return a + b


def _first(a: Any, b: Any) -> Any:
    return a


def _kind_of(name: str, value: Any) -> Any:
    """The type in which values are folded: floats keep theirs, integers get 64 bits."""
    if not isinstance(value, types.Float | types.Integer | types.Boolean):
        raise TypingError(f"{name} of a team of threads takes a real number, not {value}")
    if isinstance(value, types.Float):
        return types.unliteral(value)
    return types.uint64 if types.unliteral(value) == types.uint64 else types.int64


def _define(name: str, function: Any) -> None:
    combine = inlined(function)

    @called
    def fold(team: Any, value: Any) -> Any:
        # All threads see the same turn here. Its parity changes with every barrier, so values of one reduction are not
        # overwritten before all have passed the barrier of the next one, after they have read them.
        memory, size = handle_word(team, _MEMORY), handle_word(team, _SIZE)
        values = memory + THREADS + VALUES + 8 * (load_acquire(memory + TURN) & 1)
        store_release(values + handle_word(team, _INDEX) * LINE, bits_of(value))
        _barrier_of(memory, size)
        total = value_of(load_word(values), value)
        for thread in range(1, size):
            total = combine(total, value_of(load_word(values + thread * LINE), value))
        return total

    @overload_method(_TeamType, name, jit_options=INLINED)
    def _overload(team: Any, value: Any) -> Any:
        kind = _kind_of(name, value)

        def reduce(team: Any, value: Any) -> Any:
            own = kind(value)
            return fold(team, own) if handle_word(team, _SIZE) > 1 else own

        return reduce


for _name, _function in {"sum": _sum, "min": _smaller, "max": _larger, "broadcast": _first}.items():
    _define(_name, _function)


@overload(parallel, strict=False)
def _parallel(function: Any, *args: Any, **options: Any) -> Any:
    raise TypingError("gw.parallel cannot be called in compiled code: the threads of a rank are one team at a time")


_MEMORY_AT = 3 * WORD


def compile_team_call(
    function: pytypes.FunctionType, specs: tuple[Spec, ...], precision: str, *, reassociate: bool
) -> ObjectCode:
    """Machine code for the call of `function` by each thread of a team, with arguments of these specs. Local.

    Raises:
        KernelError: the types in the function cannot be inferred, or Python cannot represent its result.
    """
    typing = Typing(precision)
    kinds = tuple(typing.type_of(spec) for spec in specs)
    twin, result = typed(function, (TEAM, *kinds), reassociate=reassociate)
    names = result_names(function, result)
    load = loader(specs, kinds, HEADER_WORDS * WORD)
    store = storer(result)

    @inlined
    def run(line: int, block: int, memory: int, thread: int, threads: int) -> int:
        team = make_team(memory, thread, threads, load_word(memory + SLOTS))
        value = twin(team, *load(block))
        if thread == 0:
            store(block, value)
        return 0

    def entry(block: int, thread: int, threads: int) -> int:
        memory = load_word(block + _MEMORY_AT)
        guarded(run, memory + THREADS + thread * LINE + STATUS, (block, memory, thread, threads))
        leave(memory, thread)
        return 0

    return compile_entry(entry, 3, {"results": names})
