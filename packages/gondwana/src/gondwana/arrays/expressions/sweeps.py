"""One sweep over memory for each expression: its operations as one kernel, which is compiled once for its structure.

The text of the kernel names arrays and numbers by their order, so expressions that differ in them alone share code, in
this process and on disk. Each array is read once a cell.
"""

from __future__ import annotations

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
_OUT = "out"

_kernels: dict[tuple[str, str], Any] = {}


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
    program = _Program(array)
    result = program.converted(value, array.dtype)
    box = owned_box(target)
    if not box.is_empty:
        kernel = _kernel("", program.text(f"{_OUT}[p] = {result}"))
        block = array._peek(array.team.rank)
        out = _reachable(array)
        kernel(box, out, *map(_reachable, program.arrays), *program.scalars)
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
        raise UsageError(
            f"arithmetic of {array.label} and {another.label}, whose cells lie on other ranks (domain and grid "
            f"{array.domain, array.grid} and {another.domain, another.grid}): copy one to the layout of the other, as "
            "in C = gw.empty_like(A, B.dtype); gw.copy(B, C)"
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
    program = _Program(None)
    kernel = _kernel(operation, program.text(f"return {program.converted(value, value.dtype)}"))
    arguments = (*map(_reachable, program.arrays), *program.scalars)
    return kernel.all(value.team, owned_box(value), *arguments)


def values(value: Elementwise) -> np.ndarray[Any, Any]:
    """Return the elements of an expression or array that this rank owns, on the host and with its axes. Local.

    Those of an array in host memory are the memory itself.
    """
    array, _, axes = value._selection
    box = owned_box(value)
    program = _Program(None)
    result = program.converted(value, value.dtype)
    if value._operation is None:
        here = _on_host(array).restrict(box)
    else:
        here = Array.empty(box, value.dtype)
        if not box.is_empty:
            kernel = _kernel("", program.text(f"{_OUT}[p] = {result}", apart=True))
            kernel(box, here, *map(_on_host, program.arrays), *program.scalars)
    gone = [axis for axis in range(array.ndim) if axis not in axes]
    found = here.numpy().transpose((*axes, *gone))
    return found.reshape(value.part(value.team.rank).shape) if gone else found


def owned_box(value: Elementwise) -> RectDomain:
    """Return the cells that this rank owns of those in an expression or view, as cells of its array. Local."""
    array, cells, _ = value._selection
    return array.owned if cells == array.domain.axes else RectDomain.from_axes(cells) & array.owned


class _Program:
    """The statements of a kernel that computes expressions at a point.

    Attributes:
        arrays: the arrays that it reads, in the order of the parameters; without the one that it writes.
        scalars: the numbers, in the order of the parameters.

    Args:
        out: array that it writes.
    """

    def __init__(self, out: GlobalArray | None) -> None:
        self.arrays: list[GlobalArray] = []
        self.scalars: list[np.generic] = []
        self._lines: list[str] = []
        self._names: dict[Any, str] = {}
        self._out = out

    def text(self, last: str, *, apart: bool = False) -> str:
        """Return the whole function.

        Args:
            last: its last statement.
            apart: whether it writes another array than those of expressions.
        """
        out = (_OUT,) if apart or self._out is not None else ()
        arrays = (f"a{number}" for number in range(len(self.arrays)))
        scalars = (f"s{number}" for number in range(len(self.scalars)))
        body = "".join(f"    {line}\n" for line in (*self._lines, last))
        return f"def expression({', '.join(('p', *out, *arrays, *scalars))}):\n{body}"

    def converted(self, value: Any, dtype: np.dtype[Any]) -> str:
        """Return the name of a value of some dtype, after the statements that compute it."""
        name = self._names.get(id(value)) or self._name_of(value)
        source = value.dtype
        if source is dtype or source == dtype:
            return name
        key = name, dtype
        if key not in self._names:
            self._names[key] = self._line(cast(name, source, dtype))
        return self._names[key]

    def _name_of(self, root: Any) -> str:
        """The name of the value of an expression. A list takes the place of recursion: expressions may be deep."""
        names, todo = self._names, [root]
        while todo:
            node = todo[-1]
            below = () if isinstance(node, np.generic) else [one for one in node._operands if id(one) not in names]
            if below:
                todo += below
                continue
            todo.pop()
            if id(node) not in names:
                names[id(node)] = self._computed(node)
        return names[id(root)]

    def _computed(self, node: Any) -> str:
        if isinstance(node, np.generic):
            self.scalars.append(node)
            return f"s{len(self.scalars) - 1}"
        operation = node._operation
        if operation is None:
            return self._loaded(node._selection[0])
        node._check_unchanged()
        operands = tuple(map(self.converted, node._operands, operation.operands))
        text = operation.form.format(*operands, v=f"v{len(self._lines)}")
        return self._line(text, statement="{v}" in operation.form)

    def _loaded(self, array: GlobalArray) -> str:
        """The name of the element of an array, which is read once."""
        key = "array", id(array)
        if key not in self._names:
            if array is self._out:
                place = _OUT
            else:
                place = f"a{len(self.arrays)}"
                self.arrays.append(array)
            self._names[key] = self._line(f"{place}[p]")
        return self._names[key]

    def _line(self, text: str, *, statement: bool = False) -> str:
        """Add a statement, or one that gives an expression of Python its name; return the name."""
        name = f"v{len(self._lines)}"
        self._lines.append(text if statement else f"{name} = {text}")
        return name


def _kernel(operation: str, text: str) -> Any:
    """The kernel with this text, of `gw.foreach` if there is no operation that folds its values."""
    found = _kernels.get((operation, text))
    if found is None:
        names: dict[str, Any] = {"np": np, "__name__": "expression"}
        exec(compile(text, "<expression>", "exec"), names)
        function: pytypes.FunctionType = names["expression"]
        found = Reduce(function, op=operation) if operation else Foreach(function)  # type: ignore[arg-type]
        found.interpreted = False  # as what else the library compiles
        if len(_kernels) >= _MOST_KERNELS:
            _kernels.clear()
        _kernels[operation, text] = found
    return found


def _reachable(array: GlobalArray) -> Array | DeviceArray:
    """The block of this rank, or a copy on the host if no kernel can run on its memory."""
    block = array._peek(array.team.rank)
    return block if isinstance(block, Array | DeviceArray) else block.copy()


def _on_host(array: GlobalArray) -> Array:
    """The block of this rank, or a copy of it on the host."""
    block = array._peek(array.team.rank)
    return block if isinstance(block, Array) else block.copy()
