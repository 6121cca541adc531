"""The output of ``gondwana ls``: the variables and attributes of a dataset, in the format of ``bpls``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gondwana.io.dataset import Dataset, Variable

_SHORTEST_TYPE = 7
_SHORTEST_NAME = 4


def listing(data: Dataset, *, long: bool = False, blocks: bool = False) -> Iterator[str]:
    """Return the lines that describe a dataset, sorted by name. Local.

    Args:
        data: the dataset.
        long: also the extremes of variables and the values of attributes.
        blocks: also every block of every step, with its index ranges and extremes.
    """
    types = data.attribute_types | {name: variable.type_name for name, variable in data.variables.items()}
    type_width = max([_SHORTEST_TYPE, *map(len, types.values())])
    name_width = max([_SHORTEST_NAME, *map(len, types)])
    for name in sorted(types):
        head = f"  {types[name]:<{type_width}}  {name:<{name_width}}  "
        if name not in data.variables:
            yield f"{head}attr" + (f"   = {value_text(data.attributes[name])}" if long else "")
            continue
        variable = data.variables[name]
        yield (head + _extent(variable) + (_extremes(variable) if long else "")).rstrip()
        if blocks:
            yield from _blocks(data, variable)


def value_text(value: Any) -> str:
    """Return an attribute's value as text: strings quoted and on one line, sequences in braces. Local.

    Example:
        >>> value_text(["U", "V"]), value_text(0.02)
        ('{"U", "V"}', '0.02')
    """
    if isinstance(value, str):
        return '"' + value.replace("\n", "\\n") + '"'
    if isinstance(value, list | np.ndarray):
        return "{" + ", ".join(value_text(item) for item in value) + "}"
    return _number(value)


def _number(value: float | int | None) -> str:
    if value is None:
        return "N/A"
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def _extent(variable: Variable) -> str:
    many = f"{variable.steps}*" if variable.steps > 1 else ""
    return many + ("{" + ", ".join(map(str, variable.shape)) + "}" if variable.shape else "scalar")


def _extremes(variable: Variable) -> str:
    if not variable.shape and variable.steps == 1:
        return f" = {_number(variable.minimum)}"
    return f" = {_number(variable.minimum)} / {_number(variable.maximum)}"


def _blocks(data: Dataset, variable: Variable) -> Iterator[str]:
    """Return the decomposition of a variable: per step and block its index ranges and extremes."""
    step_width = len(str(variable.steps - 1))
    widths = [len(str(n - 1)) for n in variable.shape]
    for step in range(variable.steps):
        stored = data.blocks(variable.name, step)
        if not variable.shape:
            yield f"        step {step:{step_width}}:  = {_number(stored[0].minimum)}"
            continue
        yield f"        step {step:{step_width}}:"
        for number, found in enumerate(stored):
            ranges = ", ".join(
                f"{start:{width}}:{start + count - 1:{width}}"
                for start, count, width in zip(found.block.start, found.block.count, widths, strict=True)
            )
            index = f"{number:{len(str(len(stored) - 1))}}"
            yield f"          block {index}: [{ranges}] = {_number(found.minimum)} / {_number(found.maximum)}"
