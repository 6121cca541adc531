"""The parameters of a run of HPCG: options, bare numbers and the file `hpcg.dat` (HPCG 3.1)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from gondwana.errors import UsageError
from gondwana.inputs import printable, read_text
from gondwana_apps.hpcg.grid import Triple, Zones, check_aspect, choose_grid
from gondwana_apps.options import Parser, whole

SMALLEST = 16
COARSENINGS = 3
DEFAULT_SECONDS = 1800
FILE = "hpcg.dat"

_NAMES = ("nx", "ny", "nz", "rt", "pz", "zl", "zu", "npx", "npy", "npz")
"""Numbers of the command line, in the order of bare ones."""
_SMALLEST_BARE = 10
"""Bare numbers below this are passed over, as in the benchmark."""
_MOST_DIGITS = 9
"""Most digits of a number in the file: it is an int of C."""
_REST_OF_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_WORD = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]*)")
"""Text that `%d` of C takes: blanks and ends of lines, a sign, and digits, or none."""


@dataclass(frozen=True)
class Parameters:
    """The parameters of a run.

    Attributes:
        local: points along x, y and z of each rank.
        seconds: length of the timed phase; 0: the quick path, every phase once.
        grid: ranks along x, y and z; None: chosen.
        zones: layers of ranks of two heights; None: all are alike.
        json: file for the result, or None.
        notes: changes of the given values, one line each.
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
            UsageError: the grid has another number of ranks, or is too long.
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
        argv: arguments after `hpcg` on the command line.

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
    notes: list[str] = []
    if all(given[side] is None for side in ("nx", "ny", "nz")):
        file, notes = _from_file(options.file)
        # The seconds of the command line count unless they are 0, as in the benchmark.
        given = file | {key: value for key, value in given.items() if value is not None and (key, value) != ("rt", 0)}
    negative = [name for name, number in given.items() if number is not None and number < 0]
    if negative:
        raise UsageError(f"hpcg: {negative[0]} is {given[negative[0]]}: give a whole number of 0 or more")
    return _checked({name: number or 0 for name, number in given.items()}, options.json, notes)


def _parser() -> Parser:
    parser = Parser("hpcg", "Run the benchmark HPCG 3.1. Without a size, hpcg.dat in this folder says what to run.")
    parser.add_argument("numbers", nargs="*", type=whole, metavar="N", help=f"in this order: {' '.join(_NAMES)}")
    for side in "xyz":
        what = f"points of a rank along {side}: 16, 24, 32, ... [the longest side given, else of --file]"
        parser.add_argument(f"--n{side}", type=whole, metavar="N", help=what)
    parser.add_argument("--rt", type=whole, metavar="SECONDS", help="seconds to time; 0: every phase once [of --file]")
    parser.add_argument("--pz", type=whole, metavar="N", help="layers of ranks along z with the height --zl [0]")
    parser.add_argument("--zl", type=whole, metavar="N", help="points along z of a rank there [needed with --pz]")
    parser.add_argument("--zu", type=whole, metavar="N", help="points along z of the other ranks [needed with --pz]")
    for side in "xyz":
        parser.add_argument(f"--np{side}", type=whole, metavar="N", help=f"ranks along {side} [chosen]")
    parser.add_argument("--file", default=FILE, metavar="FILE", help=f"what says the size without --nx [{FILE}]")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON")
    return parser


def _checked(given: dict[str, int], json: str | None, notes: list[str]) -> Parameters:
    sides, repairs = _repaired((given["nx"], given["ny"], given["nz"]))
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
    return Parameters(sides, given["rt"], grid if all(grid) else None, zones, json, (*notes, *repairs))


def _repaired(sides: Triple) -> tuple[Triple, list[str]]:
    """Raise sides below 16 to the longest side, as HPCG 3.1 does."""
    found = [side if side >= SMALLEST else max(SMALLEST, *sides) for side in sides]
    notes = [
        f"n{axis} is {f'{old}, below {SMALLEST}' if old else 'not given'}: taken as {new}"
        for axis, old, new in zip("xyz", sides, found, strict=True)
        if old != new
    ]
    return (found[0], found[1], found[2]), notes


def _from_file(path: str) -> tuple[dict[str, int | None], list[str]]:
    """Read `hpcg.dat` as HPCG 3.1 does, and report changes.

    Two lines of title, three sides, the seconds, and a grid of ranks. Each number may be on its own line; after the
    third side and after the seconds the rest of the line is passed over. Missing values have defaults.
    """
    if not os.path.lexists(path):
        raise UsageError(
            f"hpcg: {printable(path)} cannot be read (there is none): give a size, as in --nx 64 --ny 64 --nz 64 --rt "
            "60, or run where the file is"
        )
    name, place, found = f"hpcg: {printable(path)}", 0, dict[str, int | None].fromkeys(_NAMES)
    text = read_text(path, name)
    for _ in range(2):
        place = _after_line(text, place)
    for names in ("nx", "ny", "nz"), ("rt",), ("npx", "npy", "npz"):
        for one in names:
            found[one], place = _scanned(text, place, name, one)
        place = _after_line(text, place)
    if found["nx"] is None:
        raise UsageError(f"{name} is no hpcg.dat: after two lines of title it has nx ny nz, then the seconds")
    return _completed(found, name.removeprefix("hpcg: "))


def _completed(found: dict[str, int | None], file: str) -> tuple[dict[str, int | None], list[str]]:
    """Replace missing, too small or useless values by their defaults, as HPCG 3.1 does."""
    notes = []
    for side in "nx", "ny", "nz":
        old = found[side]
        if old is None or old < SMALLEST:
            found[side] = SMALLEST
            why = "there is no number" if old is None else f"{old} is below {SMALLEST}"
            notes.append(f"{side} of {file}: {why}: taken as {SMALLEST}")
    if found["rt"] is None or found["rt"] < 0:
        notes.append(f"seconds of {file}: {'none' if found['rt'] is None else found['rt']}: taken as {DEFAULT_SECONDS}")
        found["rt"] = DEFAULT_SECONDS
    grid = [found[side] or 0 for side in ("npx", "npy", "npz")]
    if min(grid) < 1:
        if max(grid) > 0:
            notes.append(f"grid of ranks of {file}: not three numbers of 1 or more: chosen")
        found |= dict.fromkeys(("npx", "npy", "npz"))
    return found, notes


def _after_line(text: str, place: int) -> int:
    """The place after the line that contains a place."""
    rest = _REST_OF_LINE.match(text, place)
    return len(text) if rest is None else rest.end()


def _scanned(text: str, place: int, file: str, name: str) -> tuple[int | None, int]:
    """The number at a place after blanks and ends of lines, None if there is none, and the place after it."""
    word = _WORD.match(text, place)
    digits, place = ("", place) if word is None else (word[1], word.end())
    if len(digits.lstrip("+-").lstrip("0")) > _MOST_DIGITS:
        raise UsageError(f"{file} is no hpcg.dat: {name} has more than {_MOST_DIGITS} digits; give a smaller number")
    return (None if digits in ("", "+", "-") else int(digits)), place
