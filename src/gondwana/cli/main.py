"""The command ``gondwana``: one typer application, one module per command."""

from __future__ import annotations

import importlib
import sys

import typer

from gondwana.errors import LaunchError, UsageError

COMMANDS = ("run", "plot", "ls", "bench", "doctor")
"""Each is a function, or commands of its own, of the same name in ``gondwana.cli.<name>``."""

PASSES_THE_REST_ON = {"allow_interspersed_args": False}
"""Settings of ``run``: options after its first argument belong to the program."""

app = typer.Typer(
    name="gondwana",
    help="Run parallel Python programs on many ranks, show their data, and measure them beside C.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _register(name: str) -> None:
    command = getattr(importlib.import_module(f"gondwana.cli.{name}"), name)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
        return
    app.command(name, context_settings=PASSES_THE_REST_ON if name == "run" else None)(command)


def main() -> None:
    """Run the command line; an error of use is one line and status 2. Local."""
    for name in COMMANDS:
        _register(name)
    try:
        app()
    except (UsageError, LaunchError) as error:
        print(f"gondwana: error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
