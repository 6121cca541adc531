"""Where a magnet loses its magnetisation: Ising's model at many temperatures, beside Onsager's exact solution.

Run it by `gondwana run -n 3 parameter_study.py [PICTURE.png]`: rank 0 hands out the temperatures to the others.
"""

import sys

import numpy as np

import gondwana as gw

N, SWEEPS = 96, 4000  # spins along a side of the periodic square; sweeps over all of them
TEMPERATURES = np.concatenate([np.linspace(1.6, 2.1, 6), np.linspace(2.2, 2.35, 13), np.linspace(2.4, 3.2, 9)])


@gw.jit
def metropolis(spins, chance, sweeps):
    """Change spins, each with a chance that depends on those around it; return the mean of the magnetisation."""
    n, total = len(spins), 0.0
    for sweep in range(sweeps):
        for colour in range(2):  # no two spins of one colour are neighbours
            for x in range(n):
                for y in range((x + colour) % 2, n, 2):
                    around = spins[x - 1, y] + spins[(x + 1) % n, y] + spins[x, y - 1] + spins[x, (y + 1) % n]
                    if 0.5 + 0.5 * gw.random(42, (x, y), sweep) < chance[4 + spins[x, y] * around]:
                        spins[x, y] = -spins[x, y]
        total += abs(spins.mean()) * (sweep >= sweeps // 2)  # the first half is the way to equilibrium
    return total / (sweeps - sweeps // 2)


def simulate(temperature, n, sweeps):
    """Return the magnetisation at a temperature, and the last spins. Local."""
    spins = np.ones((n, n), np.int8)
    return metropolis(spins, np.exp(-2.0 * np.arange(-4, 5) / temperature), sweeps), spins


def onsager(temperature):
    """Return the magnetisation of an infinite square."""
    return np.maximum(0, 1 - np.sinh(2 / temperature) ** -4.0) ** 0.125


def study(temperatures, n, sweeps):
    """Return what the simulations find, on rank 0; None on the others, which run them. Collective."""
    with gw.WorkerPool() as pool:
        return list(pool.map(simulate, temperatures, [n] * len(temperatures), [sweeps] * len(temperatures)))


if __name__ == "__main__":
    found = study(TEMPERATURES, N, SWEEPS)
    for temperature, (magnetisation, _) in zip(TEMPERATURES, found or (), strict=False):
        print(f"{temperature:.4f}  {magnetisation:.4f}  exact {onsager(temperature):.4f}")
    if found and len(sys.argv) > 1:
        import matplotlib.pyplot as plt

        figure, panels = plt.subplots(1, 4, figsize=(11, 2.6), width_ratios=(2, 1, 1, 1), layout="constrained")
        line = np.linspace(TEMPERATURES[0], TEMPERATURES[-1], 500)
        panels[0].plot(line, onsager(line), TEMPERATURES, [magnetisation for magnetisation, _ in found], ".")
        panels[0].set(xlabel="temperature", ylabel="magnetisation")
        for panel, case in zip(panels[1:], (3, 11, 22), strict=True):
            panel.imshow(found[case][1], cmap="gray")
            panel.set(title=f"T = {TEMPERATURES[case]:.2f}", xticks=[], yticks=[])
        figure.savefig(sys.argv[1], dpi=100)
