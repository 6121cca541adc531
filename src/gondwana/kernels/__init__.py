"""Kernels: plain Python functions of a point and arrays, run for every point of a domain.

`cpu/` compiles and runs them on host memory. A backend for other memory has the same three files: `sweeps`, `build`,
`launch`.
"""

from gondwana.kernels.capture import Captured as Captured
from gondwana.kernels.capture import capture as capture
from gondwana.kernels.foreach import Foreach as Foreach
from gondwana.kernels.foreach import foreach as foreach
from gondwana.kernels.fused import fused as fused
from gondwana.kernels.intermediate import Intermediate as Intermediate
from gondwana.kernels.random import random as random
from gondwana.kernels.reduce import Reduce as Reduce
from gondwana.kernels.reduce import reduce as reduce
