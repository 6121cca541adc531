"""The resources of kernels in every shape that a trial on a GPU may take, from the assembler: no GPU is needed.

Usage: PYTHONPATH=tests python tests/support/gpu_shapes.py [--capability 9.0] [--all | --guess] [--json FILE]. It prints
a line for each kernel and shape: registers, blocks of a multiprocessor, bytes on the stack and in shared memory, and
instructions at a point. Without --all only the guess and the shapes one choice away from it; with --guess only that.
--json adds the rows as a result to a collection, where it replaces that of the same --when.
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import gondwana as gw
from gondwana.compiler.types.arguments import describe
from gondwana.gpu.bindings import assemble, disassembled
from gondwana.kernels.arguments import kernel_arrays
from gondwana.kernels.cuda import tuner
from gondwana.kernels.cuda.build import build, build_pair
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.inspection import assembly
from gondwana.kernels.intermediate import bytes_kept, numbered
from gondwana.kernels.variant import Variant
from gondwana.results import write_json
from gondwana_apps.grayscott.kernels import Noise, Rates, react_and_diffuse
from gondwana_bench.stencil import sweep7, sweep27
from support.by_hand import recording

NAME = "gpu-code"
BOX = gw.RectDomain((0, 0, 0), (256, 256, 256))
THREADS = 2048
SHARED = 228 << 10
KINDS = {
    "loads": r"LDG",
    "stores": r"STG",
    "shared": r"LDS|STS",
    "floating": r"[DF](ADD|MUL|FMA|SETP|SET|MNMX)|MUFU",
    "moves": r"U?MOV|IMAD\.MOV|CS2R|R2UR|U?LDC|SEL|FSEL",
    "control": r"BRA|BAR|BSSY|BSYNC|WARPSYNC|CALL|RET|EXIT|BREAK",
    "integers": r"",
}
"""Instructions by their purpose: the first pattern that fits decides; the last kind has addresses and indices, too."""
RATES = Rates(0.02, 0.048, 0.2, 0.1, 1.0)
NOISE = Noise(0.1, 7, 1)


@dataclass(frozen=True)
class Case:
    """A kernel, or the two of a fused pair, for some arguments.

    Attributes:
        name: name in the table.
        functions: the kernel, or both.
        variant: arguments, as the library sees them.
        count: number of the arguments of the first kernel of a pair; 0: there is one kernel.
        written: bytes that a point writes.
    """

    name: str
    functions: tuple[FunctionType, ...]
    variant: Variant
    count: int
    written: int

    @property
    def kept(self) -> int | None:
        """Bytes of the intermediates at a point; None without a pair."""
        return bytes_kept(self.variant.specs) if self.count else None

    @property
    def guess(self) -> Shape:
        """The shape without a trial."""
        choose = tuner.pair_shape_for if self.count else tuner.shape_for
        return choose(self.variant, BOX.shape)

    def shapes(self, *, every: bool) -> Iterator[Shape]:
        """The guess and the shapes near it, or all that a trial may reach."""
        axes = tuner.PAIR if self.count else tuner.SINGLE
        yield self.guess
        if not every:
            for choices in axes:
                yield from tuner.candidates(self.guess, choices, BOX.shape, self.kept)
            return
        for choice in itertools.product(*([{}, *choices] for choices in axes if "steps" not in choices[0])):
            merged = {name: value for part in choice for name, value in part.items()}
            yield from tuner.candidates(self.guess, [merged], BOX.shape, self.kept)

    def built(self, shape: Shape, capability: tuple[int, int]) -> Result:
        """Compile and assemble the kernel."""
        if self.count:
            first, second = self.functions
            code = build_pair((first, second), self.count, self.variant, shape, capability)
        else:
            code = build(self.functions[0], self.variant, shape, capability)
        image, resources = assemble(code.code, capability)
        found = resources[code.symbol]
        a_thread = -(-found.registers // 8) * 8
        blocks = min(
            tuner.REGISTERS // (a_thread * shape.threads), THREADS // shape.threads, SHARED // (found.shared + 1024)
        )
        instructions, stored = assembly.sass_loop(disassembled(image))
        kinds: Counter[str] = Counter()
        for opcode, count in instructions.items():
            kinds[next(kind for kind, pattern in KINDS.items() if re.match(pattern, opcode))] += count
        share = self.written / max(stored, 1)
        return Result(
            self.name,
            ".".join(map(str, capability)),
            shape,
            found.registers,
            blocks,
            found.local,
            found.shared,
            round(instructions.total() * share, 1),
            {kind: round(kinds[kind] * share, 1) for kind in KINDS},
            tuner.is_sound(shape, found),
        )


@dataclass(frozen=True)
class Result:
    """What the assembler made of a kernel in a shape.

    Attributes:
        kernel: name of the case.
        capability: compute capability.
        shape: shape of the launches.
        registers: registers of a thread.
        blocks: blocks that a multiprocessor holds at once.
        local_bytes: bytes of a thread on its stack.
        shared_bytes: bytes of a block in shared memory.
        instructions: instructions of the main loop at a point; 0 if they are unknown.
        kinds: the same by purpose.
        is_sound: whether a trial may choose it.
    """

    kernel: str
    capability: str
    shape: Shape
    registers: int
    blocks: int
    local_bytes: int
    shared_bytes: int
    instructions: float
    kinds: dict[str, float]
    is_sound: bool


def cases() -> Iterator[Case]:
    """The kernels of the applications and of the benchmark that GPUs run most."""
    for dtype in ("float64", "float32"):
        u = gw.Array.zeros(BOX, dtype)
        size = u.dtype.itemsize
        for name, kernel, args, written in (
            ("Gray-Scott", react_and_diffuse, (u, u, u, u, RATES, None), 2),
            ("Gray-Scott with noise", react_and_diffuse, (u, u, u, u, RATES, NOISE), 2),
            ("7 points", sweep7, (u, u, 0.5, 0.1), 1),
            ("27 points", sweep27, (u, u, 0.5, 0.1, 0.1, 0.1), 1),
        ):
            variant, _, _ = kernel.variant_of(BOX, args, {})
            variant = replace(variant, reassociate=False, flush=kernel.flushes)
            yield Case(f"{name}, {dtype}", (kernel.py_func,), variant, 0, written * size)
        between = gw.Intermediate(dtype), gw.Intermediate(dtype)
        both = (*between, u, u, RATES, None), (u, u, *between, RATES, None)
        specs = numbered(tuple(describe(value)[0] for value in (*both[0], *both[1])), {})
        alike = tuple(0 for _ in kernel_arrays((*both[0], *both[1])))
        variant = Variant(specs, 3, "C", True, alike, True, None, react_and_diffuse.contract, flush=True)
        functions = (react_and_diffuse.py_func,) * 2
        yield Case(f"two Gray-Scott steps, {dtype}", functions, variant, len(both[0]), 2 * size)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--capability", nargs="+", default=["9.0"])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--guess", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--when", default="now")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for capability, case in itertools.product(options.capability, cases()):
        if options.only not in case.name:
            continue
        major, minor = map(int, capability.split("."))
        for shape in [case.guess] if options.guess else case.shapes(every=options.all):
            one = case.built(shape, (major, minor))
            found.append(one)
            words = f"{shape.x}x{shape.y} lanes {shape.lanes} held {shape.held:d} ahead {shape.ahead} "
            words += f"resident {shape.resident} streamed {shape.streamed:d}"
            print(
                f"{one.capability} {one.kernel:28} {words:56} {one.registers:4} registers {one.blocks} blocks "
                f"{one.local_bytes:5} B stack {one.shared_bytes:6} B shared {one.instructions:6} a point {one.kinds}"
                f"{'' if one.is_sound else ' not taken'}",
                flush=True,
            )
    if options.json:
        _add(options.json, options.when, found)


def _add(file: Path, when: str, found: list[Result]) -> None:
    """Put a result with a row for each kernel and shape into a collection, in the place of that of the same time."""
    rows = [
        {
            "when": when,
            "kernel": one.kernel,
            "capability": one.capability,
            "shape": f"{one.shape.x} x {one.shape.y}, {one.shape.lanes}",
            **{name: getattr(one, name) for name in ("registers", "blocks", "local_bytes", "shared_bytes")},
            "instructions": one.instructions,
            **one.kinds,
        }
        for one in found
    ]
    collection = "kernels in the code of GPUs"
    write_json(file, recording.merged(file, rows, NAME, ("when",), collection, verified=True))


if __name__ == "__main__":
    main()
