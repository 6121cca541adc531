"""The innermost loops in assembly: registers and stack for x86-64 and AArch64, all figures for NVIDIA's PTX."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from gondwana.kernels.inspection.loops import Loop, innermost

_LABEL = re.compile(r"^(\.?L[\w.$]+):")
_JUMP = re.compile(r"^\s+(?:j\w+|b(?:\.\w+)?|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#\d+,)\s+(\.?L[\w.$]+)")
_VECTOR = re.compile(r"%([xyz]mm)(\d+)|\b([vz])(\d+)\.\d*[bhsd]\b")
_SASS_JUMP = re.compile(r"\bBRA\b.*`\((\.L_x_\d+)\)")
_SASS_STORE = re.compile(r"\bSTG((?:\.\w+)*)\s")
_SASS_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(?!NOP)([\w.]+)")
_STACK = re.compile(r"\(%rsp\b|\[sp\b")

_PTX_LABEL = re.compile(r"^(\$\w+):$", re.MULTILINE)
_BRANCH = re.compile(r"^(@!?%\w+ )?bra(\.uni)?\s+(\$\w+);")
_END = re.compile(r"^(ret|exit|trap)\b")
_MOVED = re.compile(r"^(?:@!?%\w+ )?(ld|st)\.global(?:\.\w+)*?(?:\.v(\d))?\.[busf](\d+)\s")
_FLOATING = re.compile(r"^(?:@!?%\w+ )?(add|sub|mul|div|fma|mad)(?:\.\w+)*\.f(?:16|32|64)\s")
_CALL = re.compile(r"^(?:@!?%\w+ )?call(?:\.uni)?\s.*?(\w+),?\s*$")
_DECLARED = re.compile(r"^\s*\.reg \.(\w+)\s+%\w+<(\d+)>;", re.MULTILINE)


class Registers(NamedTuple):
    """The registers and instructions of a loop.

    Attributes:
        vector: number of different vector registers.
        kind: name of the widest of them: xmm, ymm, zmm, v, z; "" without any.
        stack: number of instructions that use the stack, for values that found no register.
        instructions: number of all instructions.
    """

    vector: int
    kind: str
    stack: int
    instructions: int


def registers(text: str) -> Registers | None:
    """Return the figures of the loop with the most vector registers; None without a loop. Local.

    Args:
        text: the assembly.
    """
    found = [_described(body) for body in _innermost(text.splitlines())]
    return max(found, key=lambda loop: (loop.vector, loop.instructions), default=None)


def ptx_loops(text: str) -> list[Loop]:
    """Return the innermost loops of an entry, with an unknown number of points. Local.

    Args:
        text: the PTX.
    """
    blocks = _blocks(text)
    graph = _graph(blocks)
    return [
        _ptx_loop([line for name in blocks if name in names for line in blocks[name]]) for names in innermost(graph)
    ]


def ptx_registers(text: str) -> dict[str, int]:
    """Return the number of registers that PTX names of each type. Local.

    The device's assembler shares them between values: a kernel takes fewer.

    Example:
        >>> from gondwana.kernels.inspection.assembly import ptx_registers
        >>> ptx_registers("  .reg .pred %p<59>;")
        {'pred': 59}
    """
    return {kind: int(count) for kind, count in _DECLARED.findall(text)}


def sass_loop(text: str) -> tuple[Counter[str], int]:
    """Return how often each instruction is in the loop that stores most, and the bytes that it stores. Local.

    Without such a loop there are no instructions and no bytes.

    Args:
        text: machine code of a GPU, disassembled.
    """
    found = [(_stored(body), body) for body in _innermost(text.splitlines(), _SASS_JUMP)]
    stored, body = max(found, key=lambda one: one[0], default=(0, []))
    return Counter(one[1] for line in body if stored and (one := _SASS_INSTRUCTION.match(line))), stored


def _stored(body: list[str]) -> int:
    sizes = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
    stores = [found[1].split(".") for line in body if (found := _SASS_STORE.search(line))]
    return sum(next((sizes[word] for word in words if word in sizes), 4) for words in stores)


def _innermost(lines: list[str], jump: re.Pattern[str] = _JUMP) -> list[list[str]]:
    """The lines from a label to a jump back to it, with no other such pair between."""
    labels = {found[1]: number for number, line in enumerate(lines) if (found := _LABEL.match(line))}
    pairs = [
        (labels[found[1]], number)
        for number, line in enumerate(lines)
        if (found := jump.search(line)) and labels.get(found[1], number) < number
    ]
    inner = [
        (first, last)
        for first, last in pairs
        if not any((first, last) != other and first <= other[0] and other[1] <= last for other in pairs)
    ]
    return [lines[first : last + 1] for first, last in inner]


def _described(body: list[str]) -> Registers:
    used = [(x or v, x_number or v_number) for line in body for x, x_number, v, v_number in _VECTOR.findall(line)]
    return Registers(
        vector=len({number for _, number in used}),
        kind=max((kind for kind, _ in used), default=""),
        stack=sum(_STACK.search(line) is not None for line in body),
        instructions=sum(line.startswith("\t") and not line.startswith("\t.") for line in body),
    )


def _blocks(text: str) -> dict[str, list[str]]:
    """The instructions of each basic block by its label; blocks without one get one."""
    parts = _PTX_LABEL.split(text)
    blocks: dict[str, list[str]] = {}
    for label, body in zip(["", *parts[1::2]], parts[::2], strict=True):
        name = label
        blocks[name] = []
        for line in map(str.strip, body.splitlines()):
            blocks[name].append(line)
            if _BRANCH.match(line):
                name = f"{label} {len(blocks)}"
                blocks[name] = []
    return blocks


def _graph(blocks: dict[str, list[str]]) -> dict[str, list[str]]:
    names = list(blocks)
    graph = {}
    for name, following in zip(names, [*names[1:], None], strict=True):
        last = blocks[name][-1] if blocks[name] else ""
        branch = _BRANCH.match(last)
        targets = [branch[3]] if branch else []
        ends = any(map(_END.match, blocks[name])) or (branch is not None and branch[1] is None)
        graph[name] = targets + ([] if ends or following is None else [following])
    return graph


def _ptx_loop(lines: list[str]) -> Loop:
    moved = [(found[1], int(found[2] or 1), int(found[3]) // 8) for line in lines if (found := _MOVED.match(line))]

    def total(kind: str, *, nbytes: bool) -> int:
        return sum(count * (size if nbytes else 1) for name, count, size in moved if name == kind)

    floating = [found[1] for line in lines if (found := _FLOATING.match(line))]
    return Loop(
        points=0,
        width=max((count for _, count, _ in moved), default=1),
        loads=total("ld", nbytes=False),
        stores=total("st", nbytes=False),
        loaded=total("ld", nbytes=True),
        stored=total("st", nbytes=True),
        flops=sum(2 if name in ("fma", "mad") else 1 for name in floating),
        calls=tuple(dict.fromkeys(found[1] for line in lines if (found := _CALL.match(line)))),
    )
