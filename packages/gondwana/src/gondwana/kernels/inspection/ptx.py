"""Loops in PTX, NVIDIA's assembly for all its devices."""

from __future__ import annotations

import re

from gondwana.kernels.inspection.loops import Loop, innermost

_LABEL = re.compile(r"^(\$\w+):$", re.MULTILINE)
_BRANCH = re.compile(r"^(@!?%\w+ )?bra(\.uni)?\s+(\$\w+);")
_END = re.compile(r"^(ret|exit|trap)\b")
_MOVED = re.compile(r"^(?:@!?%\w+ )?(ld|st)\.global(?:\.\w+)*?(?:\.v(\d))?\.[busf](\d+)\s")
_FLOATING = re.compile(r"^(?:@!?%\w+ )?(add|sub|mul|div|fma|mad)(?:\.\w+)*\.f(?:16|32|64)\s")
_CALL = re.compile(r"^(?:@!?%\w+ )?call(?:\.uni)?\s.*?(\w+),?\s*$")
_DECLARED = re.compile(r"^\s*\.reg \.(\w+)\s+%\w+<(\d+)>;", re.MULTILINE)


def loops(text: str) -> list[Loop]:
    """Return the innermost loops of an entry, with an unknown number of points. Local.

    Args:
        text: the PTX.
    """
    blocks = _blocks(text)
    graph = _graph(blocks)
    return [
        _described([line for name in blocks if name in names for line in blocks[name]]) for names in innermost(graph)
    ]


def declared(text: str) -> dict[str, int]:
    """Return how many registers PTX names of each type. Local.

    The device's assembler shares them out: a kernel takes fewer.

    Example:
        >>> from gondwana.kernels.inspection.ptx import declared
        >>> declared("  .reg .pred %p<59>;")
        {'pred': 59}
    """
    return {kind: int(count) for kind, count in _DECLARED.findall(text)}


def _blocks(text: str) -> dict[str, list[str]]:
    """The instructions of each basic block by its label; those without get one."""
    parts = _LABEL.split(text)
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


def _described(lines: list[str]) -> Loop:
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
