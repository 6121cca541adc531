"""The compiled loops of `gondwana bench tasks`."""

from __future__ import annotations

from typing import Any

import gondwana as gw


@gw.jit
def take_turns(there: Any, back: Any, first: bool, calls: int) -> int:
    """Send numbers through a channel and get each back through another; return how many were wrong."""
    wrong = 0
    for i in range(calls):
        if first:
            there.put(i)
            if back.take() != i:
                wrong += 1
        else:
            back.put(there.take())
    return wrong
