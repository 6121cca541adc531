"""How pytest-xdist deals out tests with ``--dist loadfile``: a module stays in one worker, as do the tests of a job."""

from __future__ import annotations

import re

from xdist.scheduler import LoadFileScheduling

_JOB = re.compile(r"\[(1rank|\d+ranks)(-\d+pernode)?(-\d+threads)?[-\]]")
"""How the parameters of a marked test begin. Settings that differ in more than these numbers stay together, too."""


class BySetting(LoadFileScheduling):  # type: ignore[misc]
    """Keeps marked tests of all modules together by their numbers of ranks and threads, others by their module."""

    def _split_scope(self, nodeid: str) -> str:
        job = _JOB.search(nodeid)
        return "".join(filter(None, job.groups())) if job else str(super()._split_scope(nodeid))
