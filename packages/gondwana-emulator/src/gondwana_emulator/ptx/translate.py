"""From a kernel to a function in LLVM's language, which runs one thread until it waits or ends."""

from __future__ import annotations

from dataclasses import dataclass

from gondwana_emulator.ptx import layout
from gondwana_emulator.ptx.context import Context, Spaces, spaces_of
from gondwana_emulator.ptx.flow import Block, blocks_of, registers_in, result_of, targets, waits
from gondwana_emulator.ptx.inline import Kernel, flatten
from gondwana_emulator.ptx.instructions import bitwise, conversions, floats, integers, memory
from gondwana_emulator.ptx.instructions.table import Statement
from gondwana_emulator.ptx.instructions.warps import answer, wait
from gondwana_emulator.ptx.syntax import Function, Instruction, Module, Register, Special
from gondwana_emulator.ptx.writer import bits

TABLES = (bitwise, conversions, floats, integers, memory)
"""The modules whose import fills the table of operations."""

NAME = "thread"
"""The name of the function."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A kernel in LLVM's language.

    Attributes:
        text: text of a module with one function, `NAME`, of the launch table and the frame, which returns the reason
            for its return.
        spaces: places of the variables of the kernel.
        symbols: names of the module's variables, in the order of the table of their addresses.
        sites: instructions, by the numbers in reports of faults.
        hints: words after `layout.HINTS` in the launch table.
        frame: bytes of the frame of a thread; its own memory is at the end.
        waits: whether its threads may wait for each other.
        threads: most threads of a block.
        registers: approximate number of registers of 32 bits that are alive at once.
    """

    text: str
    spaces: Spaces
    symbols: tuple[str, ...]
    sites: tuple[Instruction, ...]
    hints: int
    frame: int
    waits: bool
    threads: int
    registers: int


def translate(module: Module, function: Function) -> Translation:
    """Translate a kernel.

    Raises:
        InvalidPtxError: the kernel has something that this machine does not know.
    """
    kernel = flatten(module, function)
    symbols = [variable.name for variable in module.variables.values() if variable.space in ("global", "const")]
    context = Context(spaces_of(module, kernel), symbols)
    return _Translator(kernel, context).translation()


class _Translator:
    def __init__(self, kernel: Kernel, context: Context) -> None:
        self.kernel = kernel
        self.context = context
        self.code = context.code
        self.blocks, self.labels = blocks_of(kernel)
        self.resumes: list[str] = []
        self.saved = 0

    def translation(self) -> Translation:
        for number, block in enumerate(self.blocks):
            self.code.start(f"b{number}")
            self._block(number, block)
        local = -(-(layout.SAVED + self.saved) // 2) * 16
        spaces = self.context.spaces
        text = "\n".join([
            "!0 = !{!\"branch_weights\", i32 1, i32 2000}",
            f"define i64 @{NAME}(ptr noalias %L, ptr noalias %T) {{",
            *self._entry(local),
            *self.code.lines,
            "}",
            *self.code.declarations.values(),
        ])  # fmt: skip
        return Translation(
            text, spaces, tuple(self.context.symbols), tuple(self.context.sites), self.context.hints,
            local + spaces.local_end - layout.LOCAL_START, bool(self.resumes), self.kernel.threads,
            self._pressure(),
        )  # fmt: skip

    def _pressure(self) -> int:
        words = (sum(max(bits(register.kind) // 32, 1) for register in block.alive) for block in self.blocks)
        return min(255, 8 + max(words))

    def _entry(self, local: int) -> list[str]:
        """Places of the registers; the optimiser makes real ones of them."""
        homes = self.context.registers.items()
        lines = ["  %carry = alloca i1", "  store i1 false, ptr %carry"]
        lines += [f"  {home} = alloca i{bits(register.kind)}" for register, home in homes]
        lines += [f"  store i{bits(register.kind)} 0, ptr {home}" for register, home in homes]
        lines += [f"  %memory = getelementptr i8, ptr %T, i64 {local}"]
        cases = " ".join(f"i64 {number + 1}, label %{label}" for number, label in enumerate(self.resumes))
        return [*lines, "  %resume = load i64, ptr %T", f"  switch i64 %resume, label %b0 [ {cases} ]"]

    def _block(self, number: int, block: Block) -> None:
        ended = False
        for instruction in block.instructions:
            statement = Statement(instruction, self.context)
            skip = self._guard(instruction)
            try:
                ended = self._instruction(number, statement)
            except LookupError as error:
                raise statement.wrong(str(error.args[0])) from None
            if skip:
                self._join(skip, ended=ended)
                ended = False
        if not ended:
            last = number + 1 == len(self.blocks)
            self.code.line(f"ret i64 {layout.DONE}" if last else f"br label %b{number + 1}")

    def _guard(self, instruction: Instruction) -> str:
        if instruction.guard is None:
            return ""
        code = self.code
        taken, skip = code.fresh(), code.fresh()
        code.line(f"br i1 {self.context.get(instruction.guard, 'pred')}, label %{taken}, label %{skip}")
        code.start(taken)
        return skip

    def _join(self, skip: str, *, ended: bool) -> None:
        if not ended:
            self.code.line(f"br label %{skip}")
        self.code.start(skip)

    def _instruction(self, number: int, statement: Statement) -> bool:
        """Write an instruction; return whether the block ends with it."""
        instruction = statement.instruction
        if waits(instruction):
            self._wait(number, statement)
        elif statement.opcode in ("bra", "brx"):
            self._branch(statement)
        elif statement.opcode in ("ret", "exit"):
            self.code.line(f"ret i64 {layout.DONE}")
        elif statement.opcode == "trap":
            self.context.fail(self.context.site(instruction), "0")
        elif statement.opcode == "activemask":
            # Threads run one by one: each is alone, wherever it is.
            self.context.put(statement.operand(0), "b32", self.code.resize(
                self.context.get(Special("%lanemask_eq"), "u64"), 64, 32))  # fmt: skip
            return False
        else:
            statement.translate()
            return False
        return True

    def _branch(self, statement: Statement) -> None:
        names = targets(self.kernel, statement.instruction, self.labels)
        blocks = [f"label %b{self.labels[name]}" for name in names]
        if statement.opcode == "bra":
            self.code.line(f"br {blocks[0]}")
            return
        cases = " ".join(f"i32 {place}, {block}" for place, block in enumerate(blocks))
        self.code.line(f"switch i32 {statement.get(0, 'u32')}, {blocks[0]} [ {cases} ]")

    def _wait(self, number: int, statement: Statement) -> None:
        """Save the live registers, return, and continue here when called again."""
        code, context = self.code, self.context
        status, kind = wait(statement)
        if statement.rest:
            raise statement.wrong(f"this machine does not know .{statement.rest[0]}")
        label = code.fresh()
        self.resumes.append(label)
        context.set_word("%T", layout.RESUME, str(len(self.resumes)))
        alive = self._alive_after(number, statement.instruction)
        self.saved = max(self.saved, len(alive))
        for place, register in enumerate(alive):
            value = code.value(f"load i{bits(register.kind)}, ptr {context.home(register)}")
            context.set_word("%T", layout.SAVED + place, code.resize(value, bits(register.kind), 64))
        code.line(f"ret i64 {status}")
        code.start(label)
        for place, register in enumerate(alive):
            value = code.resize(context.word("%T", layout.SAVED + place), 64, bits(register.kind))
            code.line(f"store i{bits(register.kind)} {value}, ptr {context.home(register)}")
        answer(statement, kind)
        code.line(f"br label %b{number + 1}")

    def _alive_after(self, number: int, instruction: Instruction) -> list[Register]:
        written = set(registers_in(result_of(instruction)))
        alive = self.blocks[number + 1].alive - written
        return sorted(alive)
