"""Pools of workers: executors over the ranks of a job, or over processes that they start.

From top to bottom: `pool` has the public class; `maps` submit for many items; the `dispatcher` gives tasks to workers,
which a `worker` runs. `ranks` and `processes` (with the `keeper` and `sockets`) connect the two.
"""

from gondwana.tasks.pool.future import PoolBrokenError as PoolBrokenError
from gondwana.tasks.pool.future import PoolClosedError as PoolClosedError
from gondwana.tasks.pool.future import WorkerLostError as WorkerLostError
from gondwana.tasks.pool.pool import WorkerPool as WorkerPool
