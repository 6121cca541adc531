"""The tables of the documentation whose rows are made from docs/results.

`make figures` writes them anew, after a program in by_hand has measured something.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from support.by_hand.lines import lines_of
from support.figures import ROOT, rows
from support.performance_tables import PERFORMANCE, Cells, Rows

EXAMPLES, BY_HAND = ROOT / "examples", ROOT / "tests" / "support" / "by_hand"
NUMBA, SCIPY = "mpi4py and Numba", {1: "SciPy", 2: "SciPy and mpi4py"}


def recorded(file: str, **wanted: Any) -> dict[str, Any] | None:
    """Return the row of a file of results that has some entries, or None."""
    found = [row for row in rows(file, {}) if wanted.items() <= row.items()]
    assert len(found) <= 1, f"{file}: several rows have {wanted}"
    return found[0] if found else None


def ratio(file: str, **wanted: Any) -> str:
    """Return the speed relative to a rival's with its interval; a dash for what was not recorded."""
    row = recorded(file, **wanted)
    return (
        "-"
        if row is None
        else "{:.2f} ({:.2f} to {:.2f})".format(*(row[f"ratio{end}"] for end in ("", "_low", "_high")))
    )


def milliseconds(file: str, **wanted: Any) -> str:
    """Return our time; a dash for what was not recorded."""
    row = recorded(file, **wanted)
    return "-" if row is None else f"{row['milliseconds']:.3g} ms"


def examples() -> Rows:
    """Yield the rows of the examples beside the same programs by hand."""
    for title, name, cells in (
        ("lattice Boltzmann", "lattice_boltzmann", "512 x 512"),
        ("shallow water", "shallow_water", "480 x 320"),
        ("masked diffusion", "masked_diffusion", "480 x 240"),
        ("masked diffusion", "masked_diffusion", "240 x 120"),
        ("masked diffusion", "masked_diffusion", "96 x 48"),
        ("particles in cells, 10^6 particles", "particles", "128 x 32"),
    ):
        programs = EXAMPLES / f"{name}.py", BY_HAND / f"{name}.py", BY_HAND / f"{name}_mpiarray.py"
        yield [
            title,
            ", ".join(str(lines_of(program)) for program in programs),
            cells,
            *(
                ratio("examples", example=name, cells=cells, ranks=ranks, rival=rival)
                for ranks in (1, 2)
                for rival in (NUMBA, "mpiarray and Numba")
            ),
        ]


def files() -> Rows:
    """Yield the rows of files beside h5py and zarr by hand."""
    for form in ("HDF5", "Zarr"):
        for act in ("save", "load"):
            case = {"format": form, "act": act, "mib": 256}
            figures = [figure("own-files", **case, ranks=ranks) for ranks in (1, 2) for figure in (milliseconds, ratio)]
            yield [form, act, *figures]


def transforms() -> Rows:
    """Yield the rows of Fourier transforms beside mpi4py-fft and SciPy."""
    for cells in ("128^3", "256^3"):
        for dtype in ("complex128", "float64"):
            for ranks in (1, 2):
                case = {"cells": cells, "dtype": dtype, "ranks": ranks}
                rivals = "mpi4py-fft", SCIPY[ranks]
                yield [
                    f"{cells.replace('^3', '³')} {dtype}",
                    str(ranks),
                    milliseconds("fft", **case, result="transposed", rival=rivals[0]),
                    *(
                        ratio("fft", **case, result=result, rival=rival)
                        for rival in rivals
                        for result in ("transposed", "natural")
                    ),
                ]


def krylov() -> Rows:
    """Yield the rows of iterations of conjugate gradients beside loops by hand."""
    for cells in ("64^3", "128^3"):
        for ranks in (1, 2):
            for sums in ("fast", "exact"):
                case = {"method": "cg", "cells": cells, "sums": sums, "ranks": ranks}
                rivals = [f"{loops} and mpi4py" for loops in ("Numba", "C")]
                time = milliseconds("krylov", **case, rival=rivals[0])
                ratios = (ratio("krylov", **case, rival=rival) for rival in rivals)
                yield [cells.replace("^3", "³"), str(ranks), sums, time, *ratios]


def sparse() -> Rows:
    """Yield the rows of products of sparse matrices beside SciPy and C."""
    for entries, size in (
        ("27 points", 262_144), ("27 points", 1_124_864), ("130 anywhere", 14_000), ("20 anywhere", 1_000_000)
    ):  # fmt: skip
        case = {"example": entries, "cells": str(size)}
        ratios = [ratio("sparse", **case, ranks=ranks, rival=rival) for ranks in (1, 2) for rival in ("SciPy", "C")]
        yield [entries, f"{size:,}", *ratios]


def multigrid() -> Rows:
    """Yield the rows of V-cycles beside a program in C."""
    for ranks in (1, 2):
        row = recorded("solvers", example="multigrid", ranks=ranks)
        assert row is not None
        times = (f"{row[name]:.0f} ms" for name in ("milliseconds", "rival_milliseconds"))
        factors = (f"{row[name]:.2f}" for name in ("factor", "rival_factor"))
        yield [row["cells"], str(ranks), *times, ratio("solvers", example="multigrid", ranks=ranks), *factors]


CG = {"method": "cg", "cells": "128^3", "sums": "fast"}
FFT = {"cells": "128^3", "dtype": "float64", "result": "transposed"}
STEP_BY_HAND = {"rival": "Numba, mpi4py", "size": 256}
MEASURED: dict[str, list[tuple[str, str, str, dict[str, Any]]]] = {
    "heat": [("a step of 256³ cells", NUMBA, "stencil-by-hand", {**STEP_BY_HAND, "kernel": "sweep7"})],
    "gray-scott": [("a step of 256³ cells", NUMBA, "stencil-by-hand", {**STEP_BY_HAND, "kernel": "gray_scott"})],
    "lattice_boltzmann": [("a step of 512 x 512 cells", NUMBA, "examples", {"cells": "512 x 512"})],
    "shallow_water": [("a step of 480 x 320 cells", NUMBA, "examples", {"cells": "480 x 320"})],
    "masked_diffusion": [("a step of 480 x 240 cells", NUMBA, "examples", {"cells": "480 x 240"})],
    "particles": [("a step of 10⁶ particles", NUMBA, "examples", {"cells": "128 x 32"})],
    "spectral_poisson": [("both transforms of 128³ numbers", "mpi4py-fft", "fft", {**FFT, "rival": "mpi4py-fft"})],
    "dielectric": [("an iteration, 128³ unknowns", "C and mpi4py", "krylov", {**CG, "rival": "C and mpi4py"})],
    "own_files": [
        ("256 MiB to HDF5", "h5py and mpi4py", "own-files", {"format": "HDF5", "act": "save", "mib": 256}),
        ("256 MiB to Zarr", "zarr", "own-files", {"format": "Zarr", "act": "save", "mib": 256}),
    ],
    "multigrid": [("a V-cycle, 256³ cells", "C and mpi4py", "solvers", {"example": "multigrid"})],
    "power_iteration": [
        ("a product, 27 points, 104³ rows", "C", "sparse", {"example": "27 points", "cells": "1124864", "rival": "C"})
    ],
    "parameter_study": [
        ("60 simulations, 2 workers", rival, "parameter-study", {"workers": 2, "rival": rival})
        for rival in ("concurrent.futures", "mpi4py.futures")
    ],
}
"""What was measured of a program, beside what, and where that is recorded; in examples.json under its name."""


def gallery() -> Rows:
    """Yield the rows of all programs of the gallery."""
    for name in sorted([*(program.stem for program in EXAMPLES.glob("*.py")), "gray-scott"]):
        program, same = EXAMPLES / f"{name}.py", BY_HAND / f"{name}.py"
        lines = str(lines_of(program)) if program.exists() else "-"
        by_hand = str(lines_of(same)) if (BY_HAND / f"{name}_mpiarray.py").exists() else "-"
        for what, rival, file, wanted in MEASURED.get(name, [("-", "-", "", {})]):
            named = {"example": name, "rival": rival} if file == "examples" else {}
            ratios = [ratio(file, **wanted, **named, ranks=ranks) if file else "-" for ranks in (1, 2, 3)]
            yield [f"`{name}`", lines, by_hand, what, rival, ratios[0], ratios[2] if ratios[1] == "-" else ratios[1]]


TABLES: dict[tuple[str, str], Callable[[], Rows]] = {
    ("performance/own-problems.md", "## Examples beside the same programs by hand"): examples,
    ("performance/own-problems.md", "## Sparse matrices beside SciPy and C"): sparse,
    ("performance/own-problems.md", "## Multigrid beside a program in C"): multigrid,
    ("performance/own-problems.md", "## Files beside h5py and zarr by hand"): files,
    ("performance/own-problems.md", "## Fourier transforms beside mpi4py-fft and SciPy"): transforms,
    ("performance/own-problems.md", "## Conjugate gradients beside loops by hand"): krylov,
    ("guide/gallery.md", "## Lines and times"): gallery,
    **PERFORMANCE,
}
"""What makes the rows of the first table below a heading, by page and heading."""


def shown(page: str, heading: str) -> list[Cells]:
    """Return the rows of a table as the page has them."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    start, end = place(text, heading)
    return [line.strip("| ").split(" | ") for line in text[start:end].splitlines()]


def write() -> None:
    """Write the rows of all tables."""
    for (page, heading), made in TABLES.items():
        path = ROOT / "docs" / page
        text = path.read_text(encoding="utf-8")
        start, end = place(text, heading)
        lines = "".join(f"| {' | '.join(cells)} |\n" for cells in made())
        path.write_text(text[:start] + lines + text[end:], encoding="utf-8")


def place(text: str, heading: str) -> tuple[int, int]:
    """Return where the rows of the first table below a heading begin and end."""
    found = re.compile(r"^\|(?:-+\|)+\n((?:\|.*\n)*)", re.M).search(text, f"\n{text}".index(f"\n{heading}\n"))
    assert found is not None, f"there is no table below {heading}"
    return found.span(1)


if __name__ == "__main__":
    write()
