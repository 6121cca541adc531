"""One sweep over memory for each expression: its operations as one kernel, which is compiled once for its structure.

The text of the kernel names arrays and numbers by their order, so expressions that differ in them alone share code, in
this process and on disk. Each array is read once a cell.
"""

from __future__ import annotations

import functools
import types as pytypes
from typing import TYPE_CHECKING, Any

import numpy as np

from gondwana.arrays.array import Array
from gondwana.arrays.device_array import DeviceArray
from gondwana.arrays.expressions.operations import cast, check_real
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.kernels.foreach_kernels import Foreach
from gondwana.kernels.reductions import Folding, Reduce

if TYPE_CHECKING:
    from gondwana.arrays.expressions.expression import Elementwise
    from gondwana.arrays.global_array import GlobalArray

_MOST_KERNELS = 1024
_OUT, _ARRAY, _SCALAR = "out", "a", "s"
"""Kinds of operands: the array that is written, arrays, numbers; in the text of a kernel followed by a number."""

_kernels: dict[tuple[Any, ...], Any] = {}


def assign(target: Elementwise, value: Elementwise) -> None:
    """Store an expression in an array or a view of the same cells. Local.

    Args:
        target: the array or view.
        value: the expression.

    Raises:
        UsageError: the cells are others, or complex numbers would be stored as real ones.
    """
    check_same_cells(target, value)
    check_real(value.dtype, target.dtype)
    array = target._selection[0]
    formula = _Formula(value, array)
    box = owned_box(target)
    if not box.is_empty:
        block = array._peek(array.team.rank)
        out = _reachable(array)
        formula.kernel("", array.dtype)(box, out, *map(_reachable, formula.arrays), *formula.scalars)
        if out is not block:
            block.copy_from(out.restrict(box))
    array._note_write()


def check_same_cells(first: Elementwise, other: Elementwise) -> None:
    """Refuse operands whose cells are not the same, or are on other ranks. Local.

    Raises:
        UsageError: they differ; the message says how to copy one of them.
    """
    (array, cells, axes), (another, others, other_axes) = first._selection, other._selection
    if array is not another and array._division != another._division:
        one, two = ((a.domain, a.grid, a.layout.cuts) for a in (array, another))
        raise UsageError(
            f"arithmetic of {array.label} and {another.label}, whose cells lie on other ranks (domain, grid and cuts "
            f"{one} and {two}): copy one to the layout of the other, as in C = gw.empty_like(A, B.dtype); gw.copy(B, C)"
        )
    if cells != others or axes != other_axes:
        raise UsageError(
            f"arithmetic of different cells, of {first.domain!r} and of {other.domain!r}, of {array.label}: operands "
            "have the same cells; a kernel of gw.foreach reads neighbours, and gw.copy copies views to other places"
        )


def fold(operation: Folding, value: Elementwise) -> Any:
    """Fold all elements of an expression into one number, as `gw.reduce` does. Collective over its team; blocks.

    Args:
        operation: operation that folds them.
        value: the expression: of real numbers or bools.
    """
    formula = _Formula(value)
    arguments = (*map(_reachable, formula.arrays), *formula.scalars)
    return formula.kernel(operation, value.dtype).all(value.team, owned_box(value), *arguments)


def values(value: Elementwise) -> np.ndarray[Any, Any]:
    """Return the elements of an expression or array that this rank owns, on the host and with its axes. Local.

    Those of an array in host memory are the memory itself.
    """
    array, _, axes = value._selection
    box = owned_box(value)
    if value._operation is None:
        here = _on_host(array).restrict(box)
    else:
        formula, here = _Formula(value), Array.empty(box, value.dtype)
        if not box.is_empty:
            formula.kernel("", value.dtype)(box, here, *map(_on_host, formula.arrays), *formula.scalars)
    gone = [axis for axis in range(array.ndim) if axis not in axes]
    found = here.numpy().transpose((*axes, *gone))
    return found.reshape(value.part(value.team.rank).shape) if gone else found


def owned_box(value: Elementwise) -> RectDomain:
    """Return the cells that this rank owns of those in an expression or view, as cells of its array. Local."""
    array, cells, _ = value._selection
    return array.owned if cells == array.domain.axes else RectDomain.from_axes(cells) & array.owned


class _Formula:
    """The operations that give an expression, in an order in which they can be computed.

    Attributes:
        arrays: the arrays that it reads, without the one that it writes.
        scalars: its numbers.
        steps: for each value what gives it: a kind of operand and its dtype, or an operation and the numbers of values.

    Args:
        root: the expression.
        out: array that it is stored in.
    """

    def __init__(self, root: Elementwise, out: GlobalArray | None = None) -> None:
        self.arrays: list[GlobalArray] = []
        self.scalars: list[np.generic] = []
        steps: list[tuple[Any, ...]] = []
        numbers: dict[int, int] = {}
        todo: list[Any] = [root]  # in place of recursion: expressions may be deep
        while todo:
            node = todo[-1]
            if isinstance(node, np.generic):
                step: tuple[Any, ...] = _SCALAR, node.dtype
            elif node._operation is not None:
                below = [one for one in node._operands if id(one) not in numbers]
                if below:
                    todo += below
                    continue
                step = node._operation, *[numbers[id(one)] for one in node._operands]
            else:
                array = node._selection[0]
                step = _OUT if array is out else _ARRAY, node.dtype
                numbers[id(node)] = numbers.setdefault(id(array), len(steps))  # each array is read once
            todo.pop()
            if numbers.setdefault(id(node), len(steps)) < len(steps):
                continue
            steps.append(step)
            if step[0] is _SCALAR:
                self.scalars.append(node)
            elif step[0] is _ARRAY:
                self.arrays.append(array)
            elif step[0] is not _OUT:
                node._check_unchanged()
        self.steps = tuple(steps)

    def kernel(self, operation: str, dtype: np.dtype[Any]) -> Any:
        """Return the kernel, whose arguments are an array to write if it does not fold, the arrays and the numbers.

        Args:
            operation: operation that folds its values, "" to store them.
            dtype: dtype in which they are folded or stored.
        """
        key = operation, dtype, self.steps
        found = _kernels.get(key)
        if found is None:
            if len(_kernels) >= _MOST_KERNELS:
                _kernels.clear()
            found = _kernels[key] = _compiled(operation, _text(operation, dtype, self.steps))
        return found


def _text(operation: str, dtype: np.dtype[Any], steps: tuple[tuple[Any, ...], ...]) -> str:
    """The function of a kernel. Arguments as for `_Formula.kernel`."""
    parameters: dict[str, list[str]] = {_OUT: [] if operation else [_OUT], _ARRAY: [], _SCALAR: []}
    lines: list[str] = []
    kinds: list[np.dtype[Any]] = []

    @functools.cache
    def converted(number: int, target: np.dtype[Any]) -> str:
        name, source = f"v{number}", kinds[number]
        if source == target:
            return name
        lines.append(f"{name}_{target.name} = {cast(name, source, target)}")
        return f"{name}_{target.name}"

    for number, (first, *rest) in enumerate(steps):
        name = f"v{number}"
        if isinstance(first, str):
            if first != _OUT:
                parameters[first].append(f"{first}{number}")
            place = _OUT if first == _OUT else f"{first}{number}"
            lines.append(f"{name} = {place}" if first == _SCALAR else f"{name} = {place}[p]")
            kinds.append(rest[0])
            continue
        operands = [converted(*one) for one in zip(rest, first.operands, strict=True)]
        text = first.form.format(*operands, v=name)
        lines.append(text if "{v}" in first.form else f"{name} = {text}")
        kinds.append(first.dtype)
    result = converted(len(steps) - 1, dtype)
    lines.append(f"return {result}" if operation else f"{_OUT}[p] = {result}")
    names = ", ".join(["p", *parameters[_OUT], *parameters[_ARRAY], *parameters[_SCALAR]])
    return f"def expression({names}):\n" + "".join(f"    {line}\n" for line in lines)


def _compiled(operation: str, text: str) -> Any:
    """The kernel with this text: compiled for the arguments of its calls, and found on disk by its byte code."""
    names: dict[str, Any] = {"np": np, "__name__": "expression"}
    exec(compile(text, "<expression>", "exec"), names)
    function: pytypes.FunctionType = names["expression"]
    kernel = Reduce(function, op=operation) if operation else Foreach(function)  # type: ignore[arg-type]
    kernel.interpreted = False  # as what else the library compiles
    return kernel


def _reachable(array: GlobalArray) -> Array | DeviceArray:
    """The block of this rank, or a copy on the host if no kernel can run on its memory."""
    block = array._peek(array.team.rank)
    return block if isinstance(block, Array | DeviceArray) else block.copy()


def _on_host(array: GlobalArray) -> Array:
    """The block of this rank, or a copy of it on the host."""
    block = array._peek(array.team.rank)
    return block if isinstance(block, Array) else block.copy()
