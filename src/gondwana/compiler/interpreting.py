"""Functions that run in the interpreter although they could be compiled, for a debugger: `GONDWANA_INTERPRET=1`."""

from __future__ import annotations

import os
import types
from typing import Any


def interprets(function: types.FunctionType) -> bool:
    """Return whether a decorated function is to run in the interpreter; those of the library do not. Local."""
    wanted = os.environ.get("GONDWANA_INTERPRET", "0") not in ("", "0")
    return wanted and not (function.__module__ or "").startswith("gondwana.")


def interpretable(value: Any) -> Any:
    """Return an argument as functions in the interpreter take it: global arrays become local, in tuples too. Local."""
    array = getattr(value, "__gondwana_array__", None)
    if array is not None:
        return array()
    if type(value) is not tuple and not hasattr(value, "_fields"):
        return value
    items = map(interpretable, value)
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
