"""``gondwana inspect``: what the compiler makes of a kernel or a function."""

from __future__ import annotations

import importlib
import os
import re
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from gondwana.cli import programs
from gondwana.cli.argument_types import arguments_of
from gondwana.errors import UsageError

HOPPER = (9, 0)
"""The compute capability for which PTX is made where there is no GPU."""

_MODULE = "__inspected__"
"""Name of a module that is given by its file, which may have the name of another."""


def inspect(
    target: Annotated[
        str,
        typer.Argument(
            metavar="KERNEL", help="MODULE:NAME or FILE.py:NAME of a kernel or a function of gw.jit; or gray-scott."
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ARGS]...", help="Types of the arguments after the point, such as 'float64[:,:,:]' float."
        ),
    ] = None,
    llvm: Annotated[bool, typer.Option("--llvm", help="Print LLVM's intermediate representation, optimised.")] = False,
    asm: Annotated[bool, typer.Option("--asm", help="Print the assembly of this processor.")] = False,
    ptx: Annotated[bool, typer.Option("--ptx", help="Print the PTX of a GPU; none needs to be there.")] = False,
    capability: Annotated[
        str | None, typer.Option(metavar="X.Y", help="Compile for GPUs of this compute capability, such as 9.0.")
    ] = None,
    order: Annotated[str, typer.Option(metavar="C|F", help="Which axis of the arrays is contiguous.")] = "C",
) -> None:
    """Compile a kernel and print a summary of its innermost loop, or the whole code. Runs nothing but the module.

    Types: float64[:,:] is an array on a domain for a kernel, a NumPy array for a function of gw.jit (gw.float64[:,:]
    and np.float64[:,:] say which); float32, int64 and so on are NumPy scalars; float, int, bool, None and numbers are
    Python's; Rates(float, float) is a named tuple of the module. For an application the arguments are those of
    gondwana run.
    """
    import gondwana as gw

    if order not in ("C", "F"):
        raise UsageError(f"--order {order}: legal are C (the last axis is contiguous) and F (the first one)")
    wanted = _capability(capability, ptx=ptx)
    if wanted is not None and (llvm or asm):
        raise UsageError("--llvm and --asm show code for the host: leave out --ptx and --capability")
    if programs.is_program(target):
        function, given = _of_application(target, arguments or [])
    else:
        module, function = _found(target)
        given = arguments_of(function, module, arguments or [], order)
    code = gw.inspect(function, *given, capability=wanted)
    texts = [text for text, chosen in ((code.llvm, llvm), (code.asm, asm), (code.ptx, ptx)) if chosen]
    typer.echo("\n".join(texts) if texts else str(code))


def _capability(text: str | None, *, ptx: bool) -> tuple[int, int] | None:
    """The compute capability to compile for, None for the host."""
    if text is None:
        return _of_first_gpu() or HOPPER if ptx else None
    found = re.fullmatch(r"(?:sm_)?(\d{1,2})\.?(\d)", text, re.ASCII)
    if found is None:
        raise UsageError(f"--capability {text}: legal is a compute capability such as 9.0")
    return int(found[1]), int(found[2])


def _of_first_gpu() -> tuple[int, int] | None:
    from gondwana.gpu.device import device, device_count

    try:
        return device(0).facts.capability if device_count() else None
    except UsageError:  # CUDA cannot be used here
        return None


def _of_application(name: str, arguments: list[str]) -> tuple[Any, tuple[Any, ...]]:
    inspected = getattr(programs.program(name), "inspected", None)
    if inspected is None:
        module = programs.program(name).__name__
        raise UsageError(f"{name} does not name one kernel: give MODULE:NAME, such as {module}:KERNEL")
    function, domain, given = inspected(arguments)
    return function, (domain, *given)


def _found(target: str) -> tuple[ModuleType, Any]:
    """The module and the kernel that a user names."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        *others, last = ["MODULE:NAME", "FILE.py:NAME", *_inspectable()]
        legal = f"{target}: legal are {', '.join(others)} and {last}"
        raise UsageError(programs.missing(target, programs.PROGRAMS) or legal)
    module = _of_file(place) if place.endswith(".py") else _of_name(place)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise UsageError(f"{target}: {place} has no {name}; its kernels and functions are {_kernels(module)}")
    return module, found


def _inspectable() -> list[str]:
    return [name for name in programs.added(programs.PROGRAMS) if hasattr(programs.program(name), "inspected")]


def _kernels(module: ModuleType) -> str:
    from gondwana.compiler.function import Compilable
    from gondwana.kernels.foreach_kernels import Kernel

    names = [name for name, value in vars(module).items() if isinstance(value, Kernel | Compilable)]
    return ", ".join(names) or "none"


def _of_name(name: str) -> ModuleType:
    """Import a module as `python -m` finds it."""
    if not programs.has_module(name):
        raise UsageError(f"{name}: there is no such module, neither in the current folder nor in this environment")
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"{name}: there is no module {error.name}") from None


def _of_file(name: str) -> ModuleType:
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"{name}: there is no such file")
    sys.path.insert(0, str(path.resolve().parent))
    module = ModuleType(_MODULE)
    module.__file__ = name
    sys.modules[_MODULE] = module
    SourceFileLoader(_MODULE, name).exec_module(module)
    return module
