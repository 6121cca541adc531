"""Three kernels on a GPU for a profiler: a Gray-Scott step, two of them in one sweep, and a sweep over seven points.

Usage: ncu ... python tests/support/gpu_profile.py [SIDE]. Each kernel is launched twice, over a cube in double
precision; shapes are the guessed ones, since a profiler changes the times that a trial compares.
"""

from __future__ import annotations

import os
import sys

os.environ["GONDWANA_TUNE"] = "0"

import gondwana as gw
from gondwana_apps.grayscott.kernels import Rates, react_and_diffuse
from gondwana_bench.stencil import sweep7

SIDE = int(sys.argv[1]) if sys.argv[1:] else 256
RATES = Rates(0.02, 0.048, 0.2, 0.1, 1.0)


def main() -> None:
    """Launch the kernels."""
    u, v, new_u, new_v = (gw.zeros((SIDE,) * 3, ghost=2, kind=gw.cuda()) for _ in range(4))
    u.fill(1.0)
    v.fill(0.1)
    between = gw.Intermediate("float64"), gw.Intermediate("float64")
    for _ in range(2):
        react_and_diffuse(u.owned, new_u, new_v, u, v, RATES, None)
        first = (react_and_diffuse, *between, u, v, RATES, None)
        gw.fused(u.owned, first, (react_and_diffuse, new_u, new_v, *between, RATES, None))
        sweep7(u.owned, new_u, u, 0.5, 0.1)
    gw.synchronize()
    print(f"three kernels over {SIDE}^3 points on {gw.cuda().device.name}")


if __name__ == "__main__":
    main()
