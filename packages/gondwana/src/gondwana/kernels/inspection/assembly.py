"""Registers and stack of the innermost loops in assembly, of x86-64 and AArch64."""

from __future__ import annotations

import re
from typing import NamedTuple

_LABEL = re.compile(r"^(\.?L[\w.$]+):")
_JUMP = re.compile(r"^\s+(?:j\w+|b(?:\.\w+)?|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#\d+,)\s+(\.?L[\w.$]+)")
_VECTOR = re.compile(r"%([xyz]mm)(\d+)|\b([vz])(\d+)\.\d*[bhsd]\b")
_STACK = re.compile(r"\(%rsp\b|\[sp\b")


class Registers(NamedTuple):
    """What a loop takes of the processor.

    Attributes:
        vector: different vector registers.
        kind: name of the widest of them: xmm, ymm, zmm, v, z; "" if there is none.
        stack: instructions that use the stack, where values lie for which no register was left.
        instructions: in all.
    """

    vector: int
    kind: str
    stack: int
    instructions: int


def registers(text: str) -> Registers | None:
    """Return what the loop with the most vector registers takes; None if there is no loop. Local.

    Args:
        text: the assembly.
    """
    found = [_described(body) for body in _innermost(text.splitlines())]
    return max(found, key=lambda loop: (loop.vector, loop.instructions), default=None)


def _innermost(lines: list[str]) -> list[list[str]]:
    """The lines from a label to a jump back to it, where no other such pair is between."""
    labels = {found[1]: number for number, line in enumerate(lines) if (found := _LABEL.match(line))}
    pairs = [
        (labels[found[1]], number)
        for number, line in enumerate(lines)
        if (found := _JUMP.match(line)) and labels.get(found[1], number) < number
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
