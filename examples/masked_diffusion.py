"""Heat in a plate with holes, warm at its left edge: `gondwana run -n 4 masked_diffusion.py`."""

import numpy as np

import gondwana as gw


def plate(x, y, shape):
    """Whether a cell is in the plate: the holes are two disks and a slit."""
    x, y = (x + 0.5) / shape[1], (y + 0.5) / shape[1]
    disks = (np.hypot(x - 0.6, y - 0.3) > 0.2) & (np.hypot(x - 1.2, y - 0.7) > 0.22)
    return disks & ((np.abs(x - 1.65) > 0.03) | (y > 0.75))


@gw.jit
def flow(here, there, k, beyond):  # nothing flows in from where the conductivity is zero
    return 2.0 * k * beyond / (k + beyond) * (there - here)


@gw.foreach
def diffuse(p, new, T, k):
    low = flow(T[p], T[p - gw.X], k[p], k[p - gw.X]) + flow(T[p], T[p - gw.Y], k[p], k[p - gw.Y])
    high = flow(T[p], T[p + gw.X], k[p], k[p + gw.X]) + flow(T[p], T[p + gw.Y], k[p], k[p + gw.Y])
    new[p] = T[p] + 0.2 * (low + high)


def run(shape, steps):
    def conductivity(x, y):
        return plate(x, y, shape) * (1 - y / 2 / shape[1])

    cells = gw.cells_where(gw.from_function(lambda x, y: plate(x, y, shape), shape, ghost=1))
    k = gw.from_function(conductivity, shape, ghost=1, boundary=gw.Reflect())
    walls = {"x-": gw.Dirichlet(1.0), "x+": gw.Dirichlet(0.0), "y": gw.Neumann(0.0)}
    T = gw.zeros(shape, ghost=1, boundary=walls)
    new = gw.zeros_like(T)
    k.exchange().wait()
    for _ in range(steps):
        ghosts = T.exchange()
        diffuse(cells.inner, new, T, k)
        ghosts.wait()
        diffuse(cells.rim, new, T, k)
        T, new = new, T
    return T


if __name__ == "__main__":
    T = run((240, 120), 100_000).gather(0)
    if T is not None:
        import matplotlib.pyplot as plt

        hole = ~plate(*np.indices(T.shape), T.shape)
        plt.imshow(np.ma.masked_where(hole, T).T, cmap="inferno", origin="lower")
        plt.colorbar(orientation="horizontal", label="temperature")
        plt.savefig("masked-diffusion.png", dpi=150, bbox_inches="tight")
