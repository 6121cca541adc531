"""A field and particles are saved, loaded again on any number of ranks, and analysed by xarray without Gondwana.

Run it by `gondwana run -n 4 own_files.py`.
"""

import numpy as np
import xarray

import gondwana as gw

T = gw.from_function(lambda x, y: np.cos(x) + y, (96, 64), ghost=1, periodic=True)
particles = np.full(10 * gw.world.rank + 5, 1.5, [("x", float), ("cell", int)])  # another number on each rank
path = gw.save("run.zarr", T=T, particles=particles, attributes={"k": 0.1}, step=100)
state = gw.load("run.zarr", like=T)  # the last step, divided as T is; `particles` are those of this rank
T, particles = state["T"], state["particles"]
if gw.world.rank == 0:
    data = xarray.open_zarr(path)
    print(data.attrs["k"], round(float(data["T"].mean()), 3), float(data["particles.x"].sum()))
