"""Moving data: `copy`, `put` and `get` between any two places, and the paths that they take."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gondwana.runtime import later as _later

if _TYPE_CHECKING:
    from gondwana.transfer.box import StridedBox as StridedBox
    from gondwana.transfer.box import strided as strided
    from gondwana.transfer.collectives.verbs import allreduce as allreduce
    from gondwana.transfer.collectives.verbs import barrier as barrier
    from gondwana.transfer.collectives.verbs import bcast as bcast
    from gondwana.transfer.completion import AccessRegion as AccessRegion
    from gondwana.transfer.completion import Transfer as Transfer
    from gondwana.transfer.messages.verbs import irecv as irecv
    from gondwana.transfer.messages.verbs import isend as isend
    from gondwana.transfer.messages.verbs import recv as recv
    from gondwana.transfer.messages.verbs import send as send
    from gondwana.transfer.messages.verbs import sendrecv as sendrecv
    from gondwana.transfer.messages.verbs import wait_all as wait_all
    from gondwana.transfer.plans.create import plan as plan
    from gondwana.transfer.plans.plan import Plan as Plan
    from gondwana.transfer.runs import indexed as indexed
    from gondwana.transfer.verbs import copy as copy
    from gondwana.transfer.verbs import copy_indexed as copy_indexed
    from gondwana.transfer.verbs import get as get
    from gondwana.transfer.verbs import put as put

__getattr__, __dir__ = _later.later(
    __name__,
    {
        "gondwana.transfer.box": "StridedBox strided",
        "gondwana.transfer.collectives.verbs": "allreduce barrier bcast",
        "gondwana.transfer.completion": "AccessRegion Transfer",
        "gondwana.transfer.runs": "indexed",
        "gondwana.transfer.messages.verbs": "irecv isend recv send sendrecv wait_all",
        "gondwana.transfer.plans.create": "plan",
        "gondwana.transfer.plans.plan": "Plan",
        "gondwana.transfer.verbs": "copy copy_indexed get put",
    },
)
