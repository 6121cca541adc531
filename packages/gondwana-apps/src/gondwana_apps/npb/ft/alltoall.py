"""The transpose of MPI: everything is computed, then everything moves. The yardstick."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import gondwana as gw
from gondwana_apps.npb.ft.transposes import Stacked


class AllToAll(Stacked):
    """The planes are packed for their ranks; when all are done, all ranks exchange them by MPI."""

    def _prepare(self) -> None:
        super()._prepare()
        source, target = self.source, self.target
        mine, ranks = source.team.rank, range(source.team.size)
        to = [target.domain_of(rank) & source.domain_of(mine) for rank in ranks]
        come = [source.domain_of(rank) & target.domain_of(mine) for rank in ranks]
        self._outgoing, self._packed = _boxes(source.spare, to)
        self._incoming, self._unpacked = _boxes(target.spare, come)

    def _send(self, number: int) -> None:
        for box in self._packed:
            box.copy_from(self._stacks[number].array)

    def _finish(self) -> None:
        self.source.team.Alltoallv(self._outgoing, self._incoming)
        for box in self._unpacked:
            self.target.block(self.target.team.rank).copy_from(box)


def _boxes(
    buffer: npt.NDArray[np.complex128], domains: list[gw.RectDomain]
) -> tuple[tuple[npt.NDArray[np.complex128], list[int]], list[gw.Array]]:
    """A buffer with its counts, as MPI wants it, and the arrays on these domains that lie in it one after the other."""
    counts = [domain.size for domain in domains]
    parts = np.split(buffer, np.cumsum(counts)[:-1])
    boxes = [gw.Array(part.reshape(box.shape), box) for part, box in zip(parts, domains, strict=True) if box.size]
    return (buffer, counts), boxes
