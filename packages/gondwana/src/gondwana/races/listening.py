"""How `gondwana run` makes itself the race detector of a job: the variable GONDWANA_CHECK, and the socket."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

from gondwana.results import check_writable
from gondwana.runtime.races.records import VARIABLE
from gondwana.runtime.watching.sockets import listener_for_ranks

CHECK = "GONDWANA_CHECK"
"""Name of the variable whose value `races`, or `races:FILE`, asks for the detector."""
STATUS = 66
"""Exit status of a job that has succeeded but for its races: that of other race detectors."""


def listen(*, several_hosts: bool) -> tuple[dict[str, str], tuple[str, ...]]:
    """Listen for the ranks of a job. Local.

    Args:
        several_hosts: whether ranks run on other hosts, too.

    Returns:
        The variable that ranks need, and the words that stand before the command of the job, so that the detector runs
        it: it inherits the socket.

    Raises:
        UsageError: the file for the list of races cannot be written.
    """
    _, colon, file = os.environ[CHECK].partition(":")
    if colon:
        check_writable(Path(file), f"{CHECK}=races:{file}", streams=False)
        file = str(Path(file).absolute())
    listening, addresses = listener_for_ranks(several_hosts=several_hosts)
    os.set_inheritable(listening.fileno(), True)
    place = f"{secrets.token_hex(16)} {addresses}"
    return {VARIABLE: place}, (sys.executable, "-P", "-m", "gondwana.races", str(listening.detach()), file)
