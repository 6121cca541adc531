"""Modules and kernels of the emulated driver."""

from __future__ import annotations

from dataclasses import dataclass, field

from gondwana.gpu.interface import CudaError, Grid
from gondwana_emulator.ptx.program import Kernel, Program, program_of

SHARED_LIMIT = 227 << 10
"""Bytes of shared memory that a block may have after `allow_shared`."""
THREADS = 1024

_SHARED_PLAIN = 48 << 10
_SHARED_PROCESSOR = 228 << 10
_SHARED_SYSTEM = 1 << 10
_WARP = 32
_MOST_WARPS = 64
_MOST_BLOCKS = 32
_MOST_THREADS: Grid = (1024, 1024, 64)
_MOST_GRID: Grid = (2**31 - 1, 65535, 65535)


@dataclass(slots=True, eq=False)
class Module:
    """A program on a device; `symbols` are the addresses of its variables."""

    device: int
    program: Program
    symbols: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Entry:
    """A kernel of a module; `allowed` is the limit of dynamic shared memory of its launches, in bytes."""

    module: Module
    kernel: Kernel
    allowed: int = 0

    def allow_shared(self, nbytes: int) -> None:
        """Raise the limit."""
        if not 0 <= nbytes <= SHARED_LIMIT - self.kernel.facts.shared:
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: {nbytes} bytes of shared memory: at most {SHARED_LIMIT}")
        self.allowed = nbytes

    def check(self, grid: Grid, block: Grid, shared: int, arguments: bytes) -> None:
        """Raise if a device could not execute a launch."""
        asked = f"kernel {self.kernel.name}: grid {grid}, block {block}, {shared} bytes of shared memory"
        threads = block[0] * block[1] * block[2]
        shape = all(0 < given <= most for given, most in zip(grid + block, _MOST_GRID + _MOST_THREADS, strict=True))
        limit = max(self.allowed, _SHARED_PLAIN - self.kernel.facts.shared)
        if not shape or threads > self.kernel.facts.threads or not 0 <= shared <= limit:
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: {asked}: at most {self.kernel.facts.threads} and {limit}")
        if len(arguments) != self.kernel.parameter_bytes:
            wanted = f"{self.kernel.parameter_bytes} bytes of parameters, not {len(arguments)}"
            raise CudaError(f"CUDA_ERROR_INVALID_VALUE: {asked}: it takes {wanted}")

    def resident(self, threads: int, shared: int) -> int:
        """Return the number of blocks that a multiprocessor holds."""
        warps = max(1, -(-threads // _WARP))
        taken = self.kernel.facts.shared + shared + _SHARED_SYSTEM
        return min(_MOST_BLOCKS, _MOST_WARPS // warps, _SHARED_PROCESSOR // taken)


def program_in(image: bytes) -> Program:
    """Return the program of a PTX text; raise if the text has anything unsupported."""
    try:
        return program_of(image.rstrip(b"\0").decode())
    except UnicodeDecodeError:
        raise CudaError("CUDA_ERROR_INVALID_IMAGE: the emulated GPU takes PTX only") from None
