"""Loops in LLVM's intermediate representation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gondwana.kernels.inspection.loops import Loop, innermost

_FUNCTION = re.compile(r"^define [^\n]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAME = r'[\w.$-]+|"[^"]*"'
_LABEL = re.compile(rf"^({_NAME}):", re.MULTILINE)
_TARGET = re.compile(rf"\blabel %({_NAME})")
_MOVED = re.compile(
    r"= load (?:volatile |atomic )*(?P<load>[^,]+),|^ *store (?:volatile |atomic )*(?P<store><[^>]+>|\w+) "
)
_MASKED = re.compile(r"@llvm\.masked\.(load|gather|expandload|store|scatter|compressstore)\.v(\d+)([if]\d+)")
_VECTOR = re.compile(r"<(\d+) x (\w+)>")
_FLOATING = re.compile(r"= (?:tail )?(?:f(?:add|sub|mul|div|rem)|call [^@]*@llvm\.(?P<fused>fma|fmuladd)\.)")
_CALL = re.compile(r"\bcall [^@]*@([\w.$]+|\"[^\"]*\")\(")
_STEP = re.compile(rf"%({_NAME}) = add (?:nuw |nsw )*i\d+ %({_NAME}), (-?\d+)$", re.MULTILINE)
_COMPARED = re.compile(rf"= icmp [^\n]*?%({_NAME})(?:, (?:%({_NAME})|-?\d+))?")
_PHI = re.compile(rf"%({_NAME}) = phi i\d+ ")
_BYTES = {
    "double": 8,
    "float": 4,
    "half": 2,
    "ptr": 8,
    "i64": 8,
    "i32": 4,
    "i16": 2,
    "i8": 1,
    "i1": 1,
    "f64": 8,
    "f32": 4,
}


def loops(text: str) -> list[Loop]:
    """Return the innermost loops of all functions of a module. Local.

    Args:
        text: the optimised module.
    """
    return [loop for function in _FUNCTION.findall(text) for loop in _loops_of(function)]


def _loops_of(function: str) -> Iterator[Loop]:
    blocks = _blocks(function)
    graph = {name: [other for other in _TARGET.findall(body) if other in blocks] for name, body in blocks.items()}
    for names in innermost(graph):
        yield _described([blocks[name] for name in blocks if name in names])


def _blocks(function: str) -> dict[str, str]:
    """The basic blocks by name; the first one may have none."""
    parts = _LABEL.split(function)
    named = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {"": parts[0], **named} if parts[0].strip() else named


def _described(bodies: Sequence[str]) -> Loop:
    lines = "\n".join(bodies).splitlines()
    moved = {"load": [0, 0], "store": [0, 0]}
    for line in lines:
        found = _access(line)
        if found is not None:
            kind, count, nbytes = found
            moved[kind][0] += count
            moved[kind][1] += count * nbytes
    return Loop(
        points=_points("\n".join(lines)),
        width=max((int(count) for line in lines for count, kind in _VECTOR.findall(line) if kind != "i1"), default=1),
        loads=moved["load"][0],
        stores=moved["store"][0],
        loaded=moved["load"][1],
        stored=moved["store"][1],
        flops=sum(map(_flops, lines)),
        calls=tuple(dict.fromkeys(name for line in lines for name in _CALL.findall(line) if _is_call(name))),
    )


def _access(line: str) -> tuple[str, int, int] | None:
    """Whether an instruction loads or stores, the number of elements, and the bytes of one."""
    masked = _MASKED.search(line)
    if masked is not None:
        kind = "load" if masked[1] in ("load", "gather", "expandload") else "store"
        return kind, int(masked[2]), _BYTES.get(masked[3], 8)
    found = _MOVED.search(line)
    if found is None:
        return None
    count, name = _elements(found["load"] or found["store"])
    return ("load" if found["load"] else "store"), count, _BYTES.get(name, 8)


def _elements(kind: str) -> tuple[int, str]:
    vector = _VECTOR.match(kind)
    return (int(vector[1]), vector[2]) if vector else (1, kind)


def _flops(line: str) -> int:
    found = _FLOATING.search(line)
    if found is None:
        return 0
    vector = _VECTOR.search(line)
    return (int(vector[1]) if vector else 1) * (2 if found["fused"] else 1)


def _is_call(name: str) -> bool:
    return not name.startswith("llvm.")


def _points(body: str) -> int:
    """The step of the counter that ends the loop; 0 if unknown."""
    counters = set(_PHI.findall(body))
    steps = {}
    for result, counter, step in _STEP.findall(body):
        if counter in counters:
            steps[result] = steps[counter] = abs(int(step))
    compared = [steps[name] for names in _COMPARED.findall(body) for name in names if name in steps]
    return max(compared, default=0)
