"""The command ``gondwana``: one typer application, one module per command."""

from __future__ import annotations

import contextlib
import importlib
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Any, cast

from gondwana.cli import programs, run
from gondwana.errors import UsageError
from gondwana.inputs import message_of, printable
from gondwana.runtime import beginning, exits, ordering, tracing

HELP = "Run parallel Python programs on many ranks, show their data, and measure them beside C."

PASS_THE_REST_ON = ("run", "warmup", "inspect")
"""Commands whose first argument names a program, to which later options belong."""

BROKEN_PIPE = 128 + signal.SIGPIPE
"""Exit status if the output has no reader any more, as behind `| head`: that of programs ended by the signal."""

if TYPE_CHECKING:
    from collections.abc import Callable

    import typer


def main() -> None:
    """Run the command line; an error of use, data or disk is one line and a status. Local."""
    if tracing.recorder is not None:
        tracing.recorder.withdraw()
    if ordering.log is not None:
        ordering.log.withdraw()
    sys.argv[0] = "gondwana"  # results have it in their `command`, not the path of its installation
    status = _status()
    problem = exits.flush()
    # The command itself may have found and reported the error.
    sys.exit(_unwritten(problem) if problem is not None and status in (0, BROKEN_PIPE) else status)


def application(only: str | None = None) -> typer.Typer:
    """Return the command with all its subcommands. Local.

    Args:
        only: name of the only command to load, if the others are not needed.
    """
    import typer  # not to start programs: see `_status`

    from gondwana.cli import help_by_package

    app = typer.Typer(
        name="gondwana",
        cls=help_by_package.Commands,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    def show(asked: bool) -> None:
        if asked:
            from gondwana import __version__

            print(f"gondwana {__version__}")
            raise typer.Exit

    version = typer.Option(False, "--version", callback=show, is_eager=True, help="Print the version and exit.")
    # Without a callback a single command would have no name.
    app.callback(help=HELP, no_args_is_help=True)(lambda version=version: None)
    for name in programs.commands() if only is None else (only,):
        command = _command(name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            settings = {"allow_interspersed_args": False} if name in PASS_THE_REST_ON else None
            app.command(name, context_settings=settings)(command)
    return app


def _command(name: str) -> Callable[..., Any] | typer.Typer:
    """Import a command."""
    if name not in programs.OWN:
        return cast("Callable[..., Any] | typer.Typer", programs.added(programs.COMMANDS)[name].load())
    return cast("Callable[..., Any]", getattr(importlib.import_module(f"gondwana.cli.{name}"), name))


def _named() -> str | None:
    """Return the command that the command line names, None if that needs all of them, as the help does.

    Raises:
        UsageError: the command is one of a package that is not installed, or a program.
    """
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in programs.commands():
        return name
    lacking = programs.missing(name, programs.COMMANDS)
    if lacking is not None:
        raise UsageError(lacking)
    if programs.is_program(name):
        raise UsageError(f"{name} is a program: gondwana run {shlex.join(sys.argv[1:])}")
    return None


def _status() -> int:
    """Run the command and return its exit status; errors of the program keep their traceback."""
    try:
        start = run.read(sys.argv[2:]) if sys.argv[1:2] == ["run"] else None
        if start is None:
            return _by_typer()
        beginning.all_is_imported()
        start()
        return 0
    except BrokenPipeError:
        return BROKEN_PIPE
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # typer ends so if its output has no reader
            return BROKEN_PIPE
        raise
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except Exception as error:
        message = message_of(error)
        if message is None:
            raise
        return _report(message, exits.status_of(error))


def _by_typer() -> int:
    """Run the command that typer reads, which takes a tenth of a second to load, and return its exit status."""
    import typer

    # Typer raises it for all errors in a command line; it has no public name for it.
    wrong = cast("type[Exception]", typer.BadParameter.__mro__[2])
    try:
        command = application(_named())
        beginning.all_is_imported()
        status = command(standalone_mode=False)
    except wrong as error:
        return _refuse(error)
    except typer.Abort:
        return exits.INTERRUPTED
    return status if isinstance(status, int) else 0


def _unwritten(problem: OSError) -> int:
    """Return the status of a command whose output could not be written."""
    if isinstance(problem, BrokenPipeError):
        return BROKEN_PIPE
    return _report(printable(f"standard output: {problem.strerror}"), 1)


def _refuse(error: Any) -> int:
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        print(message, file=sys.stderr)
        return 2
    context = getattr(error, "ctx", None)
    advice = "" if context is None else f"; see {context.command_path} --help"
    return _report(printable(f"{message.rstrip('.')}{advice}"), 2)


def _report(message: str, status: int) -> int:
    with contextlib.suppress(OSError, AttributeError):  # standard error is closed
        print(f"gondwana: error: {message}", file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    main()
