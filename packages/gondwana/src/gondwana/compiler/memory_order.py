"""Loads, stores and read-modify-writes with a memory order, copies of bytes, and the system calls that waiting needs.

For compiled code only (Numba has none of these for the CPU): thin names for LLVM instructions. Addresses are integers.

Atomic operations work on 64-bit integers (`fetch_add_word`), or on a word of the type of the value: a signed or
unsigned integer or a float, of 32 or 64 bits, aligned to its size. These are sequentially consistent, and each
read-modify-write returns the previous value. They are LLVM's instructions if it has them; products and arithmetic of
floats are loops of compare-and-swap.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gondwana.compiler import inlining
from gondwana.compiler.types.points import INT

_INT32 = ir.IntType(32)
_SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "ppc64le": 221, "riscv64": 98}.get(platform.machine(), -1)
_PAUSE = {"x86_64": "pause", "aarch64": "yield"}.get(platform.machine(), "")
_FUTEX_WAIT, _FUTEX_WAKE = 0, 1
_WORDS_OF_CORES = 128
"""The kernel's sets of cores are no longer: 8192 of them."""

ORDER = "seq_cst"
_INSTRUCTIONS = {"add": "add", "sub": "sub", "bit_and": "and", "bit_or": "or", "bit_xor": "xor", "exchange": "xchg"}


def _pointer(builder: Any, address: Any, kind: Any = INT) -> Any:
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
def fetch_add_word(typingctx: Any, address: Any, value: Any) -> Any:
    """Add to the 64-bit integer at an address, sequentially consistent; return its previous value."""

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
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), byte.as_pointer(), INT, ir.IntType(1)])
        function = declare(builder, "llvm.memcpy.p0i8.p0i8.i64", kind)
        pointers = [_pointer(builder, address, byte) for address in args[:2]]
        builder.call(function, [*pointers, args[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), codegen


@intrinsic
def pause(typingctx: Any) -> Any:
    """Mark this loop as a waiting loop for the core."""

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
def current_core(typingctx: Any) -> Any:
    """Return the number of the core that runs this thread; -1 if the system does not know."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = declare(builder, "sched_getcpu", ir.FunctionType(_INT32, []))
        return builder.sext(builder.call(function, []), INT)

    return types.int64(), codegen


@intrinsic
def leave_core(typingctx: Any, core: Any) -> Any:
    """Have this thread go on at another of the cores that it may use; it stays if it may use no other.

    Linux likes to run a thread where the one is that woke it. Two threads that wait for each other in turns, each on
    the core that the other one needs, never look busy enough to be divided, and run one after the other permanently.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        cores = cgutils.alloca_once(builder, ir.ArrayType(INT, _WORDS_OF_CORES))
        own, nbytes = ir.Constant(_INT32, 0), ir.Constant(INT, 8 * _WORDS_OF_CORES)
        kind = ir.FunctionType(_INT32, [_INT32, INT, cores.type])
        ask, bind = (declare(builder, f"sched_{act}affinity", kind) for act in ("get", "set"))
        known = builder.call(ask, [own, nbytes, cores])
        with builder.if_then(builder.icmp_signed("==", known, own)):
            core = builder.and_(args[0], ir.Constant(INT, 64 * _WORDS_OF_CORES - 1))  # also where it is unknown
            word = builder.gep(cores, [ir.Constant(INT, 0), builder.lshr(core, ir.Constant(INT, 6))])
            bit = builder.shl(ir.Constant(INT, 1), builder.and_(core, ir.Constant(INT, 63)))
            before = builder.load(word)
            for wanted in (builder.and_(before, builder.not_(bit)), before):
                builder.store(wanted, word)
                builder.call(bind, [own, nbytes, cores])
        return context.get_dummy_value()

    return types.none(types.int64), codegen


def _futex_call(operation: int) -> Any:
    @intrinsic
    def call(typingctx: Any, address: Any, number: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _futex(builder, args[0], operation, args[1])
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), codegen

    return call


futex_wait, futex_wake = _futex_call(_FUTEX_WAIT), _futex_call(_FUTEX_WAKE)
"""`futex_wait(address, value)` sleeps while the low 32 bits at an address equal `value`, until woken or spuriously;
`futex_wake(address, count)` wakes up to `count` threads that sleep there."""


@intrinsic
def _call(typingctx: Any, function: Any, packed: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = [
            context.cast(builder, builder.extract_value(args[1], index), kind, types.int64)
            for index, kind in enumerate(packed)
        ]
        return builder.call(_pointer(builder, args[0], ir.FunctionType(INT, [INT] * len(words))), words)

    return types.int64(types.int64, packed), codegen


@inlining.inlined
def call_at(function: int, *args: int) -> int:
    """Call the function at an address, of 64-bit integers that returns one: code that is compiled once, for others."""
    return _call(function, args)  # type: ignore[no-any-return]


def declare(builder: Any, name: str, kind: Any) -> Any:
    """The function of this name and type in the module that is being built."""
    module = builder.module
    return module.globals[name] if name in module.globals else ir.Function(module, kind, name)


def _futex(builder: Any, address: Any, operation: int, value: Any) -> None:
    if _SYS_FUTEX < 0:
        builder.call(declare(builder, "sched_yield", ir.FunctionType(_INT32, [])), [])
        return
    kind = ir.FunctionType(INT, [INT] * 7)
    constants = [ir.Constant(INT, number) for number in (_SYS_FUTEX, operation, 0)]
    arguments = [constants[0], address, constants[1], value, constants[2], constants[2], constants[2]]
    builder.call(declare(builder, "syscall", kind), arguments)


def is_word(kind: Any) -> bool:
    """Return whether atomic operations exist on values of this type."""
    return isinstance(kind, types.Integer | types.Float) and kind.bitwidth in (32, 64)


def _bits(kind: Any) -> Any:
    return ir.IntType(kind.bitwidth)


def _word_pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, _bits(kind).as_pointer())


def _to_bits(builder: Any, kind: Any, value: Any) -> Any:
    return builder.bitcast(value, _bits(kind)) if isinstance(kind, types.Float) else value


def _from_bits(builder: Any, kind: Any, bits: Any) -> Any:
    if not isinstance(kind, types.Float):
        return bits
    return builder.bitcast(bits, ir.FloatType() if kind.bitwidth == 32 else ir.DoubleType())


@intrinsic
def atomic_load(typingctx: Any, address: Any, like: Any) -> Any:
    """Read the word at an address; `like` is any value of its type."""
    if not is_word(like):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _word_pointer(builder, args[0], like)
        return _from_bits(builder, like, builder.load_atomic(where, ORDER, like.bitwidth // 8))

    return like(types.int64, like), codegen


@intrinsic
def atomic_store(typingctx: Any, address: Any, value: Any) -> Any:
    """Write a word."""
    if not is_word(value):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _word_pointer(builder, args[0], value)
        builder.store_atomic(_to_bits(builder, value, args[1]), where, ORDER, value.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(types.int64, value), codegen


@intrinsic
def compare_exchange(typingctx: Any, address: Any, expected: Any, value: Any) -> Any:
    """Write a word if its bits are those of `expected`; return its previous value. Never fails spuriously."""
    if not is_word(value) or expected != value:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _word_pointer(builder, args[0], value)
        pair = [_to_bits(builder, value, arg) for arg in args[1:]]
        old = builder.extract_value(builder.cmpxchg(where, *pair, ORDER, ORDER), 0)
        return _from_bits(builder, value, old)

    return value(types.int64, value, value), codegen


@intrinsic
def bits_of(typingctx: Any, value: Any) -> Any:
    """Return the bits of a word as a 64-bit integer: integers extended as their type says, floats by zeros."""
    if not is_word(value):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = _to_bits(builder, value, args[0])
        if value.bitwidth == 64:
            return bits
        return (builder.sext if getattr(value, "signed", False) else builder.zext)(bits, INT)

    return types.int64(value), codegen


@intrinsic
def value_of(typingctx: Any, bits: Any, like: Any) -> Any:
    """Return the word with the low bits of a 64-bit integer; `like` is any value of its type."""
    if not is_word(like):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        narrow = args[0] if like.bitwidth == 64 else builder.trunc(args[0], _bits(like))
        return _from_bits(builder, like, narrow)

    return like(types.int64, like), codegen


def _read_modify_write(operation: str) -> Any:
    @intrinsic
    def perform(typingctx: Any, address: Any, value: Any) -> Any:
        is_float = isinstance(value, types.Float)
        if not is_word(value) or (is_float and operation.startswith("bit_")):
            return None

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            where = _word_pointer(builder, args[0], value)
            instruction = _instruction(operation, value)
            if instruction:
                old = builder.atomic_rmw(instruction, where, _to_bits(builder, value, args[1]), ORDER)
            else:
                old = _compare_and_swap_loop(builder, where, value, partial(_apply, builder, operation, args[1]))
            return _from_bits(builder, value, old)

        return value(types.int64, value), codegen

    return perform


def _instruction(operation: str, kind: Any) -> str | None:
    """LLVM's name of an operation on words of this type, None without one (on floats, for all processors)."""
    if operation == "exchange" or (operation in _INSTRUCTIONS and isinstance(kind, types.Integer)):
        return _INSTRUCTIONS[operation]
    if operation in ("min", "max") and isinstance(kind, types.Integer):
        return operation if kind.signed else f"u{operation}"
    return None


def _apply(builder: Any, operation: str, value: Any, old: Any) -> Any:
    """The new value of operations without an instruction. A NaN among the operands of min and max changes nothing."""
    if isinstance(old.type, ir.IntType):
        return builder.mul(old, value)
    if operation in ("min", "max"):
        is_new = builder.fcmp_ordered("<" if operation == "min" else ">", value, old)
        return builder.select(is_new, value, old)
    return {"add": builder.fadd, "sub": builder.fsub, "mul": builder.fmul}[operation](old, value)


def _compare_and_swap_loop(builder: Any, where: Any, kind: Any, combine: Callable[[Any], Any]) -> Any:
    first = builder.load_atomic(where, "monotonic", kind.bitwidth // 8)
    before = builder.basic_block
    again, done = builder.append_basic_block("again"), builder.append_basic_block("done")
    builder.branch(again)
    builder.position_at_end(again)
    old = builder.phi(_bits(kind))
    new = _to_bits(builder, kind, combine(_from_bits(builder, kind, old)))
    outcome = builder.cmpxchg(where, old, new, ORDER, "monotonic")
    old.add_incoming(first, before)
    old.add_incoming(builder.extract_value(outcome, 0), again)
    builder.cbranch(builder.extract_value(outcome, 1), done, again)
    builder.position_at_end(done)
    return old


fetch_add = _read_modify_write("add")
fetch_sub = _read_modify_write("sub")
fetch_mul = _read_modify_write("mul")
fetch_min = _read_modify_write("min")
fetch_max = _read_modify_write("max")
fetch_bit_and = _read_modify_write("bit_and")
fetch_bit_or = _read_modify_write("bit_or")
fetch_bit_xor = _read_modify_write("bit_xor")
exchange = _read_modify_write("exchange")
