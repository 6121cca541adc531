"""Programs and commands known by name instead of a path: of this package, of its neighbours, of users' packages.

A package adds programs to ``gondwana run`` by entry points of the group ``gondwana.programs``, and commands to
``gondwana`` by those of ``gondwana.commands``.
"""

from __future__ import annotations

import functools
import os
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from gondwana.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from types import ModuleType

OWN = ("run", "warmup", "plot", "ls", "inspect", "doctor")
"""Commands of this package: each is a function of the same name in ``gondwana.cli.<name>``."""

PROGRAMS = "gondwana.programs"
"""The group of programs: a module with ``main(argv) -> int``, run by every rank, and ``check(argv, ranks)``, which
raises UsageError for settings that cannot work; the launcher calls it before it starts any rank. If it has ``DEVICES``,
the names of the devices of its kernels, it takes one of them as ``--device NAME``: so it gets that of ``gondwana run``.
If it has ``inspected(argv)``, that returns the kernel of its steps with a domain and arguments, for ``gondwana
inspect``.
"""

COMMANDS = "gondwana.commands"
"""The group of commands: a function with the annotations of typer, or a ``typer.Typer`` with its own commands."""

EXTRAS = {
    PROGRAMS: ("apps", ("davs", "gray-scott", "heat", "hpcg", "npb-cg", "npb-ft", "npb-mg", "pwc")),
    COMMANDS: ("bench", ("bench", "model", "otf2", "report")),
}
"""The extra of this package that brings programs, or commands, and their names."""


@functools.cache
def added(group: str) -> dict[str, EntryPoint]:
    """Return the entry points that installed packages add, by name. Local: imports none of them.

    Args:
        group: `PROGRAMS` or `COMMANDS`.

    Example:
        >>> from gondwana.cli.programs import PROGRAMS, added
        >>> added(PROGRAMS)["heat"].value
        'gondwana_apps.heat.app'
    """
    from importlib.metadata import entry_points  # which takes a while, and most programs are given by a path

    return {entry.name: entry for entry in entry_points(group=group)}


def commands() -> tuple[str, ...]:
    """Return the names of all commands of ``gondwana``: those of this package, and those that others add. Local."""
    return (*OWN, *sorted(added(COMMANDS).keys() - set(OWN)))


def beginning_with(start: str) -> list[str]:
    """Return the programs of installed packages whose names begin so. Local: imports none of them."""
    return sorted(name for name in added(PROGRAMS) if name.startswith(start))


def is_program(name: str) -> bool:
    """Return whether an installed package has a program of this name. Local: imports none of it."""
    return not (os.sep in name or name.endswith(".py")) and name in added(PROGRAMS)


def program(name: str) -> ModuleType:
    """Import the program of this name. Local.

    Raises:
        UsageError: no installed package has it.

    Example:
        >>> from gondwana.cli.programs import program
        >>> program("heat").__name__
        'gondwana_apps.heat.app'
    """
    if not is_program(name):
        raise UsageError(
            missing(name, PROGRAMS) or f"there is no program {name}: legal are {', '.join(sorted(added(PROGRAMS)))}"
        )
    module: ModuleType = added(PROGRAMS)[name].load()
    return module


def missing(name: str, group: str) -> str | None:
    """Return what to install for a program or a command, None if it is unknown. Local.

    Args:
        name: name of the program or command.
        group: `PROGRAMS` or `COMMANDS`.

    Example:
        >>> from gondwana.cli.programs import COMMANDS, missing
        >>> missing("report", COMMANDS)
        "report is not installed: pip install 'gondwana[bench]'"
    """
    extra, names = EXTRAS[group]
    return None if name not in names else f"{name} is not installed: pip install 'gondwana[{extra}]'"


def installed(command: str) -> EntryPoint | None:
    """Return the command of this name that a package in this environment has, None without one. Local.

    Example:
        >>> from gondwana.cli.programs import installed
        >>> installed("gondwana").value
        'gondwana.cli.main:main'
    """
    from importlib.metadata import entry_points

    return next(iter(entry_points(group="console_scripts", name=command)), None)


def has_module(name: str) -> bool:
    """Return whether ``python -m name`` finds the module or the package that holds it. Local: imports nothing."""
    return PathFinder.find_spec(name.partition(".")[0], [os.getcwd(), *sys.path]) is not None
