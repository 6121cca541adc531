"""Whether two time steps are done in one sweep over memory."""

from __future__ import annotations

import gondwana as gw
from gondwana.apps.grayscott.kernels import Rates
from gondwana.apps.grayscott.settings import Settings


def choose(settings: Settings, rates: Rates, team: gw.Team, kind: gw.MemoryKind) -> int:
    """Return the time steps of a sweep. Collective over team; blocks."""
    return 1 if settings.fuse_steps == "auto" else settings.fuse_steps
