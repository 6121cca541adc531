"""`gw.fused`: two kernels in one sweep, with what the first leaves for the second never in memory."""

from __future__ import annotations

from typing import Any

from gondwana.compiler.fingerprint import fingerprint
from gondwana.compiler.multithreading.pool import threads
from gondwana.compiler.types.arguments import Spec, describe, holds_array
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.kernels import boxes
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
from gondwana.kernels.boxes import Order
from gondwana.kernels.cpu import launch as cpu
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.foreach_kernels import Foreach
from gondwana.kernels.intermediate import Intermediate, numbered
from gondwana.kernels.variant import Variant
from gondwana.runtime.tracing import traced

Call = tuple[Any, ...]
"""A kernel and its arguments."""

Kernels = tuple[Foreach, Foreach]
Arguments = tuple[Call, Call]
Arrays = tuple[list[KernelArray], list[KernelArray]]

_MEMO = 64
_remembered: dict[tuple[Any, ...], tuple[Loaded | None, Table, Any]] = {}

_REACH = 1
"""How far around a point the second kernel reads."""


def _names(domain: Any, *calls: Call) -> str:
    return " and ".join(getattr(call[0], "__qualname__", "?") if call else "?" for call in calls)


@traced("kernel", _names)
def fused(domain: RectDomain, first: Call, second: Call) -> None:
    """Run two kernels over a domain as if one after the other, in one sweep. Local; asynchronous on devices.

    `first` runs on `domain` and one point around it, `second` on `domain`; it reads what the first has written to
    intermediates (`gw.Intermediate`), at its own point and the nearest neighbours along the axes. Both run in
    one pass over memory: two steps of an explicit scheme then cost little more than one where memory is what they wait
    for. The results have the same bits.

    Args:
        domain: a dense RectDomain of three axes; the arrays that `first` reads must have elements around it for both
            kernels (two ghost layers, corners exchanged).
        first: a kernel of `gw.foreach` and its arguments; it writes intermediates, at its own point, and nothing else.
        second: the same; what it writes must not overlap what the first reads.

    Raises:
        UsageError: the domain is illegal, too small, or arrays would be left.
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
    kernels = _kernel(first), _kernel(second)
    if not isinstance(domain, RectDomain) or not domain.is_dense or domain.ndim != 3:
        raise UsageError(f"fused kernels run over a dense RectDomain of three axes, not over {domain!r}")
    if domain.is_empty:
        return
    stale = [kernel.forget_if_stale() for kernel in kernels]
    if any(stale):
        _remembered.clear()
    described = [describe(value) for value in (*first[1:], *second[1:])]
    specs, data = tuple(spec for spec, _ in described), b"".join(raw for _, raw in described)
    arrays = (raw for spec, raw in described if holds_array(spec))
    key = (id(domain), *map(id, kernels), len(first), threads(), *map(id, specs), *arrays)
    found = _remembered.get(key)
    if found is None:
        if len(_remembered) >= _MEMO:
            _remembered.clear()
        # Domain and kernels are kept so that their identities, which the key holds, stay their own.
        prepared = _prepared(domain, kernels, (first[1:], second[1:]), specs, data)
        found = _remembered[key] = *prepared, (domain, kernels)
    loaded, table, _ = found
    if loaded is None:
        _one_after_the_other(domain, kernels, (first[1:], second[1:]), loop_order(specs, domain.ndim))
    else:
        names = " or ".join(kernel.py_func.__qualname__ for kernel in kernels)
        loaded.run(table, data, names, kernels[1].flags)


def _kernel(call: Call) -> Foreach:
    if not call or not isinstance(call[0], Foreach):
        raise UsageError(f"fused takes pairs (kernel, arguments...) of kernels of gw.foreach, not {call!r}")
    return call[0]


@traced("compile", "prepare a fused pair")
def _prepared(
    domain: RectDomain, kernels: Kernels, arguments: Arguments, specs: tuple[Spec, ...], data: bytes
) -> tuple[Loaded | None, Table]:
    """The compiled pair and the domain, divided for it; None and None where two sweeps have to do."""
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
        return _on_device(domain, kernels, specs, count, arrays, data, where)
    if any(kernel.interpreted for kernel in kernels) or kernels[0].flags != kernels[1].flags:
        return None, None
    return _on_host(domain, kernels, specs, count, arrays)


def _one_after_the_other(domain: RectDomain, kernels: Kernels, arguments: Arguments, order: Order) -> None:
    """In the interpreter, or where the two treat subnormal numbers differently: intermediates are arrays."""
    around = domain.accrete(_REACH)
    like = type(kernel_arrays(arguments[1])[0])
    made: dict[int, KernelArray] = {}

    def replaced(value: Any) -> Any:
        if isinstance(value, Intermediate):
            return made.setdefault(id(value), like.empty(around, value.dtype, order=order))
        return value

    kernels[0](around, *map(replaced, arguments[0]))
    kernels[1](domain, *map(replaced, arguments[1]))


def _on_host(
    domain: RectDomain, kernels: Kernels, specs: tuple[Spec, ...], count: int, arrays: Arrays
) -> tuple[Loaded, Table]:
    """The compiled pair for the host, and the domain divided into tiles."""
    order = loop_order(specs, domain.ndim)
    alike = alike_strides([*arrays[0], *arrays[1]])
    variant = Variant(numbered(specs, {}), domain.ndim, order, True, alike, True, None, False)
    halves = _half(kernels[0]), _half(kernels[1])
    loaded = cpu.load_pair(halves, count, variant)
    _check(domain, kernels, specs, count, arrays, loaded)
    rows, boxes_in, _ = boxes.table(domain, order)
    return loaded, loaded.table(rows, boxes_in, domain.size)


def _half(kernel: Foreach) -> cpu.Half:
    return cpu.Half(kernel.py_func, kernel.contract, kernel.reassociate)


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
    rows, boxes_in, _ = boxes.table(domain, order)
    box = rows, boxes_in, domain.size
    key = (*map(fingerprint, functions), str(count), repr(variant))
    best = tuner.tuned(loaded, version, key, box, loops, data, pair=True)
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
