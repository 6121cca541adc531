"""Gondwana's own compiled helpers: named by module and function, so that a source is imported only to compile it."""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any

from gondwana.compiler import cache, linker
from gondwana.compiler.function import obtain


class Native:
    """A function of 64-bit integers, compiled once and then loaded. Local, runs without the GIL.

    Args:
        module: dotted name of the module that holds its Python source (imports Numba).
        name: the function in it.
        arguments: how many integers it takes.
    """

    def __init__(self, module: str, name: str, arguments: int) -> None:
        self.module = module
        self.name = name
        self.arguments = arguments

    @functools.cached_property
    def call(self) -> Any:
        """The C function, compiled or loaded at the first use."""
        code = obtain(("native", self.module, self.name), self._build)
        return linker.callable_at(linker.link(code), self.arguments)

    @property
    def address(self) -> int:
        """Where the machine code of `call` is, for compiled code."""
        return ctypes.cast(self.call, ctypes.c_void_p).value or 0

    def _build(self) -> cache.ObjectCode:
        from gondwana.compiler.codegen import compile_entry

        return compile_entry(getattr(importlib.import_module(self.module), self.name), self.arguments, helper=True)
