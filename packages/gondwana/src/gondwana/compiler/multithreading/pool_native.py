"""The loops of the thread pool (see `pool`): Python source that is compiled once. Imports Numba.

Layout of the pool, in lines of 128 bytes so that no two threads write the same one: line 0: number of the current
job; line 1: the job: function, argument block, threads, flags; line 2: number of sleeping workers, and the core of the
thread that woke some last; line 3: polls of a worker before it sleeps, and whether each thread can have a core of its
own; line 4 + t: last job that worker t finished.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import (
    call_at,
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
)
from gondwana.compiler.multithreading.pool import FLUSH_SUBNORMALS, LINE

JOB, SLEEPERS, SPINS, DONE = 1 * LINE, 2 * LINE, 3 * LINE, 4 * LINE
WAKER, ROOMY = SLEEPERS + 8, SPINS + 8
_FTZ_DAZ = 0x8040
_FPCR_FZ = 1 << 24
_ALL = 1 << 30
_SPINS_BEFORE_YIELD = 2000


@intrinsic
def flush_subnormals(typingctx: Any) -> Any:
    """Make this thread treat subnormal numbers as zero; return the control word to restore."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        old = _control_word(builder)
        bits = _FPCR_FZ if platform.machine() == "aarch64" else _FTZ_DAZ
        _set_control_word(builder, builder.or_(old, ir.Constant(ir.IntType(64), bits)))
        return old

    return types.int64(), codegen


@intrinsic
def restore_control_word(typingctx: Any, word: Any) -> Any:
    """Undo `flush_subnormals`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _set_control_word(builder, args[0])
        return context.get_dummy_value()

    return types.none(types.int64), codegen


def _intrinsic(builder: Any, name: str, kind: Any) -> Any:
    return cgutils.get_or_insert_function(builder.module, kind, name)


def _control_word(builder: Any) -> Any:
    word = ir.IntType(64)
    if platform.machine() == "aarch64":
        return builder.call(_intrinsic(builder, "llvm.aarch64.get.fpcr", ir.FunctionType(word, [])), [])
    if platform.machine() != "x86_64":
        return ir.Constant(word, 0)
    slot = builder.alloca(ir.IntType(32))
    pointer = ir.IntType(8).as_pointer()
    store = _intrinsic(builder, "llvm.x86.sse.stmxcsr", ir.FunctionType(ir.VoidType(), [pointer]))
    builder.call(store, [builder.bitcast(slot, pointer)])
    return builder.zext(builder.load(slot), word)


def _set_control_word(builder: Any, value: Any) -> None:
    if platform.machine() == "aarch64":
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        builder.call(_intrinsic(builder, "llvm.aarch64.set.fpcr", kind), [value])
    if platform.machine() != "x86_64":
        return
    slot = builder.alloca(ir.IntType(32))
    builder.store(builder.trunc(value, ir.IntType(32)), slot)
    pointer = ir.IntType(8).as_pointer()
    load = _intrinsic(builder, "llvm.x86.sse.ldmxcsr", ir.FunctionType(ir.VoidType(), [pointer]))
    builder.call(load, [builder.bitcast(slot, pointer)])


@inlined
def _invoke(function: int, block: int, thread: int, threads: int, flags: int) -> None:
    # The call is opaque to LLVM, so no arithmetic of the kernel can move out from between the two control words.
    if flags & FLUSH_SUBNORMALS:
        word = flush_subnormals()
        call_at(function, block, thread, threads)
        restore_control_word(word)
    else:
        call_at(function, block, thread, threads)


def worker(pool: int, thread: int) -> int:
    """Do jobs until one has no function. Runs in its own thread for the life of the pool."""
    seen = load_acquire(pool + DONE + thread * LINE)
    while True:
        job = load_acquire(pool)
        spins = load_word(pool + SPINS)
        while job == seen and spins > 0:
            pause()
            spins -= 1
            job = load_acquire(pool)
        if job == seen:
            fetch_add_word(pool + SLEEPERS, 1)
            futex_wait(pool, seen)
            fetch_add_word(pool + SLEEPERS, -1)
            if load_word(pool + ROOMY) and load_word(pool + WAKER) == current_core():
                leave_core(current_core())
            continue
        seen = job
        function = load_word(pool + JOB)
        if function == 0:
            store_release(pool + DONE + thread * LINE, seen)
            return 0
        threads = load_word(pool + JOB + 16)
        if thread < threads:
            _invoke(function, load_word(pool + JOB + 8), thread, threads, load_word(pool + JOB + 24))
        store_release(pool + DONE + thread * LINE, seen)


def run(pool: int, workers: int, function: int, block: int, threads: int, flags: int) -> int:
    """Run a function on `threads` threads, the caller being thread 0, and return when all are done."""
    if threads > 1 or function == 0:
        store_release(pool + JOB, function)
        store_release(pool + JOB + 8, block)
        store_release(pool + JOB + 16, threads)
        store_release(pool + JOB + 24, flags)
        job = fetch_add_word(pool, 1) + 1
        if fetch_add_word(pool + SLEEPERS, 0) > 0:
            store_release(pool + WAKER, current_core())
            futex_wake(pool, _ALL)
    else:
        _invoke(function, block, 0, 1, flags)
        return 0
    if function != 0:
        _invoke(function, block, 0, threads, flags)
    for thread in range(1, workers):
        spins = 0
        while load_acquire(pool + DONE + thread * LINE) < job:
            spins += 1
            if spins < _SPINS_BEFORE_YIELD:
                pause()
            else:
                sched_yield()
    return 0
