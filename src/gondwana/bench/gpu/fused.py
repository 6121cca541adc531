"""Two time steps in one sweep over the fields."""

from __future__ import annotations

import gondwana as gw
from gondwana.apps.grayscott.kernels import Noise, react_and_diffuse
from gondwana.bench.gpu.fields import RATES, Fields, around


class TwoSteps:
    """Two steps in one sweep, over fields of one precision. Local.

    Args:
        dtype: of the fields.
    """

    def __init__(self, dtype: str) -> None:
        self._u, self._v = gw.Intermediate(dtype), gw.Intermediate(dtype)

    def start(self, fields: Fields, noise: tuple[Noise | None, Noise | None]) -> None:
        """Start two steps, each with its noise: from the old values to the new. Local; does not wait."""
        u_next, v_next, u, v = fields.arrays
        gw.fused(
            fields.domain,
            (react_and_diffuse, self._u, self._v, u, v, RATES, around(noise[0], fields.size)),
            (react_and_diffuse, u_next, v_next, self._u, self._v, RATES, noise[1]),
        )
