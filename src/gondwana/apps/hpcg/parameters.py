"""What a run of HPCG is told: options, bare numbers and the file `hpcg.dat` (HPCG 3.1)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gondwana.apps import text_files
from gondwana.apps.hpcg.grid import Triple, Zones, check_aspect, choose_grid
from gondwana.apps.options import Parser, whole
from gondwana.errors import UsageError
from gondwana.inputs import whole_number

SMALLEST = 16
COARSENINGS = 3
DEFAULT_SECONDS = 1800
FILE = "hpcg.dat"

_NAMES = ("nx", "ny", "nz", "rt", "pz", "zl", "zu", "npx", "npy", "npz")
"""Numbers of the command line, in the order in which bare ones are taken."""
_SMALLEST_BARE = 10
"""Bare numbers below are passed over, as in the benchmark."""
_HEAD_LINES = 2


@dataclass(frozen=True)
class Parameters:
    """What to run.

    Attributes:
        local: points along x, y and z of each rank.
        seconds: length of the timed phase; 0: the quick path, every phase once.
        grid: ranks along x, y and z; None: to be chosen.
        zones: layers of ranks of two heights; None: all are alike.
        json: file for the result, or None.
        notes: what was changed in what was given, one line each.
    """

    local: Triple
    seconds: int
    grid: Triple | None = None
    zones: Zones | None = None
    json: str | None = None
    notes: tuple[str, ...] = ()

    def grid_of(self, ranks: int) -> Triple:
        """Return the grid of ranks, given or chosen. Local.

        Raises:
            UsageError: it has another number of ranks, or is too long.
        """
        grid = self.grid or choose_grid(ranks)
        if grid[0] * grid[1] * grid[2] != ranks:
            raise UsageError(
                f"hpcg: the grid {'x'.join(map(str, grid))} of --npx --npy --npz has {grid[0] * grid[1] * grid[2]} "
                f"ranks and the run has {ranks}: give one of {ranks}, or leave the options out"
            )
        check_aspect(f"the grid of {ranks} ranks", grid)
        if self.zones is not None and not 0 < self.zones.ranks < grid[2]:
            raise UsageError(
                f"hpcg: --pz {self.zones.ranks}: legal is 1 to {grid[2] - 1}, fewer than the ranks along z"
            )
        return grid


def parse(argv: list[str]) -> Parameters:
    """Read the command line and, if it gives no size, the file. Local.

    Args:
        argv: what follows `hpcg` on the command line.

    Raises:
        UsageError: one line that says what to change.
    """
    options = _parser().parse_args(argv)
    given: dict[str, int | None] = {name: getattr(options, name) for name in _NAMES}
    for name, number in zip(_NAMES, options.numbers, strict=False):
        if given[name] is None and number >= _SMALLEST_BARE:
            given[name] = number
    if len(options.numbers) > len(_NAMES):
        raise UsageError(f"hpcg: {len(options.numbers)} numbers: at most {len(_NAMES)}, {' '.join(_NAMES)}")
    if all(given[side] is None for side in ("nx", "ny", "nz")):
        given = _from_file(Path(options.file)) | {k: v for k, v in given.items() if v is not None and k != "rt"}
    negative = [name for name, number in given.items() if number is not None and number < 0]
    if negative:
        raise UsageError(f"hpcg: {negative[0]} is {given[negative[0]]}: give a whole number of 0 or more")
    return _checked({name: number or 0 for name, number in given.items()}, options.json)


def _parser() -> Parser:
    parser = Parser("hpcg", "Run the benchmark HPCG 3.1. Without a size, hpcg.dat in this folder says what to run.")
    parser.add_argument("numbers", nargs="*", type=whole, metavar="N", help=f"in this order: {' '.join(_NAMES)}")
    for side in "xyz":
        parser.add_argument(
            f"--n{side}", type=whole, metavar="N", help=f"points of a rank along {side}: 16, 24, 32, ..."
        )
    parser.add_argument("--rt", type=whole, metavar="SECONDS", help="length of the timed phase; 0: every phase once")
    parser.add_argument("--pz", type=whole, metavar="N", help="layers of ranks along z that have the height --zl")
    parser.add_argument("--zl", type=whole, metavar="N", help="points along z of the ranks below --pz")
    parser.add_argument("--zu", type=whole, metavar="N", help="points along z of the others")
    for side in "xyz":
        parser.add_argument(f"--np{side}", type=whole, metavar="N", help=f"ranks along {side}")
    parser.add_argument("--file", default=FILE, metavar="FILE", help="read it instead of hpcg.dat")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON")
    return parser


def _checked(given: dict[str, int], json: str | None) -> Parameters:
    sides, notes = _repaired((given["nx"], given["ny"], given["nz"]))
    zones = Zones(given["pz"], given["zl"], given["zu"]) if given["pz"] else None
    heights = (sides[2],) if zones is None else (zones.lower, zones.upper)
    divisor = 2**COARSENINGS
    for name, side in [("nx", sides[0]), ("ny", sides[1]), *((("nz"), height) for height in heights)]:
        if side % divisor or side < SMALLEST:
            raise UsageError(
                f"hpcg: {name} is {side}: give a multiple of {divisor} that is at least {SMALLEST}, "
                f"such as {max(SMALLEST, side // divisor * divisor)}"
            )
    for height in heights:
        check_aspect("the local box", (sides[0], sides[1], height))
    grid = (given["npx"], given["npy"], given["npz"])
    if any(grid) and not all(grid):
        raise UsageError(
            f"hpcg: the grid of ranks is {' x '.join(str(side or '?') for side in grid)}: give all of --npx --npy "
            "--npz, whose product is the number of ranks, or none"
        )
    return Parameters(sides, given["rt"], grid if all(grid) else None, zones, json, tuple(notes))


def _repaired(sides: Triple) -> tuple[Triple, list[str]]:
    """Raise sides below 16 to the longest side, as HPCG 3.1 does."""
    found = [side if side >= SMALLEST else max(SMALLEST, *sides) for side in sides]
    notes = [
        f"n{axis} is {f'{old}, below {SMALLEST}' if old else 'not given'}: taken as {new}"
        for axis, old, new in zip("xyz", sides, found, strict=True)
        if old != new
    ]
    return (found[0], found[1], found[2]), notes


def _from_file(path: Path) -> dict[str, int | None]:
    """Two lines of comment, the sides, the seconds, and perhaps the grid of ranks."""
    if not os.path.lexists(path):
        raise UsageError(
            f"hpcg: {path} cannot be read (there is none): give a size, as in --nx 64 --ny 64 --nz 64 --rt 60, or run "
            "where the file is"
        )
    lines = text_files.read(path, f"hpcg: {path}").splitlines()[_HEAD_LINES:]
    words = [line.split() for line in lines if line.strip()]
    chosen = [*words[0], *words[1][:1], *(words[2] if len(words) > 2 else ())] if len(words) > 1 else []
    values = [number for number in map(whole_number, chosen) if number is not None]
    if len(values) != len(chosen) or len(values) not in (4, 7):
        raise UsageError(
            f"hpcg: {path} is no hpcg.dat: after two lines of comment it must have a line with nx ny nz and one with "
            "the seconds, then at most one with npx npy npz"
        )
    found: dict[str, int | None] = dict.fromkeys(_NAMES)
    found |= dict(zip(("nx", "ny", "nz"), values, strict=False))
    found["rt"] = values[3] if values[3] >= 0 else DEFAULT_SECONDS
    return found | dict(zip(("npx", "npy", "npz"), values[4:], strict=False))
