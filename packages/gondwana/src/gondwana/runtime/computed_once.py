"""Properties that threads may ask for at the same time, of which there must be one value."""

from __future__ import annotations

import functools
import threading
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class ComputedOnce(functools.cached_property[T]):
    """A cached property that one thread computes while the others wait for its value. Local.

    For values of which a second one would be wrong: memory whose address others keep, and results of collectives.
    `functools.cached_property` lets every thread compute one since Python 3.12; before, it lets threads wait for each
    other that ask different objects.

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
