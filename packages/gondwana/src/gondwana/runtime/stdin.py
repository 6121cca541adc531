"""Standard input of a job: rank 0 reads what `gondwana run` has been given, as one rank alone would.

Launchers of MPI read all of it in advance, whether or not a rank wants it, and do not pass on where it ends. So they
get none of it, and rank 0 opens that of the supervisor, which is a file of the same host.
"""

from __future__ import annotations

import contextlib
import os

VARIABLE = "GONDWANA_STDIN"
"""Names the variable with the path of the standard input for rank 0. As in `gondwana.runtime.supervisor`."""


def receive(*, first: bool) -> None:
    """Take over the standard input of the job on rank 0, and nothing to read on the others. Local.

    Without a supervisor the standard input stays as it is.

    Args:
        first: whether this is rank 0.
    """
    path = os.environ.pop(VARIABLE, "")
    if not path:
        return
    try:
        # A pipe would wait for somebody to write to it, who may have ended.
        source = os.open(path if first else os.devnull, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # rank 0 is on another host
        source = os.open(os.devnull, os.O_RDONLY)
    os.set_blocking(source, True)
    with contextlib.suppress(OSError, ValueError, IndexError):  # a pipe has no position
        os.lseek(source, _position(path), os.SEEK_SET)
    os.dup2(source, 0)
    os.close(source)


def _position(path: str) -> int:
    """Where the supervisor, or who has called it, is in a file: the path is /proc/PROCESS/fd/NUMBER."""
    with open(path.replace("/fd/", "/fdinfo/")) as lines:
        return int(next(line for line in lines if line.startswith("pos:")).split()[1])
