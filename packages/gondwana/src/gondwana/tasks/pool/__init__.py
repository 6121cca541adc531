"""Pools of workers: executors over the ranks of a job, or over processes that they start.

From top to bottom: `pool` has the public class; `maps` submit for many items; the `dispatcher` gives tasks to workers,
and a `worker` runs them. `ranks` and `processes` (with the `keeper` and `sockets`) connect the two.
"""

from gondwana.tasks.pool.pool import WorkerPool as WorkerPool
from gondwana.tasks.pool.task import (
    PoolBrokenError as PoolBrokenError,
    PoolClosedError as PoolClosedError,
    TimeLimitError as TimeLimitError,
    WorkerLostError as WorkerLostError,
)
