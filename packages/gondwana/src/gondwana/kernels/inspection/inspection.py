"""`gw.inspect`: the compiler's output for a kernel or a function, as text, in figures, and as a summary for people."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gondwana.compiler import linker
from gondwana.compiler.debugging.errors import as_seen_by_users
from gondwana.compiler.function import JitFunction, bind, check_host
from gondwana.compiler.types.arguments import array_specs, describe, working_precision
from gondwana.compiler.types.footprint import Footprint
from gondwana.compiler.types.records import named_dtype
from gondwana.domains import IndexSet
from gondwana.errors import KernelError, UsageError
from gondwana.gpu.bindings import assemble, disassembled
from gondwana.gpu.device import device
from gondwana.gpu.interface import EntryFacts
from gondwana.kernels.arguments import overlapping
from gondwana.kernels.backends import extents
from gondwana.kernels.foreach_kernels import NO_DOMAIN, Kernel
from gondwana.kernels.inspection import assembly, llvm_ir
from gondwana.kernels.inspection.assembly import Registers
from gondwana.kernels.inspection.loops import Loop, main_loop
from gondwana.kernels.variant import Variant
from gondwana.runtime import collector
from gondwana.runtime.shared_file import pages_of_arrays

Capability = tuple[int, int]


@dataclass(frozen=True)
class Traffic:
    """Bytes of memory for each point of a kernel, if caches hold everything that is used again.

    Attributes:
        read: bytes of the arrays that it reads, each once.
        written: bytes of the arrays that it writes.
    """

    read: int
    written: int


@dataclass(frozen=True)
class Inspection:
    """The compiler's output for a kernel or a function; `str()` is a summary.

    Attributes:
        name: name of the function.
        target: LLVM's name of this processor, or that of a GPU, such as "sm_90".
        llvm: LLVM's intermediate representation after its optimisations; "" for a GPU.
        asm: assembly of this processor; "" for a GPU.
        ptx: assembly of NVIDIA's GPUs; "" for the host.
        loop: the innermost loop that does most of the work; None if no loop uses memory.
        traffic: bytes of a point; None for a function of `gw.jit`, or if accesses depend on data.
        registers: registers of the loop on the host; None on a GPU, and without a loop.
        declared: registers that the PTX names, by type; empty for the host.
        sass: machine code of the GPU as text; "" for the host, and without the wheels of nvJitLink and nvdisasm.
        instructions: instructions of the loop in that text at a point; 0 if they are unknown.
        resources: resources of a thread, as nvJitLink's assembler reports them; None for the host, and without it.
    """

    name: str
    target: str
    llvm: str = ""
    asm: str = ""
    ptx: str = ""
    loop: Loop | None = None
    traffic: Traffic | None = None
    registers: Registers | None = None
    declared: Mapping[str, int] = field(default_factory=dict)
    sass: str = ""
    instructions: float = 0.0
    resources: EntryFacts | None = None

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def inspect(
    function: Kernel | JitFunction[..., Any], /, *args: Any, capability: Capability | None = None, **kwargs: Any
) -> Inspection:
    """Compile a kernel or a function as a call would, and return the code instead of running it. Local.

    Nothing is read from or written to the arguments, and the cache of machine code is not used.

    Args:
        function: a kernel of `gw.foreach` or `gw.reduce`, or a function of `gw.jit`.
        *args: as for a call: for a kernel the domain and its arguments after the point. The place of the arrays decides
            the target of the code.
        capability: compute capability of a GPU, such as (9, 0): compile a kernel for it, wherever the arrays lie. No
            GPU is needed.
        **kwargs: the same by name.

    Raises:
        UsageError: the function is none of these, or the code is wanted for a GPU that cannot run it.
        KernelError: the function does not compile for these arguments.

    Example:
        >>> import gondwana as gw
        >>> box = gw.RectDomain((0, 0), (64, 64))
        >>> a, b = gw.Array.zeros(box), gw.Array.zeros(box)
        >>> @gw.foreach
        ... def average(p, a, b):
        ...     a[p] = (b[p - gw.Y] + b[p + gw.Y]) / 2
        >>> code = gw.inspect(average, box.shrink(1), a, b)
        >>> code.loop.loads // code.loop.points, code.loop.stores // code.loop.points
        (2, 1)
        >>> code.traffic.read, code.traffic.written
        (8, 8)
    """
    linker.import_numba()
    try:
        with linker.preparing, collector.paused():
            if isinstance(function, Kernel):
                return _kernel(function, args[0] if args else NO_DOMAIN, args[1:], kwargs, capability)
            if isinstance(function, JitFunction):
                return _function(function, args, kwargs, capability)
    except KernelError as error:
        raise as_seen_by_users(error) from None
    raise UsageError(f"gw.inspect got {function!r}: give what gw.foreach, gw.reduce or gw.jit decorates")


def _function(
    function: JitFunction[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], capability: Capability | None
) -> Inspection:
    from gondwana.compiler.codegen import call_entry

    name = function.py_func.__qualname__
    if capability is not None:
        raise UsageError(f"{name} is a function of gw.jit, of which there is code for the host only: inspect a kernel")
    specs = tuple(describe(value)[0] for value in bind(function.py_func, args, kwargs))
    check_host(name, specs)
    entry, _ = call_entry(function.py_func, specs, working_precision(specs), reassociate=function.reassociate)
    return _on_host(name, entry, 1, None)


def _kernel(
    kernel: Kernel, domain: IndexSet, args: tuple[Any, ...], kwargs: dict[str, Any], capability: Capability | None
) -> Inspection:
    from gondwana.kernels.cpu.build import sweep_of

    variant, number, arrays = kernel.variant_of(domain, args, kwargs)
    if number is not None and capability is None:
        capability = device(number).facts.capability
    if capability is not None:
        return _on_gpu(kernel, replace(variant, reassociate=False, flush=kernel.flushes), domain, capability)
    sweep = sweep_of(kernel.py_func, variant)
    if overlapping(arrays, sweep.footprints):
        variant = replace(variant, disjoint=False)
        sweep = sweep_of(kernel.py_func, variant)
    return _on_host(kernel.py_func.__qualname__, sweep.entry, 3, _traffic(variant, sweep.footprints))


def _on_host(name: str, entry: Any, arguments: int, traffic: Traffic | None) -> Inspection:
    from llvmlite import binding

    from gondwana.compiler.codegen import listing

    llvm, asm = listing(entry, arguments)
    loop = main_loop(llvm_ir.loops(llvm))
    registers = None if loop is None else assembly.registers(asm)
    return Inspection(name, binding.get_host_cpu_name(), llvm, asm, loop=loop, traffic=traffic, registers=registers)


def _on_gpu(kernel: Kernel, variant: Variant, domain: IndexSet, capability: Capability) -> Inspection:
    from gondwana.kernels.cuda.launch import compiler_needed
    from gondwana.kernels.cuda.tuner import shape_for

    with compiler_needed():
        from gondwana.kernels.cuda.build import build

    shape = shape_for(variant, extents(variant, domain)).over(dense=variant.dense)
    code = build(kernel.py_func, variant, shape, capability)
    text, about = code.code.decode(), code.about["footprints"]
    footprints = {int(slot): Footprint(**found) for slot, found in about.items()}  # type: ignore[attr-defined]
    loop = main_loop(assembly.ptx_loops(text))
    written = sum(footprint.written for footprint in footprints.values())
    if loop is not None and written and loop.stores % written == 0:
        loop = replace(loop, points=loop.stores // written)  # each point stores into each array that is written
    traffic = _traffic(variant, footprints)
    sass, resources = "", None
    with contextlib.suppress(UsageError):  # without nvJitLink
        machine_code, of_kernels = assemble(code.code, capability)
        sass, resources = disassembled(machine_code), of_kernels[code.symbol]
    return Inspection(
        kernel.py_func.__qualname__,
        "sm_{}{}".format(*capability),
        ptx=text,
        loop=loop,
        traffic=traffic,
        declared=assembly.ptx_registers(text),
        sass=sass,
        instructions=_a_point(assembly.sass_loop(sass), traffic),
        resources=resources,
    )


def _a_point(loop: tuple[Counter[str], int], traffic: Traffic | None) -> float:
    """The instructions of a loop at a point, 0 if they are unknown."""
    instructions, stored = loop
    return instructions.total() * traffic.written / stored if traffic is not None and stored else 0.0


def _traffic(variant: Variant, footprints: dict[int, Footprint]) -> Traffic | None:
    specs = array_specs(variant.specs)
    if not all(f.bounded and specs[slot].ndim == variant.ndim for slot, f in footprints.items()):
        return None
    sizes = {slot: named_dtype(specs[slot].dtype).itemsize for slot in footprints}
    return Traffic(
        sum(sizes[slot] for slot, footprint in footprints.items() if footprint.read),
        sum(sizes[slot] for slot, footprint in footprints.items() if footprint.written),
    )


def _lines(code: Inspection) -> Iterator[str]:
    """Yield the lines of the summary. Local."""
    yield f"{code.name} for {code.target}"
    if code.loop is None:
        yield "  no loop that uses memory"
    else:
        yield f"  innermost loop: {_vectors(code.loop, gpu=bool(code.ptx))}"
        yield f"  {_work(code.loop)}"
    yield from _memory_line(code)
    if not code.ptx:
        pages = [f"{size} in {place} memory" for place, size in pages_of_arrays().items()]
        yield f"  pages of large arrays: {', '.join(pages)}"
    yield from _registers_lines(code)


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


def _memory_line(code: Inspection) -> Iterator[str]:
    traffic = code.traffic
    if traffic is None:
        return
    total = traffic.read + traffic.written
    fetched = not code.ptx and traffic.written
    also = f"; {total + traffic.written} with the cache lines that stores fetch" if fetched else ""
    yield f"  memory: {total} bytes a point, {traffic.read} read and {traffic.written} written, each array once{also}"


def _registers_lines(code: Inspection) -> Iterator[str]:
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
    if code.instructions:
        yield f"  instructions of the loop: {code.instructions:.4g} a point"
