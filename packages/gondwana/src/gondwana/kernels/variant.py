"""The ways to compile a kernel, and domains as its loops read them: tables of boxes, in the order of the loops."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

from gondwana.compiler.types.arguments import Spec
from gondwana.domains import IndexSet, RectDomain
from gondwana.kernels.runs import Runs

Order = Literal["C", "F"]


@dataclass(frozen=True)
class Variant:
    """One way to compile a kernel.

    Args:
        specs: specs of the arguments after the point.
        ndim: number of axes of the domain.
        order: order of the loops, which gives the innermost axis.
        dense: whether the boxes have stride one.
        alike: for each array, the first array with the same strides.
        disjoint: whether written arrays overlap no other.
        operation: operation of a reduction, else None.
        contract: whether multiply-adds may be fused.
        reassociate: whether floating-point operations may be reordered; code for devices keeps their order.
        flush: whether compiled code treats subnormal float32 numbers as zero; threads of the host do it by themselves.
        runs: whether the domain is given by runs instead of boxes.
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
    runs: bool = False


def alike_among(alike: tuple[int, ...]) -> tuple[int, ...]:
    """Return for each array of one kernel of a pair the first of them with the same strides. Local."""
    return tuple(map(alike.index, alike))


def box_value(domain: IndexSet) -> Hashable:
    """Return a value that is equal for equal boxes, and for domains cut into equal boxes. Local.

    It describes the axes, so a hash and a comparison cost less than those of the sets of points. Runs are compared by
    identity.
    """
    if isinstance(domain, Runs):
        return id(domain)
    return domain.axes if isinstance(domain, RectDomain) else (domain.ndim, *(rect.axes for rect in domain.rects))


def box_table(domain: IndexSet, order: Order) -> tuple[bytes, int, bool]:
    """Return the table, the number of boxes and whether all are dense (stride one). Local.

    A box is three groups of integers, one integer an axis, outermost first: first coordinates, numbers of points,
    strides. For runs see `Runs.table`.
    """
    if isinstance(domain, Runs):
        table = domain.table(order)
        return table.tobytes(), len(table) - 1, True
    rows = []
    dense = True
    for rect in domain.rects:
        axes = rect.axes if order == "C" else rect.axes[::-1]
        rows += [axis.start for axis in axes] + [len(axis) for axis in axes] + [axis.step for axis in axes]
        dense = dense and rect.is_dense
    return struct.pack(f"{len(rows)}q", *rows), len(domain.rects), dense
