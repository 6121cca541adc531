"""The command lines of applications, with one line for each error in them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn, TypeVar

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.inputs import whole_number

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """Raises `UsageError` where its parent prints the usage and exits.

    Args:
        program: the name of the application.
        description: purpose of the application.
    """

    def __init__(self, program: str, description: str) -> None:
        self._program = program
        super().__init__(prog=f"gondwana run {program}", description=description)

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`. Local."""
        raise UsageError(f"{self._program}: {message}; see gondwana run {self._program} --help")


def whole(text: str) -> int:
    """Return the number in an option's text: the `type` of its argument. Local."""
    number = whole_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return number


def on_first_rank(team: gw.Team, read: Callable[[], T]) -> T:
    """Let rank 0 read the input of users, so that all ranks run the same even if a file changes. Collective over team.

    Args:
        team: ranks that get the result.
        read: called by rank 0 alone.

    Raises:
        UsageError: on all ranks, if `read` raises it.
    """
    found, problem = None, None
    if team.rank == 0:
        try:
            found = read()
        except UsageError as error:
            problem = error
    team.agree(problem)
    shared: T = team.bcast(found)
    return shared
