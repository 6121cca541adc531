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
import logging

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
# ## One job: ranks driven from the notebook
#
# Each engine of ipyparallel is a rank of one job: what runs on all of them may use collectives of `gw.world`, global
# arrays and one-sided communication. In a container whose user is root, Open MPI wants `OMPI_ALLOW_RUN_AS_ROOT=1` and
# `OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1` in the environment of the notebook. What ranks need is pushed to them.

# %%
cluster = ipyparallel.Cluster(engines="mpi", n=2, log_level=logging.WARNING)
client = cluster.start_and_connect_sync(activate=True)
ranks = client[:]
_ = ranks.push({"heights": heights, "escape": escape, "N": N}, block=True)

# %% [markdown]
# A cell that begins with `%%px` runs on all ranks, which print below it, each with its number.

# %%
# %%px
import numpy as np  # noqa: E402

import gondwana as gw  # noqa: E402

own = range(gw.world.rank, len(heights), gw.world.size)
parts = gw.world.allgather([escape(heights[row]) for row in own])
picture = [parts[row % gw.world.size][row // gw.world.size] for row in range(len(heights))]
print(f"rank {gw.world.rank} of {gw.world.size} has computed {len(own)} rows")

# %% [markdown]
# An exception shows its traceback, and the rank that raised it. The ranks go on: the next cell runs on all of them.

# %% tags=["raises-exception"]
# %%px
if gw.world.rank == 1:
    raise ValueError("only here")

# %% [markdown]
# Variables are pulled from all ranks, or from one: `client[1]["picture"]`.

# %%
first, second = ranks.pull("picture", block=True)
plt.imshow(first, extent=(-2.0, 0.6, -1.2, 1.2), cmap="magma")
plt.show()
same = np.array_equal(first, rows) and np.array_equal(second, rows)
print("identical" if same else "different")
assert same

# %% [markdown]
# The ranks leave the job together, as at the end of a program. (`cluster.stop_cluster_sync()` would kill them.)

# %%
client.shutdown(hub=True, block=True)
