"""The settings of a Gray-Scott run: one flat JSON object, the same keys as the two reference programs and a few more.

A `Settings` is complete and consistent: it comes from `load` (a file) or `resolve` (a mapping), which fill in the
preset's defaults and refuse, with one line, settings that could not run.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gondwana.errors import UsageError
from gondwana_apps.grayscott.presets import PRESETS, Boundary, PresetName
from gondwana_apps.grayscott.settings_file import parse_value, read_settings_file
from gondwana_apps.settings_files import closest, file_name, legal_values, one_line, override

MAX_INT = 2**31 - 1

# Keys that decide the results: a run continues from a checkpoint only if they are all the same.
PHYSICS = ("L", "F", "k", "dt", "Du", "Dv", "noise", "seed", "boundary", "seed_width", "precision")

Count = Annotated[int, Meta(ge=1, le=MAX_INT)]
Rate = Annotated[float, Meta(ge=0.0, le=1.0)]
Amount = Annotated[float, Meta(ge=0.0, le=1e6)]
Seconds = Annotated[float, Meta(gt=0.0, le=1e9)]
Backend = Literal["CPU", "CUDA"]
Device = Literal["host", "cuda", "auto"]

_DEVICES: dict[Backend, Device] = {"CPU": "host", "CUDA": "cuda"}
_PLACE = ("device", "backend")
"""Keys with the same meaning: the device of the kernels."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a run, legacy keys first. Local.

    Attributes:
        L: cells per side of the cube; at least the width of the seed.
        steps: number of time steps of the whole run, including those before a restart.
        plotgap: write the fields every `plotgap` steps, after the step.
        F: feed rate.
        k: kill rate; the default is the preset's: 0.06075 for `adios2`, 0 for the two Julia ones.
        dt: time step; `dt*max(Du, Dv)` and `dt*(F + k)` are at most 1, or the scheme is unstable.
        Du: diffusion of U, for the normalised Laplacian (sum of six neighbours - 6 centre)/6.
        Dv: diffusion of V.
        noise: amplitude n of the noise in U: each step adds dt*n*r, r uniform in [-1, 1).
        output: name of the dataset; "" or null writes none.
        checkpoint: whether to write checkpoints.
        checkpoint_freq: steps between two checkpoints.
        checkpoint_output: common name of the checkpoints: ckpt.bp makes ckpt.00000700.bp after step 700.
        restart: whether to continue from a checkpoint.
        restart_input: common name of the checkpoints to continue from, the last complete one, or name of one of them.
        adios_config: accepted for old files; no effect, because the engine's parameters are chosen here.
        adios_span: accepted for old files; no effect.
        adios_memory_selection: accepted for old files; no effect.
        mesh_type: "image" describes the mesh to ParaView in the dataset; "" does not.
        precision: type of the fields and of the whole computation: "Float64" or "Float32".
        backend: `device` in the form of old files: "CPU" is "host", "CUDA" is "cuda".
        preset: conventions of a reference program, see `presets`: "adios2", "dirichlet" or "grayscott-jl".
        boundary: "periodic", "fixed" or "alternating"; the default is the preset's.
        seed_width: width of the seed cube in cells; the default is the preset's.
        seed: key of the random numbers; the same seed gives the same noise on any number of ranks.
        dims: ranks along x, y and z; null lets the library choose.
        device: device of the kernels: "host", "cuda", or "auto": GPUs if each rank has one, else the host.
        fuse_steps: time steps in one sweep over memory, 2 for a periodic boundary only; "auto" takes the faster.
        write_initial: whether to write the state before the first step, too.
        async_write: whether to continue computing while the dataset is written.
        checkpoint_keep: number of checkpoints kept; older ones are removed.
        stop_after_seconds: time after which to stop in good order, with a checkpoint if they are on; null: never.
        overwrite: whether to replace an existing dataset of the same name.
        schema_version: version of these keys.
    """

    L: Count = 128
    steps: Annotated[int, Meta(ge=0, le=MAX_INT)] = 20000
    plotgap: Count = 200
    F: Rate = 0.04
    k: Rate = PRESETS["adios2"].k
    dt: Annotated[float, Meta(gt=0.0, le=1e6)] = 0.2
    Du: Amount = 0.05
    Dv: Amount = 0.1
    noise: Amount = 0.0
    output: str | None = "foo.bp"
    checkpoint: bool = False
    checkpoint_freq: Count = 2000
    checkpoint_output: str = "ckpt.bp"
    restart: bool = False
    restart_input: str = "ckpt.bp"
    adios_config: str = ""
    adios_span: bool = False
    adios_memory_selection: bool = False
    mesh_type: Literal["image", ""] = "image"
    precision: Literal["Float64", "Float32"] = "Float64"
    backend: Backend | None = None
    preset: PresetName = "adios2"
    boundary: Boundary = PRESETS["adios2"].boundary
    seed_width: Annotated[int, Meta(ge=0, le=MAX_INT)] = PRESETS["adios2"].seed_width
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    dims: tuple[Count, Count, Count] | None = None
    device: Device = "host"
    fuse_steps: Literal[1, 2, "auto"] = "auto"
    write_initial: bool = False
    async_write: bool = True
    checkpoint_keep: Count = 2
    stop_after_seconds: Seconds | None = None
    overwrite: bool = False
    schema_version: Literal[1] = 1

    @property
    def itemsize(self) -> int:
        """Bytes of one value of a field."""
        return 8 if self.precision == "Float64" else 4

    @property
    def seed_range(self) -> tuple[int, int]:
        """First cell of the seed cube and the one after its last, the same along every axis."""
        start = self.L // 2 - self.seed_width // 2
        return start, start + self.seed_width

    def resolved(self) -> dict[str, Any]:
        """Return all keys with their values, as JSON types, for the provenance of a dataset. Local."""
        keys: dict[str, Any] = msgspec.to_builtins(self)
        return keys

    def physics(self) -> dict[str, Any]:
        """Return the keys that decide the results, which a checkpoint and its continuation must share. Local."""
        keys = self.resolved()
        return {key: keys[key] for key in PHYSICS}


# Illegal names that users ask for, with the reason; by key for a whole key, by (key, value) for one value.
_REFUSED: dict[str | tuple[str, object], str] = {
    "compress": "the dataset is written uncompressed: the adios2 package has no compressor",
    "halo": "the ghost layer is as wide as fuse_steps needs",
    "outputs": "U and V are written whole; choose when with plotgap and write_initial",
    ("precision", "Float16"): "it has too few digits for a time step to change the fields",
    ("backend", "AMDGPU"): "the kernels run on CPUs and NVIDIA GPUs only",
    ("mesh_type", "structured"): "only a uniform grid can be described",
}

_HINTS = typing.get_type_hints(Settings, include_extras=True)
_KEYS = list(Settings.__struct_fields__)


def load(path: str | Path, overrides: Iterable[str] = (), device: str | None = None) -> Settings:
    """Read settings from a JSON file. Local.

    Args:
        path: name of the file, ending in .json.
        overrides: `KEY=VALUE` texts that replace keys of the file; the value is JSON, or plain text for a string.
        device: replacement of the keys `device` and `backend` of the file.

    Returns:
        Settings that are complete and consistent. Whether this machine has the memory and disk for them is another
        question: see `gondwana_apps.grayscott.resources`.

    Raises:
        UsageError: one line that says which file and key, the given value, the legal ones and what to change.

    Example:
        >>> load("examples/gray-scott/demo.json", ["steps=10"]).steps
        10
    """
    keys = read_settings_file(path)
    where = dict.fromkeys(keys, file_name(path))
    replacing = dict(map(_parse_override, overrides))
    if device is not None or not replacing.keys().isdisjoint(_PLACE):
        keys = {key: value for key, value in keys.items() if key not in _PLACE}
    keys |= replacing
    where |= dict.fromkeys(replacing, "--set")
    if device is not None:
        if keys.setdefault("device", device) != device:
            raise UsageError(f"--device {device} and --set device={keys['device']} contradict each other; keep one")
        where.setdefault("device", "--device")
    return resolve(keys, where)


def resolve(keys: Mapping[str, Any], where: Mapping[str, str] | str = "settings") -> Settings:
    """Complete and validate settings given as a mapping. Local.

    Args:
        keys: values by key; those left out take the preset's default.
        where: start of messages: the source of the keys, as one text or one for each key.

    Raises:
        UsageError: one line, as in `load`.

    Example:
        >>> resolve({"preset": "dirichlet", "L": 64}).boundary
        'fixed'
    """
    places = dict.fromkeys(keys, where) if isinstance(where, str) else where
    given = {key: _convert(key, value, places[key]) for key, value in keys.items()}
    if given.get("backend") is not None:
        given.setdefault("device", _DEVICES[given["backend"]])
    preset = PRESETS[given.get("preset", "adios2")]
    settings = Settings(**{**preset._asdict(), **given})
    _check_consistency(settings, places)
    return settings


def notices(settings: Settings) -> list[str]:
    """Return one line for each setting that is accepted but has no effect here. Local."""
    lines = []
    if settings.adios_config:
        lines.append("adios_config: ignored; the parameters of the ADIOS2 engine are chosen by this program")
    for key in ("adios_span", "adios_memory_selection"):
        if getattr(settings, key):
            lines.append(f"{key}: ignored; fields are always handed to ADIOS2 as contiguous copies")
    if settings.output and settings.plotgap > settings.steps and not settings.write_initial:
        lines.append(f"plotgap: {settings.plotgap} is more than the {settings.steps} steps, so nothing will be written")
    return lines


def _convert(key: str, value: Any, where: str) -> Any:
    """Convert one JSON value to the type of its key."""
    if key not in _HINTS:
        raise UsageError(f"{where}: unknown key {one_line(key)}; {_advice_for_unknown(key)}")
    if isinstance(value, str) and (not value.isprintable() or len(value) > 1000):
        raise UsageError(f"{where}: {key} is {one_line(value)}; legal is printable text of at most 1000 characters")
    try:
        return msgspec.convert(value, _HINTS[key])
    except (msgspec.ValidationError, OverflowError):
        given = f"{where}: {key} is {one_line(value)}"
        reason = _REFUSED.get((key, value)) if isinstance(value, str) else None
        legal = f"legal is {legal_values(_HINTS[key])}"
        raise UsageError(f"{given}; {reason + '; ' if reason else ''}{legal}{_repair(key, value)}") from None


def _advice_for_unknown(key: str) -> str:
    if key in _REFUSED:
        return f"{_REFUSED[key]}; remove the key"
    match = closest(key, _KEYS)
    return f"did you mean {match!r}?" if match else f"legal keys are {', '.join(_KEYS)}"


def _repair(key: str, value: object) -> str:
    """Return what to write instead if the value shows the intention."""
    hint = _HINTS[key]
    if isinstance(value, float) and value.is_integer() and legal_values(hint).startswith("a whole number"):
        return f"; write {int(value)}"
    choices = list(_choices(hint))
    if isinstance(value, str) and value in {str(choice) for choice in choices if isinstance(choice, int)}:
        return f"; write {value} without quotes"
    names = [choice for choice in choices if isinstance(choice, str)]
    if isinstance(value, str) and names:
        match = closest(value, names)
        return f"; did you mean {json.dumps(match)}?" if match else ""
    if isinstance(value, str) and (value.lower() in {"true", "false"} or value.strip().replace(".", "", 1).isdigit()):
        return f"; write {value.strip().lower()} without quotes"
    return ""


def _parse_override(text: str) -> tuple[str, Any]:
    key, raw = override(text)
    if key not in _HINTS:
        return key, raw
    choices = list(_choices(_HINTS[key]))
    is_number = raw.isdigit() and any(isinstance(choice, int) for choice in choices)
    takes_text = any(choice is str or isinstance(choice, str) for choice in choices)
    if takes_text and not is_number and raw != "null" and not raw.startswith('"'):
        return key, raw
    return key, parse_value(raw, f"--set {key}")


def _choices(hint: Any) -> Iterator[Any]:
    """The types that a key takes, and the values that it takes by name."""
    for part in typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,):
        yield from typing.get_args(part) if typing.get_origin(part) is Literal else (part,)


def _check_consistency(settings: Settings, where: Mapping[str, str]) -> None:
    """Refuse keys that are legal one by one and impossible together."""

    def fail(key: str, text: str) -> None:
        raise UsageError(f"{where.get(key, 'settings')}: {key} {text}")

    s = settings
    side = s.seed_width + s.seed_width % 2
    if side > s.L:
        fail("L", f"is {s.L}; the seed is {s.seed_width} cells wide, so L is at least {side}; enlarge L")
    diffusion, reaction = max(s.Du, s.Dv), s.F + s.k
    if s.dt * diffusion > 1.0:
        fail(
            "dt", f"is {s.dt:g}, unstable: dt*max(Du, Dv) = {s.dt * diffusion:g} is above 1; {_at_most(1 / diffusion)}"
        )
    if s.dt * reaction > 1.0:
        fail("dt", f"is {s.dt:g}, unstable: dt*(F + k) = {s.dt * reaction:g} is above 1; {_at_most(1 / reaction)}")
    if s.dims is not None and max(s.dims) > s.L:
        fail("dims", f"is {list(s.dims)}; an axis of {s.L} cells takes at most {s.L} ranks; give fewer ranks")
    for switch, key in (("checkpoint", "checkpoint_output"), ("restart", "restart_input")):
        if getattr(s, switch) and not getattr(s, key):
            fail(key, f'is ""; {switch} is true and needs a name, for example "ckpt.bp"')
    if s.backend is not None and s.device != _DEVICES[s.backend]:
        fail("device", f'is "{s.device}" and backend is "{s.backend}", which contradict each other; leave out backend')
    if s.fuse_steps == 2 and s.boundary != "periodic":
        fail("fuse_steps", f'is 2, which needs a periodic boundary, not "{s.boundary}"; set fuse_steps to 1 or "auto"')
    if s.checkpoint and s.output and Path(s.output) == Path(s.checkpoint_output):
        fail("checkpoint_output", f"is {one_line(s.checkpoint_output)}, the same as output; give it another name")


def _at_most(limit: float) -> str:
    return f"set dt to at most {limit:.4g}"
