"""`gw.live`: what a program shows in the live view beside its progress: slices of its fields, and texts."""

from __future__ import annotations

import base64
import html
import math
from typing import Any

import numpy as np

from gondwana.arrays.array import Array
from gondwana.arrays.global_array import GlobalArray
from gondwana.domains import RectDomain
from gondwana.errors import UsageError
from gondwana.runtime import terminal
from gondwana.runtime.watching import live as answers, watchdog
from gondwana.teams import world

MOST = 128
"""The most points of a picture along an axis."""


class LiveView:
    """The live view of this program. Local.

    Attributes:
        address: address of its page, with the token; "" if it is not known here.
    """

    address = ""

    def __repr__(self) -> str:
        return f"live view at {self.address}" if self.address else "live view: shown by gondwana run --live"

    def _repr_html_(self) -> str:
        if not self.address:
            return html.escape(repr(self))
        address = html.escape(self.address)
        return (
            f'<a href="{address}" target="_blank">{address}</a>'
            f'<iframe src="{address}" title="live view" width="100%" height="520" style="border:0"></iframe>'
        )


_view = LiveView()


def live(**values: Any) -> LiveView:
    """Show values in the live view: slices of fields as pictures, anything else as text. Local; does not block.

    `gondwana run --live` starts a view; in a notebook, the first call of rank 0 does, and its result is shown as the
    page. Without a view nothing happens and nothing listens. A value is read at most twice a second, while somebody
    looks, so that calls may stand in the loop over steps. Each rank gives its own part of a field, perhaps some steps
    before or after the others. Of a field with more than two axes, the plane through the middle of the first ones is
    shown; of a large plane, every n-th point.

    Args:
        values: by name: global arrays, other arrays of rank 0, or numbers and texts of rank 0.

    Returns:
        The view; it has the address of the page if this call, or one before, has started it.

    Raises:
        UsageError: an array without numbers as elements.

    Example:
        >>> import gondwana as gw
        >>> T = gw.zeros((8, 8))
        >>> view = gw.live(T=T, residual=f"{1e-3:.1e}")
    """
    if not _view.address and terminal.in_notebook() and world.rank == 0:
        from gondwana.liveview import serving

        _view.address, place = serving.start(several_hosts=False)
        watchdog.show_at(place, world.comm)
    for name, value in values.items():
        if answers.is_due(name):
            found = _shown(name, value)
            if found is not None:
                answers.give(name, found)
    return _view


def _shown(name: str, value: Any) -> Any:
    """The part of a picture, a text, or None where this rank has nothing to show."""
    if isinstance(value, GlobalArray):
        domain, owned = value.domain, value.owned
        if owned.is_empty:
            return None
        first = [whole.index(own.start) for whole, own in zip(domain.axes, owned.axes, strict=True)]
        return _part(name, domain.shape, first, owned.shape, lambda cut: _read(value, cut))
    if world.rank:
        return None
    if isinstance(value, Array | np.ndarray) and value.ndim:
        data = value.numpy() if isinstance(value, Array) else value
        return _part(name, data.shape, [0] * data.ndim, data.shape, lambda cut: data[cut])
    return str(value)


def _read(field: GlobalArray, cut: tuple[slice, ...]) -> np.ndarray[Any, Any]:
    """Own cells at some positions of the domain, perhaps copied from a device."""
    positions = RectDomain([part.start for part in cut], [part.stop for part in cut])
    own: Any = field.end(field.team.rank, positions)
    data: np.ndarray[Any, Any] = (own if field.kind.host else own.copy()).numpy()
    return data[tuple(slice(None, None, part.step) for part in cut)]


def _part(name: str, shape: Any, first: Any, own: Any, read: Any) -> dict[str, Any] | None:
    """The part of a picture that this rank has.

    Args:
        name: name of the field.
        shape: shape of the field.
        first: position of the first own cell.
        own: shape of the own cells.
        read: returns own cells for slices of positions of the field.
    """
    cut: list[slice] = []
    size, at = [], []
    shown = len(shape) - min(2, len(shape))
    step = math.ceil(max(shape[shown:]) / MOST)
    for axis, (length, begin, count) in enumerate(zip(shape, first, own, strict=True)):
        if axis < shown:
            cut.append(slice(length // 2, length // 2 + 1, 1))
            if not begin <= length // 2 < begin + count:
                return None
            continue
        start = -(-begin // step) * step
        if start >= begin + count:
            return None
        cut.append(slice(start, begin + count, step))
        size.append(math.ceil(length / step))
        at.append(start // step)
    data = read(tuple(cut))
    if data.dtype.kind not in "biuf":
        raise UsageError(f"gw.live({name}=...): elements of {data.dtype} are not numbers; give a field of numbers")
    plane = np.ascontiguousarray(data, np.float32).reshape([1, 1, *data.shape][-2:])
    size, at = [[1] * (2 - len(size)) + size, [0] * (2 - len(at)) + at]
    return {
        "size": size,
        "at": at,
        "shape": list(plane.shape),
        "cells": list(shape),
        "data": base64.b64encode(plane.tobytes()).decode(),
    }
