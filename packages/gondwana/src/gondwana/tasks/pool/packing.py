"""Functions, arguments, results and errors of tasks as bytes, and the buffers of large arrays beside them.

A function is sent by its name where a name leads to it at the receiver, which is cheap, and by value otherwise. What
leads where differs: the ranks of a job run one program, whereas workers that a pool has started know only modules, not
what is defined in `__main__` or in a notebook.
"""

from __future__ import annotations

import io
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

import numpy as np

from gondwana.calls import names, wire
from gondwana.runtime import interruptions

Function: TypeAlias = str | bytes
"""A function by its name or by its pickle."""

Packed: TypeAlias = tuple[bytes, tuple[Any, ...]]
"""A pickle and its buffers."""

_LARGE = 8192
"""Bytes from which a buffer travels beside the pickle."""

_KNOWN = 1024
"""Functions that a process keeps unpickled."""

_SIMPLE = frozenset({type(None), bool, int, float, complex, str, bytes})

_loaded: dict[Function, Callable[..., Any]] = {}


class Packer(Protocol):
    """How functions and values are packed for a kind of receiver."""

    def function(self, function: Callable[..., Any]) -> Function:
        """Return a function as `load_function` takes it. Local."""

    def value(self, value: Any) -> Packed:
        """Return a value as `load` takes it; large buffers are copied. Local."""


class SameProgram:
    """For ranks of one job: what the program defines has the same name everywhere."""

    def function(self, function: Callable[..., Any]) -> Function:
        """Return a function as `load_function` takes it. Local.

        Raises:
            TypeError: it cannot be pickled.
        """
        reference = names.reference(function)
        if isinstance(reference, str):
            return reference
        from gondwana.calls import by_value

        return by_value.dumps(function, lambda buffer: True)

    def value(self, value: Any) -> Packed:
        """Return a value as `load` takes it; large buffers are copied. Local.

        Raises:
            TypeError: something in it cannot be pickled.
        """
        beside = _Beside()
        try:
            data = pickle.dumps(value, 5, buffer_callback=beside)
        except (pickle.PicklingError, AttributeError, TypeError):
            from gondwana.calls import by_value

            beside = _Beside()
            data = by_value.dumps(value, beside)
        return data, tuple(beside.copies)


class OtherProgram:
    """For processes of another program: names lead to modules only; what `__main__` defines is sent by value."""

    def function(self, function: Callable[..., Any]) -> Function:
        """Return a function as `load_function` takes it. Local.

        Raises:
            TypeError: it cannot be pickled.
        """
        reference = names.reference(function)
        if isinstance(reference, str) and _is_importable(function.__module__):
            return reference
        return self._dumps(function, lambda buffer: True)

    def value(self, value: Any) -> Packed:
        """Return a value as `load` takes it; large buffers are copied. Local.

        Raises:
            TypeError: something in it cannot be pickled.
        """
        beside = _Beside()
        if _is_simple(value):
            return pickle.dumps(value, 5, buffer_callback=beside), tuple(beside.copies)
        return self._dumps(value, beside), tuple(beside.copies)

    @staticmethod
    def _dumps(value: Any, callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
        import cloudpickle

        stream = io.BytesIO()
        cloudpickle.Pickler(stream, protocol=5, buffer_callback=callback).dump(value)
        return stream.getvalue()


class _Beside:
    """Takes large buffers out of a pickle: a `buffer_callback` that copies them."""

    def __init__(self) -> None:
        self.copies: list[bytearray] = []

    def __call__(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LARGE:
            return True
        self.copies.append(bytearray(raw))
        return False


def _is_importable(module: str) -> bool:
    return module != "__main__" and getattr(sys.modules.get(module), "__spec__", None) is not None


def _is_simple(value: Any) -> bool:
    """Return whether Python's own pickle of a value needs no names but those of Python and NumPy."""
    kind = type(value)
    if kind in _SIMPLE:
        return True
    if kind is np.ndarray:
        return not value.dtype.hasobject
    if kind is tuple or (kind is list and len(value) < _KNOWN):
        return all(map(_is_simple, value))
    return kind is dict and not value


def load_function(function: Function) -> Callable[..., Any]:
    """Return the function that a packer has packed. Local.

    Raises:
        UsageError: there is none of this name here.
    """
    found = _loaded.get(function)
    if found is None:
        found = names.referent(function) if isinstance(function, str) else pickle.loads(function)
        assert found is not None
        if len(_loaded) >= _KNOWN:
            _loaded.clear()
        _loaded[function] = found
    return found


def load(data: bytes, buffers: Iterable[Any]) -> Any:
    """Return a value that a packer has packed; arrays lie in the buffers. Local."""
    return pickle.loads(data, buffers=buffers)


def as_parts(buffers: Iterable[Any]) -> tuple[pickle.PickleBuffer, ...]:
    """Return buffers such that a pickle of the message leaves them beside it, too. Local."""
    return tuple(map(pickle.PickleBuffer, buffers))


def pack_error(error: BaseException) -> Packed:
    """Return an exception as `load_error` takes it. Local."""
    text = "".join(traceback.format_exception(error))
    try:
        pickled = OtherProgram().value(error)
        load(*pickled)  # some exceptions can be pickled, but not unpickled
    except BaseException as problem:
        interruptions.let_delivered_pass(problem)
        pickled = (b"", ())
    return pickle.dumps((*pickled, text)), ()


def load_error(data: bytes, where: str) -> BaseException:
    """Return an exception of a task, with the traceback of its worker as a note. Local.

    Args:
        data: from `pack_error`.
        where: which worker, for the note.
    """
    pickled, buffers, text = pickle.loads(data)
    error: Any = None
    try:
        error = load(pickled, buffers) if pickled else None
    except BaseException as problem:
        interruptions.let_delivered_pass(problem)
    return wire.noted_error(error, f"a task on {where}", text)
