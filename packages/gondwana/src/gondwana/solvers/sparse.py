"""Sparse matrices in rows over ranks, and their products with global arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from gondwana.arrays.create import zeros_like
from gondwana.arrays.global_array import GlobalArray
from gondwana.compiler.function import JitFunction, jit
from gondwana.compiler.multithreading.team import parallel
from gondwana.compiler.types.arguments import Described, describe
from gondwana.errors import UsageError
from gondwana.solvers.halo import Halo, connect, distinct, send
from gondwana.solvers.slices import Slices, add_diagonal, multiply_part, slices_of

SMALL = 50_000
"""Entries of a rank below which a product takes one thread: waking the others would last longer."""


class Rows(NamedTuple):
    """The rows of a rank, for compiled code: see `multiply`.

    Attributes:
        own: entries in columns of this rank.
        other: the others; columns count `halo.received`.
        halo: entries of vectors that this rank needs from others.
    """

    own: Slices
    other: Slices
    halo: Halo


class SparseMatrix:
    """A square sparse matrix with rows divided over ranks as the elements of vectors. Collective over team; blocks.

    Each rank gives its own rows, with the numbers that their columns have in the whole matrix. The ranks find out once
    which elements of vectors they need from each other, and plan the copies. A matrix takes an operator's place in
    `solvers.cg` and the others: `A(x, y)` sets y to the product, on all threads, while elements of other ranks arrive.

    Rows are stored in slices of eight, columns in 16 bits where those of a slice are near each other. An element of x
    that is infinite or NaN may also reach the other rows of a slice that needs it.

    Args:
        starts: first entry of each own row, and the end (integers, rows of this rank + 1).
        columns: columns of the entries, in any order; entries of equal place add up.
        values: values of the entries, which become elements of the dtype of `like`.
        like: a vector: a global array with one axis in host memory, of real or complex floats. Its division is that of
            the rows; a rank may have none.

    Attributes:
        shape: numbers of all rows and columns.
        dtype: type of the values.
        team: the ranks that share the matrix.
        local: the rows of this rank, for compiled code, which takes the matrix itself for them.

    Raises:
        UsageError: an argument is illegal; raised by every rank.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> from gondwana import solvers
        >>> x = gw.ones(100)
        >>> rows = np.array(x.owned.axes[0])
        >>> A = solvers.SparseMatrix(np.arange(len(rows) + 1), (rows + 1) % 100, rows * 1.0, like=x)
        >>> (A @ x)[7]
        7.0
    """

    def __init__(
        self, starts: npt.ArrayLike, columns: npt.ArrayLike, values: npt.ArrayLike, *, like: GlobalArray
    ) -> None:
        _check_vector("like", like)
        self.team, self.dtype, self.shape, self._like = like.team, like.dtype, 2 * like.domain.shape, like
        own, problem = like.owned.axes[0], None
        first, at, entries = np.asarray(starts), np.asarray(columns), np.asarray(values)
        try:
            _check_rows(first, at, entries, like)
        except UsageError as error:
            problem = error
        self.team.agree(problem)
        first, at, entries = first.astype(np.int64), at.astype(np.int64), entries.astype(like.dtype, copy=False)
        outside = np.flatnonzero((at < own.start) | (at >= own.stop))
        owners, numbers, places = distinct(like.layout.owner(at[outside][:, None]), at[outside])
        edges, lengths = np.unique(np.searchsorted(first, outside, "right") - 1, return_counts=True)
        edge_starts, numbers_of_own = np.append(0, np.cumsum(lengths)), np.arange(own.start, own.stop)
        other = slices_of(edge_starts, places, entries[outside], edges + own.start, range(len(numbers)))
        if len(outside):
            first = first - np.searchsorted(outside, first)
            at, entries = np.delete(at, outside), np.delete(entries, outside)
        halo = connect(self.team, owners, numbers, self.dtype)
        self.local = Rows(slices_of(first, at, entries, numbers_of_own, own), other, halo)
        self._described = describe(self.local)

    @classmethod
    def from_scipy(cls, matrix: Any, *, like: GlobalArray) -> Self:
        """Make a matrix of one of SciPy's, of any format. Collective over the team of `like`; blocks.

        Args:
            matrix: the rows of this rank, (rows of this rank x all columns); or the whole matrix, of which each rank
                takes its rows.
            like: a vector, as for the class.

        Raises:
            UsageError: an argument is illegal; raised by every rank.

        Example:
            >>> import gondwana as gw
            >>> import scipy.sparse
            >>> from gondwana import solvers
            >>> b = gw.ones(100)
            >>> A = solvers.SparseMatrix.from_scipy(scipy.sparse.identity(100) * 4.0, like=b)
            >>> solvers.cg(A, b).x.sum()
            25.0
        """
        _check_vector("like", like)
        own, problem = like.owned.axes[0], None
        if not hasattr(matrix, "tocsr"):
            problem = UsageError(f"from_scipy got {type(matrix).__name__}: give a sparse matrix or array of SciPy")
        elif matrix.shape not in ((len(own), like.size), 2 * like.domain.shape):
            problem = UsageError(
                f"from_scipy got a matrix of shape {matrix.shape}: give the whole one, {like.size} x {like.size}, or "
                f"the rows of this rank, {len(own)} x {like.size}"
            )
        like.team.agree(problem)
        rows = matrix.tocsr()
        if rows.shape[0] != len(own):
            rows = rows[own.start : own.stop]
        return cls(rows.indptr, rows.indices, rows.data, like=like)

    @classmethod
    def from_kernel(cls, kernel: Callable[..., int], most: int, *args: Any, like: GlobalArray) -> Self:
        """Make a matrix whose rows a compiled function writes. Collective over the team of `like`; blocks.

        Args:
            kernel: `kernel(row, columns, values, *args)`, decorated with `@gw.jit`: writes the entries of a row from
                the first place of two arrays on, and returns their number.
            most: most entries of a row: places in the two arrays. As all compiled code, the kernel must not write
                outside of them; a row that is up to twice as long is refused.
            *args: further arguments of the kernel, the same types on all ranks.
            like: a vector, as for the class.

        Raises:
            UsageError: an argument is illegal, or a row has more entries than there are places; raised by every rank.

        Example:
            >>> import gondwana as gw
            >>> from gondwana import solvers
            >>> @gw.jit
            ... def second_difference(row, columns, values, n):
            ...     columns[0], values[0], count = row, 2.0, 1
            ...     for neighbour in (row - 1, row + 1):
            ...         if 0 <= neighbour < n:
            ...             columns[count], values[count] = neighbour, -1.0
            ...             count += 1
            ...     return count
            >>> b = gw.ones(15)
            >>> A = solvers.SparseMatrix.from_kernel(second_difference, 3, 15, like=b)
            >>> round(solvers.cg(A, b, rtol=1e-12).x[7], 9)
            32.0
        """
        _check_vector("like", like)
        if not isinstance(kernel, JitFunction) or not isinstance(most, int) or most < 1:
            raise UsageError(f"from_kernel({kernel!r}, {most!r}): give a function with @gw.jit, and its most entries")
        own = like.owned.axes[0]
        starts = np.zeros(len(own) + 1, np.int64)
        room = (len(own) + 1) * most  # for a last row that is too long
        columns, values = np.empty(room, np.int64), np.empty(room, like.dtype)
        longest = _writer(kernel)(own.start, most, starts, columns, values, args)
        problem = None
        if longest > most:
            problem = UsageError(f"from_kernel: a row has {longest} entries, and most={most}: give a larger number")
        like.team.agree(problem)
        return cls(starts, columns[: starts[-1]], values[: starts[-1]], like=like)

    def __call__(self, x: GlobalArray, y: GlobalArray) -> None:
        """Set y to A x. Collective over team; blocks. User-level progress.

        Args:
            x: a vector with the division of the rows; ghosts are not used.
            y: another.

        Raises:
            UsageError: a vector has another division or dtype, or both are one.
        """
        for name, vector in ("x", x), ("y", y):
            _check_vector(name, vector)
            if vector._division != self._like._division or vector.dtype != self.dtype:
                raise UsageError(
                    f"{name} is {vector!r}: give an array of {self.dtype} with the division of the rows, as the "
                    "matrix was given by like="
                )
        if x is y:
            raise UsageError("A(x, x): give another array for the product")
        threads = 1 if self.local.own.value.size < SMALL else None
        parallel(_begin, self, x, y, threads=threads)
        self.local.halo.plan.wait()
        if len(self.local.halo.received):
            parallel(_multiply, self.local.other, self.local.halo.received, y, True, threads=threads)

    def __matmul__(self, x: GlobalArray) -> GlobalArray:
        """Return A x, a new array like x. Otherwise as calling the matrix."""
        y = zeros_like(x)
        self(x, y)
        return y

    def diagonal(self) -> GlobalArray:
        """Return the diagonal as a vector. Collective over team; blocks.

        Example:
            >>> import gondwana as gw, numpy as np
            >>> from gondwana import solvers
            >>> b = gw.ones(100)
            >>> rows = np.array(b.owned.axes[0])
            >>> A = solvers.SparseMatrix(np.arange(len(rows) + 1), rows, rows + 1.0, like=b)
            >>> d = A.diagonal()
            >>> def jacobi(r, z):
            ...     z[...] = r / d
            >>> solvers.cg(A, b, M=jacobi).iterations
            1
        """
        d = zeros_like(self._like)
        add_diagonal(self.local.own, d)
        return d

    def __gondwana_argument__(self) -> Described:
        """What compiled code takes: the rows of this rank."""
        return self._described


@jit
def multiply(threads: Any, a: Any, x: Any, y: Any) -> None:
    """Set y to A x, in compiled code that the threads of a team run. Collective over the threads and the ranks; blocks.

    Thread 0 communicates. Earlier writes of x by any thread are seen.

    Args:
        threads: the team of `gw.parallel`.
        a: a `SparseMatrix`.
        x: a vector with the division of its rows.
        y: another.

    Example:
        >>> import gondwana as gw, numpy as np
        >>> from gondwana import solvers
        >>> @gw.jit
        ... def squared(threads, A, x, y, z):
        ...     solvers.multiply(threads, A, x, y)
        ...     solvers.multiply(threads, A, y, z)
        >>> x, y, z = (gw.ones(50) for _ in range(3))
        >>> rows = np.array(x.owned.axes[0])
        >>> A = solvers.SparseMatrix(np.arange(len(rows) + 1), rows, np.full(len(rows), 3.0), like=x)
        >>> gw.parallel(squared, A, x, y, z)
        >>> z[20]
        9.0
    """
    threads.barrier()
    _begin(threads, a, x, y)
    if threads.index == 0:
        a.halo.plan.wait()
    threads.barrier()
    _multiply(threads, a.other, a.halo.received, y, True)


@jit
def _begin(threads: Any, a: Any, x: Any, y: Any) -> None:
    """Send what others need, and multiply by what this rank has."""
    if threads.index == 0:
        send(a.halo, x)
    _multiply(threads, a.own, x, y, False)


@jit
def _multiply(threads: Any, a: Any, x: Any, y: Any, adds: bool) -> None:
    """Set rows of y to the product of slices with x, or add it, each thread some of them."""
    for panel in range(a.panels):
        first, end = threads.share(panel * a.slices, (panel + 1) * a.slices)
        multiply_part(a, first, end, x, y, adds or panel > 0)
        threads.barrier()


def _check_vector(name: str, x: object) -> None:
    is_vector = isinstance(x, GlobalArray) and x.ndim == 1 and x.dtype.kind in "fc" and x.domain.lo[0] == 0
    if not is_vector or not x.in_host_memory:  # type: ignore[attr-defined]
        raise UsageError(f"{name} is {x!r}: give a global array of floats with one axis in host memory, as gw.zeros(n)")


def _check_rows(
    starts: npt.NDArray[Any], columns: npt.NDArray[Any], values: npt.NDArray[Any], like: GlobalArray
) -> None:
    """Refuse what are no rows of this rank."""
    rows = len(like.owned.axes[0])
    for name, given in ("starts", starts), ("columns", columns):
        if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
            raise UsageError(f"{name} of shape {given.shape} and type {given.dtype}: give integers along one axis")
    if len(starts) != rows + 1 or starts[0] != 0 or np.any(np.diff(starts) < 0) or starts[-1] != len(columns):
        raise UsageError(
            f"{len(starts)} starts for {rows} rows of this rank and {len(columns)} columns: give the first entry of "
            f"each row, ascending from 0, and the end, {len(columns)}"
        )
    if values.shape != columns.shape or not np.can_cast(values.dtype, like.dtype, "same_kind"):
        raise UsageError(
            f"values of shape {values.shape} and type {values.dtype}: give one for each of {len(columns)} columns that "
            f"can become elements of {like.dtype}"
        )
    for bad in columns[(columns < 0) | (columns >= like.size)][:1]:
        raise UsageError(f"column {bad} of a matrix with {like.size} columns: give numbers from 0 to {like.size - 1}")


@functools.cache
def _writer(kernel: Callable[..., int]) -> Callable[..., int]:
    @jit
    def write(row: int, most: int, starts: Any, columns: Any, values: Any, args: Any) -> int:
        """Write the entries of all rows one after the other; return the largest number of a row."""
        longest = place = 0
        for number in range(len(starts) - 1):
            count = kernel(row + number, columns[place : place + most], values[place : place + most], *args)
            longest = max(longest, count)
            place += min(count, most)
            starts[number + 1] = place
        return longest

    return write
