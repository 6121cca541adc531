"""Functions, arguments, results and errors of tasks as bytes, and the buffers of large arrays beside them.

A function is sent by its name, which is cheap, if a name leads to it at the receiver, and by value otherwise. Names
differ: the ranks of a job run one program, whereas workers that a pool has started know only modules, not the
definitions in `__main__` or in a notebook.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from gondwana.calls import names, wire
from gondwana.runtime import interruptions

Function: TypeAlias = str | bytes
"""A function by its name or by its pickle."""

Dumps: TypeAlias = Callable[[Any, Callable[[pickle.PickleBuffer], Any]], bytes]

Packed: TypeAlias = tuple[bytes, tuple[Any, ...]]
"""A pickle and its buffers."""

_LARGE = 8192
"""Bytes of the smallest buffer that travels beside the pickle."""

_KNOWN = 1024
"""The most functions that a process keeps unpickled."""

_SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes})

_loaded: dict[Function, Callable[..., Any]] = {}


class Packer(Protocol):
    """Packs functions and values for a kind of receiver."""

    def function(self, function: Callable[..., Any]) -> Function:
        """Return a function as `load_function` takes it. Local."""

    def value(self, value: Any) -> Packed:
        """Return a value as `load` takes it; large buffers are copied. Local."""


class SameProgram:
    """For ranks of one job: definitions of the program have the same name everywhere."""

    def function(self, function: Callable[..., Any]) -> Function:
        """Return a function as `load_function` takes it. Local.

        Raises:
            TypeError: the function cannot be pickled.
        """
        reference = names.reference(function)
        if isinstance(reference, str):
            return reference
        return _by_value(function, lambda buffer: True)

    def value(self, value: Any) -> Packed:
        """Return a value as `load` takes it; large buffers are copied. Local.

        Raises:
            TypeError: an object in it cannot be pickled.
        """
        return _packed(value, _plainly, _by_value)


class OtherProgram:
    """For processes of another program: names lead to modules only; definitions of `__main__` are sent by value."""

    def function(self, function: Callable[..., Any]) -> Function:
        """Return a function as `load_function` takes it. Local.

        Raises:
            TypeError: the function cannot be pickled.
        """
        reference = names.reference(function)
        if isinstance(reference, str) and _is_importable(function.__module__):
            return reference
        return self._dumps(function, lambda buffer: True)

    def value(self, value: Any) -> Packed:
        """Return a value as `load` takes it; large buffers are copied. Local.

        Raises:
            TypeError: an object in it cannot be pickled.
        """
        if _is_plain(value):
            return pickle.dumps(value, 5), ()
        cloudpickle: Any = sys.modules.get("cloudpickle")
        by_value = cloudpickle is not None and cloudpickle.list_registry_pickle_by_value()
        return _packed(value, self._dumps if by_value else _by_name, self._dumps)

    @staticmethod
    def _dumps(value: Any, callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
        import cloudpickle

        return _dumped(cloudpickle.Pickler, value, callback)


def _is_plain(value: Any) -> bool:
    """Whether a value, or the arguments of a call, contain only numbers and strings."""
    kind = type(value)
    return kind in _SCALARS or (kind is tuple and all(map(_is_plain, value))) or (kind is dict and not value)


def _packed(value: Any, quick: Dumps, thorough: Dumps) -> Packed:
    """Pack a value by the quick way, or by the thorough one if that refuses."""
    beside = _Beside()
    try:
        data = quick(value, beside)
    except Exception as error:
        interruptions.let_delivered_pass(error)
        beside = _Beside()
        data = thorough(value, beside)
    return data, tuple(beside.copies)


def _plainly(value: Any, callback: Any) -> bytes:
    return pickle.dumps(value, 5, buffer_callback=callback)


def _dumped(pickler: Any, value: Any, callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    stream = io.BytesIO()
    pickler(stream, protocol=5, buffer_callback=callback).dump(value)
    return stream.getvalue()


def _by_value(value: Any, callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    from gondwana.calls import by_value

    return by_value.dumps(value, callback)


class _ByName(pickle.Pickler):
    """Python's own pickler, which takes a third of the time; it refuses objects that a name leads to only here."""

    def reducer_override(self, value: Any) -> Any:
        module = getattr(value, "__module__", None)
        if isinstance(module, str) and not _is_importable(module):
            raise pickle.PicklingError(f"{module} is a module of this process")
        return NotImplemented


_by_name = functools.partial(_dumped, _ByName)


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


def load_function(function: Function) -> Callable[..., Any]:
    """Return the function that a packer has packed. Local.

    Raises:
        UsageError: no function has this name here.
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
        data: result of `pack_error`.
        where: name of the worker, for the note.
    """
    pickled, buffers, text = pickle.loads(data)
    error: Any = None
    try:
        error = load(pickled, buffers) if pickled else None
    except BaseException as problem:
        interruptions.let_delivered_pass(problem)
    return wire.noted_error(error, f"a task on {where}", text)
