"""Counts to ten with a checkpoint every two steps; what its argument says happens to it."""

from __future__ import annotations

import os
import signal
import sys

import gondwana as gw
import gondwana.io
from gondwana.io import checkpoint

what = sys.argv[1]
world = gw.world
u = gw.zeros(gw.RectDomain((0, 0), (8, 8)))
step = 0
last = gondwana.io.latest() if gw.restarted() else None
if last is not None:
    step = checkpoint.load(last, {"u": u}).step
if world.rank == 0:
    print(f"start {gw.restarted()} from step {step}", flush=True)
while step < 10:
    u[...] = u + 1.0
    step += 1
    if step % 2 == 0:
        checkpoint.save("mine.bp", {"u": u}, step=step)
    world.barrier()
    if step == 5:
        victim = world.rank == world.size - 1
        if victim and (what == "always" or (what == "rank" and not gw.restarted())):
            os.kill(os.getpid(), signal.SIGKILL)
        if victim and what == "launcher" and not gw.restarted():
            os.kill(os.getppid(), signal.SIGKILL)
        if victim and what == "error":
            raise ValueError("wrong")
        if victim and what == "status":
            sys.exit(3)
    world.barrier()
total = float(u.sum())
if world.rank == 0:
    print(f"total {total}", flush=True)
