"""Moving data: `copy`, `put` and `get` between any two places, and the paths that they take."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gondwana.runtime import later as _later

if _TYPE_CHECKING:
    from gondwana.transfer.box import StridedBox as StridedBox, strided as strided
    from gondwana.transfer.collectives.migration import migrate as migrate
    from gondwana.transfer.collectives.verbs import allreduce as allreduce, barrier as barrier, bcast as bcast
    from gondwana.transfer.completion import AccessRegion as AccessRegion, Transfer as Transfer
    from gondwana.transfer.messages.verbs import (
        irecv as irecv,
        isend as isend,
        recv as recv,
        send as send,
        sendrecv as sendrecv,
        wait_all as wait_all,
    )
    from gondwana.transfer.plans.create import plan as plan
    from gondwana.transfer.plans.plan import Plan as Plan
    from gondwana.transfer.runs import indexed as indexed
    from gondwana.transfer.verbs import copy as copy, copy_indexed as copy_indexed, get as get, put as put

__getattr__, __dir__ = _later.later(
    __name__,
    {
        "gondwana.transfer.box": "StridedBox strided",
        "gondwana.transfer.collectives.migration": "migrate",
        "gondwana.transfer.collectives.verbs": "allreduce barrier bcast",
        "gondwana.transfer.completion": "AccessRegion Transfer",
        "gondwana.transfer.runs": "indexed",
        "gondwana.transfer.messages.verbs": "irecv isend recv send sendrecv wait_all",
        "gondwana.transfer.plans.create": "plan",
        "gondwana.transfer.plans.plan": "Plan",
        "gondwana.transfer.verbs": "copy copy_indexed get put",
    },
)
