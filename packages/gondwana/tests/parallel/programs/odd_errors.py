"""Errors that are hard to carry from one process to another."""

from __future__ import annotations

import dataclasses


class OddError(Exception):
    """An error that can be pickled but not rebuilt."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


class OwnError(BaseException):
    """An error that `except Exception` does not catch."""


class DefiantError(OwnError):
    """One that refuses to be pickled, by another one."""

    def __reduce__(self):
        raise OwnError("not to be pickled")


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    """An error to which no note can be added."""

    number: int

    def __reduce__(self):
        return FrozenError, (self.number,)
