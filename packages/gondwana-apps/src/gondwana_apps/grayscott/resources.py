"""The demands of a run on ranks, memory and disk, and whether they can be met: known before anything starts."""

from __future__ import annotations

from typing import NamedTuple

from gondwana.errors import UsageError
from gondwana_apps import run_files
from gondwana_apps.free_memory import available_memory, in_gib
from gondwana_apps.grayscott.settings import Settings

# Two fields at two time levels.
ARRAYS = 4
# U and V, as they are written.
WRITTEN = 2


class Needs(NamedTuple):
    """Bytes that a run takes, over all ranks, and the number of output steps.

    Attributes:
        memory: bytes of host memory.
        device_memory: bytes of GPU memory.
        output_steps: number of times the fields are written.
        output: bytes on the disk.
        checkpoints: bytes on the disk.
    """

    memory: int
    device_memory: int
    output_steps: int
    output: int
    checkpoints: int

    def __str__(self) -> str:
        on_devices = f"{in_gib(self.device_memory)} of GPU memory, " if self.device_memory else ""
        return (
            f"{on_devices}{in_gib(self.memory)} of memory, "
            f"{in_gib(self.output)} of disk for {self.output_steps} output steps, "
            f"{in_gib(self.checkpoints)} for checkpoints"
        )


def needs(settings: Settings, *, on_gpus: bool = False) -> Needs:
    """Estimate the demands of a run. Local.

    Args:
        settings: settings of the run.
        on_gpus: whether the fields lie in the memory of GPUs, else in that of the host.

    Example:
        >>> from gondwana_apps.grayscott.settings import resolve
        >>> needs(resolve({"L": 64, "steps": 1000, "plotgap": 10})).output_steps
        100
    """
    computed = ARRAYS * (settings.L + 2) ** 3 * settings.itemsize
    fields = WRITTEN * settings.L**3 * settings.itemsize
    output_steps = settings.steps // settings.plotgap + settings.write_initial if settings.output else 0
    staging = fields if output_steps or settings.checkpoint else 0
    # A new checkpoint is complete before the oldest is removed.
    kept = settings.checkpoint_keep + 1 if settings.checkpoint else 0
    return Needs(
        memory=staging if on_gpus else computed + staging,
        device_memory=computed if on_gpus else 0,
        output_steps=output_steps,
        output=output_steps * fields,
        checkpoints=min(kept, settings.steps // settings.checkpoint_freq + 1) * fields if kept else 0,
    )


def check_ranks(settings: Settings, ranks: int) -> None:
    """Refuse a number of ranks among which the cube cannot be divided. Local.

    Args:
        settings: settings of the run; `dims` is the grid of ranks, or null for any grid.
        ranks: number of ranks of the run.

    Raises:
        UsageError: the product of `dims` is another number, or no grid has an axis of at most L ranks.
    """
    side, dims = settings.L, settings.dims
    if dims is not None and dims[0] * dims[1] * dims[2] != ranks:
        raise UsageError(
            f"dims: the grid {list(dims)} has {dims[0] * dims[1] * dims[2]} ranks and the run has {ranks}; "
            f"give a grid of {ranks} ranks, or null to have one chosen"
        )
    if not _divides(side, ranks):
        fewer = next(fit for fit in range(min(ranks, side**3), 0, -1) if _divides(side, fit))
        raise UsageError(
            f"L: {ranks} ranks make no grid of at most {side} along each axis of {side} cells; "
            f"start {fewer} ranks, or enlarge L"
        )


def check_memory(settings: Settings, nodes: int = 1, *, on_gpus: bool = False) -> None:
    """Refuse a run that does not fit in the free host memory. Local.

    Args:
        settings: settings of the run.
        nodes: number of machines like this one over which the ranks are spread evenly.
        on_gpus: whether the fields lie in the memory of GPUs, for which see `devices.check_memory`.

    Raises:
        UsageError: the share of one node is larger than the free memory of this one.
    """
    needed, free = needs(settings, on_gpus=on_gpus).memory // nodes, available_memory()
    if needed > free:
        raise UsageError(
            f"L: {settings.L}^3 cells in {settings.precision} need {in_gib(needed)} of memory a node and "
            f"{in_gib(free)} are free; {fitting(settings, needed, free)}, or use more nodes"
        )


def fitting(settings: Settings, needed: int, free: int) -> str:
    """Advise on a cube that fits into memory. Local.

    Args:
        settings: settings of the run.
        needed: bytes of its cube.
        free: free bytes.
    """
    side = int(settings.L * (free / needed) ** (1 / 3))
    return f"set L to at most {side}" if side >= settings.seed_width else "free some memory"


def check_files(settings: Settings) -> None:
    """Refuse names that cannot be written or read, data that would be lost, and a disk that is too small. Local.

    Raises:
        UsageError: one line that names the key and says what to change.
    """
    need = needs(settings)
    run_files.check(settings, need.output, need.checkpoints, ("steps", settings.steps))


def _divides(side: int, ranks: int) -> bool:
    """Return whether `ranks` is a product of three numbers of at most `side`."""
    divisors = [d for d in range(1, min(side, ranks) + 1) if ranks % d == 0]
    return any(ranks % (a * b) == 0 and ranks // (a * b) <= side for a in divisors for b in divisors)
