"""The command lines of applications: one line for what is wrong with them."""

from __future__ import annotations

import argparse
from typing import NoReturn

from gondwana.errors import UsageError
from gondwana.inputs import whole_number


class Parser(argparse.ArgumentParser):
    """Raises `UsageError` where its parent prints the usage and exits.

    Args:
        program: the name of the application.
        description: what it does.
    """

    def __init__(self, program: str, description: str) -> None:
        self._program = program
        super().__init__(prog=f"gondwana run {program}", description=description)

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`. Local."""
        raise UsageError(f"{self._program}: {message}; see gondwana run {self._program} --help")


def whole(text: str) -> int:
    """Return the number that an option gives: the `type` of its argument. Local."""
    number = whole_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return number
