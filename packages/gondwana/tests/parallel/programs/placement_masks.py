"""Prints a line of JSON a rank: the cores that Linux lets its threads use, and the placement that results have."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path

import numpy as np

import gondwana as gw
from gondwana.results import environment


@gw.jit
def first_share(threads, x):
    start, stop = threads.share(0, len(x))
    for i in range(start, stop):
        x[i] = threads.index
    threads.barrier()
    return start


def cores(task: int) -> str:
    (line,) = [
        line
        for line in Path(f"/proc/self/task/{task}/status").read_text().splitlines()
        if line.startswith("Cpus_allowed_list:")
    ]
    return line.split()[1]


def forked() -> str:
    """The cores of the main thread of a forked process that has run a function on its threads."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        gw.parallel(first_share, np.zeros(1000))
        os.write(writer, cores(os.getpid()).encode())
        os._exit(0)
    os.close(writer)
    return os.read(reader, 100).decode()


def main() -> None:
    at_start = cores(threading.get_native_id())
    child = forked() if "processes" in sys.argv else None
    gw.parallel(first_share, np.zeros(1000))
    with gw.progress_thread():
        masks = {thread.name: cores(thread.native_id) for thread in threading.enumerate()}
        everything = sorted({cores(int(task)) for task in os.listdir("/proc/self/task")})
    worker = None
    if "processes" in sys.argv:
        with gw.WorkerPool(1) as pool:
            worker = sorted(pool.submit(os.sched_getaffinity, 0).result())
    print(
        json.dumps(
            {
                "rank": gw.world.rank,
                "host": socket.gethostname(),
                "node": gw.world.node_index,
                "at_start": at_start,
                "masks": masks,
                "all": everything,
                "worker": worker,
                "forked": child,
                "placement": environment()["placement"],
            }
        )
        + "\n",
        end="",
        flush=True,
    )


main()
