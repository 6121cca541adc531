"""`@gw.reduce`: a kernel whose values at the points of a domain are folded into one number."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np

from gondwana.compiler.debugging.errors import as_seen_by_users
from gondwana.compiler.debugging.interpreting import interpreted, returned
from gondwana.compiler.reports.touching import flushing
from gondwana.domains import IndexSet
from gondwana.errors import KernelError, UsageError
from gondwana.kernels import exact
from gondwana.kernels.backends import Loaded, Table
from gondwana.kernels.foreach_kernels import NO_DOMAIN, Kernel, cells, origin
from gondwana.runtime.tracing import traced
from gondwana.teams import Team
from gondwana.teams.ops import Operation, named

Folding: TypeAlias = Literal["sum", "fsum", "prod", "min", "max"]
Number: TypeAlias = float | int

_FOLDINGS: dict[str, Folding] = {name: name for name in get_args(Folding)}


class Reduce(Kernel):
    """A kernel whose values are folded: see `reduce`."""

    def __init__(
        self, function: Any, *, op: Folding = "sum", reassociate: bool = False, flush_subnormals: bool = False
    ) -> None:
        super().__init__(function, operation=op, reassociate=reassociate, flush_subnormals=flush_subnormals)
        self.op = op

    def __call__(self, domain: IndexSet = NO_DOMAIN, /, *args: Any, **kwargs: Any) -> Number:
        """Fold the kernel's values over this rank's `domain`. Local.

        An empty domain gives the neutral element: 0, 1, +inf for "min", -inf for "max".
        """
        return self._rounded([self._partial(domain, self._arguments(domain, args, kwargs))])

    def all(self, team: Team, domain: IndexSet, /, *args: Any, **kwargs: Any) -> Number:
        """Fold the kernel's values over the domains of all ranks. Collective over team; blocks.

        Args:
            team: the ranks that take part, for instance `array.team`.
            domain: points of this rank, for instance `array.owned`; may be empty.
            *args: as for a local call.
            **kwargs: the same by name.

        Returns:
            The same number on every rank. With "fsum", "min" and "max" it does not depend on how points are divided.
        """
        partial = self._partial(domain, self._arguments(domain, args, kwargs))
        return self._rounded(team.allgather(partial))

    def fold(self, loaded: Loaded, table: Table, data: bytes, points: int) -> Number:
        """Run a compiled pair whose last kernel this is, and return the folded value. Local; blocks.

        Args:
            loaded: machine code.
            table: the points.
            data: the arguments.
            points: number of points.
        """
        return self._rounded([self._folded(loaded, table, data, points)])

    @property
    def neutral(self) -> Number:
        """The value over no points."""
        return self._rounded([])

    @flushing
    @traced("kernel", lambda self, *_args: self._name, cells, origin)
    def _partial(self, domain: IndexSet, arguments: tuple[Any, ...]) -> Any:
        """One number, or for "fsum" an exact sum, for this rank's points."""
        if self.interpreted:
            return self._interpret(domain, arguments)
        try:
            loaded, table, data = self._launched(domain, arguments)
        except KernelError as error:
            raise as_seen_by_users(error) from None
        return self._folded(loaded, table, data, domain.size)

    def _folded(self, loaded: Loaded, table: Table, data: bytes, points: int) -> Any:
        """Run the machine code; return the results of all threads as one number, or for "fsum" as an exact sum."""
        left = loaded.results(table, data, self._name, self.flags)
        if self.op == "fsum":
            return exact.held(left, points)
        if not points and self.op in ("min", "max"):  # for integers no neutral element is representable
            return _fold(self.op, [])
        values = left[:, 0].view(loaded.result)
        return _fold(self.op, list(values) if loaded.result == "uint64" else values.tolist())

    def _interpret(self, domain: IndexSet, arguments: tuple[Any, ...]) -> Any:
        self._check_domain(domain)
        values = list(map(interpreted(self.py_func, arguments), domain))
        for value in values:
            if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
                raise KernelError(
                    f"{self._name} returns {value!r}: a kernel of @gw.reduce returns a real number for each point"
                )
        if self.op == "fsum":
            return exact.total(map(float, values))
        return _fold(self.op, [value if isinstance(value, np.uint64) else returned(value) for value in values])

    def _rounded(self, partials: list[Any]) -> Number:
        if self.op == "fsum":
            return exact.rounded(partials)
        number: Number = returned(_fold(self.op, partials))
        return number


@overload
def reduce(function: Callable[..., Any], /) -> Reduce: ...
@overload
def reduce(
    *, op: Operation = "sum", reassociate: bool = False, flush_subnormals: bool = False
) -> Callable[[Callable[..., Any]], Reduce]: ...
def reduce(
    function: Callable[..., Any] | None = None,
    /,
    *,
    op: Operation = "sum",
    reassociate: bool = False,
    flush_subnormals: bool = False,
) -> Reduce | Callable[[Callable[..., Any]], Reduce]:
    """Make a reduction of a function of a point: calling it folds its values over a domain. Local.

    Args:
        function: `f(p, *arguments)` returns a real number or a bool; see `foreach` for the rest.
        op: "sum" adds in float64 in an order that depends on threads and blocks, or integers modulo 2**64; "fsum" adds
            float64 exactly and rounds once, so its result never depends on them; "prod", "min", "max" (a NaN anywhere
            gives NaN). Also `gw.SUM`, `gw.MAX` and so on, or mpi4py's.
        reassociate: as for `foreach`: about the arithmetic at a point, not about the order of points.
        flush_subnormals: as for `foreach`.

    Returns:
        The reduction: `total(domain, *arguments)` is local, `total.all(team, domain, *arguments)` is collective.

    Example:
        >>> import gondwana as gw
        >>> a = gw.Array.full(gw.RectDomain(0, 10), 0.1)
        >>> @gw.reduce(op="fsum")
        ... def total(p, a):
        ...     return a[p]
        >>> total(a.domain, a)
        1.0
    """
    common = named(op)
    folding = _FOLDINGS.get(str(op) if common is None else common.name.lower())
    if folding is None:
        raise UsageError(f"@gw.reduce(op={op!r}): the operations are {', '.join(_FOLDINGS)}; also gw.SUM and so on")

    def decorate(function: Callable[..., Any]) -> Reduce:
        return Reduce(function, op=folding, reassociate=reassociate, flush_subnormals=flush_subnormals)

    return decorate if function is None else decorate(function)


def _fold(op: str, numbers: list[Any]) -> Any:
    """Combine numbers: floats, integers with a sign as Python's, or NumPy's uint64; integers modulo 2**64."""
    if op in ("sum", "prod") and not any(isinstance(number, float) for number in numbers):
        unsigned = any(isinstance(number, np.uint64) for number in numbers)
        words = np.array([int(number) % 2**64 for number in numbers], np.uint64)
        word = np.uint64(words.sum() if op == "sum" else words.prod())
        return word if unsigned else int(word.astype(np.int64))
    if op == "sum":
        return functools.reduce(operator.add, numbers, 0)  # in their order: Python's own `sum` of floats has another
    if op == "prod":
        return math.prod(numbers)
    if not numbers:
        return math.inf if op == "min" else -math.inf
    if any(number != number for number in numbers):
        return math.nan
    return functools.reduce(min if op == "min" else max, numbers)
