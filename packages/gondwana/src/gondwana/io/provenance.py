"""Attributes of datasets: the origin of a dataset, and its presentation by viewers."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

from gondwana.io.adios import AttributeValue
from gondwana.teams import Team


def provenance(
    team: Team, constants: Mapping[str, AttributeValue], settings: Mapping[str, Any], *, grid: Sequence[int] = ()
) -> dict[str, AttributeValue]:
    """Return attributes that describe the origin of a dataset. Local.

    Args:
        team: the ranks of the run.
        constants: attributes that readers expect by name, for example F, k, dt and L; stored unchanged.
        settings: all settings of the run; stored as one JSON text.
        grid: the number of ranks per axis.

    Example:
        >>> import gondwana as gw
        >>> about = provenance(gw.world, {"F": 0.02}, {"F": 0.02, "output": "gs.bp"})
        >>> about["F"], about["gondwana_ranks"] == gw.world.size
        (0.02, True)
    """
    from gondwana import __version__  # not at the top: the package's root is above this layer

    about: dict[str, AttributeValue] = {
        "gondwana_settings": json.dumps(settings, sort_keys=True),
        "gondwana_version": __version__,
        "gondwana_python": platform.python_version(),
        "gondwana_command": " ".join(sys.argv),
        "gondwana_host": platform.node(),
        "gondwana_start": datetime.now().astimezone().isoformat(timespec="seconds"),
        "gondwana_ranks": team.size,
    }
    if grid:
        about["gondwana_grid"] = [int(n) for n in grid]
    return {**about, **constants}


def fides(names: Sequence[str], spacing: Sequence[float] = (1.0, 1.0, 1.0)) -> dict[str, AttributeValue]:
    """Return the attributes by which ParaView's FIDES reader shows fields on a uniform grid. Local.

    Args:
        names: the fields.
        spacing: the distance of cells along x, y and z; give ``vtk_image`` the same.
    """
    return {
        "Fides_Data_Model": "uniform",
        "Fides_Origin": [0.0] * len(spacing),
        "Fides_Spacing": [float(h) for h in spacing],
        "Fides_Dimension_Variable": names[0],
        "Fides_Variable_List": list(names),
        "Fides_Variable_Associations": ["points"] * len(names),
    }


def vtk_image(
    names: Sequence[str], shape: Sequence[int], spacing: Sequence[float] = (1.0, 1.0, 1.0)
) -> dict[str, AttributeValue]:
    """Return the attributes by which ParaView's VTX reader shows fields as cells of an image. Local.

    Args:
        names: the fields.
        shape: the number of cells along x, y and z.
        spacing: the size of a cell along x, y and z; give ``fides`` the same.

    Example:
        >>> "0 8 0 8 0 8" in vtk_image(["U"], (8, 8, 8))["vtk.xml"]
        True
    """
    extent = " ".join(f"0 {n}" for n in shape)
    root = ElementTree.Element("VTKFile", type="ImageData", version="0.1", byte_order="LittleEndian")
    steps = " ".join(f"{h:g}" for h in spacing)
    origin = " ".join("0" for _ in shape)
    image = ElementTree.SubElement(root, "ImageData", WholeExtent=extent, Origin=origin, Spacing=steps)
    cells = ElementTree.SubElement(ElementTree.SubElement(image, "Piece", Extent=extent), "CellData", Scalars=names[0])
    for name in names:
        ElementTree.SubElement(cells, "DataArray", Name=name)
    ElementTree.SubElement(cells, "DataArray", Name="TIME").text = "step"
    ElementTree.indent(root)
    return {"vtk.xml": '<?xml version="1.0"?>\n' + ElementTree.tostring(root, encoding="unicode")}
