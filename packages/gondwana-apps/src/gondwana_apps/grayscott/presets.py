"""The conventions of the two reference programs, by name.

| preset | seed cube | boundary | comparable with |
|---|---|---|---|
| `adios2` | 12 cells | periodic ("periodic") | the C++ example of ADIOS2 |
| `dirichlet` | 13 cells | U=1, V=0 outside the box ("fixed") | the intention of GrayScott.jl |
| `grayscott-jl` | 13 cells | U=1 outside in odd steps, else 0 ("alternating") | its results |
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Boundary = Literal["periodic", "fixed", "alternating"]
PresetName = Literal["adios2", "dirichlet", "grayscott-jl"]


class Preset(NamedTuple):
    """The default values in which the reference programs differ; all others are shared."""

    boundary: Boundary
    seed_width: int
    k: float


PRESETS: dict[PresetName, Preset] = {
    "adios2": Preset(boundary="periodic", seed_width=12, k=0.06075),
    "dirichlet": Preset(boundary="fixed", seed_width=13, k=0.0),
    "grayscott-jl": Preset(boundary="alternating", seed_width=13, k=0.0),
}
