"""What copies under way use of the memory of this rank, for checks of what else reaches it meanwhile.

Compiled code reaches memory without asking anybody. With `GONDWANA_CHECK=1`, a launch whose accesses are known is
compared with what copies of this rank still read and write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.futures import Future
from gondwana.transfer.box import StridedBox
from gondwana.transfer.plans.plan import under_way

_WORK = 100_000
"""Steps after which NumPy gives up finding out whether two strided boxes share memory."""

_Memory = npt.NDArray[Any]


@dataclass(frozen=True)
class Use:
    """Memory of this rank that a copy under way uses.

    Attributes:
        memory: Its elements.
        written: Whether the copy writes them; else it reads them.
        what: The copy, and what completes it.
    """

    memory: _Memory
    written: bool
    what: str

    def excludes(self, memory: _Memory, *, written: bool) -> bool:
        """Return whether memory must not be read, or written, until the copy is complete. Local."""
        if not (self.written or written):
            return False
        try:
            return bool(np.shares_memory(self.memory, memory, max_work=_WORK))  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return False


_noted: list[tuple[Future[None], Use]] = []
"""What copies use, with the futures of its end."""


def note(source: StridedBox, target: StridedBox, operation: Future[None], reusable: Future[None]) -> None:
    """Keep the ends of a copy, with the futures of its operation and source completion. Local."""
    for box, done, written in ((source, reusable, False), (target, operation, True)):
        if box.memory is not None and not done.done():
            _noted.append((done, Use(box.memory, written, "a copy that has not been waited for")))


def uses() -> Iterator[Use]:
    """Return what copies of this rank use at this moment. Local; no progress."""
    _noted[:] = [(done, use) for done, use in _noted if not done.done()]
    for _, use in _noted:
        yield use
    for copies in under_way():
        what = f"the {copies.what} that has not been waited for"
        # What a rank copies to itself is there when a round has started: `GlobalArray.inner` counts on it.
        sources = [pair.source.memory for rank in copies.receivers for pair in copies.outgoing[rank]]
        targets = [pair.target.memory for pairs in copies.incoming.values() for pair in pairs]
        yield from (Use(memory, False, what) for memory in sources if memory is not None)
        yield from (Use(memory, True, what) for memory in targets if memory is not None)
