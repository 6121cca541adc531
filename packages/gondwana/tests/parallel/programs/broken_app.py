"""An application that fails in the way that its first argument names; and the program that runs it as one."""

from __future__ import annotations

import errno
import os
import sys

import gondwana as gw
from gondwana.errors import GondwanaError
from gondwana.io.paths import DatasetError


def check(argv: list[str], ranks: int | None = None) -> None:
    """Refuse nothing."""


def main(argv: list[str]) -> int:
    """Print a line, then fail."""
    rank = gw.world.rank
    if rank == 0:
        print("the result is printed", flush=True)
    gw.world.barrier()
    match argv[0]:
        case "all":
            raise GondwanaError("the fields are not finite after step 7: choose a smaller dt")
        case "agreed":
            gw.world.agree(DatasetError("gs.bp: data.0 is damaged") if rank == 1 else None)
        case "disk" if rank == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "ckpt.bp/data.0")
        case "mistake" if rank == 1:
            raise KeyError("missing")
    gw.world.barrier()
    return 0


if __name__ == "__main__":
    from importlib.metadata import EntryPoint

    from gondwana.cli import programs, rank as rank_entry

    programs.added(programs.PROGRAMS)["broken"] = EntryPoint("broken", "broken_app", programs.PROGRAMS)
    sys.exit(rank_entry.main("broken", sys.argv[1:]))
