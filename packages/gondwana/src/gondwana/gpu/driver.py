"""The CUDA driver of this process."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from gondwana.errors import UsageError
from gondwana.gpu.bindings import CudaDriver
from gondwana.gpu.interface import Driver
from gondwana.gpu.recording import recorded

GROUP = "gondwana.cuda_drivers"
"""The group of entry points of packages with a driver: a function or class that is called without arguments."""

EMULATED = "emulated"
"""The name of the driver in the package `gondwana-emulator`."""

VARIABLE = "GONDWANA_CUDA"
"""Environment variable: with "emulated", GPU programs run on the processor, slowly, for tests."""


@functools.cache
def driver() -> Driver:
    """Return the driver of this process. Local.

    ``GONDWANA_CUDA`` names a replacement among the installed entry points of the group "gondwana.cuda_drivers".

    Raises:
        UsageError: there is none; the message has the reason, and what to install.
    """
    wanted = os.environ.get(VARIABLE, "")
    if not wanted:
        return recorded(CudaDriver.connect())
    from importlib.metadata import entry_points  # not at the start of every rank: it imports 40 modules

    stand_ins = entry_points(group=GROUP)
    if wanted not in stand_ins.names:
        if wanted == EMULATED:
            raise UsageError(
                f"{VARIABLE}={wanted}: the emulated GPU is not installed: pip install 'gondwana[emulator]'"
            )
        legal = " or ".join(f'"{name}"' for name in sorted({EMULATED, *stand_ins.names}))
        raise UsageError(f"{VARIABLE}={wanted!r}: legal is {legal}, or leave it out to use the GPUs")
    chosen: Callable[[], Driver] = stand_ins[wanted].load()
    return recorded(chosen())
