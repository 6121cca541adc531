"""`python -m gondwana.traces FILE`: make the trace of a job that ended too early, from the parts of its ranks."""

from __future__ import annotations

import sys
from pathlib import Path

from gondwana.errors import UsageError
from gondwana.traces import closing
from gondwana.traces.closing import report
from gondwana.traces.merge import merge


def main(arguments: list[str]) -> int:
    """Make the trace named by the only argument, and return the exit status. Local."""
    if len(arguments) != 1:
        report(["error: name the trace, as it was given to gondwana run --trace"])
        return 2
    try:
        report(closing.summary(merge(Path(arguments[0]).absolute())))
    except UsageError as error:
        report([f"error: {error}"])
        return 2
    except OSError as error:
        report([f"error: {arguments[0]}: {error.strerror}"])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
