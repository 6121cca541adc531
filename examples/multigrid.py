"""Groundwater between two wells in layers of sand and clay: `gondwana run -n 4 multigrid.py [PICTURE.png]`."""

import sys

import numpy as np

import gondwana as gw
from gondwana import solvers

SHAPE = (300, 200)


def permeability(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return how well water flows: layers of clay, a tenth as well as sand."""
    return np.where(np.sin(0.08 * y + 1.5 * np.sin(0.04 * x)) > 0.7, 0.1, 1.0)


def wells(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return what a well in sand brings in, and another takes out."""
    return 1.0 * (np.hypot(x - 75, y - 60) < 4) - 1.0 * (np.hypot(x - 215, y - 140) < 4)


@gw.jit
def across(p, x, k, step):
    """Return what flows across a face; it has the harmonic mean of the cells beside it."""
    return 2.0 * k[p] * k[p + step] / (k[p] + k[p + step]) * (x[p] - x[p + step])


@gw.jit
def outflow(p, x, h, k):
    """Return -div(k grad x)."""
    along_x = across(p, x, k, -gw.X) + across(p, x, k, gw.X)
    return along_x / h[0] ** 2 + (across(p, x, k, -gw.Y) + across(p, x, k, gw.Y)) / h[1] ** 2


def pressure(shape: tuple[int, int]) -> solvers.Solution:
    """Return the solution of -div(k grad p) = wells; nothing flows across walls along x. Collective."""
    b = gw.from_function(wells, shape, ghost=1, boundary={"x": gw.Dirichlet(0), "y": gw.Neumann(0)})
    k = gw.from_function(permeability, shape, ghost=1, boundary=gw.Neumann(0))
    mg = solvers.Multigrid(b, outflow, coefficients=(k,))
    return solvers.cg(mg.apply, b, M=mg, rtol=1e-10)


if __name__ == "__main__":
    p = pressure(SHAPE).x.gather(root=0)
    if p is not None and len(sys.argv) > 1:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
        picture = axes.imshow(p.T, origin="lower", cmap="RdBu_r", vmin=-38, vmax=38)
        axes.contour(p.T, 40, colors="black", linewidths=0.5)
        axes.contour(permeability(*np.indices(SHAPE)).T, [0.5], colors="gray", linewidths=0.8)
        figure.savefig(sys.argv[1], dpi=100)
