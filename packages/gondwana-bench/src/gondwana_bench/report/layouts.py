"""The one table of exceptions from the general rules of drawing, by benchmark and panel."""

from __future__ import annotations

from dataclasses import dataclass

CURVES, RATIOS, SCATTER, PARTS, SCALING, SPEEDUPS = "curves", "ratios", "scatter", "parts", "scaling", "speed-ups"
ALL = (CURVES, RATIOS, SCALING, SCATTER, PARTS)


@dataclass(frozen=True)
class Layout:
    """The layout of a panel.

    Attributes:
        rival: name of the rival, if the rows do not have it.
        kinds: kinds of figures that are drawn.
        log: whether sizes are on a logarithmic axis.
        subject: columns whose texts make a line of the summary together; (): the first column of texts.
    """

    rival: str | None = None
    kinds: tuple[str, ...] = ALL
    log: bool = True
    subject: tuple[str, ...] = ()


CALLED = {
    "lines": "lines of code",
    "gb_per_s": "bandwidth",
    "mb_per_s": "bandwidth",
    "ns_per_cell": "time of a cell",
    "ours": "",
    "ours_us": "time",
}
"""The kind of figure of columns whose names do not tell it; "": none."""

NOT_OURS = frozenset({"mpi4py", "mpi4py objects", "NumPy", "Numba", "pthread in C"})
"""Rows of a benchmark that compare two rivals, by their `operation` or `variant`."""

LAYOUTS = {
    ("npb", "time"): Layout(rival="NPB 3.4", kinds=(RATIOS, SCATTER)),
    ("npb", "communication"): Layout(rival="NPB 3.4", kinds=(PARTS,)),
    ("npb", "scaling"): Layout(rival="NPB 3.4", kinds=(SCALING,)),
    ("npb", None): Layout(rival="NPB 3.4"),
    ("hpcg", None): Layout(rival="HPCG 3.1", kinds=(RATIOS, CURVES, SCATTER)),
    ("io", None): Layout(rival="plain ADIOS2", kinds=(RATIOS, SCATTER)),
    ("scaling", None): Layout(kinds=(RATIOS, SCALING)),
    ("init", None): Layout(subject=("memory", "variant")),
    ("loops", None): Layout(subject=("loop", "variant")),
    ("osu", None): Layout(subject=("test", "operation")),
    ("fib", None): Layout(log=False),
    ("heat", "against"): Layout(rival="the original program"),
    ("heat", None): Layout(rival="C"),
    ("model", "errors"): Layout(kinds=()),
    ("clustering", None): Layout(rival="scikit-learn", kinds=(SPEEDUPS, RATIOS, SCATTER, PARTS)),
}
"""Layouts by benchmark and panel; None stands for all other panels of a benchmark."""


def layout(benchmark: str, panel: str) -> Layout:
    """Return how a panel is drawn. Local.

    Example:
        >>> layout("hpcg", "rating").rival
        'HPCG 3.1'
    """
    return LAYOUTS.get((benchmark, panel)) or LAYOUTS.get((benchmark, None)) or Layout()
