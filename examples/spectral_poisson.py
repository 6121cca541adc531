"""The potential of charges in a periodic box: Poisson's equation, solved exactly by Fourier transforms.

Run it by `gondwana run -n 4 spectral_poisson.py [PICTURE.png]`.
"""

import sys

import numpy as np

import gondwana as gw

N = 96  # cells along a side of the unit cube


def solve(rho: gw.GlobalArray, phi: gw.GlobalArray) -> None:
    """Set phi so that -div grad phi = rho - mean(rho) in the unit cube, with mean 0. Collective."""
    plan = gw.fft.plan(rho, transposed=True)
    modes = plan.forward(rho)
    k2 = sum((2 * np.pi * k) ** 2 for k in plan.frequencies(1 / N))
    k2[k2 == 0] = np.inf  # the mean of rho has no potential
    modes.values /= k2
    plan.inverse(modes, out=phi)


def charges(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """A ball, and around it a ring of the opposite charge."""
    x, y, z = x / N - 0.5, y / N - 0.5, z / N - 0.5
    ball = np.exp(-(x**2 + y**2 + z**2) / 0.05**2) / 0.05**2
    ring = np.exp(-((np.hypot(x, y) - 0.3) ** 2 + z**2) / 0.03**2) / 0.03**2
    return ball - 0.15 * ring


def main() -> None:
    """Solve, and draw a plane of the charges and of their potential."""
    rho = gw.from_function(charges, (N, N, N))
    rho -= rho.mean()
    phi = gw.zeros_like(rho)
    solve(rho, phi)
    planes = [field.plane(axis=2, index=N // 2) for field in (rho, phi)]
    energy = 0.5 * rho.dot(phi) / N**3
    if gw.world.rank == 0:
        print(f"energy of the field: {energy:.9f}")
    if gw.world.rank == 0 and len(sys.argv) > 1:
        import matplotlib.pyplot as plt

        figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
        for panel, name, plane in zip(panels, ("charge", "potential"), planes, strict=True):
            most = abs(plane).max()
            picture = panel.imshow(plane.T, origin="lower", cmap="RdBu_r", vmin=-most, vmax=most)
            figure.colorbar(picture, ax=panel)
            panel.set(title=name, xticks=[], yticks=[])
        panels[1].contour(planes[1].T, levels=15, colors="black", linewidths=0.5)
        figure.savefig(sys.argv[1], dpi=100)


if __name__ == "__main__":
    main()
