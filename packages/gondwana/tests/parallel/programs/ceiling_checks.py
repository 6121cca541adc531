"""How many functions of the library a put and an exchange call: more calls than a ceiling are more to read, and slower.

A ceiling that a change no longer needs is lowered with it.
"""

from __future__ import annotations

import gc
import sys

import numpy as np
from checks import run_checks

import gondwana as gw
from support import walks

world = gw.world
put = gw.put
"""Loaded here: at the first use of the name, its modules are."""

PUTS = (33, 1, 1)
"""Calls of the first, the second and the third put of a number through a pointer to a rank of this node."""
FAR_PUT = 47
"""Calls of a put of a number through an MPI window."""
EXCHANGES = 8
"""Calls of the second start of an exchange, and of each later one."""


def calls_of(function):
    """Which functions of the library are called while a function runs, by name, and what it returns."""
    found = []

    def see(frame, event, argument):
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.split(".")[0] == "gondwana":
            found.append(f"{name}.{frame.f_code.co_qualname}")

    gc.collect()
    gc.disable()  # what it would end here calls functions, too
    before = sys.getprofile()
    sys.setprofile(see)
    try:
        result = function()
    finally:
        sys.setprofile(before)
        gc.enable()
    return found, result


def refuse_more(most, found, what):
    assert 0 < len(found) <= most, f"{what}: {len(found)} calls, at most {most}: {', '.join(found)}"


def refuse_other_steps(title, found):
    """The steps of a walk are called in its order; machine code, which may call what is below it, is not seen."""
    steps = [step for step in walks.walk(title) if not step.file.endswith("_native.py")]
    missing = walks.first_missing(steps, found)
    assert missing is None, f"the walk in CONTRIBUTING has {missing}, not called there: {', '.join(found)}"


def check_calls_of_a_put():
    segment = gw.Segment(world, 8)
    pointer = segment.pointer((world.rank + 1) % world.size, float)
    world.barrier()
    for number, most in enumerate(PUTS, 1):
        value = world.rank + number / 8
        found, _ = calls_of(lambda value=value: put(value, pointer))
        refuse_more(most, found, f"put {number}")
        if number == 1:
            refuse_other_steps(walks.PUT, found)
        assert gw.get(pointer).result() == value
    world.barrier()


def check_calls_of_an_exchange():
    field = gw.zeros((8, 8, 8), ghost=1, periodic=True)
    field.exchange().wait()
    for number in (2, 3):
        found, ghosts = calls_of(field.exchange)
        ghosts.wait()
        refuse_more(EXCHANGES, found, f"exchange {number}")
    found, _ = calls_of(lambda: gw.exchange(field).wait())
    refuse_other_steps(walks.EXCHANGE, found)


def check_calls_of_a_sum():
    here = np.ones(4)
    gw.allreduce(world, here)
    found, _ = calls_of(lambda: gw.allreduce(world, here))
    refuse_other_steps(walks.SUM, found)
    assert here.tolist() == [world.size**2] * 4


def check_calls_of_a_put_to_another_node():
    """An MPI window over memory that a rank has given stands for one between nodes."""
    segment = gw.Segment(world, memory=np.zeros(2))
    pointer = segment.pointer((world.rank + 1) % world.size, float)
    for number in range(2):
        found, done = calls_of(lambda number=number: put(float(number), pointer))
        refuse_other_steps(walks.FAR_PUT, found)
        refuse_more(FAR_PUT, found, f"far put {number}")
        done.wait()
    world.barrier()
    assert segment.pointer(dtype=float).local().tolist() == [1.0]


if __name__ == "__main__":
    run_checks(globals())
