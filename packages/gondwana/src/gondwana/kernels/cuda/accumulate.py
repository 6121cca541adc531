"""Folding the values of a reduction on a device: operations, their start values, and the results of the blocks.

Imports numba-cuda. The result of a plain operation is one number a block, folded in an order that the shape of the
launch fixes. "fsum" adds exactly: each thread to three running sums in registers, without rounding errors, and what
these cannot hold to fixed-point numbers (see `kernels.exact`), one a warp, in shared memory. At the end the threads of
a warp add up their running sums by shuffles, and only the first of them adds to the fixed-point number.

A sum of three numbers that do not overlap holds about 159 bits; numbers within some 100 binades leave nothing for
shared memory. This is the expansion that caches a long accumulator of S. Collange, D. Defour, S. Graillat and R.
Iakymchuk, "Numerical reproducibility for the parallel reduction on multi- and many-core architectures", Parallel
Computing 49 (2015), with D. Knuth's sum that gives its rounding error, too. The fixed-point numbers are integers, so
that neither the order nor the number of threads shows in the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.cuda.extending import intrinsic
from numba.cuda.libdevice import dadd_rn

from gondwana.compiler.types.points import INT
from gondwana.kernels.cuda.compiler import cuda, device_function
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.cuda.sweeps import RESULTS
from gondwana.kernels.exact import SPECIAL, WORDS
from gondwana.kernels.folding import COMBINE, check_value, digits_of, kind_of, neutral

WARP = 32

_SHARED = 3
"""The address space of shared memory."""
_NAME = "gondwana_accumulators"


@dataclass(frozen=True)
class Folding:
    """The functions that a sweep calls (see `sweeps.Parts`), and the dtype of the numbers of each block."""

    step: Any
    start: Any
    finish: Any
    result: str


def folding(name: str, operation: str | None, kernel: Any, value: Any, shape: Shape) -> Folding:
    """The folding of the values of a kernel by an operation, or of a kernel without values.

    Raises:
        KernelError: the kernel returns no number, or one that the operation cannot take.
    """
    if operation is None:
        return _nothing(kernel)
    check_value(name, value)
    return _exact(kernel, shape) if operation == "fsum" else _plain(operation, kernel, value, shape)


def _nothing(kernel: Any) -> Folding:
    @device_function
    def step(total: Any, p: Any, args: Any) -> Any:
        kernel(p, *args)
        return total

    @device_function
    def start() -> int:
        return 0

    @device_function
    def finish(words: Any, total: int) -> None:
        pass

    return Folding(step, start, finish, "")


_combine = {operation: device_function(function) for operation, function in COMBINE.items()}


@intrinsic
def _put(typingctx: Any, address: Any, value: Any) -> Any:
    """Store a 64-bit number at an address of the device."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], args[1].type.as_pointer(1)))
        return context.get_dummy_value()

    return types.none(types.int64, value), codegen


@intrinsic
def _bits(typingctx: Any, value: Any) -> Any:
    """The bits of a float64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


def _plain(operation: str, kernel: Any, value: Any, shape: Shape) -> Folding:
    kind = kind_of(value)
    combine, identity = _combine[operation], neutral(operation, kind)
    width, threads = shape.x, shape.threads

    @device_function
    def step(total: Any, p: Any, args: Any) -> Any:
        return combine(total, kind(kernel(p, *args)))

    @device_function
    def start() -> Any:
        return kind(identity)

    @device_function
    def finish(words: Any, total: Any) -> None:
        shared = cuda.shared.array(threads, kind)
        thread = cuda.threadIdx.y * width + cuda.threadIdx.x
        shared[thread] = total
        count = threads
        while count > 1:
            half = (count + 1) // 2
            cuda.syncthreads()
            if thread < count - half:
                shared[thread] = combine(shared[thread], shared[thread + half])
            count = half
        if thread == 0:
            _put(words[RESULTS] + 8 * cuda.blockIdx.x, shared[0])

    return Folding(step, start, finish, str(kind))


def _accumulators(words: int) -> Any:
    """A compiled function that returns the address of a block's accumulators. Call it once: each call has its own."""

    @intrinsic
    def accumulators(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.ArrayType(INT, words)
            made = ir.GlobalVariable(builder.module, kind, _NAME, addrspace=_SHARED)
            made.linkage, made.align = "internal", 16
            made.initializer = ir.Constant(kind, ir.Undefined)
            return builder.ptrtoint(made, INT)

        return types.int64(), codegen

    return accumulators


def _word(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, INT.as_pointer(_SHARED))


@intrinsic
def _write(typingctx: Any, address: Any, value: Any) -> Any:
    """Write a word of shared memory."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], _word(builder, args[0]))
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), codegen


@intrinsic
def _read(typingctx: Any, address: Any) -> Any:
    """Read a word of shared memory."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_word(builder, args[0]))

    return types.int64(types.int64), codegen


def _changing(operation: str) -> Any:
    """A compiled function that changes a word of shared memory, atomically."""

    @intrinsic
    def change(typingctx: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.atomic_rmw(operation, _word(builder, args[0]), args[1], "monotonic")
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), codegen

    return change


_add, _set_bits = _changing("add"), _changing("or")
_digits_of = device_function(digits_of)

_SUMS = 3
"""Running sums of a thread."""
_MOST = 2.0**960
"""Numbers of at least this size go to the digits at once: running sums of smaller ones do not overflow."""


@device_function
def _add_exactly(first: int, value: float) -> None:
    """Add a float64, NaN and infinities too, to the fixed-point number whose digits start at `first`."""
    bits = _bits(value)
    if (bits >> 52) & 0x7FF == 0x7FF:
        _set_bits(first + 8 * SPECIAL, 1 if value != value else (2 if value > 0 else 4))
        return
    number, low, middle, high = _digits_of(bits)
    digit = first + 8 * number
    _add(digit, low)
    _add(digit + 8, middle)
    _add(digit + 16, high)


@device_function
def _two_sum(a: float, b: float) -> Any:
    """The rounded sum and its error. `dadd_rn` is not fused with a product, whatever the kernel allows."""
    total = dadd_rn(a, b)
    part = dadd_rn(total, -a)
    return total, dadd_rn(dadd_rn(a, -dadd_rn(total, -part)), dadd_rn(b, -part))


@device_function
def _insert(total: Any, value: float) -> Any:
    """Add a float64 to the running sums, and what they cannot hold to the digits."""
    first, a, b, c = total
    if abs(value) < _MOST:
        a, value = _two_sum(a, value)
        if value != 0.0:
            b, value = _two_sum(b, value)
            if value != 0.0:
                c, value = _two_sum(c, value)
    if value != 0.0:
        _add_exactly(first, value)
    return first, a, b, c


def _exact(kernel: Any, shape: Shape) -> Folding:
    width, threads = shape.x, shape.threads
    copies = -(-threads // WARP)
    digits = copies * WORDS
    accumulators = _accumulators(digits)

    @device_function
    def start() -> Any:
        thread = cuda.threadIdx.y * width + cuda.threadIdx.x
        first = accumulators()
        for i in range(thread, digits, threads):
            _write(first + 8 * i, 0)
        cuda.syncthreads()
        return first + 8 * WORDS * (thread // WARP), 0.0, 0.0, 0.0

    @device_function
    def step(total: Any, p: Any, args: Any) -> Any:
        return _insert(total, types.float64(kernel(p, *args)))

    @device_function
    def finish(words: Any, total: Any) -> None:
        thread = cuda.threadIdx.y * width + cuda.threadIdx.x
        lane = thread % WARP
        lanes = min(WARP, threads - (thread - lane))
        members, away = (1 << lanes) - 1, WARP // 2
        while away > 0:
            _, a, b, c = total
            for _ in range(_SUMS):
                other = cuda.shfl_down_sync(members, a, away)
                total = _insert(total, other if lane + away < lanes else 0.0)
                a, b, c = b, c, a
            away //= 2
        first, a, b, c = total
        if lane == 0:
            for _ in range(_SUMS):
                _add_exactly(first, a)
                a, b, c = b, c, a
        cuda.syncthreads()
        first -= 8 * WORDS * (thread // WARP)
        for i in range(thread, WORDS, threads):
            digit = _read(first + 8 * i)
            for copy in range(1, copies):
                other = _read(first + 8 * (copy * WORDS + i))
                digit = digit | other if i == SPECIAL else digit + other
            _put(words[RESULTS] + 8 * (WORDS * cuda.blockIdx.x + i), digit)

    return Folding(step, start, finish, "int64")
