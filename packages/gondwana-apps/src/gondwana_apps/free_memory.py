"""The memory available for a run."""

from __future__ import annotations

from pathlib import Path


def available_memory() -> int:
    """Return the bytes that this process may still use: the machine's free memory, or less in a container. Local."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    # Counts the caches that the system gives back on demand, too.
    return min(int(fields["MemAvailable"].split()[0]) * 1024, _container_memory())


def in_gib(size: int) -> str:
    """Show a number of bytes in GiB. Local.

    Example:
        >>> in_gib(3 * 2**29)
        '1.5 GiB'
    """
    return f"{size / 2**30:.3g} GiB" if size < 1000 * 2**30 else f"{size // 2**30:,} GiB"


def _container_memory() -> int:
    root = Path("/sys/fs/cgroup")
    try:
        return int((root / "memory.max").read_text()) - int((root / "memory.current").read_text())
    except (OSError, ValueError):
        return 2**63
