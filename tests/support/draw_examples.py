"""Draw those pictures of the gallery that the programs themselves do not draw.

gondwana run -n 4 tests/support/draw_examples.py docs/images
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray
from matplotlib.patches import Rectangle

import gondwana as gw

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def heat(picture: Path) -> None:
    """Planes of a smaller box with hot bodies, after some steps."""
    source, planes = (EXAMPLES / "heat.py").read_text("utf-8"), {}
    source = source.replace("(256, 256, 256)", "(96, 96, 96)")
    source = source.replace("T_next = gw.zeros_like(T)\n", "T_next = gw.zeros_like(T)\nstart(T)\n")
    for steps in (0, 100, 1000):
        names: dict[str, Any] = {"start": hot_bodies}
        exec(compile(source.replace("range(100)", f"range({steps})"), "heat.py", "exec"), names)
        planes[steps] = names["T"].plane(axis=2, index=48)
    if gw.world.rank == 0:
        figure, panels = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
        for panel, (steps, plane) in zip(panels, planes.items(), strict=True):
            image = panel.imshow(plane.T, origin="lower", cmap="inferno", vmin=0, vmax=1)
            panel.set(title=f"step {steps}", xticks=[], yticks=[])
        figure.colorbar(image, ax=panels, label="temperature")
        figure.savefig(picture, dpi=100)


def hot_bodies(T: gw.GlobalArray) -> None:  # noqa: N803 - as in physics
    """Set a ball and a column to 1, around periodic edges, too."""

    def bodies(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        ball = (x - 34) ** 2 + (y - 40) ** 2 + (z - 48) ** 2 < 22**2
        return 1.0 * (ball | ((np.abs((y + 8) % 96 - 8) < 6) & (np.abs(x - 66) < 22)))

    gw.copy(gw.from_function(bodies, T.domain), T).wait()


def own_files(picture: Path) -> None:
    """The field that xarray finds in the file, divided into the chunks of the ranks."""
    runpy.run_path(str(EXAMPLES / "own_files.py"))
    if gw.world.rank == 0:
        field = xarray.open_zarr("run.00000100.zarr")["T"]
        figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
        field.plot(ax=axes, x="x", cmap="viridis")
        for axis, chunks in zip((axes.axvline, axes.axhline), field.chunks, strict=True):
            for edge in np.cumsum(chunks)[:-1]:
                axis(edge - 0.5, color="white", linestyle="dashed")
        axes.set(title="T in run.00000100.zarr, and the chunks that the ranks wrote", aspect="equal")
        figure.savefig(picture, dpi=100)


def ghosts(picture: Path) -> None:
    """The messages that the block in the middle of nine sends: along one axis after the other, and all at once."""
    layout = gw.Layout.divide((24, 24), 9, grid=(3, 3), ghost=1)
    blocks = [SimpleNamespace(domain=layout.held(rank)) for rank in range(9)]
    field = SimpleNamespace(ndim=2, ghost=(1, 1), periodic=(False, False), domain=layout.domain)
    field.owned_of, field.block = layout.owned, blocks.__getitem__
    messages = runpy.run_path(str(EXAMPLES / "ghosts.py"))["messages"]
    figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
    for panel, axis, title in zip(panels, (0, 1, None), ("by axis: x ...", "... then y", "at once"), strict=True):
        for rank in range(9):
            panel.add_patch(box(layout.owned(rank), facecolor="lightgrey" if rank == 4 else "white", edgecolor="black"))
        for receiver in range(9):
            for sent, _ in messages(field, 4, receiver, axis):
                panel.add_patch(box(sent, facecolor="tab:orange", alpha=0.6))
                here, there = middle(sent), middle(layout.owned(receiver))
                panel.annotate("", there, here, arrowprops={"arrowstyle": "->"})
        panel.set(title=title, xlim=(-1, 25), ylim=(-1, 25), aspect="equal", xticks=[], yticks=[])
    figure.savefig(picture, dpi=100)


def box(cells: gw.RectDomain, **style: Any) -> Rectangle:
    """Return a rectangle around cells."""
    return Rectangle(tuple(cells.lo), *cells.shape, **style)


def middle(cells: gw.RectDomain) -> tuple[float, ...]:
    """Return the middle of a box."""
    return tuple((low + high) / 2 for low, high in zip(cells.lo, cells.hi, strict=True))


def main() -> None:
    """Draw all into a folder."""
    target = Path(sys.argv[1]).absolute()
    os.chdir(gw.world.bcast(tempfile.mkdtemp() if gw.world.rank == 0 else None))
    heat(target / "heat.png")
    own_files(target / "own-files.png")
    if gw.world.rank == 0:
        ghosts(target / "ghosts.png")


if __name__ == "__main__":
    main()
