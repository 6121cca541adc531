"""The places of a kernel's operands while it is translated: registers, variables, special registers."""

from __future__ import annotations

from dataclasses import dataclass, field

from gondwana_emulator.ptx import layout
from gondwana_emulator.ptx.inline import Kernel
from gondwana_emulator.ptx.operands import bits_of
from gondwana_emulator.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Variable,
)
from gondwana_emulator.ptx.writer import Writer, bits, integer, native

PROCESSORS = 4
"""Multiprocessors of the emulated device."""

_LANE = "and i64 {n}, 31"
_MASKS = {
    "%lanemask_eq": ("shl i64 1, {lane}",),
    "%lanemask_lt": ("shl i64 1, {lane}", "sub i64 {v}, 1"),
    "%lanemask_le": ("shl i64 2, {lane}", "sub i64 {v}, 1"),
    "%lanemask_gt": ("shl i64 2, {lane}", "sub i64 4294967296, {v}"),
    "%lanemask_ge": ("shl i64 1, {lane}", "sub i64 4294967296, {v}"),
}
_AXES = {
    "%tid": ("%T", layout.THREAD),
    "%ntid": ("%L", layout.BLOCK_SIZE),
    "%ctaid": ("%L", layout.BLOCK),
    "%nctaid": ("%L", layout.GRID_SIZE),
}
_CONSTANTS = {"%nsmid": PROCESSORS, "%gridid": 1}


@dataclass(slots=True)
class Spaces:
    """The places of variables.

    Attributes:
        local: offsets in the memory of a thread.
        shared: offsets in the shared memory of a block.
        parameters: offsets in the kernel's parameters.
        local_end: end of the memory of a thread.
        shared_end: start of dynamic shared memory.
        parameter_bytes: bytes of all parameters.
    """

    local: dict[str, int]
    shared: dict[str, int]
    parameters: dict[str, int]
    local_end: int
    shared_end: int
    parameter_bytes: int


def spaces_of(module: Module, kernel: Kernel) -> Spaces:
    """Place the variables of a kernel."""
    shared = [variable for variable in module.variables.values() if variable.space == "shared"]
    shared.extend(kernel.shared.values())
    local, local_end = _placed(list(kernel.slots.values()), layout.LOCAL_START)
    fixed, shared_end = _placed([variable for variable in shared if variable.size], layout.SHARED_START)
    parameters, parameter_end = _placed(kernel.parameters, 0)
    open_ended = [variable for variable in shared if not variable.size]
    shared_end = _aligned(shared_end, max((variable.align for variable in open_ended), default=1))
    fixed.update({variable.name: shared_end for variable in open_ended})
    return Spaces(local, fixed, parameters, _aligned(local_end, 16), shared_end, parameter_end)


def _placed(variables: list[Variable], start: int) -> tuple[dict[str, int], int]:
    places = {}
    for variable in variables:
        start = _aligned(start, variable.align)
        places[variable.name] = start
        start += variable.size
    return places, start


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align


@dataclass(slots=True)
class Context:
    """A kernel during its translation to LLVM.

    Attributes:
        spaces: places of its variables.
        symbols: variables of the module in memory of the device, in the order of the table of their addresses.
        code: code written so far.
        registers: LLVM's name for the home of each register.
        sites: instructions that may fail.
        hints: number of accesses that remember a row.
    """

    spaces: Spaces
    symbols: list[str]
    code: Writer = field(default_factory=Writer)
    registers: dict[Register, str] = field(default_factory=dict)
    sites: list[Instruction] = field(default_factory=list)
    hints: int = 0

    def home(self, register: Register) -> str:
        """Return the place of a register."""
        return self.registers.setdefault(register, f"%r{len(self.registers)}")

    def get(self, operand: Operand, kind: str) -> str:
        """Return the value of an operand.

        Raises:
            LookupError: the operand has no value.
        """
        width = bits(kind)
        match operand:
            case Immediate():
                value, have = str(bits_of(operand, width)), width
            case Register():
                have = bits(operand.kind)
                value = self.code.value(f"load i{have}, ptr {self.home(operand)}")
            case Negated(register):
                return self.code.value(f"xor i1 {self.get(register, 'pred')}, true")
            case Special(name):
                value, have = _read_special(self, name), 64
            case Symbol(name):
                value, have = self._address(name), 64
            case Address(base, offset) if base is not None:
                value, have = self.code.value(f"add i64 {self.get(base, 'u64')}, {offset}"), 64
            case _:
                raise LookupError("an operand has no value")
        value = self.code.resize(value, have, width)
        return self.code.convert("bitcast", integer(kind), value, native(kind))

    def put(self, operand: Operand, kind: str, value: str) -> None:
        """Write a register: narrow values are extended by the rule of their type."""
        if isinstance(operand, Pair):
            operand = operand.first
        if operand == Special("_"):
            return
        if not isinstance(operand, Register):
            raise LookupError("a result needs a register")
        value = self.code.convert("bitcast", native(kind), value, integer(kind))
        have, width = bits(kind), bits(operand.kind)
        value = self.code.resize(value, have, width, signed=kind[0] == "s")
        self.code.line(f"store i{width} {value}, ptr {self.home(operand)}")

    def _address(self, name: str) -> str:
        for places in (self.spaces.local, self.spaces.shared):
            if name in places:
                return str(places[name])
        if name not in self.symbols:
            raise LookupError(f"there is no variable {name}")
        table = self.word("%L", layout.SYMBOLS)
        place = self.code.value(f"inttoptr i64 {table} to ptr")
        return self.word(place, self.symbols.index(name))

    def word(self, table: str, number: int) -> str:
        """Return a word of the launch table, a frame or another table."""
        place = self.code.value(f"getelementptr i64, ptr {table}, i64 {number}")
        return self.code.value(f"load i64, ptr {place}")

    def set_word(self, table: str, number: int, value: str) -> None:
        """Write a word."""
        place = self.code.value(f"getelementptr i64, ptr {table}, i64 {number}")
        self.code.line(f"store i64 {value}, ptr {place}")

    def site(self, instruction: Instruction) -> int:
        """Return the number by which a failing instruction is reported."""
        self.sites.append(instruction)
        return len(self.sites) - 1

    def fail(self, site: int, address: str) -> None:
        """End the thread with a fault."""
        self.set_word("%L", layout.FAULT_SITE, str(site))
        self.set_word("%L", layout.FAULT_ADDRESS, address)
        self.code.line(f"ret i64 {layout.FAULT}")


def _read_special(context: Context, name: str) -> str:
    """Return a special register as an integer of 64 bits.

    Raises:
        LookupError: the register is unknown.
    """
    code = context.code
    base, _, axis = name.partition(".")
    if base in _AXES and axis in ("x", "y", "z"):
        table, first = _AXES[base]
        return context.word(table, first + "xyz".index(axis))
    if name in _CONSTANTS:
        return str(_CONSTANTS[name])
    if name in ("%clock", "%clock64", "%globaltimer", "%globaltimer_lo"):
        return code.call("llvm.readcyclecounter", "i64")
    if name == "%smid":
        return code.value(f"urem i64 {context.word('%L', layout.BLOCK)}, {PROCESSORS}")
    if name == "%dynamic_smem_size":
        return context.word("%L", layout.DYNAMIC_SHARED)
    if name == "%nwarpid":
        return _warps(context)
    number = context.word("%T", layout.NUMBER)
    lane = code.value(_LANE.format(n=number))
    if name == "%laneid":
        return lane
    if name == "%warpid":
        return code.value(f"lshr i64 {number}, 5")
    if name not in _MASKS:
        raise LookupError(f"this machine does not know the register {name}")
    value = ""
    for step in _MASKS[name]:
        value = code.value(step.format(lane=lane, v=value))
    return value


def _warps(context: Context) -> str:
    code = context.code
    x, y, z = (context.word("%L", layout.BLOCK_SIZE + axis) for axis in range(3))
    threads = code.value(f"mul i64 {code.value(f'mul i64 {x}, {y}')}, {z}")
    return code.value(f"lshr i64 {code.value(f'add i64 {threads}, 31')}, 5")
