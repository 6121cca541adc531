"""Resources that all ranks of a team create and free together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class CollectiveResource(ABC):
    """A context manager that frees a resource of a team at its end. Collective."""

    @abstractmethod
    def close(self) -> None:
        """Free everything. Collective."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the other ranks may not get here: closing, which is collective, could hang.
        if error is None:
            self.close()
