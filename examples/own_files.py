"""A field and particles are saved, loaded again on any number of ranks, and analysed by xarray without Gondwana.

Run it by `gondwana run -n 4 own_files.py`.
"""

import numpy as np
import xarray

import gondwana as gw

T = gw.from_function(lambda x, y: np.sin(x / 8) + np.cos(y / 6), (96, 64), ghost=1, periodic=True)
particles = np.full(10 * gw.world.rank + 5, 1.5, [("x", float), ("cell", int)])  # another number on each rank
path = gw.save("run.zarr", T=T, particles=particles, attributes={"k": 0.1}, step=100)
saved = gw.load("run.zarr", like=T)  # the last step; T is divided as before, and the particles are this rank's own
if gw.world.rank == 0:
    data = xarray.open_zarr(path)
    print(data.attrs["k"], round(float(data["T"].mean()), 3), float(data["particles.x"].sum()))
