"""Does one thing without end, the same on all ranks. Arguments: what, a folder for files that show who is there."""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path

import numpy as np

import gondwana as gw
from gondwana.io import checkpoint
from gondwana.io.stop import StopRequest

world = gw.world


@gw.jit
def wait_in_vain(signals):  # type: ignore[no-untyped-def]
    gw.wait(signals)
    return 0


@gw.jit
def spin(number):  # type: ignore[no-untyped-def]
    while number >= 0:
        number = (number * 7 + 3) % 1000
    return number


def computing() -> None:
    while True:
        np.linalg.svd(np.random.default_rng().random((200, 200)))


def compiling() -> None:
    for number in itertools.count(world.rank * 1_000_000):
        gw.jit(eval(f"lambda x: x + {number} * {time.time()}"))(1.0)


def writing(folder: Path) -> None:
    array = gw.zeros(gw.RectDomain((0, 0, 0), (64, 64, 64)))
    for step in itertools.count(1):
        checkpoint.save(folder / "ckpt.bp", {"u": array}, step=step)


def waiting() -> None:
    wait_in_vain(gw.Signal(world))


def spinning() -> None:
    spin(1)


def receiving() -> None:
    world.recv(source=(world.rank + 1) % world.size)


def stopping() -> None:
    """Ask all ranks to stop, which never has an effect."""
    with StopRequest() as stop:
        while True:
            stop.agreed()


def main(what: str, folder: Path) -> None:
    world.barrier()
    unfinished = folder / f"begins.{world.rank}"
    unfinished.write_text(str(os.getpid()))
    unfinished.rename(folder / f"here.{world.rank}")
    writing(folder) if what == "writing" else globals()[what]()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
