"""Domains as compiled loops read them: a table of boxes, axes in the order of the loops, outermost first."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from typing import Literal

from gondwana.domains import IndexSet, RectDomain

Order = Literal["C", "F"]


def value(domain: IndexSet) -> Hashable:
    """Return what is equal for equal boxes, and for domains cut into equal boxes. Local.

    It says which axes are walked, so a hash and a comparison cost less than those of the sets of points.
    """
    return domain.axes if isinstance(domain, RectDomain) else (domain.ndim, *(rect.axes for rect in domain.rects))


def table(domain: IndexSet, order: Order) -> tuple[bytes, int, bool]:
    """Return the table, the number of boxes and whether all are dense (stride one). Local.

    A box is three groups of integers, one integer an axis: first coordinates, numbers of points, strides.
    """
    rows = []
    dense = True
    for rect in domain.rects:
        axes = rect.axes if order == "C" else rect.axes[::-1]
        rows += [axis.start for axis in axes] + [len(axis) for axis in axes] + [axis.step for axis in axes]
        dense = dense and rect.is_dense
    return struct.pack(f"{len(rows)}q", *rows), len(domain.rects), dense
