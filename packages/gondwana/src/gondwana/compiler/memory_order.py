"""Loads, stores and read-modify-writes with a memory order, copies of bytes, and the system calls that waiting needs.

For compiled code only (Numba has none of these for the CPU): thin names for LLVM instructions. Addresses are integers.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_INT = ir.IntType(64)
_INT32 = ir.IntType(32)
_SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "ppc64le": 221, "riscv64": 98}.get(platform.machine(), -1)
_PAUSE = {"x86_64": "pause", "aarch64": "yield"}.get(platform.machine(), "")
_FUTEX_WAIT, _FUTEX_WAKE = 0, 1


def _pointer(builder: Any, address: Any, kind: Any = _INT) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic
def load_acquire(typingctx: Any, address: Any) -> Any:
    """Read the 64-bit integer at an address; later accesses stay behind it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_pointer(builder, args[0]), "acquire", 8)

    return types.int64(types.int64), codegen


@intrinsic
def store_release(typingctx: Any, address: Any, value: Any) -> Any:
    """Write a 64-bit integer; earlier accesses stay before it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[1], _pointer(builder, args[0]), "release", 8)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), codegen


@intrinsic
def fetch_add(typingctx: Any, address: Any, value: Any) -> Any:
    """Add to the 64-bit integer at an address, sequentially consistent; return what it was."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, args[0]), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def load_word(typingctx: Any, address: Any) -> Any:
    """Read the 64-bit integer at an address, in no particular order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0]))

    return types.int64(types.int64), codegen


@intrinsic
def move_bytes(typingctx: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy a run of bytes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), byte.as_pointer(), _INT, ir.IntType(1)])
        function = declare(builder, "llvm.memcpy.p0i8.p0i8.i64", kind)
        pointers = [_pointer(builder, address, byte) for address in args[:2]]
        builder.call(function, [*pointers, args[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), codegen


@intrinsic
def pause(typingctx: Any) -> Any:
    """Tell the core that this is a waiting loop."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if _PAUSE:
            assembly = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), _PAUSE, "~{memory}", side_effect=True)
            builder.call(assembly, [])
        return context.get_dummy_value()

    return types.none(), codegen


@intrinsic
def sched_yield(typingctx: Any) -> Any:
    """Let another process run on this core."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = declare(builder, "sched_yield", ir.FunctionType(_INT32, []))
        builder.call(function, [])
        return context.get_dummy_value()

    return types.none(), codegen


@intrinsic
def futex_wait(typingctx: Any, address: Any, value: Any) -> Any:
    """Sleep while the low 32 bits at an address equal `value`, until woken (or for no reason)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _futex(builder, args[0], _FUTEX_WAIT, args[1])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), codegen


@intrinsic
def futex_wake(typingctx: Any, address: Any, count: Any) -> Any:
    """Wake up to `count` threads that sleep at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _futex(builder, args[0], _FUTEX_WAKE, args[1])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), codegen


@intrinsic
def call_at(typingctx: Any, function: Any, block: Any, thread: Any, threads: Any) -> Any:
    """Call the machine code at an address with three integers."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_INT, [_INT] * 3)
        return builder.call(_pointer(builder, args[0], kind), list(args[1:]))

    return types.int64(types.int64, types.int64, types.int64, types.int64), codegen


def declare(builder: Any, name: str, kind: Any) -> Any:
    """The function of this name and type in the module that is being built."""
    module = builder.module
    return module.globals[name] if name in module.globals else ir.Function(module, kind, name)


def _futex(builder: Any, address: Any, operation: int, value: Any) -> None:
    if _SYS_FUTEX < 0:
        builder.call(declare(builder, "sched_yield", ir.FunctionType(_INT32, [])), [])
        return
    kind = ir.FunctionType(_INT, [_INT] * 7)
    constants = [ir.Constant(_INT, number) for number in (_SYS_FUTEX, operation, 0)]
    arguments = [constants[0], address, constants[1], value, constants[2], constants[2], constants[2]]
    builder.call(declare(builder, "syscall", kind), arguments)
