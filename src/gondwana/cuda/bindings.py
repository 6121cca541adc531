"""The CUDA driver: the one file that imports `cuda.bindings`."""

from __future__ import annotations

from gondwana.cuda.driver import Driver
from gondwana.errors import UsageError


class CudaDriver(Driver):
    """The CUDA driver."""

    @classmethod
    def connect(cls) -> CudaDriver:
        """Return the driver of this machine. Local.

        Raises:
            UsageError: there is none.
        """
        raise UsageError("this machine has no CUDA driver")
