"""Handles: how objects of the upper layers (pointers, signals, teams) become arguments of compiled code.

A handle is a few 64-bit words and the name of its family. An object hands out its words by `__gondwana_argument__`, or
through a describer registered for its type. Numba overloads in the modules listed in `extensions` define what compiled
code can do with a family; they are imported only when something is compiled.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Hashable
from functools import cache

from gondwana.compiler.types.arguments import Described, HandleSpec, intern
from gondwana.runtime.tracing import recorder

_extensions = [
    "gondwana.compiler.externs_overloads",
    "gondwana.compiler.mpi.team_overloads",
    "gondwana.compiler.multithreading.team_overloads",
    "gondwana.compiler.timing_overloads",
    "gondwana.simd.vectors_overloads",
    "gondwana.simd.exponential_overloads",
    "gondwana.memory.pointer_overloads",
    "gondwana.sync.atomics_overloads",
    "gondwana.sync.signals_overloads",
    "gondwana.calls.active_messages.message_overloads",
    "gondwana.transfer.collectives.verbs_overloads",
    "gondwana.transfer.messages.verbs_overloads",
    "gondwana.transfer.plans.host_overloads",
    "gondwana.transfer.verbs_overloads",
    "gondwana.kernels.random_numbers_overloads",
]
"""Modules that register overloads with Numba for what programs may name in functions, except for tasks."""


def describe_handle(family: str, parameters: tuple[Hashable, ...], words: tuple[int, ...]) -> Described:
    """Return the spec and the bytes of a handle. Local.

    Args:
        family: which functions work on it.
        parameters: what the compiled code may depend on, such as the name of a dtype.
        words: its value, signed 64-bit integers.
    """
    return _spec(family, parameters, len(words)), struct.pack(f"{len(words)}q", *words)


@cache
def _spec(family: str, parameters: tuple[Hashable, ...], words: int) -> HandleSpec:
    spec = intern(HandleSpec(family, parameters, words, recorder is not None))
    assert isinstance(spec, HandleSpec)
    return spec


def extend(module: str) -> None:
    """Have one more module imported before anything is compiled: it registers overloads with Numba. Local."""
    _extensions.append(module)


def import_extensions() -> None:
    """Import the modules that extend what compiled code knows. Local."""
    while _extensions:
        importlib.import_module(_extensions.pop())
