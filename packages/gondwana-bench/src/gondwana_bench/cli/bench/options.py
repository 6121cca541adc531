"""The options that commands of ``gondwana bench`` share, and how ranks of a benchmark are started."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NoReturn, TypeAlias

import typer

from gondwana.cli import launch
from gondwana.cli.numbers import whole
from gondwana.errors import UsageError
from gondwana.inputs import whole_number
from gondwana_bench.panels import Panels
from gondwana_bench.processes import Command, result
from gondwana_bench.rows import Row

Sizes: TypeAlias = Annotated[str | None, typer.Option(metavar="N,N,...", help="Cells a side of the cube.")]
Nbytes: TypeAlias = Annotated[str | None, typer.Option("--sizes", metavar="N,N,...", help="Bytes of a transfer.")]
Dtypes: TypeAlias = Annotated[str | None, typer.Option(metavar="TYPE,...", help="Of float64, float32 [both].")]
Ranks: TypeAlias = Annotated[int, typer.Option("-n", "--ranks", metavar="N", parser=whole(1), help="How many ranks.")]
PerNode: TypeAlias = Annotated[
    int | None,
    typer.Option("--ranks-per-node", metavar="P", parser=whole(1), help="As of gondwana run [the launcher's choice]."),
]
Repeat: TypeAlias = Annotated[
    int, typer.Option(metavar="N", parser=whole(1), help="Rounds; each times every variant once.")
]
Cases: TypeAlias = Annotated[list[str] | None, typer.Option(metavar="NAME,...", help="Parts of their names [all].")]
Batch: TypeAlias = Annotated[float, typer.Option(metavar="SECONDS", help="Length of one sample.")]
Mpirun: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="CMD", help="Starts the programs: -n N is added, or N put for {ranks} [our launcher]."),
]
SecondCc: TypeAlias = Annotated[
    str | None,
    typer.Option("--second-cc", metavar="CMD", help="Another compiler of C beside that of $CC, such as clang."),
]
QuietWait: TypeAlias = Annotated[
    float, typer.Option(metavar="SECONDS", help="Wait for other programs to leave the machine alone, at most so long.")
]
Wide: TypeAlias = Annotated[
    bool, typer.Option("--wide", help="All columns, also those for which a terminal has no room.")
]
LONGEST_WAIT = 86400
"""The longest wait of `QuietWait` [s]."""
File: TypeAlias = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures.")]


def check_common(batch: float, file: Path | None) -> None:
    """Check the options that all benchmarks share. Local.

    Raises:
        UsageError: names the option, what was given and what is legal.
    """
    from gondwana.results import check_writable

    if not 0.0 < batch <= 10.0:
        raise UsageError(f"--batch {batch:g}: legal is a number of seconds above 0, at most 10")
    if file is not None:
        check_writable(file)


def check_mpirun(mpirun: str | None) -> None:
    """Check the command that starts the programs of a user. Local.

    Raises:
        UsageError: it cannot be read as a command line, or the command does not exist.
    """
    if mpirun is None:
        return
    try:
        words = shlex.split(mpirun)
    except ValueError as error:
        raise UsageError(f"--mpirun {mpirun}: {error}; give a command line as a shell takes it") from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--mpirun {mpirun}: there is no such command; name the launcher of the programs' MPI")


def check_files(**files: Path | None) -> None:
    """Check that the files that options name besides the report can be written. Local.

    Args:
        files: files by the name of the option; None: the option was not given.

    Raises:
        UsageError: one of them cannot be written.
    """
    from gondwana.results import check_writable

    for option, path in files.items():
        if path is not None:
            check_writable(path, f"--{option} {path}")


def take_compilers(report: Panels, second: str | None, threads: int = 1) -> int:
    """Check the compilers of native programs, which all processes that measure find, and return how many. Local.

    Args:
        report: report that names the second compiler.
        second: value of the option.
        threads: the most threads of a program.

    Raises:
        UsageError: one of them is not there.
    """
    from gondwana_bench import build

    build.command()
    if second is not None:
        os.environ[build.SECOND] = second
        build.command(build.SECOND)
        report.environment["second_compiler"] = build.compiler_version(build.SECOND)
        if threads > 1 and not build.openmp(build.SECOND):
            report.note(f"left out {second} on several threads: it has no OpenMP here, such as the package libomp-dev")
    return len(build.compilers())


def write_besides(bench: Any, found: Any, plot: Path | None, table: Path | None) -> None:
    """Write the files that options name besides the report. Local.

    Args:
        bench: module that draws the figures, and returns them as CSV.
        found: figures as the module takes them.
        plot: file of the picture, or None.
        table: file of the CSV, or None.
    """
    from gondwana.results import write_text

    if table is not None:
        write_text(table, bench.as_csv(found), f"--csv {table}")
    if plot is not None:
        bench.draw(found, str(plot))


def finish(report: Panels) -> None:
    """Write the report of a complete benchmark; end with status 1 if anything is not right. Local."""
    report.finish()
    if not report.verified:
        raise typer.Exit(1)


def reporting(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that writes a report, with the option that names its file; the first argument is the report.

    The name of the report is that of the command.
    """

    def recorded(*, file: File = None, **options: Any) -> None:
        check_common(options.get("batch", 0.02), file)
        check_mpirun(options.get("mpirun"))
        check_files(plot=options.get("plot"), csv=options.get("table"))
        report = Panels(command.__name__, file)
        command(report, **options)
        finish(report)

    return with_options(command, recorded, given=1)


def on_team(
    module: str, *, rounds: int = 20, seconds: float = 0.02, nodes: bool = True
) -> Callable[[Callable[..., dict[str, Any] | None]], Callable[..., None]]:
    """Return a decorator that makes a command of a function that declares the options of one benchmark of ranks. Local.

    The function returns its options for the benchmark; None: they are lists of numbers. The module has the usual
    numbers of each list as a constant, and a check of ranks and lists.

    Args:
        module: name of a module of `gondwana_bench`; see `on_ranks`.
        rounds: default of `--repeat`.
        seconds: default of `--batch`.
        nodes: whether the command has an option for the ranks of a node.
    """

    def add(declared: Callable[..., dict[str, Any] | None]) -> Callable[..., None]:
        def start(
            *,
            ranks: Ranks = 2,
            ranks_per_node: PerNode = None,
            repeat: Repeat = rounds,
            batch: Batch = seconds,
            file: File = None,
            **given: Any,
        ) -> None:
            from gondwana_bench import build

            check_common(batch, file)
            build.command()
            options = declared(**given)
            if options is None:
                bench = importlib.import_module(f"gondwana_bench.{module}")
                usual = {name: list(getattr(bench, name.upper())) for name in given}
                options = {name: numbers(f"--{name}", text) or usual[name] for name, text in given.items()}
                bench.check(ranks, *options.values())
            options |= {"repeat": repeat, "batch_seconds": batch}
            on_ranks(ranks, module, ranks_per_node=ranks_per_node, file=file, **options)

        return with_options(declared, start, without=() if nodes else ("ranks_per_node",))

    return add


def with_options(
    command: Callable[..., Any], wrapper: Callable[..., None], given: int = 0, without: Sequence[str] = ()
) -> Callable[..., None]:
    """Return a wrapper with the name and options of a command, except those that it sets, and then its own options.

    Args:
        command: the command.
        wrapper: the wrapper, with options of its own.
        given: number of the command's arguments that the wrapper sets.
        without: options of the wrapper that are left out.
    """
    own, added = (inspect.signature(function, eval_str=True) for function in (command, wrapper))
    parameters = [*own.parameters.values()][given:]
    parameters += [one for one in added.parameters.values() if one.kind is one.KEYWORD_ONLY and one.name not in without]
    functools.update_wrapper(wrapper, command)
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    keywords = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in parameters]
    vars(wrapper)["__signature__"] = own.replace(parameters=keywords)
    return wrapper


def on_ranks(
    ranks: int,
    module: str,
    *,
    file: Path | None,
    ranks_per_node: int | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
    **options: object,
) -> NoReturn:
    """Start the ranks of a benchmark: this process becomes their launcher. Local.

    Args:
        ranks: number of ranks.
        module: name of a module of `gondwana_bench`, with a part that runs as a program.
        file: file of the report.
        ranks_per_node: number of ranks of a node, as in `launch.command`.
        variables: environment variables for the ranks, as in `launch.command`.
        options: options of the benchmark.
    """
    options |= {"file": None if file is None else str(file), "command": sys.argv}
    words = ["-P", "-m", f"gondwana_bench.{module}", json.dumps(options)]
    launch.become(launch.command(ranks, words, threads=1, ranks_per_node=ranks_per_node, variables=variables))


def rows_on_ranks(ranks: int, module: str, *, ranks_per_node: int | None = None, **options: object) -> list[Row]:
    """Run a benchmark's ranks to their end and return the rows of its report. Local.

    Args:
        ranks: number of ranks.
        module: name of the module, as for `on_ranks`.
        ranks_per_node: number of ranks of a node, as in `launch.command`.
        options: options of the benchmark.

    Raises:
        UsageError: the job failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        options |= {"file": str(file), "command": sys.argv}
        argv, variables = job(ranks, module, json.dumps(options), ranks_per_node=ranks_per_node)
        [rows] = result(f"the job of {ranks} ranks", argv, file, variables)["panels"].values()
        found: list[Row] = rows
        return found


def job(ranks: int, module: str, *words: str, ranks_per_node: int | None = None) -> Command:
    """Return the command that runs a module of ours on ranks of one thread. Local.

    Args:
        ranks: number of ranks.
        module: name of a module of `gondwana_bench`, with a part that runs as a program.
        words: arguments of the module.
        ranks_per_node: number of ranks of a node, as in `launch.command`.
    """
    argv = ["-P", "-m", f"gondwana_bench.{module}", *words]
    command = launch.command(ranks, argv, threads=1, ranks_per_node=ranks_per_node)
    return Command(command.argv, command.environment())


def official(
    mpirun: str | None,
    ranks: int,
    words: Sequence[str],
    variables: Mapping[str, str] = MappingProxyType({}),
    *,
    oversubscribe: bool = False,
) -> Command:
    """Return the command and the environment that start a user's program, one thread a rank. Local.

    Args:
        mpirun: value of the option.
        ranks: number of ranks.
        words: the program and its arguments.
        variables: environment variables that the program gets besides.
        oversubscribe: whether ranks may outnumber cores, as in `launch.native`.
    """
    if mpirun is None:
        command = launch.native(ranks, words, variables, oversubscribe=oversubscribe)
        return Command(command.argv, command.environment())
    counted = mpirun if "{ranks}" in mpirun else f"{mpirun} -n {{ranks}}"
    argv = [*shlex.split(counted.replace("{ranks}", str(ranks))), *words]
    return Command(argv, {**os.environ, **launch.as_root(), "OMP_NUM_THREADS": "1", **variables})


def counts(text: str) -> list[int]:
    """Return the numbers of ranks that `--ranks` lists. Local.

    Raises:
        UsageError: the list is empty, or has other entries.
    """
    found = [whole_number(part.strip()) for part in names(text)]
    kept = [number for number in found if number is not None and number >= 1]
    if len(kept) < max(1, len(found)):
        raise UsageError(f"--ranks {text}: legal are whole numbers from 1, such as 1,2,4")
    return kept


def rank_counts(text: str, ranks_per_node: int | None = None) -> list[int]:
    """Return the numbers of ranks that `--ranks` lists, sorted, each of which this machine can start. Local.

    Raises:
        UsageError: the list has other entries, or a number that is too large.
    """
    found = sorted(set(counts(text)))
    for number in found:
        try:
            launch.command(number, [], threads=1, ranks_per_node=ranks_per_node)
        except UsageError as error:
            raise UsageError(f"--ranks {text}: {error}") from None
    return found


def names(text: str | None) -> list[str]:
    """Return the items that an option lists. Local."""
    return [] if text is None else text.split(",")


def chosen(option: str, text: str | None, legal: Sequence[str]) -> list[str]:
    """Return the names that an option lists, each once; all that are legal without it. Local.

    Raises:
        UsageError: the list has an unknown name.
    """
    found = list(dict.fromkeys(name.strip() for name in names(text))) or list(legal)
    if not set(found) <= set(legal):
        raise UsageError(f"{option} {text}: legal are {', '.join(legal)}, with commas between")
    return found


def case_names(texts: list[str] | None) -> list[str] | None:
    """Return the parts of names of cases that `--cases` lists, each time that it is given; None: all cases. Local.

    Raises:
        UsageError: a list is empty.
    """
    found = [name.strip() for text in texts or () for name in names(text)]
    if not all(found):
        text = ",".join(texts or ())
        raise UsageError(f"--cases {text}: legal are parts of names of cases with commas between, such as task,channel")
    return found or None


def numbers(option: str, text: str | None) -> list[int]:
    """Return the whole numbers that an option lists. Local.

    Raises:
        UsageError: the list has other entries.
    """
    found = [number for part in names(text) if (number := whole_number(part.strip())) is not None and number >= 0]
    if len(found) != len(names(text)):
        raise UsageError(f"{option} {text}: legal are whole numbers with commas between, such as 64,128")
    return found
