"""Lines of code by their purpose, counted as the Titanium study counts them."""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LINE_KINDS = ("communication", "computation", "declarations")
"""Purposes of lines of code, as the Titanium study divides them."""

_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}


def count_lines(parts: Mapping[str, Sequence[object]], without: re.Pattern[str] | None = None) -> dict[str, int]:
    """Count lines of code by kind, without blank lines, comments and docstrings. Local.

    As the Titanium study did (UCB/EECS-2006-5, figure 2).

    Args:
        parts: functions, classes or modules by kind; compiled functions count as written. A part inside another one, as
            a method in a class, is counted once, as the kind that lists it itself.
        without: pattern of lines that are not counted, such as those of timers.
    """
    by_kind = {kind: [_source(part, without) for part in parts.get(kind, ())] for kind in LINE_KINDS}
    own = [place for places in by_kind.values() for place in places]
    return {
        kind: len({line for place in places for line in place - _inside(place, own)})
        for kind, places in by_kind.items()
    }


def code_lines(source: str) -> set[int]:
    r"""Return the numbers of the lines with code, from 1. Local.

    Example:
        >>> sorted(code_lines("def f():\n    '''Two.'''\n    # why\n    return 2\n"))
        [1, 4]
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - _docstrings(ast.parse(source))


def _docstrings(tree: ast.AST) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        # A string that stands alone says something and does nothing, after a constant, too.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def _source(part: Any, without: re.Pattern[str] | None) -> frozenset[tuple[str, int]]:
    plain = inspect.unwrap(getattr(part, "py_func", part))
    text, first = inspect.getsourcelines(plain)
    kept = code_lines(textwrap.dedent("".join(text)))
    if without is not None:
        kept = {line for line in kept if not without.search(text[line - 1])}
    return frozenset((inspect.getfile(plain), line + max(first, 1) - 1) for line in kept)


def _inside(place: frozenset[tuple[str, int]], all_: Iterable[frozenset[tuple[str, int]]]) -> set[tuple[str, int]]:
    return {line for other in all_ if other < place for line in other}
