"""Memory of devices for MPI: whether MPI takes it, and the form in which it is handed over."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import numpy as np

from gondwana.errors import UsageError
from gondwana.teams import addresses, mpi

VARIABLE = "GONDWANA_MPI_CUDA"
"""Environment variable: 1 if MPI takes device memory, 0 if not, whatever it says of itself."""

_QUERY = "MPIX_Query_cuda_support"
"""The function of MPI libraries that returns whether they take the memory of CUDA devices; some libraries lack it."""


class DeviceBytes:
    """Bytes in the memory of a device of this rank, in a form that mpi4py accepts. Local.

    Args:
        address: address of the first byte.
        nbytes: number of bytes.
        owner: an object that keeps them allocated.

    Attributes:
        address: address of the first byte.
        nbytes: number of bytes.
        size: the same.
    """

    __slots__ = ("__weakref__", "_owner", "address", "nbytes", "size")

    dtype = np.dtype(np.uint8)
    itemsize = 1

    def __init__(self, address: int, nbytes: int, owner: object = None) -> None:
        self.address = address
        self.nbytes = self.size = nbytes
        self._owner = owner

    def __getitem__(self, part: slice) -> DeviceBytes:
        """The bytes from one place to another, none of which may be negative. Local."""
        kept = range(self.nbytes)[part]
        return DeviceBytes(self.address + kept.start, len(kept), self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3, "stream": None}


@functools.cache
def is_taken() -> bool:
    """Return whether MPI takes device memory: GONDWANA_MPI_CUDA decides, else what MPI says. Local; decided once.

    Raises:
        UsageError: the variable has an illegal value.
    """
    forced = _forced()
    if not mpi.is_running():
        return False
    return bool(claimed()) if forced is None else forced


def claimed() -> bool | None:
    """Return whether MPI says that it takes the memory of CUDA devices, None if it cannot be asked. Local."""
    try:
        query = addresses.function(_QUERY)
    except AttributeError:
        return None
    return bool(ctypes.CFUNCTYPE(ctypes.c_int)(query)())


def check_environment(_: object) -> None:
    """Raise if GONDWANA_MPI_CUDA has an illegal value. Local.

    Raises:
        UsageError: it has.
    """
    _forced()


def _forced() -> bool | None:
    given = os.environ.get(VARIABLE, "")
    if given not in ("", "0", "1"):
        raise UsageError(
            f"{VARIABLE}={given!r}: legal are 1 (MPI takes memory of GPUs) and 0 (it does not); unset it to ask MPI"
        )
    return bool(int(given)) if given else None
