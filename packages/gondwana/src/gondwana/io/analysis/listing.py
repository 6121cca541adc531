"""The output of ``gondwana ls``: the variables and attributes of a dataset, in the format of ``bpls``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gondwana.io.adios import TEXT, TYPE_OF_NAME
from gondwana.io.dataset import Dataset, Variable
from gondwana.io.paths import DatasetError

_SHORTEST_TYPE = 7
_SHORTEST_NAME = 4


def listing(data: Dataset, *, long: bool = False, blocks: bool = False) -> Iterator[str]:
    """Return the lines that describe a dataset, sorted by name. Local.

    Args:
        data: the dataset.
        long: whether to add the extremes of variables and the values of attributes.
        blocks: whether to add every block of every step, with its index ranges and extremes.
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
        yield (head + _extent(data, variable) + (_extremes(data, variable) if long else "")).rstrip()
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


def _extent(data: Dataset, variable: Variable) -> str:
    """Return the number of steps, of local blocks, and of cells, with "__" for numbers that differ between steps."""
    many = f"{variable.steps}*" if variable.steps > 1 else ""
    if variable.local:
        stored = [data.blocks(variable.name, step) for step in variable.at]
        number, *others = {len(found) for found in stored}
        counts = [found.block.count for blocks in stored for found in blocks]
        return f"{many}[{'__' if others else number}]*{_axes(counts)}"
    return many + (_axes(variable.shapes) if any(variable.shapes) else "scalar")


def _axes(shapes: Sequence[tuple[int, ...]]) -> str:
    if len({len(shape) for shape in shapes}) > 1:
        return "{...}"
    lengths = [set(axis) for axis in zip(*shapes, strict=True)]
    return "{" + ", ".join(str(*axis) if len(axis) == 1 else "__" for axis in lengths) + "}"


def _extremes(data: Dataset, variable: Variable) -> str:
    if not any(variable.shapes) and not variable.local:
        if variable.steps == 1:
            return f" = {_value(data, variable, variable.at[0])}"
        if variable.type_name == TEXT:
            return ""
    return f" = {_number(variable.minimum)} / {_number(variable.maximum)}"


def _value(data: Dataset, variable: Variable, step: int) -> str:
    """Return the text of one value."""
    if variable.type_name != TEXT and variable.type_name not in TYPE_OF_NAME:
        return "N/A"
    return value_text(data.read(variable.name, step))


def _blocks(data: Dataset, variable: Variable) -> Iterator[str]:
    """Return the decomposition of a variable: per step and block its index ranges and extremes."""
    step_width = len(str(variable.at[-1])) if variable.at else 1
    for step, shape in zip(variable.at, variable.shapes, strict=True):
        head = f"        step {step:{step_width}}:"
        if not shape and not variable.local:
            yield f"{head}  = {_value(data, variable, step)}"
            continue
        yield head
        try:
            stored = data.blocks(variable.name, step)
        except DatasetError as error:
            yield f"          {error}"
            continue
        if not stored:
            yield "          ADIOS2 does not list its blocks"
        widths = [len(str(n - 1)) for n in shape or np.max([(1, *found.block.count) for found in stored], axis=0)[1:]]
        for number, found in enumerate(stored):
            ranges = ", ".join(
                f"{start:{width}}:{start + count - 1:{width}}"
                for start, count, width in zip(found.block.start, found.block.count, widths, strict=True)
            )
            ranges = f"[{ranges}]" if found.block.size else "no cells"
            index = f"{number:{len(str(len(stored) - 1))}}"
            yield f"          block {index}: {ranges} = {_number(found.minimum)} / {_number(found.maximum)}"
