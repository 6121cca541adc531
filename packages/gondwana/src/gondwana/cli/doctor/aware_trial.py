"""Trial of two ranks whether MPI takes device memory: ``python -m gondwana.cli.doctor.aware_trial``. It may crash.

It sends messages and makes windows, and prints first what MPI says of itself, and then what was wrong.
"""

from __future__ import annotations

import json

import numpy as np

from gondwana.gpu.device import Device, device, own_number
from gondwana.teams import device_memory, mpi, world
from gondwana.teams.device_memory import DeviceBytes

SIZES = (8, 2**16, 2**22)
"""Bytes of a message: MPIs send small, medium and large ones in different ways."""


def main() -> None:
    """Move device memory, and print the problem. Collective over the world of two ranks."""
    if world.rank == 0:
        print("AWARE " + json.dumps({"claims": device_memory.claimed()}), flush=True)
    gpu = device(own_number())
    ways = [(size, way) for size in SIZES for way in (*exchange(gpu, size), *one_sided(gpu, size))]
    problems = world.allgather([f"{size} bytes {way} arrive damaged" for size, way in ways])
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


def one_sided(gpu: Device, size: int) -> list[str]:
    """Put to and get from device memory of rank 1, and return what has failed. Collective over the world."""
    memory = gpu.driver.allocate(2 * size)
    whole = DeviceBytes(memory, 2 * size)
    pattern = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    found = np.zeros(size, np.uint8)
    window = mpi.create_window(world.comm, whole)
    if world.rank == 0:
        _move(gpu, memory, pattern.ctypes.data, size)
        window.Put(whole[:size], 1, size)
        window.Flush(1)
        window.Get(whole[size:], 1, size)
        window.Flush(1)
    world.barrier()
    _move(gpu, found.ctypes.data, memory + size, size)
    window.Unlock_all()
    window.Free()
    gpu.driver.free(memory)
    return [] if np.array_equal(found, pattern) else [f"{'put to' if world.rank else 'got from'} a window of a GPU"]


def _move(gpu: Device, target: int, source: int, size: int) -> None:
    gpu.driver.copy(target, source, size, gpu.transfers)
    gpu.synchronize()


if __name__ == "__main__":
    main()
