"""The help of ``gondwana``: whole sentences for each command, and the commands of each package separately."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from gondwana.cli import programs


class Sentences(TyperGroup):
    """Commands whose list in the help has the first sentence of each whole, on several lines where it is long."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the part of the help that names the commands."""
        self._write(formatter, "Commands", list(self.commands))

    def _write(self, formatter: Any, title: str, names: list[str]) -> None:
        with formatter.section(title):
            formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=1000)) for name in names])


class Commands(Sentences):
    """All commands: first those of this package, then those that other packages have added."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the part of the help that names the commands."""
        packages: dict[str, list[str]] = {"Commands": [name for name in self.commands if name in programs.OWN]}
        for name in sorted(self.commands.keys() - set(programs.OWN)):
            source = programs.added(programs.COMMANDS)[name].dist
            packages.setdefault(f"Commands of {'another package' if source is None else source.name}", []).append(name)
        for package, names in packages.items():
            self._write(formatter, package, names)
