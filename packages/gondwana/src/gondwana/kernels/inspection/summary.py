"""The summary of an inspection, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gondwana.kernels.inspection.inspection import Inspection
    from gondwana.kernels.inspection.loops import Loop


def lines(code: Inspection) -> Iterator[str]:
    """Yield the lines of the summary. Local."""
    yield f"{code.name} for {code.target}"
    if code.loop is None:
        yield "  no loop that uses memory"
    else:
        yield f"  innermost loop: {_vectors(code.loop, gpu=bool(code.ptx))}"
        yield f"  {_work(code.loop)}"
    yield from _memory(code)
    yield from _registers(code)


def _vectors(loop: Loop, *, gpu: bool) -> str:
    at_once = f"{loop.points} points an iteration" if loop.points > 1 else "one point an iteration"
    parts = [] if gpu else [f"vectors of {loop.width}" if loop.vectorised else "not vectorised"]
    parts += [at_once] if loop.points else []
    parts += [f"calls {', '.join(loop.calls)}"] if loop.calls else []
    return ", ".join(parts) or "an unknown number of points an iteration"


def _work(loop: Loop) -> str:
    share, unit = (loop.points, "a point") if loop.points else (1, "an iteration")
    moved = [("loads", loop.loads, loop.loaded), ("stores", loop.stores, loop.stored)]
    figures = [f"{what} {count / share:.4g} ({nbytes / share:.4g} bytes)" for what, count, nbytes in moved]
    return f"{unit}: {', '.join(figures)}, floating-point operations {loop.flops / share:.4g}"


def _memory(code: Inspection) -> Iterator[str]:
    traffic = code.traffic
    if traffic is None:
        return
    total = traffic.read + traffic.written
    fetched = not code.ptx and traffic.written
    also = f"; {total + traffic.written} with the cache lines that stores fetch" if fetched else ""
    yield f"  memory: {total} bytes a point, {traffic.read} read and {traffic.written} written, each array once{also}"


def _registers(code: Inspection) -> Iterator[str]:
    if code.registers is not None:
        found = code.registers
        kind = f" ({found.kind})" if found.kind else ""
        yield (
            f"  registers: {found.vector} for vectors{kind}; {found.stack} of {found.instructions} instructions use "
            "the stack"
        )
    if code.declared:
        yield "  registers in PTX: " + ", ".join(f"{count} {kind}" for kind, count in code.declared.items())
    if code.resources is not None:
        of_thread = code.resources
        yield (
            f"  of a thread: {of_thread.registers} registers, {of_thread.local} bytes of local memory; of a block: "
            f"{of_thread.shared} bytes of shared memory"
        )
