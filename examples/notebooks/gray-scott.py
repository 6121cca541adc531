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
# # Gray-Scott: simulate on two ranks, then look at the fields
#
# Two species react and diffuse in a cube with periodic boundary. This notebook starts the simulation on two ranks, as
# `gondwana run` does in a terminal, and reads the dataset that it writes. Each cell takes a few seconds. The dataset is
# read lazily, so it may be larger than the memory.
#
# Open this file with jupytext, or make a notebook of it: `jupytext --to ipynb gray-scott.py`.

# %%
import json
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

folder = Path(tempfile.mkdtemp(prefix="gray-scott-"))

# %% [markdown]
# ## The settings
#
# One flat JSON object. Feed rate `F` and kill rate `k` determine the pattern; try `F=0.03, k=0.06` or `F=0.01, k=0.05`.

# %%
settings = {
    "L": 48,
    "Du": 0.2,
    "Dv": 0.1,
    "F": 0.02,
    "k": 0.048,
    "dt": 1.0,
    "noise": 0.01,
    "seed": 1,
    "steps": 1200,
    "plotgap": 100,
    "write_initial": True,
    "output": str(folder / "gray-scott.bp"),
}
_ = (folder / "settings.json").write_text(json.dumps(settings, indent=2))

# %% [markdown]
# ## The run
#
# The launcher checks the settings before any rank starts: a wrong key gives a one-line error with advice. A line that
# is replaced shows how far the run is; with `--live`, it also prints the address of a page that shows the fields.

# %%
# !TERM=xterm gondwana run -n 2 gray-scott {folder}/settings.json --json {folder}/run.json

# %%
result = json.loads((folder / "run.json").read_text())
print(f"{result['ranks']} ranks, {result['cells_per_s'] / 1e6:.0f} Mcells/s, T_eff {result['t_eff_gb_s']:.1f} GB/s")

# %% [markdown]
# ## The dataset
#
# `xarray` opens it by its name; the fields are read when they are used. `step` is the number of the time step.

# %%
data = xr.open_dataset(settings["output"])
data

# %% [markdown]
# ## A slice through the middle, over time

# %%
middle = data.V.isel(z=settings["L"] // 2)
shown = [1, 4, 8, 12]
figure, axes = plt.subplots(1, len(shown), figsize=(12, 3.2), layout="constrained", sharey=True)
for axis, time in zip(axes, shown, strict=True):
    image = axis.imshow(middle.isel(time=time), origin="lower", vmin=0.0, vmax=0.5, cmap="viridis")
    axis.set_title(f"V after step {int(data.step[time])}")
figure.colorbar(image, ax=axes)
plt.show()

# %% [markdown]
# ## How the species share the cube
#
# Mean of both fields over all cells, and the distribution of V at the end.

# %%
cells = ("x", "y", "z")
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
left.plot(data.step, data.U.mean(cells), label="U")
left.plot(data.step, data.V.mean(cells), label="V")
left.set(xlabel="step", ylabel="mean")
left.legend()
right.hist(data.V.isel(time=-1).values.ravel(), bins=60, log=True)
right.set(xlabel="V", ylabel="cells")
plt.show()

# %% [markdown]
# ## The same bits on another number of ranks
#
# Noise is a function of cell and step, not of the rank, so one rank computes the same numbers.

# %%
alone = folder / "alone.bp"
command = ["gondwana", "run", "gray-scott", f"{folder}/settings.json", "--set", f"output={alone}"]
subprocess.run(command, check=True, capture_output=True)
same = all(np.array_equal(xr.open_dataset(alone)[name][-1], data[name][-1]) for name in ("U", "V"))
print("identical" if same else "different")
assert same
