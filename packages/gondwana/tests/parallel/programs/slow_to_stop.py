"""Stops at the first signal, with a checkpoint that takes long. Arguments: its name, and "never" not to stop at all."""

from __future__ import annotations

import sys
import time

import gondwana as gw
from gondwana.io import checkpoint
from gondwana.io.stop import StopRequest


@gw.jit
def spin(number):  # type: ignore[no-untyped-def]
    while number >= 0:
        number = (number * 7 + 3) % 1000
    return number


def main(path: str, never: bool) -> None:
    array = gw.zeros(gw.RectDomain((0, 0), (64, 64)))
    spin(-1)
    with StopRequest() as stop:
        gw.world.barrier()
        if gw.world.rank == 0:
            print("all ranks are here", flush=True)
        if never:
            spin(1)
        while not (reason := stop.agreed()):
            time.sleep(0.01)
        time.sleep(2)  # as the disk may take
        checkpoint.save(path, {"array": array}, step=7)
    if gw.world.rank == 0:
        print(f"stopped after step 7: {reason}")


if __name__ == "__main__":
    main(sys.argv[1], "never" in sys.argv[2:])
