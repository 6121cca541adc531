"""Functions that run in the interpreter although they could be compiled, for a debugger: `GONDWANA_INTERPRET=1`.

They give the results of compiled code: their arguments have the types of compiled code, elements those of NumPy's
scalars, and NumPy's arithmetic does not warn.
"""

from __future__ import annotations

import os
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from gondwana.compiler.types.arguments import describe, working_precision
from gondwana.compiler.types.records import element_dtype


class _Running(threading.local):
    """Whether a function runs in the interpreter as compiled code would, in this thread."""

    inside = False


_running = _Running()
_SINGLE = {float: np.float32, complex: np.complex64}
_DOUBLE = {float: np.float64, complex: np.complex128}


class ElementsInKernels(np.ndarray[Any, Any]):
    """Elements as functions in the interpreter see them: an integer that does not fit is stored by its low bits."""

    @staticmethod
    def of(elements: np.ndarray[Any, Any]) -> ElementsInKernels:
        """Return the same memory; records have their fields as attributes. Local."""
        dtype = elements.dtype if elements.dtype.names is None else element_dtype(elements.dtype)
        return elements.view(dtype).view(ElementsInKernels)

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.dtype.kind in "iu" and isinstance(value, int | np.integer):
            value = np.uint64(int(value) % 2**64).astype(self.dtype)
        super().__setitem__(index, value)


def interprets(function: types.FunctionType) -> bool:
    """Return whether a decorated function is to run in the interpreter; those of the library do not. Local."""
    wanted = os.environ.get("GONDWANA_INTERPRET", "0") not in ("", "0")
    return wanted and not (function.__module__ or "").startswith("gondwana.")


def interpreted(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a function that runs `function(*first, *arguments)` in the interpreter, as compiled code would. Local.

    Args:
        function: function of a user.
        arguments: arguments as for compiled code: global arrays stand for their blocks.

    Raises:
        KernelError: compiled code could not take an argument.
    """
    precision = working_precision(tuple(describe(value)[0] for value in arguments))
    weak = _SINGLE if precision == "float32" else _DOUBLE
    given = [_interpretable(value, weak) for value in arguments]

    def run(*first: Any) -> Any:
        before, _running.inside = _running.inside, True
        try:
            with np.errstate(all="ignore"):
                return function(*first, *given)
        finally:
            _running.inside = before

    return run


def called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a `gw.jit` function in the interpreter. Local.

    Python gets its own numbers, as from compiled code; a caller that runs so, too, gets the unconverted result.

    Raises:
        KernelError: compiled code could not take an argument.
    """
    return function(*arguments) if _running.inside else returned(interpreted(function, arguments)())


def returned(value: Any) -> Any:
    """Return a result as compiled code hands it to Python: numbers, tuples of them or None. Local."""
    if isinstance(value, tuple):
        return tuple(map(returned, value))
    return value.item() if isinstance(value, np.generic) else value


def _interpretable(value: Any, weak: dict[type, Any]) -> Any:
    """An argument with the types that compiled code sees, in tuples too."""
    in_kernels = getattr(value, "__gondwana_in_kernels__", None)
    if in_kernels is not None:
        return in_kernels()
    if isinstance(value, np.ndarray):
        return ElementsInKernels.of(value)
    if isinstance(value, np.void):
        return value.view(element_dtype(value.dtype))
    if isinstance(value, tuple) and (type(value) is tuple or hasattr(value, "_fields")):
        items = [_interpretable(item, weak) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return weak[type(value)](value) if type(value) in weak else value
