"""What a rank reports to the race detector (`gondwana.races`): its accesses, and what orders them.

Whether a process reports is decided when it imports this package, by the environment variable GONDWANA_RACES, which
`gondwana run` sets where GONDWANA_CHECK=races. Without it `reporter` is None, and decorators return what they decorate.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gondwana.runtime.races.records import VARIABLE, Kind as Kind

if TYPE_CHECKING:
    from gondwana.runtime.races.sending import Reporter


def _made() -> Reporter | None:
    place = os.environ.pop(VARIABLE, "")  # what a rank starts is no rank
    if not place:
        return None
    from gondwana.runtime import launcher
    from gondwana.runtime.races.sending import Reporter

    return Reporter(place, launcher.detect())


reporter: Final = _made()
