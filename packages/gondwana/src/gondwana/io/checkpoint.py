"""Checkpoints: the whole state in one dataset, complete or absent, for any number of ranks.

``save(..., "ckpt.bp", step=700)`` makes ``ckpt.00000700.bp``. It is written under another name, synchronised with the
disk, and only then renamed, so that a checkpoint's name means a complete checkpoint, whenever the job was killed. The
next save removes the files that a killed one has left.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gondwana.arrays.global_array import GlobalArray
from gondwana.errors import UsageError
from gondwana.io import checksums
from gondwana.io.dataset import Dataset
from gondwana.io.files import bp_files, contents
from gondwana.io.layout import (
    Arrays,
    Distributed,
    block_of,
    check_arrays,
    check_names,
    divide_rows,
    fields_of,
    labels_of,
    set_cells,
    shape_of,
)
from gondwana.io.paths import UNFINISHED, DatasetError, StrPath, check_output, publish, remove
from gondwana.io.reservation import reserve as reserve
from gondwana.io.writer import StepWriter
from gondwana.runtime import launcher
from gondwana.runtime.tracing import traced
from gondwana.teams import Team, world
from gondwana.teams.team import failing_together


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        path: its dataset.
        step: the number of the step after which it was made.
        state: the values that were saved besides the arrays.
        settings: the settings that a continuation must share.
        skipped: later checkpoints that were passed over, each with its reason.
        rows: the rows of this rank, by the names of the arrays that were given to `load` as ndarrays.
    """

    path: Path
    step: int
    state: Mapping[str, Any]
    settings: Mapping[str, Any]
    skipped: tuple[str, ...] = field(default=())
    rows: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


@traced("io", "save a checkpoint")
def save(
    path: StrPath,
    arrays: Mapping[str, Distributed | npt.NDArray[Any]],
    *,
    step: int,
    state: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    keep: int = 2,
    team: Team = world,
) -> Path:
    """Save arrays so that any number of ranks can continue from them. Collective over team. Blocking.

    Args:
        path: the common name of the checkpoints, for example ``ckpt.bp``; the step goes into the name.
        arrays: the whole state, by name; ghosts are not saved. The same on all ranks, in any order. An ndarray has the
            rows of this rank, such as its particles, as many as it likes.
        step: the number of the step just done; the same on all ranks.
        state: further values to restore, of types that JSON has. Those of rank 0 are saved, as are its settings.
        settings: values that a continuation must have in common with this run, of types that JSON has; see ``load``.
        keep: number of checkpoints of this name to keep: those written last.
        team: the ranks of the arrays.

    Returns:
        The path of the checkpoint.

    Raises:
        UsageError: the checkpoint cannot be written there.
        DatasetError: the disk is full. The earlier checkpoints stay.

    Example:
        >>> import tempfile
        >>> import gondwana as gw
        >>> path = tempfile.mkdtemp() + "/ckpt.bp"
        >>> u = gw.zeros(gw.RectDomain((0, 0), (8, 8)))
        >>> save(path, {"u": u}, step=5).name
        'ckpt.00000005.bp'
        >>> load(path, {"u": u}).step
        5
    """
    if keep < 1:
        raise UsageError(f"keep={keep}: give 1 or more, since at least one checkpoint must stay")
    name_of(Path(path), step)
    described = {
        "checkpoint_state": _as_json("state", state or {}),
        "checkpoint_settings": _as_json("settings", settings or {}),
    }
    whole, rows = divide_rows(arrays, team)
    fields = {name: array for name, array in whole.items() if not isinstance(array, np.ndarray)}
    check_arrays(fields)
    own = {name: array for name, array in whole.items() if isinstance(array, GlobalArray | np.ndarray)}
    described[contents.DESCRIPTIONS] = contents.described(contents.outputs_of(own, rows))
    with reserve(path, team=team):
        target = _write(Path(path).absolute(), fields, step, described, team)
        with failing_together(team):
            try:
                for old in checkpoints(path)[keep:] if team.rank == 0 else ():
                    remove(old)
            except OSError as problem:
                raise DatasetError(f"cannot remove the checkpoint {problem.filename}: {problem.strerror}") from None
    return target


def _write(common: Path, arrays: Arrays, step: int, attributes: Mapping[str, str], team: Team) -> Path:
    """Write a checkpoint and return its path. Collective over team."""
    target = name_of(common, step)
    unfinished = target.with_name(target.name + UNFINISHED)
    with failing_together(team):
        if team.rank == 0:
            _sweep(common)
            check_output(unfinished, sum(array.domain.size * array.dtype.itemsize for array in arrays.values()))
    try:
        with StepWriter(unfinished, arrays, attributes=attributes, background=False, team=team) as out:
            out.write(step, arrays)
            team.agree(_sync_data(unfinished) if team.rank == 0 else None)
    except Exception:
        if team.rank == 0:
            shutil.rmtree(unfinished, ignore_errors=True)
        raise
    with failing_together(team):
        try:
            if team.rank == 0:
                _publish(unfinished, target)
        except OSError as problem:
            raise DatasetError(f"cannot finish the checkpoint {target}: {problem.strerror or problem}") from None
    return target


@traced("io", "load a checkpoint")
def load(
    path: StrPath,
    arrays: Mapping[str, Distributed | npt.NDArray[Any]],
    *,
    settings: Mapping[str, Any] | None = None,
    convert: bool = False,
    team: Team = world,
) -> Checkpoint:
    """Fill arrays from the last complete checkpoint, however they are divided. Collective over team. Blocking.

    Every rank reads its own cells; ghosts are not touched. A damaged checkpoint is passed over with a warning.

    Args:
        path: the common name given to ``save``, or the name of one checkpoint.
        arrays: the arrays to fill, by the names given to ``save``. The same on all ranks, in any order. For rows of
            ranks an ndarray of their dtype, of any length; it is not filled.
        settings: settings of this run; those that the checkpoint has too must be equal. Those of rank 0 are compared.
        convert: whether to allow arrays of another element type, and convert.
        team: the ranks of the arrays.

    Returns:
        The checkpoint, with its step and state, and `rows` for the arrays that are ndarrays: where as many ranks load
        as have saved, each gets its own; else all are divided as evenly as possible, in their order.

    Raises:
        UsageError: no checkpoint exists, or it does not fit: another shape, type or setting.
        DatasetError: the checkpoint cannot be read.
    """
    ours = json.loads(_as_json("settings", settings or {}))  # as the checkpoint's went through JSON
    check_names(arrays)
    rows = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    fields = fields_of({name: array for name, array in arrays.items() if not isinstance(array, np.ndarray)})
    found = _find(path, ours, team)
    if team.rank == 0:
        for reason in found.skipped:
            warnings.warn(f"{reason}: continuing from {found.path.name}", stacklevel=2)
    same = {"arrays": labels_of(fields), "rows": sorted(rows), "convert": convert}
    with failing_together(team, "restarts", same), Dataset(found.path) as data:
        reader = bp_files.Reader(found.path)
        for name, given in rows.items():
            _check_rows(reader.stored.get(name), data, name, given)
            _check_type(data, name, reader.stored[name].dtype, given.dtype, convert)
        for name, array in fields.items():
            _check_fit(data, name, array, convert)
        for name, array in fields.items():
            _fill(data, name, array, team.rank)
        own = {name: contents.read_rows(reader, name, team).astype(rows[name].dtype, copy=False) for name in rows}
    return replace(found, rows=own)


def _find(path: StrPath, settings: Mapping[str, Any], team: Team) -> Checkpoint:
    """Return the last checkpoint with undamaged data. Collective over team."""
    rejected: dict[Path, str] = {}
    while True:
        found: Checkpoint | None = None
        with failing_together(team):
            if team.rank == 0:
                found = newest(path, rejected)
                _check_settings(found, settings)
        candidate: Checkpoint = team.bcast(found)
        reason = _damage_of_data(candidate.path, team)
        if reason is None:
            return candidate
        rejected[candidate.path] = reason


def checkpoints(path: StrPath) -> list[Path]:
    """Return the checkpoints of a common name, the one written last first, complete or not. Local.

    Written last, not the highest step: a new run in the directory of an older, longer one must find its own.
    """
    common = Path(path).absolute()
    pattern = re.compile(re.escape(common.stem) + r"\.\d{8,}" + re.escape(common.suffix))
    if not common.parent.is_dir():
        return []
    found = [entry for entry in common.parent.iterdir() if pattern.fullmatch(entry.name)]
    return sorted(
        found, key=lambda entry: (checksums.sealed_ns(entry) or entry.lstat().st_mtime_ns, entry.name), reverse=True
    )


def newest(path: StrPath, rejected: Mapping[Path, str] | None = None) -> Checkpoint:
    """Return the complete checkpoint written last, or the one of exactly this name; its data are not verified. Local.

    Args:
        path: the common name given to ``save``, or the name of one checkpoint.
        rejected: checkpoints to pass over, each with its damage.

    Raises:
        UsageError: no complete checkpoint exists.
    """
    given = Path(path).absolute()
    skipped: list[str] = []
    for candidate in [given] if (given / checksums.SEAL).is_file() else checkpoints(path):
        reason = (rejected or {}).get(candidate) or checksums.damage(candidate)
        if reason is None:
            return _describe(candidate, tuple(skipped))
        skipped.append(f"{candidate.name} is damaged ({reason})")
    example = name_of(given, 700).name
    seen = f"; {', '.join(skipped)}" if skipped else f": none is named like {example}"
    raise UsageError(f"there is no complete checkpoint {path}{seen}; start without restart")


def latest(folder: StrPath = ".", *, team: Team = world) -> Path | None:
    """Return the complete checkpoint that this job has written last, None if there is none. Collective over team.

    For programs that go on after a restart (`gw.restarted`); `load` takes the path. In a job of `gondwana run
    --restarts`, those of earlier jobs do not count. Blocks.

    Args:
        folder: folder of the checkpoints, or their common name as given to `save`.
        team: the ranks, of which the first one looks.

    Example:
        >>> import tempfile
        >>> import gondwana as gw
        >>> folder = tempfile.mkdtemp()
        >>> print(latest(folder))
        None
        >>> u = gw.zeros(gw.RectDomain((0, 0), (8, 8)))
        >>> save(folder + "/ckpt.bp", {"u": u}, step=5).name, latest(folder).name
        ('ckpt.00000005.bp', 'ckpt.00000005.bp')
    """
    found: Path | None = None
    with failing_together(team):
        if team.rank == 0:
            found = last_written(folder)
    result: Path | None = team.bcast(found)
    return result


def last_written(folder: StrPath = ".", *, most: int | None = None) -> Path | None:
    """Return what `latest` does, as this rank sees it. Local.

    Args:
        folder: folder of the checkpoints, or their common name.
        most: largest step after which it may have been made; None: any.
    """
    given, began = Path(folder).absolute(), int(os.environ.get(launcher.BEGAN) or 0)
    names = {given}
    if given.is_dir() and not (given / checksums.SEAL).is_file():
        split = (re.fullmatch(r"(.+)\.\d{8,}(\.\w+)?", entry.name) for entry in given.iterdir())
        names = {given / f"{match[1]}{match[2] or ''}" for match in split if match}
    found = [
        entry
        for name in names
        for entry in checkpoints(name)
        if (most is None or int(entry.stem.rpartition(".")[2]) <= most) and checksums.damage(entry) is None
    ]
    sealed = [(checksums.sealed_ns(entry) or 0, entry) for entry in found]
    return max((one for one in sealed if one[0] >= began), default=(0, None))[1]


def name_of(common: Path, step: int) -> Path:
    """Return the name of the file of a step. Local.

    Args:
        common: the name without the step.
        step: number of the step.

    Raises:
        UsageError: the number is illegal.
    """
    if not isinstance(step, int | np.integer) or not 0 <= step < 2**31:
        raise UsageError(f"step = {step!r}: give a whole number from 0 to {2**31 - 1}")
    return common.with_name(f"{common.stem}.{step:08d}{common.suffix}")


def _describe(path: Path, skipped: tuple[str, ...]) -> Checkpoint:
    with Dataset(path) as data:
        try:
            about = data.attributes
            state, settings = (json.loads(about[f"checkpoint_{what}"]) for what in ("state", "settings"))
            return Checkpoint(path, int(data.steps[-1]), state, settings, skipped)
        except (KeyError, IndexError, TypeError, ValueError):
            raise UsageError(f"{path.name} is not a checkpoint: it was not written by save") from None


def _damage_of_data(path: Path, team: Team) -> str | None:
    """Verify the data of a checkpoint, each rank a share, and return the damage, or None. Collective over team."""
    mine: str | None = None
    with failing_together(team):
        record = checksums.read(path)
        pieces = [piece for step in record.data().values() for piece in step] if record else []
        mine = next((reason for _, reason in checksums.differing(path, pieces[team.rank :: team.size])), None)
        if not pieces:
            mine = f"{checksums.NAME} does not have the checksums of its data"
    return next(filter(None, team.allgather(mine)), None)


def _sweep(common: Path) -> None:
    """Remove the files that killed saves have left."""
    if common.parent.is_dir():
        for entry in common.parent.glob(f"{glob.escape(common.stem)}.*{common.suffix}{UNFINISHED}"):
            remove(entry)


def _publish(unfinished: Path, target: Path) -> None:
    """Seal a dataset, synchronise it with the disk, and rename it."""
    checksums.seal(unfinished)
    for file in [*unfinished.iterdir(), unfinished]:
        _sync(file)
    publish(unfinished, target)
    _sync(target.parent)


def _sync_data(unfinished: Path) -> DatasetError | None:
    """Synchronise the data with the disk, while a thread computes their checksums."""
    try:
        for file in unfinished.glob("data.*"):
            _sync(file)
    except OSError as problem:
        return DatasetError(f"cannot finish the checkpoint {unfinished}: {problem.strerror or problem}")
    return None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _as_json(what: str, values: Mapping[str, Any]) -> str:
    """Return values as JSON; the error for a value that JSON cannot hold gives its place."""
    if not isinstance(values, Mapping):
        raise UsageError(f"{what} = {values!r}: give values by name, as in {{'time': 0.5}}")
    try:
        return json.dumps(values)
    except (TypeError, ValueError, RecursionError):
        place, culprit = _not_json(what, values)
    raise UsageError(
        f"{place} is {_short(culprit)} ({type(culprit).__name__}), which JSON cannot hold: give texts, numbers, "
        "truth values, None, or lists and dictionaries of them; convert numbers of NumPy by int() or float()"
    )


def _not_json(place: str, value: Any) -> tuple[str, Any]:
    """Return the innermost value that JSON cannot hold, and its place."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    for key, item in items:
        try:
            json.dumps({key: item})
        except TypeError:
            if not isinstance(key, str | int | float | None):
                return f"a key of {place}", key
            return _not_json(f"{place}[{key!r}]", item)
        except (ValueError, RecursionError):
            return f"{place}[{key!r}]", item
    return place, value


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _check_settings(found: Checkpoint, ours: Mapping[str, Any]) -> None:
    other = [name for name in ours if name in found.settings and ours[name] != found.settings[name]]
    if other:
        differences = ", ".join(f"{name} = {found.settings[name]!r}, not {ours[name]!r}" for name in other)
        raise UsageError(
            f"{found.path.name} was made with {differences}: use the same settings, or start without restart"
        )


def _check_fit(data: Dataset, name: str, array: Distributed, convert: bool) -> None:
    stored = data.variable(name)
    if stored.shape != shape_of(array):
        raise UsageError(f"{name!r} has shape {stored.shape} in {data.path.name}, and {shape_of(array)} in this run")
    _check_type(data, name, stored.dtype, array.dtype, convert)


def _check_rows(stored: contents.Stored | None, data: Dataset, name: str, given: npt.NDArray[Any]) -> None:
    if stored is None or not stored.rows_of_ranks or stored.shape[1:] != given.shape[1:]:
        there = f"rows of shape {stored.shape[1:]}" if stored and stored.rows_of_ranks else "no rows of ranks"
        raise UsageError(f"{name!r} has {there} in {data.path.name}, and rows of shape {given.shape[1:]} in this run")


def _check_type(data: Dataset, name: str, stored: np.dtype[Any], ours: np.dtype[Any], convert: bool) -> None:
    if stored != ours and not convert:
        raise UsageError(
            f"{name!r} has type {stored} in {data.path.name}, and {ours} in this run: "
            "use the same precision, or allow the conversion"
        )


def _fill(data: Dataset, name: str, array: Distributed, rank: int) -> None:
    block = block_of(array, rank)
    if block.size:
        set_cells(array, data.read(name, 0, block.start, block.count))
