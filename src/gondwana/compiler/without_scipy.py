"""Numba without SciPy: it imports scipy.linalg, a fifth of its own start, only to know whether it could be imported.

The module `numba.np.arraymath` asks for `scipy.linalg.cython_blas` when it is imported. Where compiled code calls BLAS,
Numba imports that once more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType

_ASKING = "numba.np.arraymath"
_WANTED = "scipy.linalg.cython_blas"


class _Loader(SourceFileLoader):
    """Executes the module that asks while an empty module stands in for what it asks for."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute it."""
        missing = _WANTED not in sys.modules
        if missing:
            sys.modules[_WANTED] = ModuleType(_WANTED)
        try:
            super().exec_module(module)
        finally:
            if missing:
                del sys.modules[_WANTED]


class _Finder(MetaPathFinder):
    """Finds the module that asks, for the loader above."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the module is, None for all others."""
        if fullname != _ASKING:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Have Numba take it for granted that SciPy works, if it is installed. Local."""
    is_loaded = _ASKING in sys.modules or any(isinstance(finder, _Finder) for finder in sys.meta_path)
    if not is_loaded and find_spec("scipy") is not None:
        sys.meta_path.insert(0, _Finder())
