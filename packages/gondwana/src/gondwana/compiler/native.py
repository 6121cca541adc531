"""Gondwana's own compiled helpers: named by module and function, so that a source is imported only to compile it."""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gondwana.compiler.cache import ObjectCode

BYTES_AT = bytes.__basicsize__ - 1
"""Where in a bytes object its bytes are: `id(data) + BYTES_AT` is their address, a tenth of the time of ctypes."""
LENGTH_AT = object.__basicsize__
"""Where in a bytes object its length is: CPython's ABI has it first after what every object has."""
TYPE_AT = object.__basicsize__ - 8
"""Where in an object the address of its type is: CPython's ABI has it last in what every object has."""
DATA_AT = object.__basicsize__
"""Where in an ndarray the address of its elements is: NumPy's ABI has it first after what every object has."""

_WORTH_LOADING = 2000
"""Calls after which machine code is loaded even if nothing else needs it: 50 MB, and a tenth of a second."""


def pays_off(calls: int) -> bool:
    """Return whether it pays to use machine code for what so many calls have done without. Local."""
    return calls > _WORTH_LOADING or has_machine_code()


def has_machine_code() -> bool:
    """Return whether this process has loaded what machine code takes. Local."""
    return "llvmlite.binding" in sys.modules


class Native:
    """A function of 64-bit integers, compiled once and then loaded. Local, runs without the GIL unless it is brief.

    Args:
        module: dotted name of the module that holds its Python source (imports Numba).
        name: the function in it.
        arguments: how many integers it takes.
        brief: whether it returns within some microseconds. Then it keeps the GIL, and a call costs a sixth.
        objects: how many of its last arguments are addresses of objects, for which `call` takes the objects; brief.
        makes_object: whether it returns the address of an object, which `call` then returns; brief.
    """

    def __init__(
        self,
        module: str,
        name: str,
        arguments: int,
        *,
        brief: bool = False,
        objects: int = 0,
        makes_object: bool = False,
    ) -> None:
        self.module = module
        self.name = name
        self.arguments = arguments
        self._brief, self._objects, self._makes_object = brief or objects > 0 or makes_object, objects, makes_object

    @functools.cached_property
    def call(self) -> Any:
        """The C function, compiled or loaded at the first use."""
        # Here, since most ranks that start do without machine code.
        from gondwana.compiler import direct_calls, linker

        address = linker.link(self.code())
        if self._brief:
            return direct_calls.builtin_at(
                address, self.arguments, self.name, self._objects, makes_object=self._makes_object
            )
        return linker.callable_at(address, self.arguments)

    def code(self) -> ObjectCode:
        """Return the machine code, from the cache or compiled now. Local."""
        from gondwana.compiler.function import obtain

        build = functools.partial(_build, self.module, self.name, self.arguments)
        return obtain(("native", self.module, self.name), build, f"{__name__}._build", f"{self.module}.{self.name}")

    @property
    def address(self) -> int:
        """Where the machine code of `call` is, for compiled code."""
        return ctypes.cast(self.call, ctypes.c_void_p).value or 0


def _build(module: str, name: str, arguments: int) -> ObjectCode:
    from gondwana.compiler.codegen import compile_entry

    return compile_entry(getattr(importlib.import_module(module), name), arguments, helper=True)
