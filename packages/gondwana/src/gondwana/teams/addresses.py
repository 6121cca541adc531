"""Addresses of MPI's C functions, and its handles and constants, for compiled code that calls MPI itself."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from gondwana.teams import mpi


def function(name: str) -> int:
    """Return the address of a C function of the MPI library, such as "MPI_Send". Local; MPI must have been started.

    Raises:
        AttributeError: the library has no such function.
    """
    return ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value or 0


def handle(thing: Any) -> int:
    """Return the C handle of an object of mpi4py (communicator, datatype, operation, window) as an integer. Local.

    Open MPI's handles are pointers and MPICH's are 32-bit integers with a sign; both fit into 64 bits with a sign.
    """
    return ctypes.c_int64(thing.handle).value


def datatype(dtype: str) -> int:
    """Return the handle of the datatype of elements of this NumPy dtype (by name). Local; MPI must run."""
    return handle(getattr(mpi.module(), _DATATYPES[dtype]))


def operation(name: str) -> int:
    """Return the handle of a reduction by the name of an `Op`, of REPLACE or of NO_OP. Local; MPI must run."""
    return handle(getattr(mpi.module(), name))


def constant(name: str) -> int:
    """Return a constant of the C interface that is a number or a pointer, such as IN_PLACE. Local; MPI must run."""
    return int(getattr(mpi.module(), name))


@functools.cache
def _library() -> ctypes.CDLL:
    # A name that is looked up through mpi4py's own module is found in the library that mpi4py is linked to.
    return ctypes.CDLL(str(mpi.module().__file__))


_DATATYPES = {
    "bool": "C_BOOL",
    "int8": "INT8_T",
    "int16": "INT16_T",
    "int32": "INT32_T",
    "int64": "INT64_T",
    "uint8": "UINT8_T",
    "uint16": "UINT16_T",
    "uint32": "UINT32_T",
    "uint64": "UINT64_T",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
}
