"""Names of packages that are loaded when they are first used, so that programs load what they use."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def later(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package. Local.

    Args:
        package: dotted name.
        homes: names, with blanks between them, by the modules that define them; a name that is a module of the package
            itself stands behind the package's own name.
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
    """Return what a module of an upper room defines, which is loaded now. Local.

    Args:
        place: `module:name`.
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
