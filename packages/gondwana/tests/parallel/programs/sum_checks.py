"""All spellings of a sum give equal bits, from Python and from compiled code, whatever the number of bytes.

The bits of a sum of floats say in which order they were added. Each sum here is of columns of numbers that, together,
give other bits in the order of the ranks than in any other in which contributions can be added (`totals`, checked), so
that a spelling that adds in another order always shows: nothing depends on time. The oracle is NumPy's sum in the order
of the ranks. Two ranks have one order only, and one rank has nothing to add.

Not among the spellings: what a kernel folds within a rank, in an order of threads; "fsum", which is exact; sums of
integers, which have no order.
"""

from __future__ import annotations

import functools
import itertools
import operator
import random
from dataclasses import dataclass

import numpy as np
from checks import run_checks
from collective_checks import SUM, add_many, compiled

import gondwana as gw

world = gw.world
of_communicator = gw.Team.from_comm(world.comm)
"""Its ranks may share memory, but do not use it."""

SIZES = (8, 64, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
"""Bytes that each rank contributes."""

COLUMNS = 16
"""Elements after which the numbers are repeated; shorter sums are made several times, with one part of them each."""


@dataclass(frozen=True)
class Vector:
    """A Python object that is added by elements."""

    numbers: np.ndarray

    def __add__(self, other):
        return Vector(self.numbers + other.numbers)


@gw.reduce
def element(p, a):
    return a[p]


def by_function(mine):
    gw.allreduce(world, total := mine.copy())
    return total


def of_array(mine):
    array = gw.Array.zeros(gw.RectDomain(0, mine.size))
    array.numpy()[:] = mine
    gw.allreduce(world, array)
    return array.numpy()


def of_number(mine):
    return np.array(gw.allreduce(world, float(mine[0])))


def in_compiled_code(mine):
    compiled(world, SUM, total := mine.copy(), 0)
    return total


def of_number_in_compiled_code(mine):
    return np.array(add_many(world, float(mine[0]), 1))


def by_method(mine):
    world.Allreduce(mine, total := np.empty_like(mine))
    return total


def through_mpi(mine):
    of_communicator.Allreduce(mine, total := np.empty_like(mine))
    return total


def through_mpi_in_compiled_code(mine):
    compiled(of_communicator, SUM, total := mine.copy(), 0)
    return total


def in_place(mine):
    world.Allreduce(gw.IN_PLACE, total := mine.copy())
    return total


def started(mine):
    return world.Iallreduce(mine, np.empty_like(mine)).result()


def started_in_place(mine):
    return world.Iallreduce(gw.IN_PLACE, mine.copy()).result()


def at(root, mine, *, is_started=False, is_in_place=False):
    """The sum that one rank gets, on all ranks."""
    total = mine.copy()
    send = gw.IN_PLACE if is_in_place and world.rank == root else mine
    given = send, total if world.rank == root else None, "sum", root
    if is_started:
        world.Ireduce(*given).wait()
    else:
        world.Reduce(*given)
    world.Bcast(total, root)
    return total


def divided(mine):
    world.Reduce_scatter_block(np.tile(mine, world.size), part := np.empty_like(mine))
    return part


def along_an_axis(mine):
    rows = gw.zeros((world.size, mine.size), grid=(world.size, 1))
    rows.local.numpy()[...] = mine
    return rows.sum(axis=0)


def of_objects(mine):
    return world.allreduce(Vector(mine)).numbers


def of_objects_at(root, mine):
    found = world.reduce(Vector(mine), gw.SUM, root)
    total = found.numbers if world.rank == root else mine.copy()
    world.Bcast(total, root)
    return total


def up_to_the_last(mine):
    total, last = world.scan(Vector(mine)).numbers, world.size - 1
    world.Bcast(total, last)
    return total


def by_kernel(mine):
    array = gw.Array.zeros(gw.RectDomain(0, 1))
    array.numpy()[:] = mine
    return np.array(element.all(world, array.domain, array))


SPELLINGS = {
    "gw.allreduce(array)": by_function,
    "gw.allreduce(Array)": of_array,
    "gw.allreduce(number)": of_number,
    "compiled gw.allreduce(array)": in_compiled_code,
    "compiled gw.allreduce(number)": of_number_in_compiled_code,
    "Allreduce": by_method,
    "Allreduce(IN_PLACE)": in_place,
    "Allreduce of a communicator": through_mpi,
    "compiled gw.allreduce of a communicator": through_mpi_in_compiled_code,
    "Iallreduce": started,
    "Iallreduce(IN_PLACE)": started_in_place,
    "Reduce to the first": functools.partial(at, 0),
    "Reduce to the last": functools.partial(at, world.size - 1),
    "Reduce(IN_PLACE)": functools.partial(at, 0, is_in_place=True),
    "Ireduce": functools.partial(at, 0, is_started=True),
    "Reduce_scatter_block": divided,
    "GlobalArray.sum(axis)": along_an_axis,
    "allreduce(object)": of_objects,
    "reduce(object) to the first": functools.partial(of_objects_at, 0),
    "reduce(object) to the last": functools.partial(of_objects_at, world.size - 1),
    "scan(object)": up_to_the_last,
    "gw.reduce().all": by_kernel,
}
"""Each is given what its rank contributes and returns the sum."""

OF_ONE_NUMBER = ("gw.allreduce(number)", "compiled gw.allreduce(number)", "gw.reduce().all")


def totals(numbers):
    """The sums of some numbers in every order in which they can be added, pairs first."""
    if len(numbers) == 1:
        return list(numbers)
    first, *others = numbers
    places = range(len(others))
    found = []
    for chosen in itertools.chain.from_iterable(itertools.combinations(places, k) for k in range(len(others))):
        left = totals([first, *(others[i] for i in chosen)])
        right = totals([others[i] for i in places if i not in chosen])
        found += [a + b for a in left for b in right]
    return found


def columns():
    """What the ranks contribute: numbers of several magnitudes, a row for each rank."""
    for seed in range(31, 41):
        draw = random.Random(seed).random
        rows = [[(draw() - 0.5) * 2.0 ** int(8 * draw()) for _ in range(COLUMNS)] for _ in range(world.size)]
        by_order = list(zip(*map(totals, zip(*rows, strict=True)), strict=True))
        in_order = tuple(functools.reduce(operator.add, column) for column in zip(*rows, strict=True))
        if by_order.count(in_order) == 1:
            return np.array(rows)
    raise AssertionError("no columns that tell the order of the ranks from all others")


def sums_of(spelling, nbytes, mine):
    """The bytes of the sums of all columns by a spelling."""
    count = nbytes // mine.itemsize
    if count >= COLUMNS:
        return SPELLINGS[spelling](np.tile(mine, count // COLUMNS)).tobytes()
    return b"".join(SPELLINGS[spelling](part.copy()).tobytes() for part in np.split(mine, COLUMNS // count))


def check_all_spellings_of_a_sum_give_equal_bits():
    rows = columns()
    mine, total = rows[world.rank], functools.reduce(np.add, rows)
    problems = []
    for nbytes in SIZES:
        expected = np.tile(total, max(1, nbytes // total.nbytes)).tobytes()
        for spelling in SPELLINGS:
            if spelling in OF_ONE_NUMBER and nbytes > mine.itemsize:
                continue
            if not all(world.allgather(sums_of(spelling, nbytes, mine) == expected)):
                ranks = f"{world.size} ranks of {world.node_count} nodes"
                problems.append(f"{spelling} of {nbytes} bytes on {ranks}: not in the order of the ranks")
    assert not problems, "\n".join(problems)


if __name__ == "__main__":
    run_checks(globals())
