"""The ways to compile a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from gondwana.compiler.types.arguments import Spec
from gondwana.kernels.boxes import Order


@dataclass(frozen=True)
class Variant:
    """One way to compile a kernel.

    Args:
        specs: of the arguments after the point.
        ndim: axes of the domain.
        order: which axis is the innermost loop.
        dense: whether the boxes have stride one.
        alike: for each array the first one with the same strides.
        disjoint: whether written arrays overlap no other.
        operation: of a reduction, else None.
        contract: whether multiply-adds may be fused.
        reassociate: whether floating-point operations may be reordered; code for devices keeps their order.
        flush: whether compiled code treats subnormal float32 numbers as zero; threads of the host do it by themselves.
    """

    specs: tuple[Spec, ...]
    ndim: int
    order: Order
    dense: bool
    alike: tuple[int, ...]
    disjoint: bool
    operation: str | None
    contract: bool
    reassociate: bool = False
    flush: bool = False


def alike_among(alike: tuple[int, ...]) -> tuple[int, ...]:
    """Return for each array of one kernel of a pair the first of them with the same strides. Local."""
    return tuple(map(alike.index, alike))
