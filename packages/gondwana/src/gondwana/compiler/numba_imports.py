"""Numba as Gondwana imports it: without SciPy, and without settings from the current folder.

Numba imports scipy.linalg, a fifth of its own start, only to know whether it could be imported: the module
`numba.np.arraymath` asks for `scipy.linalg.cython_blas`. Where compiled code calls BLAS, Numba imports that once more.

Numba reads `.numba_config.yaml` in the current folder, when it is imported and again before each compilation. A file
there must not decide what is compiled, or which library is loaded as CUDA's driver, so it is not read. Variables of
the environment are (`cache.settings`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType

from gondwana.errors import UsageError

_BLAS = "scipy.linalg.cython_blas"
_ARRAYS = "numba.np.arraymath"
_CONFIGS = ("numba.core.config", "numba.cuda.core.config")
_FILE = "_config_fname"


def _no_settings() -> ModuleType:
    """A stand-in for the module that reads settings: it finds none in any file."""
    module = ModuleType("yaml")
    module.safe_load = lambda stream: None  # type: ignore[attr-defined]
    return module


_STAND_INS: dict[str, tuple[str, Callable[[], ModuleType]]] = {
    _ARRAYS: (_BLAS, lambda: ModuleType(_BLAS))
} | dict.fromkeys(_CONFIGS, ("yaml", _no_settings))
"""For each module the name that it imports, and a function that makes the module that it gets instead."""


class _Loader(SourceFileLoader):
    """Executes a module while a stand-in takes the place of one that it imports."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module."""
        wanted, make = _STAND_INS[self.name]
        before = sys.modules.get(wanted)
        if before is None or wanted != _BLAS:
            sys.modules[wanted] = make()
        try:
            super().exec_module(module)
        finally:
            if before is None:
                del sys.modules[wanted]
            else:
                sys.modules[wanted] = before
        if self.name in _CONFIGS:
            vars(module)[_FILE] = ""


class _Finder(MetaPathFinder):
    """Finds the modules that need a stand-in, for the loader above."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is, None for all others."""
        if fullname not in _STAND_INS or (fullname == _ARRAYS and find_spec("scipy") is None):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Make Numba, when it is imported, take SciPy for granted and read settings of the environment only. Local.

    If a program has imported it before, its settings become those of the environment now.

    Raises:
        UsageError: the environment switches its compiler off.
    """
    check_settings()
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for name in _CONFIGS:
        config = sys.modules.get(name)
        if config is not None and vars(config).get(_FILE):
            vars(config)[_FILE] = ""
            config.reload_config()


_OFF = re.compile(r"\s*0*\s*")
_NEEDED = {"NUMBA_DISABLE_JIT": _OFF, "NUMBA_DEBUGINFO": _OFF, "NUMBA_OPT": re.compile(r"(?!0$).*")}
"""Settings that can prevent Numba from making Gondwana's machine code, and their legal values."""


def check_settings() -> None:
    """Refuse an environment in which nothing can be compiled. Local.

    Raises:
        UsageError: a variable has an illegal value; the message names it.
    """
    for name, legal in _NEEDED.items():
        given = os.environ.get(name, "")
        if not legal.fullmatch(given):
            raise UsageError(
                f"{name}={given} keeps Numba from making the machine code that Gondwana communicates by: unset it; "
                "GONDWANA_INTERPRET=1 runs kernels in the interpreter"
            )
