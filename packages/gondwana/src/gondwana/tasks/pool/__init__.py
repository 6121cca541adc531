"""Pools of workers: executors over the ranks of a job, or over processes that they start.

From top to bottom: `pool` has the public class; `maps` submit for many items; the `dispatcher` gives tasks to workers,
which a `worker` runs. `ranks` and `processes` (with the `keeper` and `sockets`) connect the two, `alone` needs neither.
"""

from gondwana.tasks.pool.errors import PoolBrokenError as PoolBrokenError
from gondwana.tasks.pool.errors import PoolClosedError as PoolClosedError
from gondwana.tasks.pool.errors import WorkerLostError as WorkerLostError
from gondwana.tasks.pool.pool import WorkerPool as WorkerPool
