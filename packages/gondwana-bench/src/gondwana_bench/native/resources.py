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


class NativeProgram:
    """The functions of a native program of MPI, whose names begin with its own. Collective over team.

    Args:
        name: name of the program, in `gondwana_bench/native`.
        team: a team of MPI ranks.
        results: types of results, by the names of functions.
        flags: flags for the compiler.

    Raises:
        UsageError: the team has no MPI, or no C compiler was found.
    """

    def __init__(self, name: str, team: Team, results: Mapping[str, Any], flags: Sequence[str] = ()) -> None:
        self._library, self._name = build.library_with_mpi(f"{name}.c", team, flags), name
        for function, kind in results.items():
            getattr(self._library, f"{name}_{function}").restype = kind
        self._handle: Any = team.comm.py2f()

    def _call(self, function: str, *arguments: Any) -> Any:
        return getattr(self._library, f"{self._name}_{function}")(self._handle, *arguments)

    def _time(self, function: str, *arguments: Any) -> float:
        return float(self._call(function, *arguments))


class NativeState(NativeProgram, CollectiveResource):
    """The state of a native program on a rank: `create` returns it, and the other functions take it first.

    Args:
        name: name of the program, as for `NativeProgram`.
        team: a team of MPI ranks.
        given: arguments of `create` besides the communicator.
        results: types of results, as for `NativeProgram`.
        flags: flags for the compiler.
    """

    def __init__(
        self, name: str, team: Team, *given: Any, results: Mapping[str, Any], flags: Sequence[str] = ()
    ) -> None:
        super().__init__(name, team, {"create": ctypes.c_void_p, **results}, flags)
        self._handle = ctypes.c_void_p(self._call("create", *given))

    def close(self) -> None:
        """Free the memory. Collective over team."""
        if self._handle:
            self._call("free")
            self._handle = ctypes.c_void_p()
