"""Names of functions and classes, by which they are sent to other ranks of the same program."""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from gondwana.errors import UsageError
from gondwana.runtime import interruptions
from gondwana.teams import world

_main: list[ModuleType] = []
_namespaces: dict[str, dict[str, Any]] = {}

_KEPT = 1024
"""How many functions and references are remembered."""
_of_functions: dict[Any, tuple[dict[str, Any], str, str]] = {}
"""Of functions that a module holds: its namespace, the name there, the reference."""
_of_references: dict[str, tuple[dict[str, Any], str]] = {}
"""Of references to what a module holds: its namespace, the name there."""


def remember_main() -> None:
    """Keep the module of the program, since calls of its functions may arrive after its end. Local."""
    _main[:] = [sys.modules["__main__"]]
    for remembered in (_namespaces, _of_functions, _of_references):
        remembered.clear()


def module(name: str) -> ModuleType | None:
    """Return a module that is loaded, None if it is not. Local."""
    return _main[0] if name == "__main__" and _main else sys.modules.get(name)


def reference(value: Any) -> Any:
    """Return the name of a function or class if that leads to it, else the object itself. Local."""
    is_function = value.__class__ is FunctionType or value.__class__ is BuiltinFunctionType
    if is_function and (known := _of_functions.get(value)) is not None and known[0].get(known[1]) is value:
        return known[2]
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not (isinstance(home, str) and isinstance(name, str) and _look_up(home, name) is value):
        return value
    found = f"{home}:{name}"
    if is_function and "." not in name:
        _remember(_of_functions, value, (_namespaces[home], name, found))
    return found


def known(function: Any) -> tuple[dict[str, Any], str, str] | None:
    """Return the namespace of a function, its name there, and its `reference`, if that was asked for before. Local."""
    kind = function.__class__
    return _of_functions.get(function) if kind is FunctionType or kind is BuiltinFunctionType else None


def place_of(reference: str) -> tuple[dict[str, Any], str, str]:
    """Return the namespace that a `reference` leads to, the name there, and the reference. Local.

    The namespace is empty where it leads nowhere, or somewhere inside of a class.
    """
    try:
        referent(reference)
    except Exception as error:
        interruptions.let_pass(error)  # whoever calls what is not there will hear of it
    return *_of_references.get(reference, ({}, "")), reference


def referent(reference: Any) -> Any:
    """Return the object of a `reference`: the named object, or the object itself. Local.

    Raises:
        UsageError: this rank has no object of this name.
    """
    if reference.__class__ is not str:
        return reference
    known = _of_references.get(reference)
    if known is not None and (found := known[0].get(known[1])) is not None:
        return found
    home, _, name = reference.partition(":")
    found = _look_up(home, name)
    if found is None and module(home) is None:
        __import__(home)
        found = _look_up(home, name)
    if found is None:
        raise UsageError(
            f"rank {world.rank} has no {name!r} in module {home!r}: define it on every rank before it is sent there, "
            "or send it by value, as a lambda"
        )
    if "." not in name:
        _remember(_of_references, reference, (_namespaces[home], name))
    return found


def _remember(memory: dict[Any, Any], key: Any, found: tuple[Any, ...]) -> None:
    if len(memory) >= _KEPT:
        memory.clear()
    memory[key] = found


def _look_up(home: str, name: str) -> Any:
    """Return the object with a dotted name in a loaded module, None if there is none."""
    namespace = _namespaces.get(home)
    if namespace is None:
        found = module(home)
        if found is None:
            return None
        namespace = _namespaces[home] = vars(found)
    if "." not in name:
        return namespace.get(name)
    outer, *inner = name.split(".")
    value = namespace.get(outer)
    for part in inner:
        value = getattr(value, part, None)
    return value
