"""MPI in compiled code: calls of its C functions, teams and requests, without the interpreter and without the GIL.

Every argument of a call travels as a 64-bit integer with a sign: a pointer, a handle, an `int` or an `MPI_Aint`. On
Linux the calling conventions of x86-64 and AArch64 give each of them a register or eight bytes of the stack, and a
function that takes an `int` looks at the low 32 bits only, so no prototypes are needed.

A request is an integer, which keeps the memory that it reads or writes alive until it has been waited for: the address
of a block with MPI's request and the owner of the memory, either a reference to an array that compiled code has made,
or the count of `objects`. So it may be stored, returned, and waited for anywhere, even if the variables of the function
that started it are gone. A request that is never waited for keeps the memory for ever, as MPI may use it for ever.

Imports Numba.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload_attribute
from numba.np import arrayobj, numpy_support

from gondwana.compiler.inlining import INLINED, inlined
from gondwana.compiler.memory_order import (
    compare_exchange,
    declare,
    exchange,
    fetch_add_word,
    futex_wait,
    futex_wake,
    load_word,
    store_release,
)
from gondwana.compiler.mpi import objects, table
from gondwana.compiler.mpi.table import LOANS, TURN
from gondwana.compiler.types.handle_types import family_type, handle_word, is_handle
from gondwana.compiler.types.points import INT

_WORD = 8
_OWNER, _RELEASE, _BLOCK = _WORD, 2 * _WORD, objects.MESSAGE_AT + 5 * _WORD
"""Offsets in a block of the memory's owner and of the function that gives up a reference to it, or 0; and its bytes.
MPI's request comes first, and what it is for last."""

_FREE, _TAKEN, _AWAITED = range(3)
"""Values of the word by which threads take turns: nobody has the turn, one has it, and perhaps others sleep."""

_BYTES = cgutils.voidptr_t

TeamType = family_type("team")

_INT32 = ir.IntType(32)

table.register()  # Numba links what it compiles for its own use, too


def mpi_call(name: str) -> Any:
    """Return a function for compiled code that calls `MPI_<name>` and returns MPI's error code.

    Args:
        name: one of `table.FUNCTIONS`. The arguments are those of C, as int64.

    Example:
        >>> barrier = mpi_call("Barrier")
    """
    count = table.FUNCTIONS[name]

    @intrinsic
    def invoke(typingctx: Any, packed: Any) -> Any:
        if len(packed) != count or not all(isinstance(kind, types.Integer) for kind in packed):
            raise TypingError(f"MPI_{name} takes {count} integers, not {packed}")

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            members = enumerate(packed)
            words = [
                context.cast(builder, builder.extract_value(values[0], index), kind, types.int64)
                for index, kind in members
            ]
            prototype = ir.FunctionType(_INT32, [INT] * count)
            function = builder.inttoptr(_entry(builder, name), prototype.as_pointer())
            return builder.sext(builder.call(function, words), INT)

        return types.int64(packed), codegen

    @inlined
    def call(*args: int) -> int:
        return invoke(args)  # type: ignore[no-any-return]

    return call


def checked_call(name: str) -> Any:
    """Return a function like that of `mpi_call` that raises RuntimeError in compiled code if MPI returns an error.

    Args:
        name: one of `table.FUNCTIONS`.
    """
    call = mpi_call(name)
    message = f"MPI_{name} failed; the same operation called from Python says more"

    @inlined
    def run(*args: int) -> None:
        if call(*args) != 0:
            raise RuntimeError(message)

    return run


def completed_call(name: str) -> Any:
    """Return a function like that of `checked_call` that completes the operation, on its window and at its target.

    Threads take turns, since two that are in such operations at the same time take some twenty times as long in Open
    MPI. One that waits for its turn sleeps: the processor may be needed at the target.

    Args:
        name: an operation on a window.
    """
    call, flush = mpi_call(name), mpi_call("Win_flush")
    target = 4 if name == "Compare_and_swap" else 3
    message = f"MPI_{name} failed; the same operation called from Python says more"

    @inlined
    def run(*args: int) -> None:
        turn = _turn()
        if compare_exchange(turn, _FREE, _TAKEN) != _FREE:
            while exchange(turn, _AWAITED) != _FREE:
                futex_wait(turn, _AWAITED)
        failed = call(*args) != 0 or flush(args[target], args[-1]) != 0
        if exchange(turn, _FREE) == _AWAITED:
            futex_wake(turn, 1)
        if failed:
            raise RuntimeError(message)

    return run


def mpi_constant(name: str) -> Any:
    """Return a function for compiled code that returns an entry of the table: a handle or a constant.

    Args:
        name: an operation ("SUM"), a dtype for the handle of its datatype ("float64"), "IN_PLACE", "STATUS" or another
            of `table.SLOTS`.
    """

    @intrinsic
    def constant(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _entry(builder, name)

        return types.int64(), codegen

    return constant


_turn = mpi_constant(TURN)


@intrinsic
def datatype_of(typingctx: Any, value: Any) -> Any:
    """The handle of the MPI datatype of a number, or of the elements of an array."""
    dtype = numpy_support.as_dtype(types.unliteral(getattr(value, "dtype", value))).name

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _entry(builder, dtype)

    return types.int64(value), codegen


def check_team(kind: Any) -> None:
    """Refuse, at compile time, an argument that is not a team. Local.

    Raises:
        TypingError: the argument is not a team.
    """
    if not is_handle(kind, "team"):
        raise TypingError(f"the first argument is {kind}: give a team, such as gw.world, passed as an argument")


def has_mpi(kind: Any) -> bool:
    """Return whether the type of a team has MPI; a team without it has a single rank. Local."""
    return bool(kind.parameters == ("mpi",))


@inlined
def communicator(team: Any) -> int:
    """The handle of the communicator of a team."""
    return handle_word(team, 0)  # type: ignore[no-any-return]


@inlined
def memory_on_node(team: Any) -> int:
    """The address of the memory that all ranks of the team share for small collectives, 0 without any."""
    return handle_word(team, 3)  # type: ignore[no-any-return]


@inlined
def ranks_in_world(team: Any) -> int:
    """The address of the world ranks of the ranks of the team."""
    return handle_word(team, 4)  # type: ignore[no-any-return]


@overload_attribute(TeamType, "rank", jit_options=INLINED)
def _rank(team: Any) -> Any:
    def read(team: Any) -> int:
        return handle_word(team, 1)  # type: ignore[no-any-return]

    return read


@overload_attribute(TeamType, "size", jit_options=INLINED)
def _size(team: Any) -> Any:
    def read(team: Any) -> int:
        return handle_word(team, 2)  # type: ignore[no-any-return]

    return read


_COUNT = mpi_constant(LOANS)


@intrinsic
def new_request(typingctx: Any) -> Any:
    """Allocate the block of a request; MPI's request is stored at its address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = declare(builder, "malloc", ir.FunctionType(_BYTES, [INT]))
        block = builder.call(function, [INT(_BLOCK)])
        builder.store(INT(0), builder.bitcast(block, INT.as_pointer()))  # MPI's request may be of 32 bits
        return builder.ptrtoint(block, INT)

    return types.int64(), codegen


@inlined
def lend_arguments() -> int:
    """Count an operation on memory of Python's objects; return the address of the count, to decrement at its end."""
    count = _COUNT()
    fetch_add_word(count, 1)
    return count  # type: ignore[no-any-return]


@inlined
def describe(request: int, *words: int) -> None:
    """Write down what a request is for: see `objects.MESSAGE_AT`."""
    place = request + objects.MESSAGE_AT
    for word in words:
        store_release(place, word)
        place += _WORD


@inlined
def lend(request: int, array: Any) -> int:
    """Keep the memory of an array until a request has been waited for; return the request."""
    owner = _hold(request, array, _COUNT())
    if owner != 0:
        fetch_add_word(owner, 1)
    return request


@inlined
def give_back(request: int) -> None:
    """Release the memory that a completed request has kept, and the request."""
    if load_word(request + _RELEASE) == 0:
        fetch_add_word(load_word(request + _OWNER), -1)
    _free(request)


@intrinsic
def _hold(typingctx: Any, request: Any, array: Any, count: Any) -> Any:
    """Write the owner of the memory of an array into the block of a request; return the count, 0 if it is an array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block, value, counted = args

        def write(owner: Any, release: Any) -> None:
            for offset, word in ((_OWNER, owner), (_RELEASE, release)):
                builder.store(word, builder.inttoptr(builder.add(block, INT(offset)), INT.as_pointer()))

        if not isinstance(array, types.Array):  # of ours: they come from Python
            write(counted, INT(0))
            return counted
        info = arrayobj.make_array(array)(context, builder, value).meminfo
        owned = cgutils.is_not_null(builder, info)
        with builder.if_else(owned) as (then, otherwise):
            with then:
                context.nrt.incref(builder, array, value)
                release = cgutils.get_or_insert_function(
                    builder.module, ir.FunctionType(ir.VoidType(), [_BYTES]), "NRT_decref"
                )
                write(builder.ptrtoint(info, INT), builder.ptrtoint(release, INT))
            with otherwise:
                write(counted, INT(0))
        return builder.select(owned, INT(0), counted)

    return types.int64(types.int64, array, types.int64), codegen


@intrinsic
def _free(typingctx: Any, request: Any) -> Any:
    """Give up the reference that a block holds, if any, and its memory."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        owner, release = (
            builder.load(builder.inttoptr(builder.add(args[0], INT(offset)), INT.as_pointer()))
            for offset in (_OWNER, _RELEASE)
        )
        function = ir.FunctionType(ir.VoidType(), [_BYTES])
        with builder.if_then(builder.icmp_unsigned("!=", release, INT(0))):
            builder.call(builder.inttoptr(release, function.as_pointer()), [builder.inttoptr(owner, _BYTES)])
        builder.call(declare(builder, "free", function), [builder.inttoptr(args[0], _BYTES)])
        return context.get_dummy_value()

    return types.none(types.int64), codegen


def _entry(builder: Any, name: str) -> Any:
    """Load one word of the table."""
    module = builder.module
    if table.SYMBOL in module.globals:
        words = module.globals[table.SYMBOL]
    else:
        words = ir.GlobalVariable(module, ir.ArrayType(INT, len(table.SLOTS)), table.SYMBOL)
    zero, place = ir.Constant(ir.IntType(32), 0), ir.Constant(ir.IntType(32), table.SLOTS[name])
    return builder.load(builder.gep(words, [zero, place]))
