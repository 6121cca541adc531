"""Basic blocks of a kernel, and the registers that are alive where its threads wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gondwana_emulator.ptx.inline import Kernel
from gondwana_emulator.ptx.syntax import (
    Address,
    Instruction,
    InvalidPtxError,
    Label,
    Names,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

WAITING = {"bar", "barrier", "shfl", "vote", "match", "redux"}
"""Instructions at which threads wait for others."""

_LEAVING = {"bra", "brx", "ret", "exit", "trap"}
_ADVICE = {"membar", "fence", "prefetch", "prefetchu", "discard", "applypriority", "nanosleep"}
_NO_RESULT = _LEAVING | _ADVICE | {"st", "red"}


@dataclass(slots=True)
class Block:
    """Instructions without a branch into or out of them, other than the last.

    Attributes:
        instructions: instructions in order.
        successors: numbers of the blocks that may follow.
        alive: registers that are read here or later before they are written.
    """

    instructions: list[Instruction] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)
    alive: frozenset[Register] = frozenset()


def blocks_of(kernel: Kernel) -> tuple[list[Block], dict[str, int]]:
    """Return the blocks of a kernel in order, and the number of the block that each label starts."""
    blocks, labels = [Block()], {}
    for item in kernel.body:
        if isinstance(item, Label):
            if blocks[-1].instructions:
                blocks.append(Block())
            labels[item.name] = len(blocks) - 1
        else:
            blocks[-1].instructions.append(item)
            if item.opcode in _LEAVING or waits(item):
                blocks.append(Block())
    for number, block in enumerate(blocks):
        block.successors = list(_successors(kernel, block, number, labels))
    blocks[-1].successors = [after for after in blocks[-1].successors if after < len(blocks)]
    _find_alive(blocks)
    return blocks, labels


def waits(instruction: Instruction) -> bool:
    """Return whether threads wait for others at an instruction."""
    return instruction.opcode in WAITING


def _successors(kernel: Kernel, block: Block, number: int, labels: dict[str, int]) -> Iterator[int]:
    last = block.instructions[-1] if block.instructions else None
    if last is not None and last.opcode in ("bra", "brx"):
        yield from (labels[name] for name in targets(kernel, last, labels))
    if last is None or last.guard is not None or last.opcode not in _LEAVING:
        yield number + 1


def targets(kernel: Kernel, branch: Instruction, labels: dict[str, int]) -> tuple[str, ...]:
    """Return the labels that a branch may lead to."""
    last = branch.operands[-1]
    name = last.name if isinstance(last, Symbol) else ""
    names = kernel.tables.get(name, ()) if branch.opcode == "brx" else (name,)
    if not names or not all(label in labels for label in names):
        raise InvalidPtxError("a branch to nowhere", branch.line, branch.text)
    return names


def registers_in(operand: Operand | None) -> Iterator[Register]:
    """Give the registers of an operand."""
    match operand:
        case Register():
            yield operand
        case Address(base, _):
            if isinstance(base, Register):
                yield base
        case Vector(parts) | Names(parts):
            for part in parts:
                yield from registers_in(part)
        case Pair(first, second):
            yield from registers_in(first)
            yield from registers_in(second)
        case Negated(register):
            yield register


def result_of(instruction: Instruction) -> Operand | None:
    """Return the operand that an instruction writes."""
    if instruction.opcode in _NO_RESULT or not instruction.operands:
        return None
    if instruction.opcode in ("bar", "barrier") and "red" not in instruction.modifiers:
        return None
    return instruction.operands[0]


def _find_alive(blocks: list[Block]) -> None:
    effects = [_effects(block) for block in blocks]
    changed = True
    while changed:
        changed = False
        for block, (reads, writes) in zip(reversed(blocks), reversed(effects), strict=True):
            later = frozenset().union(*(blocks[after].alive for after in block.successors))
            alive = reads | (later - writes)
            if alive != block.alive:
                block.alive, changed = alive, True


def _effects(block: Block) -> tuple[frozenset[Register], frozenset[Register]]:
    """Registers that a block reads before it writes them, and those that it certainly writes."""
    reads: set[Register] = set()
    writes: set[Register] = set()
    for instruction in block.instructions:
        result = result_of(instruction)
        used = instruction.operands if result is None else instruction.operands[1:]
        for operand in (instruction.guard, *used):
            reads.update(set(registers_in(operand)) - writes)
        if result is not None and instruction.guard is None:
            writes.update(registers_in(result))
    return frozenset(reads), frozenset(writes)
