"""What all ranks of a team make and give back together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ClosedTogether(ABC):
    """`with` gives it back at the end of the block. Collective."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back. Collective."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the other ranks are elsewhere: closing, which is collective, could hang.
        if error is None:
            self.close()
