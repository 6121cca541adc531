"""Programs that have a name instead of a path: commands and modules of this environment."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def installed(command: str) -> EntryPoint | None:
    """Return the command of this name that a package in this environment has, None if there is none. Local.

    Example:
        >>> from gondwana.cli.programs import installed
        >>> installed("gondwana").value
        'gondwana.cli.main:main'
    """
    from importlib.metadata import entry_points  # which takes a while, and most programs are found before

    return next(iter(entry_points(group="console_scripts", name=command)), None)


def has_module(name: str) -> bool:
    """Return whether ``python -m name`` finds the module or the package that holds it. Local: imports nothing."""
    return PathFinder.find_spec(name.partition(".")[0], [os.getcwd(), *sys.path]) is not None
