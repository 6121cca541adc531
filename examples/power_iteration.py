"""The lowest tone of a membrane in the form of an L: `gondwana run -n 4 power_iteration.py [PICTURE.png]`.

The power iteration of the inverse finds the least eigenvalue of a sparse matrix; each step solves a linear system.
"""

import sys

import gondwana as gw
from gondwana import solvers

N = 79  # points along a side, without the rim; odd


@gw.jit
def inside(i, j, n):
    """Return whether a point lies in the square and not in its last quarter."""
    return 0 <= i < n and 0 <= j < n and min(i, j) < n // 2


@gw.jit
def membrane(row, columns, values, n):
    """Write the row of a point of minus Laplace's operator, with 0 on the rim; return the number of entries."""
    i, j = divmod(row, n)
    columns[0], values[0], count = row, 4.0, 1
    for di, dj in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if inside(i, j, n) and inside(i + di, j + dj, n):
            columns[count], values[count], count = (i + di) * n + j + dj, -1.0, count + 1
    return count


def lowest_tone(n: int) -> tuple[float, gw.GlobalArray]:
    """Return the least eigenvalue for sides of length 2, and its form. Collective."""
    x = gw.ones(n * n)
    laplacian = solvers.SparseMatrix.from_kernel(membrane, 5, n, like=x)
    for _ in range(30):
        x /= x.dot(x) ** 0.5
        y = solvers.cg(laplacian, x, rtol=1e-9).x
        found, x = 1.0 / x.dot(y), y
    return found * ((n + 1) / 2) ** 2, x


if __name__ == "__main__":
    eigenvalue, x = lowest_tone(N)
    form = x.gather(root=0)
    if form is not None:
        print(f"eigenvalue {eigenvalue:.4f}")
    if form is not None and len(sys.argv) > 1:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(4.6, 4), layout="constrained")
        height = form.reshape(N, N) / form.max()
        height[N // 2 :, N // 2 :] = float("nan")
        picture = axes.imshow(height.T, origin="lower", extent=(0, 2, 0, 2), cmap="viridis")
        axes.contour(height.T, 12, extent=(0, 2, 0, 2), colors="white", linewidths=0.5)
        figure.colorbar(picture, label="displacement")
        figure.savefig(sys.argv[1], dpi=100)
