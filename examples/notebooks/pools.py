# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Several ranks from a notebook
#
# A notebook has two ways to more than one rank. A `WorkerPool` starts workers of its own, which compute independent
# items. The engines of ipyparallel are the ranks of one MPI job, which compute together.

# %%
import ipyparallel
import matplotlib.pyplot as plt
import numpy as np

import gondwana as gw

# %% [markdown]
# ## Independent items: a pool
#
# What the notebook defines reaches the workers as it is at that moment.

# %%
N = 200


def escape(height):
    """Count the steps after which z*z + c leaves the circle of radius 2, for a row of points c."""
    c = np.linspace(-2.0, 0.6, N) + 1j * height
    z, steps = np.zeros_like(c), np.zeros(N, np.int64)
    for _ in range(50):
        inside = abs(z) <= 2.0
        z[inside] = z[inside] ** 2 + c[inside]
        steps += inside
    return steps


heights = np.linspace(-1.2, 1.2, N)
with gw.WorkerPool(2) as pool:
    rows = list(pool.pmap(escape, heights, progress="rows"))

# %%
plt.imshow(rows, extent=(-2.0, 0.6, -1.2, 1.2))
plt.show()

# %% [markdown]
# ## One job: engines of ipyparallel
#
# Each engine is a rank of one job: what runs on all of them may use collectives of `gw.world`, global arrays and
# one-sided communication. In a container whose user is root, Open MPI wants `OMPI_ALLOW_RUN_AS_ROOT=1` and
# `OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1` in the environment of the notebook.

# %%
cluster = ipyparallel.Cluster(engines="mpi", n=2)
engines = cluster.start_and_connect_sync(activate=False)[:]


def together(heights):
    """Compute every row on one of the ranks, and return all of them on each."""
    import gondwana as gw

    rank, size = gw.world.rank, gw.world.size
    parts = gw.world.allgather([escape(height) for height in heights[rank::size]])
    return [parts[row % size][row // size] for row in range(len(heights))]


engines.execute("import numpy as np")
engines.push({"escape": escape, "N": N})
first, second = engines.apply_sync(together, heights)
cluster.stop_cluster_sync()

# %%
plt.imshow(first, extent=(-2.0, 0.6, -1.2, 1.2), cmap="magma")
plt.show()
same = np.array_equal(first, rows) and np.array_equal(second, rows)
print("identical" if same else "different")
assert same
