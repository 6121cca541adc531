"""Moving data: `copy`, `put` and `get` between any two places, and the paths that they take."""

from gondwana.transfer.access_region import AccessRegion as AccessRegion
from gondwana.transfer.box import StridedBox as StridedBox
from gondwana.transfer.box import strided as strided
from gondwana.transfer.collectives.verbs import allreduce as allreduce
from gondwana.transfer.collectives.verbs import barrier as barrier
from gondwana.transfer.collectives.verbs import bcast as bcast
from gondwana.transfer.completion import Transfer as Transfer
from gondwana.transfer.irregular_box import indexed as indexed
from gondwana.transfer.messages import irecv as irecv
from gondwana.transfer.messages import isend as isend
from gondwana.transfer.messages import recv as recv
from gondwana.transfer.messages import send as send
from gondwana.transfer.messages import sendrecv as sendrecv
from gondwana.transfer.messages import wait_all as wait_all
from gondwana.transfer.plans.create import plan as plan
from gondwana.transfer.plans.plan import Plan as Plan
from gondwana.transfer.verbs import copy as copy
from gondwana.transfer.verbs import copy_indexed as copy_indexed
from gondwana.transfer.verbs import get as get
from gondwana.transfer.verbs import put as put
