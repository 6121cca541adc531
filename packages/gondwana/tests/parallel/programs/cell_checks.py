"""What programs with several numbers in a cell must do, in each of the three ways. Prints one JSON line per check."""

from __future__ import annotations

import runpy
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from checks import raises, run_checks

import gondwana as gw
from gondwana.errors import KernelError, UsageError
from gondwana.io import checkpoint
from gondwana.io.dataset import Dataset
from gondwana.io.writer import StepWriter
from gondwana.teams import world

EXAMPLE = Path(__file__).parents[5] / "examples" / "lattice_boltzmann.py"
BOX = gw.RectDomain((-2, 3), (9, 10))
EX, EY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
E = tuple(x * gw.X + y * gw.Y for x, y in zip(EX, EY, strict=True))
OPPOSITE = (0, 3, 4, 1, 2, 7, 8, 5, 6)
CELL = np.dtype([("f", "f8", 9), ("kind", "i4")])
WHOLE = np.random.default_rng(1).random((9, *BOX.shape))
STREAMED = np.array([np.roll(WHOLE[q], (EX[q], EY[q]), (0, 1)) for q in OPPOSITE])
"""The populations after each has moved on by one cell and was turned round."""


class Star(NamedTuple):
    mass: np.float32
    place: complex
    number: int


@contextmanager
def folder() -> Iterator[Path]:
    """One folder for all ranks."""
    path = world.bcast(tempfile.mkdtemp() if world.rank == 0 else None)
    try:
        yield Path(path)
    finally:
        world.barrier()
        if world.rank == 0:
            shutil.rmtree(path)


@gw.foreach
def stream(p, g, f):
    for q in range(len(f)):
        g[OPPOSITE[q]][p] = f[q][p - E[q]]


@gw.foreach
def stream_front(p, g, f):
    for q in range(9):
        g[OPPOSITE[q], p] = f[q, p - E[q]]


@gw.foreach
def stream_records(p, g, f):
    for q in range(9):
        g[p].f[OPPOSITE[q]] = f[p - E[q]].f[q]
    g[p].kind = f[p].kind


def tuples() -> tuple[gw.GlobalArray, ...]:
    return tuple(gw.from_numpy(cells, BOX, ghost=1, periodic=True) for cells in WHOLE)


def records(order: str = "C") -> gw.GlobalArray:
    cells = np.zeros(BOX.shape, CELL)
    cells["f"], cells["kind"] = np.moveaxis(WHOLE, 0, -1), np.arange(BOX.size).reshape(BOX.shape)
    return gw.from_numpy(cells, BOX, ghost=1, periodic=True, order=order)


def check_tuples_of_arrays() -> None:
    f = tuples()
    g = tuple(map(gw.zeros_like, f))
    ghosts = gw.exchange(*f, corners=True)
    stream(f[0].inner, g, f)
    ghosts.wait()
    stream(f[0].rim, g, f)
    assert all((one.to_numpy() == cells).all() for one, cells in zip(g, STREAMED, strict=True))


def check_components_in_front() -> None:
    box = gw.RectDomain((0, *BOX.lo), (9, *BOX.hi))
    grid = gw.zeros(BOX).grid
    f = gw.from_numpy(WHOLE, box, ghost=(0, 1, 1), periodic=(False, True, True), grid=(1, *grid))
    g = gw.zeros_like(f)
    f.exchange(corners=True).wait()
    stream_front(gw.RectDomain(f.owned.lo[1:], f.owned.hi[1:]), g, f)
    assert (g.to_numpy() == STREAMED).all()
    assert g[4, gw.Point(0, 5)] == STREAMED[4, 2, 2]
    world.barrier()  # until all have read the cell


def check_records() -> None:
    f = records()
    g = gw.zeros_like(f)
    f.exchange(corners=True).wait()
    stream_records(f.owned, g, f)
    found = g.to_numpy()
    assert (np.moveaxis(found["f"], -1, 0) == STREAMED).all()
    assert (found["kind"] == f.to_numpy()["kind"]).all()


def check_fields_of_records_are_variables_of_a_dataset() -> None:
    for order in "C", "F":
        f, u = records(order), gw.ones(BOX)
        with folder() as place:
            with StepWriter(place / "cells.bp", {"c": f, "u": u}) as out:
                for step in 1, 2:
                    out.write(step, {"c": f, "u": u})
            world.barrier()
            with Dataset(place / "cells.bp") as data:
                dims = data.dims("c.f")
                assert dims == (("x", "y", "f0") if order == "C" else ("f0", "y", "x")), dims
                found = data.read("c.f", -1)
                assert ((found if order == "C" else found.T) == f.to_numpy()["f"]).all()
                assert data.read("c.kind", 0).dtype == np.int32


def check_checkpoints_restore_records() -> None:
    stars = gw.zeros(BOX, Star, ghost=1)
    stars.local.numpy()["place"] = 1 + 2j * world.rank
    f = records("F")
    with folder() as place:
        checkpoint.save(place / "cells.bp", {"c": f, "stars": stars}, step=7)
        cut = (1, world.size)
        other, others = gw.zeros(BOX, CELL, grid=cut, order="F"), gw.zeros(BOX, Star, grid=cut)
        assert checkpoint.load(place / "cells.bp", {"c": other, "stars": others}).step == 7
        assert (other.to_numpy() == f.to_numpy()).all()
        assert (others.to_numpy() == stars.to_numpy()).all()
        single, flags = gw.zeros(BOX, [("f", "f4", 9)], order="F"), gw.zeros(BOX, [("flag", "?")])
        refused("'c.f' has type float64", checkpoint.load, place / "cells.bp", {"c": single})
        flags.local.numpy()["flag"] = world.rank % 2 == 0
        checkpoint.save(place / "flags.bp", {"c": flags}, step=1)
        again = gw.zeros_like(flags)
        assert checkpoint.load(place / "flags.bp", {"c": again}).step == 1
        assert (again.to_numpy() == flags.to_numpy()).all()
        refused("has the name of another array", checkpoint.save, place / "no.bp", {"c": f, "c.f": gw.ones(3)}, step=1)


def refused(text: str, function: Callable[..., object], *arguments: object, **options: object) -> None:
    message = raises(UsageError, function, *arguments, **options)
    assert text in message, message


@gw.foreach
def add(p, a, b):
    a[p] += b[p]


@gw.jit
def adds(a, b):
    add(a.domain, a, b)


def check_errors_name_the_cause() -> None:
    a, b, data = gw.zeros(BOX), gw.zeros(BOX, grid=(1, world.size)), np.zeros(BOX.shape)
    refused("gw.scatter(a, like=T)", gw.copy, data, a)
    refused("T.to_numpy() returns an ndarray", gw.copy, a[:, :], data)
    assert "add is a kernel, which only Python launches" in raises(KernelError, adds, a, a)
    if world.size > 1:
        refused("make different global arrays: data is", gw.from_numpy, data + world.rank)
    if a.grid != b.grid and not b.owned >= a.owned:
        refused("a has elements at all these points", add, a.owned, a, b)


def check_the_example_is_right_on_any_number_of_ranks() -> None:
    source = EXAMPLE.read_text().replace("STEPS, U, OMEGA = 192, 128, 1500,", "STEPS, U, OMEGA = 47, 33, 60,")
    assert "47" in source
    with folder() as place:
        if world.rank == 0:
            (place / "program.py").write_text(source)
        world.barrier()
        found = runpy.run_path(str(place / "program.py"))
    expected = boltzmann(found)
    for one, cells in zip(found["f"], expected, strict=True):
        assert np.allclose(one.to_numpy(), cells, rtol=1e-14, atol=0)
    assert found["error"] < 0.03, found["error"]


def boltzmann(given: dict) -> np.ndarray:
    """The populations that the example has at its end, computed by NumPy."""
    nx, ny, u, omega, kx, ky, w = (given[name] for name in ("NX", "NY", "U", "OMEGA", "KX", "KY", "W"))
    x, y = np.meshgrid(kx * np.arange(nx), ky * np.arange(ny), indexing="ij")

    def equilibrium(q: int, rho: np.ndarray, ux: np.ndarray, uy: np.ndarray) -> np.ndarray:
        along = 3.0 * (EX[q] * ux + EY[q] * uy)
        return w[q] * rho * (1.0 + along + 0.5 * along * along - 1.5 * (ux * ux + uy * uy))

    ux, uy = -u * np.cos(x) * np.sin(y), u * kx / ky * np.sin(x) * np.cos(y)
    f = np.array([equilibrium(q, np.ones((nx, ny)), ux, uy) for q in range(9)])
    for _ in range(given["STEPS"]):
        f = np.array([np.roll(f[q], (EX[q], EY[q]), (0, 1)) for q in range(9)])
        rho = f.sum(0)
        ux, uy = (np.tensordot(axis, f, 1) / rho for axis in (EX, EY))
        f += omega * (np.array([equilibrium(q, rho, ux, uy) for q in range(9)]) - f)
    return f


if __name__ == "__main__":
    run_checks(globals())
