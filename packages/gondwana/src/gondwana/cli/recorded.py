"""The folder of a recorded run: what was run, in how many ranks, beside the logs of these."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from gondwana.errors import UsageError
from gondwana.inputs import read_text
from gondwana.runtime import files, ordering

_ABOUT = "run.json"
_MOST = 2**20


def variables(
    record: Path | None, replay: Path | None, words: Sequence[str], ranks: int, *, dry_run: bool
) -> dict[str, str]:
    """Check the folder of a recording or a replay, and return the variables for the ranks. Local.

    Args:
        record: folder in which the run is recorded; None: it is not.
        replay: folder of the run that is repeated; None: none.
        words: words of the program.
        ranks: number of ranks.
        dry_run: whether nothing is to be written.

    Raises:
        UsageError: both are given, no run can be recorded there, or the recorded one was another.
    """
    folder = record or replay
    assert folder is not None
    if record is not None and replay is not None:
        raise UsageError(f"--record {record} and --replay {replay}: give one of them")
    about: dict[str, str | int] = {"program": shlex.join(words), "ranks": ranks}
    if replay is not None:
        _compare(replay, about)
    elif not dry_run:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.glob(f"*{ordering.SUFFIX}"):
                old.unlink()
            files.write(folder / _ABOUT, f"{json.dumps(about)}\n".encode())
        except OSError as error:
            raise UsageError(f"--record {record}: {error.strerror}; name another folder") from None
    return {ordering.RECORD if replay is None else ordering.REPLAY: str(folder.absolute())}


def _compare(folder: Path, about: dict[str, str | int]) -> None:
    """Raise if the run to be repeated is another than the recorded one."""
    text = read_text(folder / _ABOUT, f"--replay {folder}", _MOST, "name the folder of a recorded run")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if found != about:
        recorded = found if isinstance(found, dict) else {}
        raise UsageError(
            f"--replay {folder} of {about['program']} on {about['ranks']} ranks, but what was recorded is "
            f"{recorded.get('program', 'nothing')} on {recorded.get('ranks', 'no')} ranks: repeat that"
        )
