"""Datasets and checkpoints.

For users: `writer.StepWriter` and `checkpoint` write, `dataset.Dataset` and `xarray_backend` read, `provenance` has
attributes for viewers, `stop.StopRequest` ends a run in order, `analysis` makes histograms and pictures. Beneath them:
`adios` (the only module that imports ADIOS2), `layout` (arrays on disk), `paths`; protection against damage: `bp5`
(the files, without ADIOS2), `checksums` (with the seal of a checkpoint), `other_process`, `reservation`; and the way
from the ranks' blocks to one writing process: `aggregate`, `staging`, `background`.
"""

from typing import TYPE_CHECKING

from gondwana.runtime.later import later

if TYPE_CHECKING:
    from gondwana.io.checkpoint import latest as latest

__getattr__, __dir__ = later(__name__, {"gondwana.io.checkpoint": "latest"})
