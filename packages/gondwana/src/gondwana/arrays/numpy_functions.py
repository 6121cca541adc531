"""NumPy's functions on global arrays: reductions of all cells; what needs the cells in one place is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gondwana.arrays.global_array import GlobalArray

_METHODS: dict[Callable[..., Any], str] = {
    np.sum: "sum",
    np.min: "min",
    np.amin: "min",
    np.max: "max",
    np.amax: "max",
    np.mean: "mean",
    np.linalg.norm: "norm",
}


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do what a function of NumPy does, where a method of the global array does it. Collective over its team.

    Raises:
        TypeError: there is no such method, or it has no such option; raised before any communication.
    """
    name = f"{function.__module__}.{function.__name__}"
    method = _METHODS.get(function)
    if method is None:
        raise refusal(name)
    signature = inspect.signature(function)
    given = signature.bind(*args, **kwargs).arguments
    array: GlobalArray = given.pop(next(iter(signature.parameters)))
    options = [option for option, value in given.items() if value is not signature.parameters[option].default]
    if method in ("sum", "min", "max", "mean") and options == ["axis"]:
        return getattr(array, method)(given["axis"])
    if options:
        raise refusal(f"{name} with {options[0]}=")
    return getattr(array, method)()


def refusal(what: str) -> TypeError:
    """Return the error of something that needs the cells of a global array in one place. Local."""
    return TypeError(
        f"{what} is not defined on a GlobalArray T, whose cells are divided over ranks: use T.local (this rank's cells "
        "and ghosts, in global coordinates; T.local.numpy() is an ndarray), T.block(rank), T.to_numpy() (a copy of all "
        "cells, collective), or a kernel of @gw.foreach; np.sum, min, max, mean and np.linalg.norm work on all cells"
    )
