"""`gw.fused`: two kernels in one sweep, whose intermediates are never in memory."""

from __future__ import annotations

import functools
from typing import Any

from gondwana.compiler.cache import fingerprint
from gondwana.compiler.multithreading.pool import threads
from gondwana.compiler.types.arguments import Spec, describe, holds_array
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.kernels.arguments import (
    KernelArray,
    alike_strides,
    array_names,
    check_reach,
    common_device,
    kernel_arrays,
    loop_order,
    overlapping,
)
from gondwana.kernels.backends import Loaded, Table, extents
from gondwana.kernels.cpu import launch as cpu
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.foreach_kernels import Foreach, Kernel, cells, origin
from gondwana.kernels.intermediate import Intermediate, bytes_kept, numbered
from gondwana.kernels.reductions import Number, Reduce
from gondwana.kernels.variant import Order, Variant, box_table, box_value
from gondwana.runtime.races import reporter
from gondwana.runtime.tracing import traced

Call = tuple[Any, ...]
"""A kernel and its arguments."""

Kernels = tuple[Foreach, Foreach | Reduce]
Interior = tuple[RectDomain, Foreach, Foreach | Reduce]
"""A box, and the kernels that run there instead of the two."""

Arguments = tuple[Call, Call]
Arrays = tuple[list[KernelArray], list[KernelArray]]

_MEMO = 64
"""The most pairs that are remembered."""

_remembered: dict[tuple[Any, ...], tuple[Loaded | None, Table, Any]] = {}

_REACH = 1
"""Distance from a point to the farthest one that the second kernel reads."""


def _kernels(_domain: object = None, first: Any = (), second: Any = (), **_options: object) -> list[Any]:
    """The kernels of calls that are not checked yet, for traces."""
    return [call[0] if isinstance(call, tuple) and call else None for call in (first, second)]


def _names(*given: Any, **options: Any) -> str:
    return " and ".join(getattr(kernel, "__qualname__", "?") for kernel in _kernels(*given, **options))


def _origin(*given: Any, **options: Any) -> dict[str, Any]:
    found = [origin(kernel) for kernel in _kernels(*given, **options) if isinstance(kernel, Kernel)]
    return found[0] | {"source": " and ".join(one.get("source", "?") for one in found)} if found else {}


@traced("kernel", _names, functools.partial(cells, None), _origin)
def fused(domain: RectDomain, first: Call, second: Call, *, interior: Interior | None = None) -> Number | None:
    """Run two kernels over a domain as if one after the other, in one sweep. Local; asynchronous on devices.

    `first` runs on `domain` and one point around it, `second` on `domain`; it reads what the first has written to
    intermediates (`gw.Intermediate`), at its own point and the nearest neighbours along the axes. Both run in
    one pass over memory: two steps of an explicit scheme then cost little more than one if they are limited by memory.
    The results have the same bits.

    Args:
        domain: a dense RectDomain of three axes; the arrays that `first` reads must have elements around it for both
            kernels (two ghost layers, corners exchanged).
        first: a kernel of `gw.foreach` and its arguments; it writes intermediates, at its own point, and nothing else.
        second: the same; its outputs must not overlap the inputs of the first. On the host it may be a kernel of
            `gw.reduce` that writes arrays and whose values over `domain` are folded.
        interior: a box and two kernels that may run in place of the others, with the same arguments, at the points of
            that box: there they give the same results at less cost, since they need not look for boundaries. The host
            uses them.

    Returns:
        The folded values of a second kernel of `gw.reduce`, else None.

    Raises:
        UsageError: the domain is illegal or too small, or an access would leave an array.
        KernelError: a kernel does not compile for these arguments.

    Example:
        >>> import gondwana as gw
        >>> box = gw.RectDomain((0, 0, 0), (12, 12, 12))
        >>> a, b, between = gw.Array.full(box, 1.0), gw.Array.zeros(box), gw.Intermediate()
        >>> @gw.foreach
        ... def add_neighbours(p, out, a):
        ...     out[p] = a[p - gw.X] + a[p + gw.X]
        >>> gw.fused(box.shrink(2), (add_neighbours, between, a), (add_neighbours, b, between))
        >>> b[5, 5, 5]
        4.0
    """
    kernels = _foreach(first), _foreach_or_reduce(second)
    if not isinstance(domain, RectDomain) or not domain.is_dense or domain.ndim != 3:
        raise UsageError(f"fused kernels run over a dense RectDomain of three axes, not over {domain!r}")
    if domain.is_empty:
        return kernels[1].neutral if isinstance(kernels[1], Reduce) else None
    inside = None if interior is None else _checked(interior, kernels)
    stale = [kernel.forget_if_stale() for kernel in (*kernels, *(inside or ()))]
    if any(stale):
        _remembered.clear()
    described = [describe(value) for value in (*first[1:], *second[1:])]
    specs, data = tuple(spec for spec, _ in described), b"".join(raw for _, raw in described)
    arrays = (raw for spec, raw in described if holds_array(spec))
    box = None if interior is None else interior[0]
    same = id(domain), id(box), *kernels, *(inside or ()), len(first), threads(), *map(id, specs), *arrays
    found = _remembered.get(same)
    if found is None:
        # As `Kernel` does: the boxes of the first such launch are kept, and found by their identities.
        equal = box_value(domain), None if box is None else box_value(box), *same[2:]
        found = _remembered.get(equal)
    if found is None:
        prepared = _prepared(domain, kernels, (first[1:], second[1:]), specs, data, interior)
        if len(_remembered) >= 2 * _MEMO:
            _remembered.clear()
        found = _remembered[same] = _remembered[equal] = *prepared, (domain, box)
    loaded, table, _ = found
    if loaded is None:
        return _one_after_the_other(domain, kernels, (first[1:], second[1:]), loop_order(specs, domain.ndim))
    if reporter is not None:
        _report(domain, kernels, (first[1:], second[1:]), loaded)
    if isinstance(kernels[1], Reduce):
        return kernels[1].fold(loaded, table, data, domain.size)
    loaded.run(table, data, " or ".join(kernel.py_func.__qualname__ for kernel in kernels), kernels[1].flags)
    return None


def _report(domain: RectDomain, kernels: Kernels, arguments: Arguments, loaded: Loaded) -> None:
    """Tell the race detector what a pair accesses."""
    from gondwana.kernels import reported

    before = 0
    for kernel, where, given in zip(kernels, (domain.accrete(_REACH), domain), arguments, strict=True):
        arrays = kernel_arrays(given)
        own = {slot - before: f for slot, f in loaded.footprints.items() if before <= slot < before + len(arrays)}
        names = array_names(kernel.parameters, tuple(describe(value)[0] for value in given))
        reported.report(kernel.py_func, where, names, arrays, own)
        before += len(arrays)


def _foreach(call: Call) -> Foreach:
    if not isinstance(call, tuple) or not call or not isinstance(call[0], Foreach):
        raise UsageError(
            f"fused takes pairs (kernel, arguments...) of kernels of gw.foreach, not {call!r}; "
            "the second may be one of gw.reduce"
        )
    return call[0]


def _foreach_or_reduce(call: Call) -> Foreach | Reduce:
    return call[0] if isinstance(call, tuple) and call and isinstance(call[0], Reduce) else _foreach(call)


def _checked(interior: Interior, kernels: Kernels) -> Kernels:
    """The kernels of the interior, which match those of the other points."""
    box, *inside = interior
    if not isinstance(box, RectDomain) or not box.is_dense or box.ndim != 3:
        raise UsageError(f"the interior of fused kernels is a dense RectDomain of three axes, not {box!r}")
    first, second = _foreach((inside[0],)), _foreach_or_reduce((inside[1],))
    for other, kernel in zip((first, second), kernels, strict=True):
        if _shape(other) != _shape(kernel):
            raise UsageError(
                f"{other.py_func.__qualname__} cannot replace {kernel.py_func.__qualname__} in the interior: both must "
                "have the same number of parameters, flush_subnormals and, of gw.reduce, op"
            )
    return first, second


def _shape(kernel: Foreach | Reduce) -> tuple[object, ...]:
    return len(kernel.parameters), kernel.flags, kernel.operation


@traced("compile", "prepare a fused pair")
def _prepared(
    domain: RectDomain,
    kernels: Kernels,
    arguments: Arguments,
    specs: tuple[Spec, ...],
    data: bytes,
    interior: Interior | None,
) -> tuple[Loaded | None, Table]:
    """The compiled pair and the domain, divided for it; None and None if two sweeps are needed."""
    count, arrays = len(arguments[0]), (kernel_arrays(arguments[0]), kernel_arrays(arguments[1]))
    for kernel, given in zip(kernels, arguments, strict=True):
        if len(given) != len(kernel.parameters):
            raise UsageError(
                f"{kernel.py_func.__qualname__} takes {len(kernel.parameters)} arguments, not {len(given)}"
            )
    names = [
        *array_names(kernels[0].parameters, specs[:count]),
        *array_names(kernels[1].parameters, specs[count:]),
    ]
    where = common_device("a fused pair", names, [*arrays[0], *arrays[1]])
    if where is not None:
        if isinstance(kernels[1], Reduce):
            raise UsageError(
                f"{kernels[1].py_func.__qualname__} folds values and its arrays are on a device, where both kernels of "
                "a fused pair are of gw.foreach: fold in a launch of its own"
            )
        return _on_device(domain, kernels, specs, count, arrays, data, where)
    if any(kernel.interpreted for kernel in kernels) or kernels[0].flags != kernels[1].flags:
        return None, None
    return _on_host(domain, kernels, specs, count, arrays, interior)


def _one_after_the_other(domain: RectDomain, kernels: Kernels, arguments: Arguments, order: Order) -> Number | None:
    """Run in the interpreter, or if the kernels treat subnormal numbers differently: intermediates are arrays."""
    around = domain.accrete(_REACH)
    like = type(kernel_arrays((*arguments[0], *arguments[1]))[0])
    made: dict[int, KernelArray] = {}

    def replaced(value: Any) -> Any:
        if isinstance(value, Intermediate):
            return made.setdefault(id(value), like.empty(around, value.dtype, order=order))
        if isinstance(value, tuple) and (type(value) is tuple or hasattr(value, "_fields")):
            items = map(replaced, value)
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value

    kernels[0](around, *map(replaced, arguments[0]))
    return kernels[1](domain, *map(replaced, arguments[1]))


def _on_host(
    domain: RectDomain,
    kernels: Kernels,
    specs: tuple[Spec, ...],
    count: int,
    arrays: Arrays,
    interior: Interior | None,
) -> tuple[Loaded, Table]:
    """The compiled pair for the host, and the domain divided into tiles."""
    order = loop_order(specs, domain.ndim)
    alike = alike_strides([*arrays[0], *arrays[1]])
    variant = Variant(numbered(specs, {}), domain.ndim, order, True, alike, True, kernels[1].operation, False)
    inside = (None, None) if interior is None else (_half(interior[1]), _half(interior[2]))
    halves = _half(kernels[0], inside[0]), _half(kernels[1], inside[1])
    loaded = cpu.load_pair(halves, count, variant)
    _check(domain, kernels, specs, count, arrays, loaded)
    box = box_table(domain, order)[0]
    nothing = bytes(len(box))
    inner = nothing if interior is None or interior[0].is_empty else box_table(interior[0], order)[0]
    return loaded, loaded.table(box + inner, 2, domain.size)


def _half(kernel: Foreach | Reduce, inside: cpu.Half | None = None) -> cpu.Half:
    return cpu.Half(kernel.py_func, kernel.contract, kernel.reassociate, inside)


def _on_device(
    domain: RectDomain,
    kernels: Kernels,
    specs: tuple[Spec, ...],
    count: int,
    arrays: Arrays,
    data: bytes,
    where: int,
) -> tuple[Loaded, Table]:
    """The compiled pair for a device, and the domain dealt to its blocks."""
    from gondwana.gpu.device import device
    from gondwana.kernels.cuda import launch, tuner

    every = [*arrays[0], *arrays[1]]
    order = loop_order(specs, domain.ndim)
    contract = all(kernel.contract for kernel in kernels)
    flush = any(kernel.flushes for kernel in kernels)
    alike = alike_strides(every)
    variant = Variant(numbered(specs, {}), domain.ndim, order, True, alike, True, None, contract, flush=flush)
    functions = kernels[0].py_func, kernels[1].py_func
    loops = extents(variant, domain)

    def version(shape: Shape) -> launch.Loaded:
        return launch.load_pair(functions, count, variant, shape, device(where))

    loaded = version(tuner.pair_shape_for(variant, loops))
    _check(domain, kernels, specs, count, arrays, loaded)
    rows, boxes_in, _ = box_table(domain, order)
    box = rows, boxes_in, domain.size
    key = (*map(fingerprint, functions), str(count), repr(variant))
    best = tuner.tuned(loaded, version, key, box, loops, data, bytes_kept(specs))
    return best, best.table(*box)


def _check(
    domain: RectDomain,
    kernels: Kernels,
    specs: tuple[Spec, ...],
    count: int,
    arrays: Arrays,
    loaded: Loaded,
) -> None:
    """Refuse pairs whose results would differ from those of two sweeps."""
    if overlapping([*arrays[0], *arrays[1]], loaded.footprints):
        raise UsageError("the arrays that a fused pair writes overlap others of it: give it arrays of their own")
    first = {slot: f for slot, f in loaded.footprints.items() if slot < len(arrays[0])}
    second = {slot - len(arrays[0]): f for slot, f in loaded.footprints.items() if slot >= len(arrays[0])}
    if any(footprint.written for footprint in first.values()):
        raise UsageError("the first kernel of a fused pair writes intermediates only: others would be written twice")
    parts = zip(kernels, (specs[:count], specs[count:]), (domain.accrete(_REACH), domain), strict=True)
    for (kernel, own, where), held, footprints in zip(parts, arrays, (first, second), strict=True):
        names = array_names(kernel.parameters, own)
        check_reach(kernel.py_func.__qualname__, names, where, held, footprints)
