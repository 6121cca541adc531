"""Functions that call themselves, or each other in a circle, in LLVM's intermediate code.

Of a function that calls itself some levels of the calls are inlined, which LLVM does not do. A call costs some
nanoseconds: an indirect jump, saved registers, the result and the error through memory. Where the function is as small
as that, several levels in one body save most of it, as they do in C with gcc.
"""

from __future__ import annotations

import re
from functools import partial

MOST_LINES = 1000
"""Lines of intermediate code that a function and its copies may have together."""
MOST_LEVELS = 4

_BY_NAME = re.compile(r'^(@"\.numba\.unresolved\$([^"\n]+)" = )external global ptr$', re.MULTILINE)
"""A variable through which Numba's code calls a function that has been under compilation when the caller was typed."""
_DEFINITION = re.compile(r'^define [^\n]*?@([\w.$]+|"[^"\n]+")\([^\n]*\{\n.*?^\}\n', re.MULTILINE | re.DOTALL)
_ATTRIBUTES = re.compile(r"( #\d+)?( \{\n)")


def with_levels_inlined(code: str) -> str:
    """Return intermediate code in which functions that call themselves have levels of these calls inlined. Local.

    Such a function calls a copy of itself, that another one, and the last one calls the function: all but the
    function are for the optimiser to inline.

    Args:
        code: LLVM's intermediate code of a module.
    """
    return _DEFINITION.sub(lambda found: _levels(found[0], found[1]), code)


def with_circles_closed(code: str) -> str:
    """Return intermediate code that refers to the functions which Numba would look for when it loads the code. Local.

    Args:
        code: LLVM's intermediate code of a module; they are defined there, or in one that the entry links.
    """
    names = {found[2] for found in _BY_NAME.finditer(code) if f"@{found[2]}(" not in code}
    declared = "".join(f'\ndeclare void @"{name}"()\n' for name in sorted(names))  # the linker knows the arguments
    return _BY_NAME.sub(r'\1linkonce_odr constant ptr @"\2"', code) + declared


def _levels(definition: str, name: str) -> str:
    head, body = definition.split("\n", 1)
    call = re.compile(rf"(\bcall [^\n]*@){re.escape(name)}(?=\()")
    calls = len(call.findall(body))
    levels = _fitting(calls, definition.count("\n"))
    if calls == 0 or levels == 0:
        return definition
    names = [name, *(_copy_of(name, level) for level in range(1, levels + 1)), name]
    parts = []
    for level in range(levels + 1):
        mine, following = names[level], names[level + 1]
        attribute = " alwaysinline" if level else " noinline"
        start = _ATTRIBUTES.sub(rf"{attribute}\2", head.replace(f"@{name}(", f"@{mine}(") + "\n")
        parts.append(start + call.sub(partial(_call_of, following), body))
    return "\n".join(parts)


def _call_of(name: str, found: re.Match[str]) -> str:
    return found[1] + name


def _fitting(calls: int, lines: int) -> int:
    """Return how many levels may be inlined: each has `calls` copies for each one of the level before."""
    levels, copies = 0, 1
    while levels < MOST_LEVELS and (copies := copies + calls ** (levels + 1)) * lines <= MOST_LINES:
        levels += 1
    return levels


def _copy_of(name: str, level: int) -> str:
    """Return a name that LLVM does not choose itself, as it does with a point before a number."""
    return f'{name[:-1]}_level{level}"' if name.endswith('"') else f"{name}_level{level}"
