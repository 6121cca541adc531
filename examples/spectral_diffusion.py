"""Diffusion in a periodic square, exact in time: transforms along whole axes, and copies between two divisions.

Run it by `gondwana run -n 4 spectral_diffusion.py [PICTURE.png]`.
"""

import sys

import numpy as np

import gondwana as gw

N, TIMES = 256, (0.0, 2e-4, 2e-3, 2e-2)  # cells along a side of the unit square; times in units of 1/kappa


def waves(cells: range) -> np.ndarray:
    """Wave numbers of the modes at these places of a transform."""
    return 2 * np.pi * np.fft.fftfreq(N, 1 / N)[cells.start : cells.stop]


def diffuse(rows: gw.GlobalArray, columns: gw.GlobalArray, time: float) -> None:
    """Diffuse the field in `rows`, whose axis 1 is whole on each rank, as axis 0 of `columns` is. Collective."""
    field, modes = rows.local.numpy(), columns.local.numpy()
    field[...] = np.fft.fft(field, axis=1)
    gw.copy(rows, columns).wait()  # every rank sends what others own there
    kx, ky = map(waves, columns.owned.axes)
    decay = np.exp(-time * (kx[:, None] ** 2 + ky**2))
    modes[...] = np.fft.ifft(decay * np.fft.fft(modes, axis=0), axis=0)
    gw.copy(columns, rows).wait()
    field[...] = np.fft.ifft(field, axis=1)


def shapes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A ring and a bar."""
    ring = abs(np.hypot(x - 0.4 * N, y - 0.4 * N) - 0.25 * N) < 0.04 * N
    return 1.0 * (ring | ((abs(x - 0.75 * N) < 0.03 * N) & (abs(y - 0.5 * N) < 0.4 * N)))


def main() -> None:
    """Show a ring and a bar at some times."""
    ranks = gw.world.size
    rows = gw.zeros((N, N), complex, grid=(ranks, 1))
    columns = gw.zeros((N, N), complex, grid=(1, ranks))
    pictures = []
    for time in TIMES:
        rows.local.numpy()[...] = shapes(*np.ix_(*rows.owned.axes))
        diffuse(rows, columns, time)
        pictures.append(rows.gather(root=0))
    if gw.world.rank == 0:
        print("the mean stays:", *(f"{picture.real.mean():.12f}" for picture in pictures))
    if gw.world.rank == 0 and len(sys.argv) > 1:
        import matplotlib.pyplot as plt

        figure, panels = plt.subplots(1, len(TIMES), figsize=(10, 2.7), layout="constrained")
        for panel, time, picture in zip(panels, TIMES, pictures, strict=True):
            panel.imshow(picture.real.T, origin="lower", vmin=0, vmax=1)
            panel.set(title=f"time {time:g}", xticks=[], yticks=[])
        figure.savefig(sys.argv[1], dpi=100)


if __name__ == "__main__":
    main()
