"""Kernels: plain Python functions of a point and arrays, run for every point of a domain.

`cpu/` compiles and runs them on host memory. A backend for other memory has the same three files: `sweeps`, `build`,
`launch`.
"""

from gondwana.kernels.foreach_kernels import Foreach as Foreach, foreach as foreach
from gondwana.kernels.fusion import fused as fused
from gondwana.kernels.intermediate import Intermediate as Intermediate
from gondwana.kernels.launch_graphs import Captured as Captured, capture as capture
from gondwana.kernels.random_numbers import random as random
from gondwana.kernels.reductions import Reduce as Reduce, reduce as reduce
from gondwana.kernels.trials import is_faster as is_faster
