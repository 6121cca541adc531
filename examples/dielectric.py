"""The potential of two charges in a grounded box of glass and air: `gondwana run -n 4 dielectric.py [PICTURE.png]`."""

import sys

import numpy as np

import gondwana as gw
from gondwana import solvers

SHAPE = (120, 80)


def charges(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the density of a positive charge in air and of a negative one in glass."""
    return 1.0 * (np.hypot(x - 38, y - 40) < 4) - 1.0 * (np.hypot(x - 82, y - 40) < 4)


@gw.jit
def across(phi, eps, p, step):
    """Return what flows across a face; it has the harmonic mean of the cells beside it."""
    return 2.0 * eps[p] * eps[p + step] / (eps[p] + eps[p + step]) * (phi[p] - phi[p + step])


@gw.foreach
def flux(p, y, phi, eps):
    """Set y to -div(eps grad phi)."""
    along_x = across(phi, eps, p, -gw.X) + across(phi, eps, p, gw.X)
    y[p] = along_x + across(phi, eps, p, -gw.Y) + across(phi, eps, p, gw.Y)


def potential(shape: tuple[int, int]) -> gw.GlobalArray:
    """Return the solution of -div(eps grad phi) = charges, which is 0 at the walls. Collective."""
    eps = gw.from_function(lambda x, y: np.where(x < shape[0] / 2, 1.0, 6.0), shape, ghost=1, boundary=gw.Neumann(0))
    eps.exchange().wait()

    def apply(phi: gw.GlobalArray, y: gw.GlobalArray) -> None:
        phi.exchange().wait()
        flux(y.owned, y, phi, eps)

    density = gw.from_function(charges, shape, ghost=1, boundary=gw.Dirichlet(0))
    found = solvers.cg(apply, density, rtol=1e-10)
    if gw.world.rank == 0:
        print(f"{found.iterations} iterations, residual {found.residual:.1e}")
    return found.x


if __name__ == "__main__":
    phi = potential(SHAPE).gather(root=0)
    if phi is not None and len(sys.argv) > 1:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
        most = abs(phi).max()
        picture = axes.imshow(phi.T, origin="lower", cmap="RdBu_r", vmin=-most, vmax=most)
        axes.contour(phi.T, most * np.linspace(-1, 1, 24) ** 3, colors="black", linewidths=0.5)
        axes.axvline(SHAPE[0] / 2, color="black", linestyle="dashed")
        figure.colorbar(picture, label="potential")
        figure.savefig(sys.argv[1], dpi=100)
