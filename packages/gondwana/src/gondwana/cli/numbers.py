"""Whole numbers as options of a command take them."""

from __future__ import annotations

from collections.abc import Callable

from gondwana.inputs import whole_number

LARGEST = 2**31 - 1


def whole(low: int, high: int = LARGEST) -> Callable[[str | int], int]:
    """Return the parser of an option that takes a whole number of a range. Local."""

    def parse(given: str | int) -> int:
        number = whole_number(given) if isinstance(given, str) else given
        if number is None or not low <= number <= high:
            import typer  # not for numbers that are right

            raise typer.BadParameter(f"{given}: legal is a whole number from {low} to {high}")
        return number

    return parse
