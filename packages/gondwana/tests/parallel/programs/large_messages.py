"""Two ranks move more than 2^31 elements in one call: what MPI's 32-bit counts cannot say."""

from __future__ import annotations

import numpy as np

from gondwana.teams import IN_PLACE, world

N = 2**31 + 8
PLACES = [0, 2**30 - 1, 2**30, 2**31, -1]

data = np.full(N, world.rank + 1, np.uint8)
world.Allreduce(IN_PLACE, data)
assert (data[PLACES] == 3).all()

data[PLACES] = [5, 6, 7, 8, 9] if world.rank == 0 else 0
world.Bcast(data)
assert data[PLACES].tolist() == [5, 6, 7, 8, 9]

if world.rank == 0:
    data[PLACES] = [1, 2, 3, 4, 5]
    world.Isend(data, 1).wait()
else:
    world.Recv(data, 0)
assert data[PLACES].tolist() == [1, 2, 3, 4, 5]
del data

half = np.full(N // 2, world.rank + 3, np.uint8)
both = np.zeros(N, np.uint8)
world.Allgather(half, both)
assert both[[0, N // 2 - 1, N // 2, -1]].tolist() == [3, 3, 4, 4]
if world.rank == 0:
    print("moved")
