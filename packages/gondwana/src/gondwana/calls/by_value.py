"""Pickling of functions and classes without a name that leads to them. Imports cloudpickle; loaded at first use.

All ranks run one program, so a function is sent with its code, its defaults and what it has captured, but works with
the globals of the rank where it runs.
"""

from __future__ import annotations

import io
import marshal
import pickle
import types
from collections.abc import Callable
from typing import Any

import cloudpickle

from gondwana.calls import names
from gondwana.teams import Team, world


def dumps(value: Any, callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    """Return the pickle of a value; `callback` as the `buffer_callback` of `pickle.dumps`. Local.

    Raises:
        TypeError: something in it cannot be pickled.
    """
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=callback).dump(value)
    return stream.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Team) and value is world:
            return _the_world, ()
        if isinstance(value, types.FunctionType | type) and isinstance(reference := names.reference(value), str):
            # Cloudpickle would send what the program itself defines by value.
            return (names.referent, (reference,)) if value.__module__ == "__main__" else NotImplemented
        if isinstance(value, types.FunctionType) and _globals_are_everywhere(value):
            return _reduce(value)
        return super().reducer_override(value)


def _the_world() -> Team:
    return world


def _globals_are_everywhere(function: types.FunctionType) -> bool:
    module = names.module(function.__module__ or "")
    return module is not None and vars(module) is function.__globals__


def _reduce(function: types.FunctionType) -> tuple[Any, ...]:
    """Reduce a function to arguments of `_create`, and to what `_fill` adds, which may refer to the function itself."""
    cells = function.__closure__ or ()
    captured = [_content(cell) for cell in cells]
    shell = (marshal.dumps(function.__code__), function.__module__, function.__qualname__, len(cells))
    state = (function.__defaults__, function.__kwdefaults__, captured, function.__dict__)
    return _create, shell, state, None, None, _fill


def _content(cell: Any) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()  # captured before it has a value


def _create(code: bytes, module: str, name: str, cells: int) -> types.FunctionType:
    closure = tuple(types.CellType() for _ in range(cells))
    if names.module(module) is None:
        __import__(module)
    function = types.FunctionType(marshal.loads(code), vars(names.module(module)), None, None, closure)
    function.__module__, function.__qualname__ = module, name
    return function


def _fill(function: types.FunctionType, state: tuple[Any, ...]) -> None:
    function.__defaults__, function.__kwdefaults__, captured, attributes = state
    for cell, content in zip(function.__closure__ or (), captured, strict=True):
        if content:
            (cell.cell_contents,) = content
    function.__dict__.update(attributes)
