"""Processes that ranks start, in all ways that users have: each is one rank of its own, and so are its children.

Argument: who this process is; "first" executes this program once more in its own place, as "rank".
"""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import gondwana as gw

AGAIN = (sys.executable, __file__)
if sys.argv[1:] == ["first"]:
    os.execv(sys.executable, [*AGAIN, "rank"])

WORLD = (gw.world.rank, gw.world.size)  # at top level, where a process of multiprocessing asks once more


def world_of(number: int) -> tuple[int, int, int]:
    return (*WORLD, gw.world.allreduce(number))


def said_by(*words: str) -> str:
    """What a process prints, in one line, and its status."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    return " ".join([*sorted(f"{done.stdout}{done.stderr}".splitlines()), f"status {done.returncode}"])


def main(who: str) -> None:
    if who == "grandchild":
        print(f"{who} {WORLD}\n", end="")
    elif who == "child":
        print(f"{who} {WORLD} of {gw.launched_by()},", said_by(*AGAIN, "grandchild"))
    else:
        found = [said_by(*AGAIN, "child")]
        for method in ("spawn", "forkserver"):
            with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
                found.append(f"{method} {next(pool.map(world_of, [5]))}")
        run = (sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "-t", "1")
        found.append(f"job {said_by(*run, __file__, 'grandchild')}")
        print(f"rank {WORLD}: {'; '.join(found)}\n", end="", flush=True)
        gw.world.barrier()


if __name__ == "__main__":
    main(sys.argv[1])
