"""The memory and the processors of this host that its control groups (Linux cgroups, as containers use them) grant us.

Local. A limit may stand at this process's own group or at any group above it, in the one hierarchy of version 2 or in
those of version 1, one for each controller. Inside a container, the group that a process names may not be visible; the
groups above it that are visible count.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

from gondwana.runtime.files import text_of

MOUNTED = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


@functools.cache
def memory() -> int:
    """Return the bytes of memory that the processes of this host can use together. Local; read once."""
    limits = [int(text) for text in _settings("memory", "memory.max", "memory.limit_in_bytes") if text.isdecimal()]
    return min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *limits])


@functools.cache
def processors() -> int | None:
    """Return how many processors' time the processes of this host can use together; None if it is not limited. Local.

    Read once. A part of a processor counts as one.
    """
    limits = []
    for text in _settings("cpu", "cpu.max", "cpu.cfs_quota_us cpu.cfs_period_us"):
        quota, _, period = text.partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(period) > 0:
            limits.append(max(1, -(-int(quota) // int(period))))
    return min(limits, default=None)


def _settings(controller: str, unified: str, own: str) -> Iterator[str]:
    """The texts of a setting in all groups of this process, "" where it is missing; several files are joined by blanks.

    Args:
        controller: controller that has the setting.
        unified: the file in version 2.
        own: the files in version 1, separated by blanks.
    """
    for hierarchy, group in _memberships():
        if hierarchy == "":
            roots, names = [MOUNTED, MOUNTED / "unified"], unified
        elif controller in hierarchy.split(","):
            roots, names = [MOUNTED / controller], own
        else:
            continue
        for root in roots:
            folder = root / group.strip("/")
            for place in (folder, *(above for above in folder.parents if above.is_relative_to(root))):
                yield " ".join(text_of(place / name) for name in names.split())


def _memberships() -> Iterator[tuple[str, str]]:
    """The controllers of every hierarchy, "" in version 2, and the group of this process in it."""
    for line in text_of(MEMBERSHIP).splitlines():
        _, hierarchy, group = line.split(":", 2)
        yield hierarchy, "" if ".." in group.split("/") else group
