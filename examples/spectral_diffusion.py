"""Diffusion in a periodic square, exact in time: each mode of the Fourier transform decays by itself.

Run it by `gondwana run -n 4 spectral_diffusion.py [PICTURE.png]`.
"""

import sys

import numpy as np

import gondwana as gw

N, TIMES = 256, (0.0, 2e-4, 2e-3, 2e-2)  # cells along a side of the unit square; times in units of 1/kappa


def diffuse(field: gw.GlobalArray, time: float) -> gw.GlobalArray:
    """Return the field after a time. Collective."""
    plan = gw.fft.plan(field, transposed=True)
    modes = plan.forward(field)
    kx, ky = (2 * np.pi * k for k in plan.frequencies(1 / N))
    modes.values *= np.exp(-time * (kx**2 + ky**2))
    return plan.inverse(modes)


def shapes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A ring and a bar."""
    ring = abs(np.hypot(x - 0.4 * N, y - 0.4 * N) - 0.25 * N) < 0.04 * N
    return 1.0 * (ring | ((abs(x - 0.75 * N) < 0.03 * N) & (abs(y - 0.5 * N) < 0.4 * N)))


def main() -> None:
    """Show a ring and a bar at some times."""
    field = gw.from_function(shapes, (N, N))
    pictures = [diffuse(field, time).gather(root=0) for time in TIMES]
    if gw.world.rank == 0:
        print("the mean stays:", *(f"{picture.mean():.12f}" for picture in pictures))
    if gw.world.rank == 0 and len(sys.argv) > 1:
        import matplotlib.pyplot as plt

        figure, panels = plt.subplots(1, len(TIMES), figsize=(10, 2.7), layout="constrained")
        for panel, time, picture in zip(panels, TIMES, pictures, strict=True):
            panel.imshow(picture.T, origin="lower", vmin=0, vmax=1)
            panel.set(title=f"time {time:g}", xticks=[], yticks=[])
        figure.savefig(sys.argv[1], dpi=100)


if __name__ == "__main__":
    main()
