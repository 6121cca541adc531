"""Reading of a dataset by another process, if nothing vouches for its metadata.

ADIOS2 (2.12) may end the process that reads damaged metadata, or wait for ever for missing data. Here that is the end
of the other process, and an error in this one.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import subprocess
import weakref
from collections.abc import Sequence
from math import prod
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.io import bp5
from gondwana.io.adios import BPReader, Description, integers
from gondwana.io.background import start_child
from gondwana.io.paths import DatasetError

_CHILD = "import sys; from gondwana.io.other_process import serve; serve(int(sys.argv[1]))"

#: Loading ADIOS2 and reading a little take a tenth of this; larger reads get more time.
_PATIENCE_S = 10.0
_BYTES_PER_S = 20e6


class OtherProcessReader:
    """A ``BPReader`` in another process. Local; hold ``LOCK`` around every call.

    Raises:
        DatasetError: ADIOS2 cannot read the dataset, ends its process, or does not answer; from any call.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        null = subprocess.DEVNULL
        self._process, self._pipe = start_child(_CHILD, stdout=null, stderr=null)
        self._end = weakref.finalize(self, _end, self._process, self._pipe)
        self._ask(bp5.size(path, bp5.METADATA), path)

    def steps(self) -> int:
        """Return the number of steps."""
        return int(self._ask(0, "steps"))

    def variables(self) -> dict[str, Description]:
        """Return the description of each variable."""
        found: dict[str, Description] = self._ask(bp5.size(self.path, bp5.METADATA), "variables")
        return found

    def attributes(self) -> dict[str, Any]:
        """Return every attribute: str, list of str, a NumPy number or an array."""
        found: dict[str, Any] = self._ask(0, "attributes")
        return found

    def attribute_types(self) -> dict[str, str]:
        """Return ADIOS2's name of every attribute's type."""
        found: dict[str, str] = self._ask(0, "attribute_types")
        return found

    def blocks(self, name: str, step: int) -> list[dict[str, str]]:
        """Return the blocks of a variable in one step."""
        found: list[dict[str, str]] = self._ask(0, "blocks", name, step)
        return found

    def read(
        self,
        name: str,
        steps: tuple[int, int],
        start: Sequence[int],
        count: Sequence[int],
        dtype: np.dtype[Any],
        block: int | None = None,
    ) -> npt.NDArray[Any]:
        """Return a box of consecutive steps, or a block; see ``BPReader.read``."""
        nbytes = steps[1] * prod(count) * dtype.itemsize
        cells: npt.NDArray[Any] = self._ask(nbytes, "read", name, steps, start, count, dtype, block)
        return cells

    def close(self) -> None:
        """Close the dataset; nothing else may be called after that."""
        self._end()

    def _ask(self, nbytes: int, *message: Any) -> Any:
        limit = _PATIENCE_S + min(nbytes, 1e12) / _BYTES_PER_S
        try:
            self._pipe.send(message)
            if not self._pipe.poll(limit):
                self._end()
                raise bp5.damaged(self.path, f"ADIOS2 does not finish reading it within {limit:.0f} s")
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            if isinstance(error, DatasetError):
                raise
            raise self._death() from None
        if isinstance(answer, DatasetError):
            raise answer
        return answer

    def _death(self) -> DatasetError:
        code = self._process.wait()
        cause = signal.Signals(-code).name if code < 0 else f"status {code}"
        return bp5.damaged(self.path, f"ADIOS2 ends with {cause} when it reads it")


def serve(descriptor: int) -> None:
    """Run the other process: open a dataset, then answer calls by their results or a DatasetError. Local."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the one that asks
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    reader: BPReader | None = None
    with Connection(descriptor) as pipe, contextlib.suppress(EOFError, ConnectionError):
        while True:
            name, *arguments = pipe.recv()
            try:
                if reader is None:
                    reader = BPReader(name)
                    _check_blocks(reader)
                    pipe.send(None)
                else:
                    pipe.send(getattr(reader, name)(*arguments))
            except (EOFError, ConnectionError):
                raise
            except Exception as error:
                pipe.send(DatasetError(" ".join(str(error).split()) or type(error).__name__))


def _check_blocks(reader: BPReader) -> None:
    """Check that the blocks of all variables are inside of them."""
    for name, about in reader.variables().items():
        for step, shape in enumerate(about.shapes):
            for block in reader.blocks(name, step) if shape else ():
                if "Start" not in block:
                    continue
                start, count = integers(block["Start"]), integers(block["Count"])
                ends = [first + number for first, number in zip(start, count, strict=True)]
                if len(ends) != len(shape) or any(end > whole for end, whole in zip(ends, shape, strict=True)):
                    raise bp5.damaged(reader.path, f"a block of {name!r} is outside of it")


def _end(process: subprocess.Popen[bytes], pipe: Connection) -> None:
    pipe.close()
    process.kill()
    process.wait()
