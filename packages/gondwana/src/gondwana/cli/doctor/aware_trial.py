"""Trial of two ranks whether MPI takes device memory: ``python -m gondwana.cli.doctor.aware_trial``. It may crash."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from gondwana.gpu.device import Device, device, own_number
from gondwana.teams import world

SIZES = (8, 2**16, 2**22)
"""Bytes of a message: MPIs send small, medium and large ones in different ways."""


@dataclass(frozen=True)
class DeviceBytes:
    """Device memory in the form that mpi4py accepts.

    Attributes:
        address: address of the first byte.
        nbytes: number of bytes.
    """

    address: int
    nbytes: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3, "stream": None}


def main() -> None:
    """Send from and to device memory, and print the problem. Collective over the world of two ranks."""
    gpu = device(own_number())
    problems = world.allgather([f"{size} bytes {way} arrive damaged" for size in SIZES for way in exchange(gpu, size)])
    problem = next((text for each in problems for text in each), "")
    if world.rank == 0:
        print("AWARE " + json.dumps({"problem": problem}), flush=True)


def exchange(gpu: Device, size: int) -> list[str]:
    """Send bytes from rank 0 to rank 1, and return the ways of sending that failed. Collective over the world."""
    memory = gpu.driver.allocate(size)
    damaged = []
    for turn, way in enumerate(("from GPU to GPU", "from GPU to host", "from host to GPU")):
        pattern = np.random.default_rng(turn).integers(0, 256, size, np.uint8)
        on_device = DeviceBytes(memory, size)
        if world.rank == 0:
            _move(gpu, memory, pattern.ctypes.data, size)
            world.comm.Send(pattern if way.startswith("from host") else on_device, 1)
        else:
            host = np.zeros(size, np.uint8)
            _move(gpu, memory, host.ctypes.data, size)
            world.comm.Recv(host if way.endswith("host") else on_device, 0)
            if not way.endswith("host"):
                _move(gpu, host.ctypes.data, memory, size)
            if not np.array_equal(host, pattern):
                damaged.append(way)
    gpu.driver.free(memory)
    return damaged


def _move(gpu: Device, target: int, source: int, size: int) -> None:
    gpu.driver.copy(target, source, size, gpu.transfers)
    gpu.synchronize()


if __name__ == "__main__":
    main()
