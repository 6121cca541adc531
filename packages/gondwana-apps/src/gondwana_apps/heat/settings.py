"""The settings of a heat run, by the names of the options of the Kokkos tutorial's program."""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gondwana.errors import UsageError
from gondwana_apps import settings_files
from gondwana_apps.options import Parser

Variant = Literal["one-sided", "two-sided", "copy-notify"]

Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Amount = Annotated[float, Meta(ge=0.0, le=1e300)]

HOTTEST = 1e70
"""The highest temperature: sums of its fourth power over a billion cells are far from the largest number."""

OPTIONS = {
    "X": "cells along x; one side, x = 0, is heated",
    "Y": "cells along y",
    "Z": "cells along z",
    "N": "number of the last step; the first is 0",
    "I": "steps between two lines of output",
    "T0": "temperature of all cells at the start",
    "dt": "time step",
    "q": "rate at which heat flows between cells",
    "sigma": "rate at which outer faces radiate",
    "P": "power that heats each cell at x = 0, up to half of the steps",
}
"""Options of the original program, given as `-NAME VALUE`, with the help for each."""


PHYSICS = ("X", "Y", "Z", "N", "T0", "dt", "q", "sigma", "P")
"""Keys that decide the results; half of the steps have the power on, so N is one."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a run.

    Attributes:
        X: cells along x.
        Y: cells along y.
        Z: cells along z.
        N: number of the last step; steps 0 to N are done.
        I: steps between two prints of the mean temperature, which is also printed at the last step.
        T0: temperature of all cells at the start; radiation is stable there if dt*sigma*n*T0^3 <= 1 with n outer faces.
        dt: time step; conduction is stable if 6*q*dt <= 1.
        q: rate at which heat flows between neighbouring cells.
        sigma: rate at which each outer face of a cell radiates.
        P: power that heats each cell at x = 0; it is switched off after half of the steps.
        variant: transport of the cells at the faces: "one-sided" (stores and flags, or puts and signals),
            "two-sided" (non-blocking messages), "copy-notify" (a copy that calls a function at its target).
        overlap: whether to compute the cells that need no neighbour meanwhile; else all are computed after the
            exchange.
        reduce: "step": the mean temperature is taken in every step, as in the original; "interval": every `I` steps.
        blocks: "balanced" parts of the box, or "ceil", those of the original, of which the last may be much smaller.
        device: device of the kernels: "host" or "cuda".
        fuse_steps: time steps in one sweep over memory, 2 on the host only; "auto" takes the faster.
        output: name of the dataset of the temperature; "" writes none.
        plotgap: steps between two outputs of the temperature.
        write_initial: whether to write the temperature before the first step, too.
        overwrite: whether to replace an existing dataset of the same name.
        async_write: whether to continue computing while the dataset is written.
        checkpoint: whether to write checkpoints.
        checkpoint_freq: steps between two checkpoints.
        checkpoint_output: common name of the checkpoints: ckpt.bp makes ckpt.00000700.bp after 700 steps.
        checkpoint_keep: number of checkpoints kept; older ones are removed.
        restart: whether to continue from a checkpoint.
        restart_input: common name of the checkpoints to continue from, the last complete one, or name of one of them.
        stop_after_seconds: time after which to stop in good order, with a checkpoint if they are on; 0: never.
    """

    X: Count = 200
    Y: Count = 200
    Z: Count = 200
    N: Number = 10000
    I: Count = 100  # noqa: E741  (the original's name)
    T0: Amount = 0.0
    dt: Annotated[float, Meta(gt=0.0, le=1e300)] = 0.1
    q: Amount = 1.0
    sigma: Amount = 1.0
    P: Amount = 1.0
    variant: Variant = "one-sided"
    overlap: bool = False
    reduce: Literal["step", "interval"] = "step"
    blocks: Literal["balanced", "ceil"] = "balanced"
    device: Literal["host", "cuda"] = "host"
    fuse_steps: Literal[1, 2, "auto"] = "auto"
    output: str = ""
    plotgap: Count = 1000
    write_initial: bool = False
    overwrite: bool = False
    async_write: bool = True
    checkpoint: bool = False
    checkpoint_freq: Count = 2000
    checkpoint_output: str = "ckpt.bp"
    checkpoint_keep: Count = 2
    restart: bool = False
    restart_input: str = "ckpt.bp"
    stop_after_seconds: Annotated[float, Meta(ge=0.0, le=1e9)] = 0.0

    @property
    def shape(self) -> tuple[int, int, int]:
        """Cells along each axis."""
        return self.X, self.Y, self.Z

    @property
    def cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def sums_every(self) -> int:
        """Steps between two means."""
        return 1 if self.reduce == "step" else self.I

    def physics(self) -> dict[str, Any]:
        """Return the keys that decide the results, which a checkpoint and its continuation must share. Local."""
        return {key: getattr(self, key) for key in PHYSICS}


def parser() -> Parser:
    """Return the command line: settings, the options of the original program, and files for results. Local."""
    made = settings_files.settings_parser(
        Settings, "heat", "Conduct heat in a box of cells of unit size that is heated on one side and radiates."
    )
    defaults = Settings()
    for name, what in OPTIONS.items():
        made.add_argument(f"-{name}", dest=name, metavar="VALUE", help=f"{what} [{getattr(defaults, name):g}]")
    made.add_argument("--device", choices=("host", "cuda"), help="where the kernels run [the key device]")
    made.add_argument("--record", metavar="FILE", help="write the seconds of each step on each rank, as CSV")
    return made


def load(options: Namespace) -> Settings:
    """Read the settings that a command line names. Local.

    Args:
        options: result of `parser`.

    Raises:
        UsageError: one line that says what was given, what is legal and what to change.

    Example:
        >>> load(parser().parse_args(["-X", "20", "--set", "variant=two-sided"])).variant
        'two-sided'
    """
    given = settings_files.read(Settings, options.settings, options.set)
    for name in (*OPTIONS, "device"):
        text = getattr(options, name)
        if text is not None:
            option = f"--{name}" if name == "device" else f"-{name}"
            given.values[name], given.places[name] = _number(text), option
    settings = Settings(**settings_files.converted(Settings, given))
    _check_stability(settings, given.places)
    _check_radiation(settings, given.places)
    _check_fusing(settings, given.places)
    return settings


def _number(text: str) -> int | float | str:
    for kind in int, float:
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _check_stability(s: Settings, places: dict[str, str]) -> None:
    """Refuse settings that are legal one by one and make the scheme unstable."""
    if 6.0 * s.q * s.dt > 1.0:
        where = places.get("dt", places.get("q", "settings"))
        limit = 1.0 / (6.0 * s.q)
        raise UsageError(f"{where}: dt is {s.dt:g} and q is {s.q:g}, unstable: 6*q*dt is above 1; set dt to {limit:g}")


def _check_radiation(s: Settings, places: dict[str, str]) -> None:
    """Refuse temperatures whose fourth power overflows, and those that radiation makes negative in the first step.

    Conduction makes no cell hotter than the hottest one, so only the power does.
    """
    hottest = s.T0 + s.dt * s.P * (s.N // 2 + 1)
    if hottest > HOTTEST:
        where = places.get("P" if "P" in places and s.T0 <= HOTTEST else "T0", "settings")
        raise UsageError(
            f"{where}: T0 is {s.T0:g} and P is {s.P:g}, so the temperature may reach {hottest:g}; legal is up to "
            f"{HOTTEST:g}, since T^4 radiates: choose smaller ones"
        )
    faces = sum(2 if side == 1 else 1 for side in s.shape)
    part = s.dt * s.sigma * faces * s.T0**3
    if part > 1.0:
        where = next((places[key] for key in ("T0", "sigma", "dt") if key in places), "settings")
        raise UsageError(
            f"{where}: T0 is {s.T0:g}, sigma is {s.sigma:g} and dt is {s.dt:g}, unstable: a cell with {faces} outer "
            f"faces radiates {part:g} times its heat in the first step; choose a smaller dt, sigma or T0"
        )


def _check_fusing(s: Settings, places: dict[str, str]) -> None:
    """Refuse two steps in one sweep if the run cannot have them."""
    if s.fuse_steps == 2 and s.device != "host":
        what = f'fuse_steps is 2 and device is "{s.device}"; set fuse_steps to 1, or device to "host"'
        raise UsageError(f"{places['fuse_steps']}: {what}")
