"""The trials of ``gondwana doctor`` on device memory: ``python -m gondwana.cli.doctor.gpu_trial``. It may crash.

The process shares memory with its child, which uses the next GPU if there are several, as the next rank would.
"""

from __future__ import annotations

import json
import mmap
import subprocess
import sys

import numpy as np
import numpy.typing as npt

from gondwana.cli.doctor.gpus import ending
from gondwana.gpu.device import Device, device
from gondwana.gpu.driver import driver
from gondwana.gpu.interface import CudaError

Bytes = npt.NDArray[np.uint8]

SIZE = 2**20
SUCCESS = "attached"


def main() -> None:
    """Try both, and print the problems. Local."""
    gpu = device(0)
    print("GPU " + json.dumps({"register": register(gpu), "attach": attach(gpu)}))


def pattern() -> Bytes:
    """Return the bytes to send. Local."""
    return np.arange(SIZE, dtype=np.uint32).astype(np.uint8) ^ np.uint8(0x5A)


def register(gpu: Device) -> str:
    """Copy to the device and back by way of registered memory; return the problem, "" without one. Local."""
    with mmap.mmap(-1, SIZE) as mapping:  # shared, as the memory of segments is
        memory = np.frombuffer(mapping, np.uint8)
        try:
            return _through(gpu, memory)
        except CudaError as error:
            return str(error)
        finally:
            del memory


def _through(gpu: Device, memory: Bytes) -> str:
    gpu.driver.register(memory.ctypes.data, SIZE)
    address = gpu.driver.allocate(SIZE)
    memory[:] = pattern()
    gpu.driver.copy(address, memory.ctypes.data, SIZE, gpu.transfers)
    gpu.synchronize()
    memory[:] = 0
    gpu.driver.copy(memory.ctypes.data, address, SIZE, gpu.transfers)
    gpu.synchronize()
    gpu.driver.free(address)
    gpu.driver.unregister(memory.ctypes.data)
    return "" if np.array_equal(memory, pattern()) else "the bytes that came back are others"


def attach(gpu: Device) -> str:
    """Have another process read memory of the device; return the problem, "" without one. Local."""
    address = gpu.driver.allocate(SIZE)
    source = pattern()
    gpu.driver.copy(address, source.ctypes.data, SIZE, gpu.transfers)
    gpu.synchronize()
    try:
        handle = gpu.driver.export(address)
    except CudaError as error:
        return str(error)
    argv = [sys.executable, "-P", "-m", "gondwana.cli.doctor.gpu_trial", handle.hex()]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "the other process still runs after 60 s"
    return "" if SUCCESS in done.stdout else ending(done.returncode, done.stderr)


def attached(handle: bytes) -> None:
    """Read the memory of the process that started this one. Local."""
    gpu = device(1 % driver().count())
    address = gpu.driver.attach(handle)
    found = np.zeros(SIZE, np.uint8)
    gpu.driver.copy(found.ctypes.data, address, SIZE, gpu.transfers)
    gpu.synchronize()
    gpu.driver.detach(address)
    if not np.array_equal(found, pattern()):
        raise SystemExit("gondwana: error: the bytes read are not those written")
    print(SUCCESS)


if __name__ == "__main__":
    attached(bytes.fromhex(sys.argv[1])) if len(sys.argv) > 1 else main()
