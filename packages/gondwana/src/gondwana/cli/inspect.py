"""``gondwana inspect``: the compiler's output for a kernel or a function, for arguments of types that users write."""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import typer

from gondwana.arrays import Array
from gondwana.cli import programs
from gondwana.compiler.types.records import DTYPES
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.kernels.foreach_kernels import Kernel

HOPPER = (9, 0)
"""The compute capability for which PTX is made without a GPU."""

_MODULE = "__inspected__"
"""Name of a module that is given by its file, which may have the name of another."""

_SIDES = {1: 4096, 2: 512, 3: 130, 4: 34}
"""Points along each axis of the arrays, by their number of axes: long rows, and little memory."""

_PLAIN: dict[str, Any] = {"float": 1.5, "int": 3, "bool": True, "complex": 1.5 + 0.5j}
_LEGAL = (
    "legal are float64[:,:] and the like, NumPy's names of numbers, float, int, bool, complex, None, numbers, tuples, "
    "and named tuples of the module"
)


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
    sass: Annotated[
        bool, typer.Option("--sass", help="Print the machine code of a GPU; none needs to be there.")
    ] = False,
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
    wanted = _capability(capability, gpu=ptx or sass)
    if wanted is not None and (llvm or asm):
        raise UsageError("--llvm and --asm show code for the host: leave out --ptx, --sass and --capability")
    if programs.is_program(target):
        function, given = _of_application(target, arguments or [])
    else:
        module, function = _found(target)
        given = arguments_of(function, module, arguments or [], order)
    code = gw.inspect(function, *given, capability=wanted)
    if sass and not code.sass:
        raise UsageError("--sass needs NVIDIA's disassembler: pip install nvidia-cuda-nvdisasm")
    shown = (code.llvm, llvm), (code.asm, asm), (code.ptx, ptx), (code.sass, sass)
    texts = [text for text, chosen in shown if chosen]
    typer.echo("\n".join(texts) if texts else str(code))


def _capability(text: str | None, *, gpu: bool) -> tuple[int, int] | None:
    """The compute capability to compile for, None for the host."""
    if text is None:
        return _of_first_gpu() or HOPPER if gpu else None
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


def arguments_of(function: Any, module: ModuleType, texts: list[str], order: str) -> tuple[Any, ...]:
    """Return arguments for `gw.inspect`, for a kernel with the domain. Local.

    Args:
        function: a kernel, or a function of `gw.jit`.
        module: module in which named tuples are looked up.
        texts: the types, one for each argument.
        order: memory order of the arrays, "C" or "F".

    Raises:
        UsageError: a text is not a type, or a kernel gets no array, so that its domain is not known.
    """
    is_kernel = isinstance(function, Kernel)
    domains: list[RectDomain] = []

    def array(dtype: str, ndim: int, place: str | None) -> Any:
        if ndim not in _SIDES:
            raise UsageError(f"an array of {ndim} axes: legal are 1 to {max(_SIDES)}")
        shape = (_SIDES[ndim],) * ndim
        if place == "np" or (place is None and not is_kernel):
            return np.zeros(shape, dtype, order=order)  # type: ignore[call-overload]
        domains.append(RectDomain((0,) * ndim, shape))
        return Array.zeros(domains[-1], dtype, order=order)  # type: ignore[arg-type]

    values = tuple(_Reader(text, module, array).value() for text in texts)
    _check_number(function, values, is_kernel=is_kernel)
    if not is_kernel:
        return values
    if not domains:
        raise UsageError(
            f"{function.py_func.__qualname__} runs over a domain, which is that of its first array: give its arguments "
            "after the point, such as 'float64[:,:,:]'"
        )
    return domains[0].shrink(1), *values


def _check_number(function: Any, values: tuple[Any, ...], *, is_kernel: bool) -> None:
    """Refuse too many or too few arguments."""
    if not hasattr(function, "py_func"):
        return  # no kernel at all, which `gw.inspect` refuses
    try:
        signature(function.py_func).bind(*[None] * is_kernel, *values)
    except TypeError as error:
        name, after = function.py_func.__qualname__, " after the point" if is_kernel else ""
        raise UsageError(f"{name}: {error}; give a type for each argument{after}") from None


class _Reader:
    """Reads one type."""

    def __init__(self, text: str, module: ModuleType, array: Callable[[str, int, str | None], Any]) -> None:
        self._text = text
        self._module = module
        self._array = array

    def value(self) -> Any:
        """A value of the type."""
        try:
            tree = ast.parse(self._text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._wrong() from None
        return self._of(tree)

    def _of(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name) if name in _PLAIN:
                return _PLAIN[name]
            case ast.Name(id=name) if name in DTYPES:
                return np.dtype(name).type(1)
            case ast.Constant(value=value) if value is None or isinstance(value, bool | int | float | str):
                return value
            case ast.Tuple(elts=items):
                return tuple(map(self._of, items))
            case ast.Subscript(value=ast.Name(id=name), slice=axes) if name in DTYPES:
                return self._array(name, self._axes(axes), None)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=place), attr=name), slice=axes):
                if place in ("gw", "np") and name in DTYPES:
                    return self._array(name, self._axes(axes), place)
            case ast.Call(func=ast.Name(id=name), args=items, keywords=[]):
                return self._named_tuple(name, list(map(self._of, items)))
        raise self._wrong()

    def _axes(self, axes: ast.expr) -> int:
        each = axes.elts if isinstance(axes, ast.Tuple) else [axes]
        if not all(isinstance(axis, ast.Slice) and axis.lower is axis.upper is axis.step is None for axis in each):
            raise self._wrong()
        return len(each)

    def _named_tuple(self, name: str, items: list[Any]) -> Any:
        cls = getattr(self._module, name, None)
        if not (isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")):
            raise UsageError(f"{self._text}: the module has no named tuple {name}")
        try:
            return cls(*items)
        except TypeError:
            raise UsageError(f"{self._text}: {name} has {len(cls._fields)} members, not {len(items)}") from None

    def _wrong(self) -> UsageError:
        return UsageError(f"{self._text!r} is no type of an argument: {_LEGAL}")
