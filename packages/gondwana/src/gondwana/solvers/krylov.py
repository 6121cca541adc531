"""Krylov's methods: conjugate gradients, BiCGSTAB and restarted GMRES, for any operator on global arrays.

Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, algorithms 9.1, 7.7 and 6.9 with right preconditioning
(9.5); van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992) 631.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gondwana.arrays.create import zeros_like
from gondwana.arrays.global_array import GlobalArray
from gondwana.errors import UsageError
from gondwana.kernels.foreach_kernels import Foreach
from gondwana.solvers import vectors
from gondwana.solvers.vectors import Products

Operator: TypeAlias = Callable[[GlobalArray, GlobalArray], object] | Foreach
"""A linear operator: a function `apply(x, y)` that sets the cells of y to A x, collective over the team of both; or a
kernel `kernel(p, y, x)` of `gw.foreach` that does so for a cell, run after an exchange of the ghosts of x.

The arrays are like the right-hand side: they have its division, ghosts and boundary."""

Callback: TypeAlias = Callable[[float], object]


class Solution(NamedTuple):
    """The result of a solver.

    Attributes:
        x: approximation of the solution.
        converged: whether the residual is as small as was asked for.
        iterations: number of iterations.
        residual: norm of b - A x, as the method knows it: rounding errors may make the true one larger.
    """

    x: GlobalArray
    converged: bool
    iterations: int
    residual: float


def cg(
    A: Operator, b: GlobalArray, x: GlobalArray | None = None, *, rtol: float = 1e-5, atol: float = 0.0,
    maxiter: int | None = None, M: Operator | None = None, callback: Callback | None = None, exact: bool = False,
) -> Solution:  # fmt: skip
    """Solve A x = b by conjugate gradients, for Hermitian positive definite A. Collective over team of b; blocks.

    An iteration is a product with A, one with M and two sweeps over vectors. x gets the steps of an iteration in the
    next, and at the end.

    Args:
        A: operator: see `gondwana.solvers.Operator`.
        b: right-hand side, of real or complex floats. The vectors of the method are arrays like it: give it the ghosts
            that A needs, and boundary conditions of value 0, since A must be linear.
        x: first approximation, which gets the solution; default: zero.
        rtol: bound of the norm of the residual, relative to that of b.
        atol: bound of the norm of the residual; the larger bound counts.
        maxiter: largest number of iterations; default: ten times the number of unknowns.
        M: preconditioner, an operator like A that approximates its inverse; Hermitian positive definite.
        callback: called with the norm of the residual after each iteration, on every rank.
        exact: round sums once, so that the iterates do not depend on the number of ranks; costs more time.

    Returns:
        The solution; if the bound was not reached, the last approximation.

    Raises:
        UsageError: an argument is illegal; raised by every rank before the first iteration.

    Example:
        >>> import gondwana as gw
        >>> from gondwana import solvers
        >>> @gw.foreach
        ... def laplacian(p, y, x):
        ...     y[p] = 2.0 * x[p] - x[p - gw.X] - x[p + gw.X]
        >>> b = gw.ones(15, ghost=1, boundary=gw.Fixed(0))
        >>> found = solvers.cg(laplacian, b, rtol=1e-12)
        >>> found.converged, round(found.x[7], 9)
        (True, 32.0)
    """
    system = System(A, b, x, M, rtol, atol, maxiter, callback, exact=exact)
    x, dot, cells = system.x, system.products.dot, b.owned
    r, d, q = system.start(), zeros_like(b), zeros_like(b)
    rho = alpha = 0.0
    while system.goes_on():
        z = system.preconditioned(r)
        last, rho = rho, dot(r, z) if M is not None else system.norm**2
        vectors.go_and_turn(cells, x, alpha, d, z, rho / last if last else 0.0)
        curvature = system.curvature(d, q)
        if not np.real(curvature) > 0.0 or not np.isfinite(curvature):
            return system.solution()  # A is not positive definite, or numbers are not finite
        alpha = rho / curvature
        system.iterated(system.products.shorten(r, alpha, q))
    vectors.add(cells, x, alpha, d)
    return system.solution()


def bicgstab(
    A: Operator, b: GlobalArray, x: GlobalArray | None = None, *, rtol: float = 1e-5, atol: float = 0.0,
    maxiter: int | None = None, M: Operator | None = None, callback: Callback | None = None, exact: bool = False,
) -> Solution:  # fmt: skip
    """Solve A x = b by BiCGSTAB, for any A that is not singular. Collective over team of b; blocks.

    An iteration is two products with A and two with M. Arguments, result and errors as for `cg`; M approximates the
    inverse of A and is applied from the right, so that residuals are those of the system itself.

    Example:
        >>> import gondwana as gw
        >>> from gondwana import solvers
        >>> @gw.foreach
        ... def upwind(p, y, x):
        ...     y[p] = 3.0 * x[p] - 2.0 * x[p - gw.X] - 0.5 * x[p + gw.X]
        >>> b = gw.ones(40, ghost=1, boundary=gw.Fixed(0))
        >>> solvers.bicgstab(upwind, b, rtol=1e-10).converged
        True
    """
    system = System(A, b, x, M, rtol, atol, maxiter, callback, exact=exact)
    x, dot, cells = system.x, system.products.dot, b.owned
    r = system.start()
    shadow, d, v, t = (zeros_like(b) for _ in range(4))
    shadow[...] = r
    rho = alpha = omega = 1.0
    while system.goes_on():
        last, rho = rho, dot(shadow, r)
        if rho == 0.0 or omega == 0.0:
            break
        if system.iterations:
            vectors.add(cells, d, -omega, v)
        vectors.add_to_multiple(cells, d, r, rho / last * (alpha / omega) if system.iterations else 0.0)
        dd = system.preconditioned(d)
        system.apply(dd, v)
        across = dot(shadow, v)
        if across == 0.0:
            break
        alpha = rho / across
        vectors.add(cells, x, alpha, dd)
        norm = system.products.shorten(r, alpha, v)
        if norm <= system.bound:
            system.iterated(norm)
            break
        ss = system.preconditioned(r)
        system.apply(ss, t)
        squares = system.products.norm(t) ** 2
        omega = dot(t, r) / squares if squares else 0.0
        vectors.add(cells, x, omega, ss)
        system.iterated(system.products.shorten(r, omega, t))
    return system.solution()


def gmres(
    A: Operator, b: GlobalArray, x: GlobalArray | None = None, *, rtol: float = 1e-5, atol: float = 0.0,
    restart: int = 20, maxiter: int | None = None, M: Operator | None = None, callback: Callback | None = None,
    exact: bool = False,
) -> Solution:  # fmt: skip
    """Solve A x = b by restarted GMRES, for any A that is not singular. Collective over team of b; blocks.

    An iteration is a product with A and one with M, and makes a further vector orthogonal to those since the restart.

    Args:
        A: as for `cg`.
        b: as for `cg`.
        x: as for `cg`.
        rtol: as for `cg`.
        atol: as for `cg`.
        restart: iterations between restarts, which is the number of vectors that are kept.
        maxiter: largest number of iterations, those of all restarts counted; default: ten times the number of unknowns.
        M: preconditioner, which approximates the inverse of A; applied from the right.
        callback: as for `cg`.
        exact: as for `cg`.

    Returns:
        The solution, as for `cg`.

    Raises:
        UsageError: as for `cg`.

    Example:
        >>> import gondwana as gw
        >>> from gondwana import solvers
        >>> @gw.foreach
        ... def upwind(p, y, x):
        ...     y[p] = 3.0 * x[p] - 2.0 * x[p - gw.X] - 0.5 * x[p + gw.X]
        >>> b = gw.ones(40, ghost=1, boundary=gw.Fixed(0))
        >>> solvers.gmres(upwind, b, rtol=1e-10).converged
        True
    """
    if isinstance(restart, bool) or not isinstance(restart, int) or restart < 1:
        raise UsageError(f"restart={restart!r}: give a number of iterations, 1 or more")
    system = System(A, b, x, M, rtol, atol, maxiter, callback, exact=exact)
    x, dot, cells = system.x, system.products.dot, b.owned
    r, basis = system.start(), [zeros_like(b)]
    while system.goes_on():
        basis[0][...] = 1.0 / system.norm * r
        matrix = np.zeros((restart + 1, restart), np.promote_types(b.dtype, np.float64))  # Hessenberg's
        n, right, factors = 0, system.norm * np.eye(restart + 1)[0], np.zeros(0)
        while system.goes_on() and n < restart:
            if len(basis) == n + 1:
                basis.append(zeros_like(b))
            following = basis[n + 1]
            system.apply(system.preconditioned(basis[n]), following)
            for row, vector in enumerate(basis[: n + 1]):
                matrix[row, n] = dot(vector, following)
                vectors.add(cells, following, -matrix[row, n].item(), vector)
            height = matrix[n + 1, n] = system.products.norm(following)
            n += 1
            # By one rank, since processors may round differently, and all must end together.
            factors, norm = b.team.bcast(_least(matrix[: n + 1, :n], right[: n + 1]) if b.team.rank == 0 else None)
            system.iterated(norm)
            if height == 0.0:
                break
            following *= 1.0 / height
        r.fill(0.0)
        for factor, vector in zip(factors.tolist(), basis, strict=False):
            vectors.add(cells, r, factor, vector)
        vectors.add(cells, x, 1.0, system.preconditioned(r))
        system.restart(r)
    return system.solution()


def _least(matrix: npt.NDArray[Any], right: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], float]:
    """The factors of the columns that come nearest to the right-hand side, and the distance that is left."""
    factors = np.linalg.lstsq(matrix, right)[0]
    return factors, float(np.linalg.norm(right - matrix @ factors))


class System:
    """A system of equations and what its solvers have in common. Collective over the team of b.

    Attributes:
        x: approximation of the solution.
        products: inner products.
        bound: norm of the residual at which a solver ends.
        norm: norm of the present residual.
        iterations: number of iterations so far.
    """

    def __init__(
        self, A: Operator, b: GlobalArray, x: GlobalArray | None, M: Operator | None, rtol: float, atol: float,
        maxiter: int | None, callback: Callback | None, *, exact: bool,
    ) -> None:  # fmt: skip
        _check(A, b, x, M, rtol, atol, maxiter, callback)
        self._operator, self._preconditioner, self._b = A, M, b
        self._most = 10 * b.size if maxiter is None else maxiter
        self._callback, self._is_zero = callback, x is None
        self._room = b if M is None else zeros_like(b)  # of M r: b itself is never written
        self.x = zeros_like(b) if x is None else x
        self.products = Products(exact=exact)
        size = self.products.norm(b)
        self.bound = max(float(atol), float(rtol) * size)
        self.norm, self.iterations = size, 0

    def start(self) -> GlobalArray:
        """Return the residual of the first approximation."""
        r = zeros_like(self._b)
        if self._is_zero:
            r[...] = self._b
        else:
            self.restart(r)
        return r

    def restart(self, r: GlobalArray) -> None:
        """Compute the residual anew."""
        q = zeros_like(self._b)
        r[...] = self.x
        self.apply(r, q)
        r[...] = self._b - q
        q.close()
        self.norm = self.products.norm(r)

    def goes_on(self) -> bool:
        """Return whether a further iteration is needed and allowed."""
        return self.iterations < self._most and self.norm > self.bound

    def iterated(self, norm: float) -> None:
        """Note the end of an iteration."""
        self.norm = norm
        self.iterations += 1
        if self._callback is not None:
            self._callback(norm)

    def apply(self, x: GlobalArray, y: GlobalArray) -> None:
        """Set y to A x."""
        _apply(self._operator, x, y)

    def curvature(self, d: GlobalArray, q: GlobalArray) -> Any:
        """Set q to A d, and return the product of both."""
        A = self._operator
        if not isinstance(A, Foreach) or d.dtype.kind == "c" or A.contract or A.flushes or A.interpreted:
            self.apply(d, q)
            return self.products.dot(d, q)
        d.exchange().wait()
        return self.products.with_image(A, d, q)

    def preconditioned(self, r: GlobalArray) -> GlobalArray:
        """Return M r, in an array that the next call overwrites; without a preconditioner r itself."""
        if self._preconditioner is None:
            return r
        _apply(self._preconditioner, r, self._room)
        return self._room

    def solution(self) -> Solution:
        """Return what has been found."""
        return Solution(self.x, bool(self.norm <= self.bound), self.iterations, self.norm)


def _apply(operator: Operator, x: GlobalArray, y: GlobalArray) -> None:
    if not isinstance(operator, Foreach):
        operator(x, y)
        return
    ghosts = x.exchange()
    operator(x.inner, y, x)
    ghosts.wait()
    operator(x.rim, y, x)


def _check(A: object, b: object, x: object, M: object, rtol: Any, atol: Any, maxiter: Any, callback: object) -> None:
    """Refuse what cannot be solved."""
    if not isinstance(b, GlobalArray) or b.dtype.kind not in "fc":
        raise UsageError(f"b is {b!r}: give a global array of real or complex floats")
    if x is not None and (
        not isinstance(x, GlobalArray) or x.dtype != b.dtype or x.team is not b.team or x.layout != b.layout
    ):
        raise UsageError(f"x is {x!r}: give an array like b, as gw.zeros_like(b) makes it")
    for name, given in ("A", A), ("M", M), ("callback", callback):
        if not callable(given) and (given is not None or name == "A"):
            raise UsageError(f"{name} is {given!r}: give a function" + ("" if name == "callback" else " or a kernel"))
    for name, bound in ("rtol", rtol), ("atol", atol):
        if not isinstance(bound, int | float | np.number) or not 0.0 <= float(bound) < np.inf:
            raise UsageError(f"{name}={bound!r}: give a number, 0 or more")
    if maxiter is not None and (isinstance(maxiter, bool) or not isinstance(maxiter, int) or maxiter < 0):
        raise UsageError(f"maxiter={maxiter!r}: give a number of iterations, or None")
