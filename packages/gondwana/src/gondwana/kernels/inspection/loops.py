"""The innermost loops of compiled code, in any form of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Graph: TypeAlias = Mapping[str, Sequence[str]]
"""For each basic block, in the order of the text, the blocks that may follow."""


@dataclass(frozen=True)
class Loop:
    """An innermost loop: the work of one iteration of the compiled code.

    Attributes:
        points: number of iterations of the source that it does at once; 0 if unknown.
        width: number of elements of its widest vector, 1 without vectors.
        loads: elements loaded from memory.
        stores: elements stored.
        loaded: bytes loaded.
        stored: bytes stored.
        flops: floating-point operations; a fused multiply-add counts as two.
        calls: names of the functions that it calls.
    """

    points: int
    width: int
    loads: int
    stores: int
    loaded: int
    stored: int
    flops: int
    calls: tuple[str, ...] = ()

    @property
    def vectorised(self) -> bool:
        """Whether it computes several elements by one instruction."""
        return self.width > 1


def main_loop(loops: Sequence[Loop]) -> Loop | None:
    """Return the loop that does most of the work: the one with the widest vectors among those that use memory. Local.

    The others handle the rest if the number of points is not a multiple of a vector.
    """
    working = [loop for loop in loops if loop.loads or loop.stores]
    return max(working, key=lambda loop: (loop.width, loop.loads + loop.stores), default=None)


def innermost(graph: Graph) -> list[frozenset[str]]:
    """Return the blocks of each loop in which there is no other loop, in the order of the text. Local.

    Example:
        >>> from gondwana.kernels.inspection.loops import innermost
        >>> innermost({"rows": ["cells"], "cells": ["cells", "next"], "next": ["rows", "end"], "end": []})
        [frozenset({'cells'})]
    """
    loops = _natural_loops(graph)
    return [blocks for head, blocks in loops.items() if not any(other in blocks for other in loops if other != head)]


def _natural_loops(graph: Graph) -> dict[str, frozenset[str]]:
    """For each block that a later one jumps back to, the blocks between."""
    dominators = _dominators(graph)
    before = _predecessors(graph)
    loops: dict[str, frozenset[str]] = {}
    for block in dominators:
        for head in graph[block]:
            if head in dominators[block]:
                loops[head] = loops.get(head, frozenset()) | _between(head, block, before)
    order = list(graph)
    return dict(sorted(loops.items(), key=lambda item: order.index(item[0])))


def _between(head: str, last: str, before: Graph) -> frozenset[str]:
    found, left = {head}, [last]
    while left:
        block = left.pop()
        if block not in found:
            found.add(block)
            left += before[block]
    return frozenset(found)


def _predecessors(graph: Graph) -> dict[str, list[str]]:
    before: dict[str, list[str]] = {block: [] for block in graph}
    for block, following in graph.items():
        for other in following:
            before[other].append(block)
    return before


def _dominators(graph: Graph) -> dict[str, set[str]]:
    """For each reachable block, the blocks on every path to it."""
    entry = next(iter(graph))
    reached = _reached(graph, entry)
    before = _predecessors(graph)
    found = {block: set(reached) for block in reached} | {entry: {entry}}
    changed = True
    while changed:
        changed = False
        for block in reached[1:]:
            common = set.intersection(*(found[other] for other in before[block] if other in found)) | {block}
            changed |= common != found[block]
            found[block] = common
    return found


def _reached(graph: Graph, entry: str) -> list[str]:
    found, left = [entry], [entry]
    while left:
        new = [block for block in graph[left.pop()] if block not in found]
        found += dict.fromkeys(new)
        left += dict.fromkeys(new)
    return found
