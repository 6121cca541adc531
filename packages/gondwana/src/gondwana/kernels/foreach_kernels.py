"""`@gw.foreach`: a kernel that runs for each point of a domain, in any order."""

from __future__ import annotations

import functools
import inspect
import math
import types as pytypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any, overload

from gondwana.compiler.cache import fingerprint, watch
from gondwana.compiler.debugging import checks
from gondwana.compiler.debugging.errors import as_seen_by_users
from gondwana.compiler.debugging.interpreting import interpreted, interprets, returned
from gondwana.compiler.function import bind, described, jit, parameters
from gondwana.compiler.multithreading.pool import FLUSH_SUBNORMALS, threads
from gondwana.compiler.reports.touching import flushing
from gondwana.compiler.types.arguments import Spec, describe, holds_array
from gondwana.domains import IndexSet
from gondwana.errors import KernelError, UsageError
from gondwana.kernels.arguments import (
    KernelArray,
    alike_strides,
    array_names,
    check_completion,
    check_reach,
    common_device,
    kernel_arrays,
    loop_order,
    overlapping,
)
from gondwana.kernels.backends import Loaded, Table, Target, extents, load, target
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.intermediate import intermediates
from gondwana.kernels.runs import Runs
from gondwana.kernels.variant import Variant, box_table, box_value
from gondwana.runtime.races import reporter
from gondwana.runtime.tracing import source, traced
from gondwana.transfer import under_way
from gondwana.transfer.under_way import Use

_MEMO = 256
"""The most launches that a kernel remembers."""

_Launch = tuple[Loaded, Table, IndexSet]
"""The parts of a launch: the machine code, the boxes, and their domain."""

_NEUTRAL = {"sum": 0, "fsum": 0.0, "prod": 1, "min": math.inf, "max": -math.inf}
"""The values of points that are not in a mask, by operation."""

_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
NO_DOMAIN: Any = None
"""The default of a required parameter: a missing argument is then reported with the kernel's name."""


class Kernel:
    """The common base of `foreach` and `reduce`: versions by argument types, checks, and remembered launches.

    Attributes:
        operation: operation that folds its values; None without one.
        interpreted: whether the kernel runs in the interpreter if possible.
        flushes: whether the kernel treats subnormal numbers as zero.
    """

    def __init__(
        self,
        function: Any,
        *,
        operation: str | None = None,
        contract: bool = False,
        reassociate: bool,
        flush_subnormals: bool,
    ) -> None:
        if not isinstance(function, pytypes.FunctionType):
            raise TypeError(f"a kernel is a plain Python function of a point and arguments, not {function!r}")
        names = parameters(function)
        if not names:
            raise TypeError(f"the kernel {function.__qualname__} needs the point as its first parameter")
        if function.__code__.co_flags & _SUSPENDED:
            raise KernelError(
                f"the kernel {function.__qualname__} has a yield or is async: it is called once for each point and "
                "runs to its end; write values into arrays, or return one from a kernel of @gw.reduce"
            )
        self.py_func = function
        self._name = function.__qualname__
        self.parameters = names[1:]
        self.operation = operation
        self.contract = contract
        self.reassociate = reassociate
        self.flushes = flush_subnormals
        self.flags = FLUSH_SUBNORMALS if flush_subnormals else 0
        self._versions: dict[tuple[Variant, Target], Loaded] = {}
        self._remembered: dict[tuple[Any, ...], _Launch] = {}
        self.interpreted = interprets(function)
        self._watch = watch(function)
        functools.update_wrapper(self, function)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        decorator = "gw.foreach" if self.operation is None else "gw.reduce"
        return described(decorator, self.py_func, [variant.specs for variant, _ in self._versions])

    def forget_if_stale(self) -> bool:
        """Drop the compiled versions if constants have changed since, and return whether so. Local.

        In interactive sessions only: see `cache.watch`.
        """
        stale = self._watch is not None and self._watch.is_stale()
        if stale:
            self._versions.clear()
            self._remembered.clear()
        return stale

    def _prepare(self, domain: IndexSet, args: tuple[Any, ...]) -> tuple[Loaded, Table, bytes]:
        """Describe and check the arguments; find or compile the version for them.

        A launch is remembered by the value of the domain (`box_value`), the specs, and the descriptors of the arrays,
        which fully describe their place: a launch like an earlier one costs a few microseconds. The domain of the first
        such launch is kept, and found by its identity before values are compared.
        """
        if self._watch is not None:
            self.forget_if_stale()
        if type(domain) is Runs and domain.is_on_device(kernel_arrays(args)):
            return self._masked._prepare(domain.within, (domain.held, args))
        key: list[Any] = [id(domain)]
        data = []
        for value in args:
            spec, raw = describe(value)
            data.append(raw)
            key.append(id(spec))
            if holds_array(spec):
                key.append(raw)
        found = self._remembered.get(tuple(key))
        if found is None:
            found = self._found(key, domain, args, b"".join(data))
        uses = list(under_way.uses()) if checks.active() else []
        if uses:
            self._check_completion(domain, args, found[0], uses)
        return found[0], found[1], b"".join(data)

    def _prepare_and_report(self, domain: IndexSet, args: tuple[Any, ...]) -> tuple[Loaded, Table, bytes]:
        """Prepare a launch that follows, and tell the race detector what it accesses."""
        from gondwana.kernels import reported

        prepared = self._prepare(domain, args)
        names = array_names(self.parameters, tuple(describe(value)[0] for value in args))
        reported.report(self.py_func, domain, names, kernel_arrays(args), prepared[0].footprints)
        return prepared

    _launched = _prepare if reporter is None else _prepare_and_report

    @functools.cached_property
    def _masked(self) -> Kernel:
        """The kernel for a set given by an array of booleans, where all points of its boxes look at the array."""
        kernel, neutral = jit(reassociate=self.reassociate)(self.py_func), _NEUTRAL.get(self.operation or "")

        def masked(p: Any, mask: Any, args: Any) -> None:
            if mask[p]:
                kernel(p, *args)

        def folded(p: Any, mask: Any, args: Any) -> Any:
            return kernel(p, *args) if mask[p] else neutral

        function = masked if self.operation is None else folded
        function.__qualname__ = self._name
        return Kernel(
            function,
            operation=self.operation,
            contract=self.contract,
            reassociate=self.reassociate,
            flush_subnormals=self.flushes,
        )

    def _found(self, key: list[Any], domain: IndexSet, args: tuple[Any, ...], data: bytes) -> _Launch:
        """The remembered launch over an equal domain, or one prepared now."""
        self._check_domain(domain)
        same, equal = tuple(key), (box_value(domain), *key[1:])
        found = self._remembered.get(equal)
        if found is None:
            specs = tuple(describe(value)[0] for value in args)
            prepared = self._prepared(domain, kernel_arrays(args), specs, data)
            if len(self._remembered) >= 2 * _MEMO:
                self._remembered.clear()
            # The domain is kept so that no other object gets its identity; specs are permanent.
            found = self._remembered[same] = self._remembered[equal] = *prepared, domain
        return found

    def _check_completion(self, domain: IndexSet, args: tuple[Any, ...], loaded: Loaded, uses: list[Use]) -> None:
        """Refuse a launch that would use memory of a copy under way."""
        arrays = kernel_arrays(args)
        if all(array.device is None for array in arrays):  # devices keep the order of copies and launches
            names = array_names(self.parameters, tuple(describe(value)[0] for value in args))
            check_completion(self._name, names, domain, arrays, loaded.footprints, uses)

    @traced("compile", lambda self, *_args: f"prepare {self._name}")
    def _prepared(
        self, domain: IndexSet, arrays: list[KernelArray], specs: tuple[Spec, ...], data: bytes
    ) -> tuple[Loaded, Table]:
        rows, count, dense = self._boxes(domain, specs)
        variant, device = self._variant(domain, specs, arrays, dense=dense)
        names = array_names(self.parameters, specs)
        where = target(device, variant, domain)
        loaded = self._version(variant, where)
        if overlapping(arrays, loaded.footprints):
            variant = replace(variant, disjoint=False)
            loaded = self._version(variant, where)
        check_reach(self._name, names, domain, arrays, loaded.footprints)
        if where.shape is not None:
            loaded = self._tuned(loaded, variant, where, (rows, count, domain.size), extents(variant, domain), data)
        return loaded, loaded.table(rows, count, domain.size)

    def variant_of(
        self, domain: IndexSet, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Variant, int | None, list[KernelArray]]:
        """Return the variant of a launch, its device (None: the host), and its arrays. Local.

        Arguments and errors as for a call.
        """
        arguments = self._arguments(domain, args, kwargs)
        self._check_domain(domain)
        specs, arrays = tuple(describe(value)[0] for value in arguments), kernel_arrays(arguments)
        _, _, dense = self._boxes(domain, specs)
        return *self._variant(domain, specs, arrays, dense=dense), arrays

    def _boxes(self, domain: IndexSet, specs: tuple[Spec, ...]) -> tuple[bytes, int, bool]:
        """The boxes of a domain as compiled code walks them: see `box_table`."""
        if intermediates(specs):
            raise UsageError(f"{self._name} got a gw.Intermediate: that is an argument of kernels in gw.fused only")
        if not 1 <= domain.ndim <= 4:
            raise UsageError(f"{self._name} runs over domains of 1 to 4 axes, not {domain.ndim}")
        return box_table(domain, loop_order(specs, domain.ndim))

    def _variant(
        self, domain: IndexSet, specs: tuple[Spec, ...], arrays: list[KernelArray], *, dense: bool
    ) -> tuple[Variant, int | None]:
        """The variant for arguments whose arrays do not overlap, and the device that holds them."""
        order, alike = loop_order(specs, domain.ndim), alike_strides(arrays)
        device = common_device(self._name, array_names(self.parameters, specs), arrays)
        if device is not None and isinstance(domain, Runs):
            raise UsageError(
                f"{self._name} runs on a GPU, over a region made of an array of booleans in host memory: make that "
                "array with the kind= of the others"
            )
        flush, reassociate = device is not None and self.flushes, device is None and self.reassociate
        variant = Variant(
            specs,
            domain.ndim,
            order,
            dense,
            alike,
            True,
            self.operation,
            self.contract,
            reassociate,
            flush,
            isinstance(domain, Runs),
        )
        return variant, device

    def _version(self, variant: Variant, where: Target) -> Loaded:
        loaded = self._versions.get((variant, where))
        if loaded is None:
            loaded = self._versions[variant, where] = load(self.py_func, variant, where)
        return loaded

    def _arguments(self, domain: IndexSet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments after the point, defaults filled in."""
        if not kwargs and len(args) == len(self.parameters):
            return args
        self._check_domain(domain)
        return bind(self.py_func, (None, *args), kwargs)[1:]

    def _check_domain(self, domain: Any) -> None:
        if not isinstance(domain, IndexSet):
            given = "nothing" if domain is NO_DOMAIN else repr(domain)
            call = ", ".join(("domain", *self.parameters))
            raise UsageError(
                f"{self._name} runs over a RectDomain or a Domain, not over {given}: write {self._name}({call}), "
                "for instance with array.domain or global_array.owned"
            )

    def _tuned(
        self,
        loaded: Any,
        variant: Variant,
        where: Target,
        box: tuple[bytes, int, int],
        extents: tuple[int, ...],
        data: bytes,
    ) -> Loaded:
        """The version for a device in the shape that is fastest there."""
        from gondwana.kernels.cuda.tuner import tuned

        def version(shape: Shape) -> Any:
            return self._version(variant, where._replace(shape=shape))

        return tuned(loaded, version, (fingerprint(self.py_func), repr(variant)), box, extents, data)


def cells(_kernel: Kernel | None, domain: Any = NO_DOMAIN, *_args: Any, **_kwargs: Any) -> int:
    """Return the cells of a launch, for traces. Local."""
    return getattr(domain, "size", 0)


def origin(kernel: Kernel, *_args: Any, **_kwargs: Any) -> dict[str, Any]:
    """Return where the function of a kernel is, and the threads that run it, for traces. Local."""
    return {**source(kernel), "threads": threads()}


class Foreach(Kernel):
    """A kernel that runs for each point of a domain: see `foreach`."""

    def __init__(
        self, function: Any, *, contract: bool = False, reassociate: bool = False, flush_subnormals: bool = False
    ) -> None:
        super().__init__(function, contract=contract, reassociate=reassociate, flush_subnormals=flush_subnormals)

    @flushing
    @traced("kernel", lambda self, *_args, **_kwargs: self._name, cells, origin)
    def __call__(self, domain: IndexSet = NO_DOMAIN, /, *args: Any, **kwargs: Any) -> None:
        """Run the kernel at each point of `domain`. Local; returns when all points are done.

        Args:
            domain: a RectDomain or a Domain, in global coordinates; an empty one does nothing.
            *args: arguments of the kernel after the point; a global array stands for this rank's block and its ghosts.
            **kwargs: the same by name.

        Raises:
            UsageError: an access with a constant offset would leave an array; nothing was touched.
            KernelError: the kernel does not compile for these arguments.
        """
        arguments = self._arguments(domain, args, kwargs)
        if self.interpreted:
            self._check_domain(domain)
            run = interpreted(self.py_func, arguments)
            for p in domain:
                value = run(p)
                if value is not None:
                    raise value_is_lost(self._name, type(returned(value)).__name__)
            return
        try:
            loaded, table, data = self._launched(domain, arguments)
        except KernelError as error:
            raise as_seen_by_users(error) from None
        loaded.run(table, data, self._name, self.flags)

    def prepared(self, domain: IndexSet, *args: Any) -> Callable[..., None]:
        """Return a function that runs the kernel as a call would, without looking at the arguments again. Local.

        What it is given, a float, replaces the last argument.

        Args:
            domain: as for a call.
            *args: as for a call; arrays must outlive the function.

        Raises:
            UsageError: as for a call.
            KernelError: as for a call.
        """

        def anew(*last: float) -> None:
            self(domain, *args[: len(args) - len(last)], *last)

        if self.interpreted:
            return anew
        loaded, table, data = self._prepare(domain, args)
        calls_anew = self._watch is not None or reporter is not None
        return loaded.prepared(table, data, self._name, self.flags, anew if calls_anew else None)


def value_is_lost(name: str, kind: str) -> KernelError:
    """Return the error of a kernel of `foreach` that returns a value. Local."""
    return KernelError(
        f"{name} returns a value of type {kind}, which nobody gets: write it into an array, as in a[p] = ..., or make "
        "the kernel a @gw.reduce, which combines the values of all points"
    )


@overload
def foreach(function: Callable[..., Any], /) -> Foreach: ...
@overload
def foreach(
    *, contract: bool = False, reassociate: bool = False, flush_subnormals: bool = False
) -> Callable[[Callable[..., Any]], Foreach]: ...
def foreach(
    function: Callable[..., Any] | None = None,
    /,
    *,
    contract: bool = False,
    reassociate: bool = False,
    flush_subnormals: bool = False,
) -> Foreach | Callable[[Callable[..., Any]], Foreach]:
    """Make a kernel of a function of a point: calling it runs it for each point of a domain, in any order. Local.

    The function is compiled at the first call for arguments of these types, and the machine code is kept on disk.
    Launches run on the threads of the rank and return when done. Points write only their own elements, or the result is
    undefined. Accesses `a[p + gw.X]` with constant offsets are checked against the domain of `a` before the launch,
    others with `GONDWANA_CHECK=1`. `print` writes whole lines, on the host. As in NumPy, Python's numbers take the
    types of the elements beside them, and integers wrap around. A division by zero raises nothing: for floats it gives
    inf or NaN, for integers `//` and `%` give 0. With `GONDWANA_INTERPRET=1` kernels run in the
    interpreter, slow but open to a debugger.

    Args:
        function: `f(p, *arguments)`; `p` is the point, arrays are indexed by points in the coordinates of their
            domains.
        contract: allow the compiler to fuse `a * b + c` into one rounding. Faster on small data; results then may
            differ in the last bits between blocks of different shapes.
        reassociate: allow the compiler to reorder the floating-point operations that are written in this function, and
            to ignore the sign of zeros: `a + b + c + d` may become `(a + b) + (c + d)`, which waits less. Results then
            differ in the last bits from those of NumPy, of GPUs (which keep the order), of other versions of the
            compiler and of processors with other vectors. Helpers have their own `@gw.jit(reassociate=True)`.
        flush_subnormals: treat subnormal numbers as zero on all threads while the kernel runs (they cost up to 30 times
            the time of normal ones); changes values below 1.2e-38 in float32 and 2.2e-308 in float64 only.

    Returns:
        The kernel, called as `kernel(domain, *arguments)`.

    Example:
        >>> import gondwana as gw
        >>> box = gw.RectDomain((0, 0), (4, 4))
        >>> a, b = gw.Array.zeros(box), gw.Array.full(box, 2.0)
        >>> @gw.foreach
        ... def add_neighbour(p, a, b):
        ...     a[p] = b[p] + b[p + gw.X]
        >>> add_neighbour(box.shrink(1, +1), a, b)
        >>> a[0, 0], a[3, 3]
        (4.0, 0.0)
    """

    def decorate(function: Callable[..., Any]) -> Foreach:
        return Foreach(function, contract=contract, reassociate=reassociate, flush_subnormals=flush_subnormals)

    return decorate if function is None else decorate(function)
