"""Resources that all ranks of a team create and free together."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from gondwana import Team
from gondwana_bench import build


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


class NativeState(CollectiveResource):
    """What a native program of MPI keeps for a rank. Collective over team.

    The functions of the program begin with its name. All but `create` take first what that has returned.

    Args:
        name: of the program, in `gondwana_bench/native`.
        team: of MPI ranks.
        given: what `create` takes besides the communicator.
        results: types of results, by the names of functions.
        flags: for the compiler.

    Raises:
        UsageError: the team has no MPI, or there is no C compiler.
    """

    def __init__(
        self, name: str, team: Team, *given: Any, results: Mapping[str, Any], flags: Sequence[str] = ()
    ) -> None:
        self._library, self._name = build.library_with_mpi(f"{name}.c", team, flags), name
        for function, kind in {"create": ctypes.c_void_p, **results}.items():
            getattr(self._library, f"{name}_{function}").restype = kind
        self._handle = ctypes.c_void_p(getattr(self._library, f"{name}_create")(team.comm.py2f(), *given))

    def _call(self, function: str, *arguments: Any) -> Any:
        return getattr(self._library, f"{self._name}_{function}")(self._handle, *arguments)

    def close(self) -> None:
        """Free the memory. Collective over team."""
        if self._handle:
            self._call("free")
            self._handle = ctypes.c_void_p()
