"""Things made at first use: names of packages, so that programs load only what they use, and values of objects."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


def later(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package. Local.

    Args:
        package: dotted name.
        homes: names, separated by blanks, by the modules that define them; a name that is a module of the package
            itself is listed under the package's own name.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])

    def load(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        if home == package:
            return importlib.import_module(f"{package}.{name}")
        namespace[name] = found = getattr(importlib.import_module(home), name)
        return found

    def names() -> list[str]:
        return sorted({*namespace, *home_of})

    return load, names


@functools.cache
def find(place: str) -> Any:
    """Return an object that a module of an upper room defines; the module is loaded now. Local.

    Args:
        place: name of the object, as `module:name`.
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


class ComputedOnce(functools.cached_property[T]):
    """A cached property that one thread computes while the others wait for its value. Local.

    For values that must be unique: memory whose address others keep, and results of collectives.
    `functools.cached_property` lets every thread compute one since Python 3.12; before, threads that read different
    objects wait for each other.

    Example:
        >>> class Table:
        ...     @ComputedOnce
        ...     def words(self):
        ...         return [1, 2, 3]
        >>> table = Table()
        >>> table.words is table.words
        True
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        name, values = self.attrname, instance.__dict__
        assert name is not None  # it is the attribute of a class
        # The lock is there while the value is not; `setdefault` gives all threads the same one.
        with values.setdefault(f"lock of {name}", threading.RLock()):
            if name not in values:
                values[name] = self.func(instance)
            value: T = values[name]
        values.pop(f"lock of {name}", None)
        return value
