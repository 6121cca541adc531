"""The lines of code of the programs beside the examples."""

from __future__ import annotations

import ast
from pathlib import Path

from gondwana.results import code_lines


def lines_of(program: Path, names: set[str] | None = None) -> int:
    """Return the lines of code of a program, with what it takes from the program by hand and what that needs.

    Args:
        program: the file.
        names: functions and constants that are counted; None: all of the program.
    """
    source = program.read_text("utf-8")
    lines, body = code_lines(source), ast.parse(source).body
    if names is None:
        found = len(lines)
        for node in body:
            if isinstance(node, ast.ImportFrom) and (other := program.with_name(f"{node.module}.py")).exists():
                found += lines_of(other, {alias.name for alias in node.names}) - 1
        return found
    counted: set[int] = set()
    for node in reversed(body):  # what a function needs stands above it
        used = {one.id: isinstance(one.ctx, ast.Store) for one in ast.walk(node) if isinstance(one, ast.Name)}
        made = {node.name} if isinstance(node, ast.FunctionDef) else {name for name, stored in used.items() if stored}
        if made & names:
            names = names | used.keys()
            parts: list[ast.stmt | ast.expr] = [node]
            parts += node.decorator_list if isinstance(node, ast.FunctionDef) else []
            first = min(one.lineno for one in parts)
            counted |= lines & set(range(first, (node.end_lineno or first) + 1))
    return len(counted)
