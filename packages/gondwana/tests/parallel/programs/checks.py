"""Run the checks of a program on all ranks and print what each found, one JSON line a check."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from gondwana.teams import world

E = TypeVar("E", bound=Exception)


def raised(kind: type[E], function: Callable[..., object], *arguments: Any, **options: Any) -> E:
    """Return the error that a call must raise on this rank."""
    try:
        function(*arguments, **options)
    except kind as error:
        return error
    raise AssertionError(f"{function} did not raise {kind.__name__}")


def raises(kind: type[Exception], function: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """Return the message of the error that a call must raise on this rank."""
    return str(raised(kind, function, *arguments, **options))


def run_checks(names: dict[str, Any]) -> None:
    """Call every `check_*` of a module; rank 0 reports those that fail on any rank. Collective over the world.

    With `--ranks N` on the command line the job must have N ranks: otherwise N copies of one rank could pass.
    """
    for name, check in list(names.items()):
        if not name.startswith("check_"):
            continue
        problem = None
        start = time.monotonic()
        try:
            check()
        except Exception:
            problem = f"rank {world.rank}: {traceback.format_exc()}"
            print(problem, file=sys.stderr, flush=True)  # now: others may wait in the check for ever
        world.barrier()  # serves ranks that are not through yet, as other collectives do not
        problems = [text for text in world.allgather(problem) if text]
        if world.rank == 0:
            seconds = round(time.monotonic() - start, 2)
            print(json.dumps({"check": name, "problems": problems, "seconds": seconds}), flush=True)
    if "--ranks" in sys.argv:
        assert world.size == int(sys.argv[sys.argv.index("--ranks") + 1])
