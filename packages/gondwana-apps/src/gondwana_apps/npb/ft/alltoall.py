"""The transpose of one collective: everything is transformed, then everything moves."""

from __future__ import annotations

import gondwana as gw
from gondwana_apps.npb.ft.kernels import Factors, transform_planes
from gondwana_apps.npb.ft.transposes import Transpose


class AllToAll(Transpose):
    """All planes are transformed into blocks like the source, which one `gw.copy` moves to the other division."""

    def __call__(self, factors: Factors) -> None:
        """Transform all planes times their factors; return when this rank's new block is complete. Collective."""
        with self._sections("fftlow"):
            transform_planes(self.source.planes, self._finished.planes, self.lines, factors)
        with self._sections(self._section):
            gw.copy(self._finished.box, self.target.box).wait()

    def _prepare(self) -> None:
        self._finished = self.source.finished
