"""Kernels that can run: translated, compiled, and started on a grid."""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from numpy.typing import NDArray

from gondwana.compiler import cache, linker
from gondwana.compiler.cache import toolchain
from gondwana.gpu.interface import CudaError, EntryFacts, Grid
from gondwana.runtime.later import ComputedOnce
from gondwana_emulator.ptx import layout
from gondwana_emulator.ptx.parse import parse
from gondwana_emulator.ptx.syntax import Instruction, Variable
from gondwana_emulator.ptx.translate import NAME, Translation, translate

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Launch:
    """The arguments of a kernel's start.

    Attributes:
        grid: blocks along x, y, z.
        block: threads along x, y, z.
        shared: bytes of dynamic shared memory.
        arguments: parameters of the kernel.
        rows: allocations, sorted: start, bytes, and difference to the real address; never empty.
        symbols: addresses of the module's variables by name.
        order: random numbers that decide the order of blocks and warps.
    """

    grid: Grid
    block: Grid
    shared: int
    arguments: bytes
    rows: Words
    symbols: Mapping[str, int]
    order: np.random.Generator


class Kernel:
    """A kernel of a program."""

    def __init__(self, name: str, translation: Translation) -> None:
        self.name = name
        self.translation = translation
        self.parameter_bytes = translation.spaces.parameter_bytes
        self.facts = EntryFacts(
            registers=translation.registers,
            local=translation.spaces.local_end - layout.LOCAL_START,
            shared=translation.spaces.shared_end - layout.SHARED_START,
            threads=translation.threads,
        )

    @ComputedOnce
    def _function(self) -> tuple[int, Any]:
        """The address of the machine code, and the object that keeps it in memory."""
        text = self.translation.text
        return linker.load(_kept("code", text, lambda: _compiled(text)), NAME)

    def run(self, launch: Launch) -> None:
        """Run it on a grid, to the end.

        Raises:
            CudaError: a thread did something illegal.
        """
        from gondwana_emulator.ptx.schedule import run_grid

        tables = _Tables(self.translation, launch)
        blocks, threads = _order(launch)
        status = run_grid(self._function[0], tables.launch, tables.frames, blocks, threads, tables.shared)
        if status != layout.DONE:
            raise self._fault(tables.launch, launch, stuck=status == layout.STUCK)

    def _fault(self, table: Words, launch: Launch, *, stuck: bool) -> CudaError:
        number, (width, height, _) = int(table[layout.FAULT_THREAD]), launch.block
        thread = (number % width, number // width % height, number // (width * height))
        block = tuple(int(value) for value in table[layout.BLOCK : layout.BLOCK + 3])
        where = f"kernel {self.name}, thread {thread}, block {block}"
        if stuck:
            return CudaError(f"CUDA_ERROR_LAUNCH_TIMEOUT: {where}: waits at a barrier or in its warp for ever")
        site = self.translation.sites[int(table[layout.FAULT_SITE])]
        return CudaError(f"{_explain(site, int(table[layout.FAULT_ADDRESS]), where)} (line {site.line}: {site.text})")


def _explain(site: Instruction, address: int, where: str) -> str:
    if site.opcode == "trap":
        return f"CUDA_ERROR_LAUNCH_FAILED: {where}: trap"
    size = access_bytes(site)
    what = {"ld": "load", "ldu": "load", "st": "store"}.get(site.opcode, "atomic operation")
    space = next((word for word in site.modifiers if word.startswith(("shared", "local", "param"))), "")
    space = f"{space.partition('::')[0]} " if space else ""
    if address % size:
        return f"CUDA_ERROR_MISALIGNED_ADDRESS: {where}: {size}-byte {what} at {address:#x} is not on {size} bytes"
    return f"CUDA_ERROR_ILLEGAL_ADDRESS: {where}: {size}-byte {what} at {address:#x} is outside of all {space}memory"


def access_bytes(site: Instruction) -> int:
    """Return the bytes that a load, a store or an atomic operation touches."""
    from gondwana_emulator.ptx.syntax import TYPES, size_of

    kind = next(word for word in reversed(site.modifiers) if word in TYPES)
    many = next((int(word[1:]) for word in site.modifiers if word in ("v2", "v4", "v8")), 1)
    return size_of(kind) * many


class _Tables:
    """The memory of a kernel's run."""

    def __init__(self, translation: Translation, launch: Launch) -> None:
        self._arguments = _buffer(max(len(launch.arguments), 8))
        self._arguments[: len(launch.arguments)] = np.frombuffer(launch.arguments, np.uint8)
        self._symbols = np.array([launch.symbols[name] for name in translation.symbols], np.int64)
        self._rows = launch.rows
        end = translation.spaces.shared_end + launch.shared
        self.shared = _buffer(end - layout.SHARED_START)
        self.launch = np.zeros(layout.HINTS + translation.hints, np.int64)
        self.launch[layout.PARAMETERS] = self._arguments.ctypes.data
        self.launch[layout.SHARED] = self.shared.ctypes.data
        self.launch[layout.SHARED_END] = end
        self.launch[layout.ROWS] = self._rows.ctypes.data
        self.launch[layout.ROW_COUNT] = len(self._rows)
        self.launch[layout.BLOCK_SIZE : layout.BLOCK_SIZE + 3] = launch.block
        self.launch[layout.GRID_SIZE : layout.GRID_SIZE + 3] = launch.grid
        self.launch[layout.DYNAMIC_SHARED] = launch.shared
        self.launch[layout.SYMBOLS] = self._symbols.ctypes.data
        self.launch[layout.HINTS :] = self._rows.ctypes.data
        self.frames = self._frames(translation.frame // 8, launch.block)

    @staticmethod
    def _frames(words: int, block: Grid) -> Words:
        count = block[0] * block[1] * block[2]
        frames = _buffer(8 * count * words).view(np.int64).reshape(count, words)
        number = np.arange(count)
        frames[:, layout.NUMBER] = number
        frames[:, layout.THREAD] = number % block[0]
        frames[:, layout.THREAD + 1] = number // block[0] % block[1]
        frames[:, layout.THREAD + 2] = number // (block[0] * block[1])
        return frames


def _buffer(nbytes: int) -> NDArray[np.uint8]:
    """Memory aligned to 128 bytes."""
    memory = np.empty(nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 128
    return memory[start : start + nbytes]


def _order(launch: Launch) -> tuple[Words, Words]:
    """Orders that no program may rely on: random for blocks, random by warps for threads."""
    blocks = launch.order.permutation(launch.grid[0] * launch.grid[1] * launch.grid[2])
    count = launch.block[0] * launch.block[1] * launch.block[2]
    warps = launch.order.permutation(-(-count // 32))
    threads = (32 * warps[:, None] + np.arange(32)).ravel()
    return blocks.astype(np.int64), threads[threads < count].astype(np.int64)


@dataclass(slots=True)
class Program:
    """A PTX text that can run.

    Attributes:
        kernels: kernels by name.
        variables: variables in memory of the device.
    """

    kernels: dict[str, Kernel] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)


@functools.lru_cache(maxsize=256)
def program_of(text: str) -> Program:
    """Return a text as a program; translations and machine code of one process are found on disk by others.

    Raises:
        InvalidPtxError: the text cannot run; the message names the line.
    """
    program: Program = pickle.loads(_kept("program", text, lambda: pickle.dumps(_translated(text))))
    return program


def _translated(text: str) -> Program:
    module = parse(text)
    program = Program()
    program.variables = [v for v in module.variables.values() if v.space in ("global", "const")]
    for function in module.functions.values():
        if function.entry:
            program.kernels[function.name] = Kernel(function.name, translate(module, function))
    return program


def _kept(what: str, text: str, build: Callable[[], bytes]) -> bytes:
    """The result of building from a text: from the disk, or built now."""
    name = hashlib.sha256("\0".join((_sources(), what, text)).encode()).hexdigest()
    found, _ = cache.get(name, lambda: cache.ObjectCode(build(), NAME, False, False, [], {}), "emulated-gpu")
    return found.code


@functools.cache
def _sources() -> str:
    """A digest of all that decides the results of building from a text."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(toolchain().encode() + b"".join(file.read_bytes() for file in files)).hexdigest()


def _machine() -> Any:
    """A back end for this processor; it belongs to its user."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True)


def _compiled(text: str) -> bytes:
    """Translate LLVM's language to machine code, with the few optimisations that pay at once."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    code: bytes = machine.emit_object(module)
    return code
