"""Saving of arrays to a file, complete or absent, in the format that its name says, and loading on any ranks."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gondwana.arrays.array import Array
from gondwana.arrays.create import empty, empty_like
from gondwana.arrays.divided import Divided, slices_of
from gondwana.arrays.global_array import GlobalArray
from gondwana.arrays.layout import Layout
from gondwana.domains import RectDomain
from gondwana.errors import GondwanaError, UsageError
from gondwana.io.checkpoint import checkpoints, name_of
from gondwana.io.dataset import did_you_mean
from gondwana.io.files import contents
from gondwana.io.layout import divide_rows, labels_of
from gondwana.io.paths import UNFINISHED, DatasetError, StrPath, check_output, publish, remove
from gondwana.io.reservation import reserve
from gondwana.memory.cuda_kind import synchronize
from gondwana.runtime.tracing import traced
from gondwana.teams import Team, world
from gondwana.teams.team import failing_together

Like: TypeAlias = GlobalArray | Layout | None

_FORMATS = {".zarr": "zarr_files", ".h5": "hdf5_files", ".hdf5": "hdf5_files", ".nc": "hdf5_files", ".bp": "bp_files"}
"""Modules of the formats by the endings of the names."""


@traced("io", "save arrays")
def save(
    path: StrPath,
    /,
    *,
    attributes: Mapping[str, Any] | None = None,
    step: int | None = None,
    team: Team = world,
    **arrays: Divided | np.ndarray[Any, Any],
) -> Path:
    """Save arrays to a file that other programs open, too. Collective over team. Blocking.

    The file is complete or absent: it is written under another name and then renamed. One of the same name is replaced
    only then. Any number of ranks can `load` it.

    Args:
        path: name of the file, whose end says the format: ``.zarr`` (a folder; all ranks write), ``.h5`` and ``.hdf5``
            (HDF5), ``.nc`` (NetCDF-4), ``.bp`` (ADIOS2's BP5, a folder).
        attributes: texts, numbers, and lists of them, by name. Those of rank 0 are saved.
        step: number of the step, which goes into the name and the attributes: `run.h5` becomes `run.00000700.h5`. So
            each step is a file of its own, and no later one can damage it.
        team: the ranks of the arrays.
        **arrays: arrays by their names in the file, the same on all ranks: global arrays and views of them, without
            ghosts, from the memory of GPUs, too; or an ndarray of this rank, such as its particles, whose first axis
            may have another length on each rank. The file has the rows of all ranks, in their order.

    Returns:
        The name of the file, with the step.

    Raises:
        UsageError: an argument is illegal, a library is missing, or something else is there; raised by every rank,
            before anything is written.
        DatasetError: the file cannot be written, for example because the disk is full. An earlier one stays.

    Example:
        >>> import tempfile
        >>> import gondwana as gw
        >>> T = gw.from_function(lambda x, y: x + y, (8, 8), ghost=1)
        >>> path = gw.save(tempfile.mkdtemp() + "/run.h5", T=T, attributes={"k": 0.1}, step=700)
        >>> path.name
        'run.00000700.h5'
        >>> gw.load(path)["T"].sum()
        448.0
    """
    target, kept = Path(path).absolute(), {}
    same: dict[str, object] = {"path": target, "step": step}
    with failing_together(team, "files", same):
        form = _format(target)
        _check(arrays, team)
        same["arrays"] = labels_of({name: array for name, array in arrays.items() if isinstance(array, Divided)})
        if step is not None:
            target = name_of(target, step)
        if team.rank == 0:
            kept = contents.plain(attributes or {}) | ({} if step is None else {"step": int(step)})
            check_output(target, sum(array.nbytes for array in arrays.values()), is_ours=form.is_one)
    kept, draft = team.bcast(kept), target.with_name(target.name + UNFINISHED)
    with reserve(target, team=team):
        whole, rows = divide_rows(arrays, team)
        synchronize()
        team.barrier()  # from here on ranks read what others have, also the rows that these have just set
        try:
            with _in_one_line(f"cannot write {target}"):
                form.write(draft, contents.outputs_of(whole, rows), kept, team)
        except Exception:
            if team.rank == 0 and draft.exists():
                remove(draft)
            raise
        with failing_together(team), _in_one_line(f"cannot write {target}"):
            if team.rank == 0:
                publish(draft, target)
    return target


class Contents(dict[str, Any]):
    """The arrays of a file by name: global arrays, and ndarrays of this rank.

    Args:
        path: name of the file.
        attributes: attributes of the file: texts, numbers, and lists of them.
    """

    def __init__(self, path: Path, attributes: Mapping[str, Any]) -> None:
        self.path, self.attributes = path, attributes


@traced("io", "load arrays")
def load(
    path: StrPath, /, like: Like | Mapping[str, Like] = None, *, step: int | None = None, team: Team = world
) -> Contents:
    """Return the arrays of a file, saved by any number of ranks or by another program. Collective over team. Blocking.

    Every rank reads its own elements. Ghosts are zero until `exchange()`.

    Args:
        path: name of the file, which ends as for `save`; if there is none, the one with a step that was saved last.
        like: a global array that gives division, ghosts, boundary, order and kind of memory to all arrays of its shape,
            or a `gw.Layout`; or those of several arrays by name, None for one that is divided as evenly as possible,
            as are all others: then only these are loaded.
        step: number of the step that was given to `save`.
        team: the ranks that share the arrays.

    Returns:
        The arrays by name, with `attributes` and `path`. Rows of ranks come back to them as ndarrays where as many
        ranks load as have saved; else they are divided as evenly as possible, in their order. An array without axes or
        without elements is an ndarray, the same on all ranks.

    Raises:
        UsageError: there is no such file or array, or it has another shape than `like`; raised by every rank.
        DatasetError: the file cannot be read.

    Example:
        >>> import tempfile
        >>> import gondwana as gw
        >>> path = tempfile.mkdtemp() + "/run.zarr"
        >>> T = gw.full((4, 6), 2.0, ghost=1)
        >>> saved = gw.save(path, T=T, flags=gw.ones(8, bool), attributes={"author": "me"})
        >>> found = gw.load(path, like={"T": T})
        >>> sorted(found), found["T"].ghost, found.attributes["author"]
        (['T'], (1, 1), 'me')
    """
    target = Path(path).absolute()
    with failing_together(team, "files", {"path": target, "step": step}):
        form = _format(target)
        if team.rank == 0:
            target = _found(form, target, step)
    target = team.bcast(target)
    same: dict[str, object] = {}
    with failing_together(team, "files", same), _in_one_line(f"cannot read {target}"):
        reader: contents.Reader = form.Reader(target)
        names = sorted(like if isinstance(like, Mapping) else reader.stored)
        likes = {name: _like(name, reader, like, target, team) for name in names}
        same["like"] = [(name, getattr(given, "layout", given)) for name, given in likes.items()]
    found = Contents(target, reader.attributes)
    with _in_one_line(f"cannot read {target}"):
        for name, given in likes.items():
            found[name] = _loaded(reader, name, given, team)
    reader.close()
    return found


def _format(path: StrPath) -> Any:
    """The module of the format that a name says, whose library is there."""
    ending = Path(path).suffix
    if ending not in _FORMATS:
        raise UsageError(f"'{path}' does not say a format: end the name in {', '.join(_FORMATS)}")
    form = importlib.import_module(f"gondwana.io.files.{_FORMATS[ending]}")
    contents.imported(form.LIBRARY)
    return form


def _check(arrays: Mapping[str, Any], team: Team) -> None:
    if not arrays:
        raise UsageError("no arrays: give them by name, as in gw.save(path, T=T)")
    for name, array in arrays.items():
        if not name.isidentifier():
            raise UsageError(f"an array is named {name!r}: give a name as Python's variables have")
        if not isinstance(array, Divided | np.ndarray) or getattr(array, "team", team) is not team:
            what = "of the ranks of team=, a view of one, or an ndarray of this rank; numbers and texts are attributes"
            raise UsageError(f"{name!r} is {array!r}: give a global array {what}")


@contextmanager
def _in_one_line(what: str) -> Iterator[None]:
    """Make errors of libraries and of the system ours."""
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError) as problem:
        raise problem if isinstance(problem, GondwanaError) else DatasetError(f"{what}: {problem}") from problem


def _found(form: Any, path: Path, step: int | None) -> Path:
    """The file to load."""
    candidates = [path, *checkpoints(path)] if step is None else [name_of(path, step)]
    found: Path | None = next(filter(form.is_one, candidates), None)
    if found is None:
        there = "; what has this name is something else" if candidates[0].exists() else ""
        other = f", nor one like {name_of(path, 700).name}" if step is None and not there else ""
        raise UsageError(f"there is no {path.suffix} file {candidates[0]}{other}{there}")
    return found


def _like(name: str, reader: contents.Reader, like: Any, path: Path, team: Team) -> Any:
    """What gives the division of an array; None: nothing."""
    if name not in reader.stored:
        raise UsageError(f"{path} has no array {name!r}{did_you_mean(name, reader.stored)}")
    given, stored = like[name] if isinstance(like, Mapping) else like, reader.stored[name]
    if not isinstance(given, GlobalArray | Layout | None) or getattr(given, "team", team) is not team:
        raise UsageError(f"like={given!r}: give a global array of the ranks of team=, a gw.Layout, or these by name")
    if given is None or (given.domain.shape == stored.shape and not stored.rows_of_ranks):
        return given
    if isinstance(like, Mapping):
        kind = "rows of ranks, of shape" if stored.rows_of_ranks else "shape"
        raise UsageError(f"{name!r} has {kind} {stored.shape} in {path}, and like has {given.domain.shape}")
    return None


def _loaded(reader: contents.Reader, name: str, like: Like, team: Team) -> Any:
    """Read an array. Collective over team."""
    stored = reader.stored[name]
    if 0 in stored.shape or not stored.shape or stored.rows_of_ranks:
        with failing_together(team):
            rows = contents.read_rows(reader, name, team)
        return rows  # noqa: RET504 — not inside of the block, whose end may raise
    if like is None:
        box = RectDomain.from_shape(stored.shape).translate(stored.origin or (0,) * len(stored.shape))
        like = Layout.divide(box, team.size, order=stored.order)
    array = empty(like, stored.dtype, team=team) if isinstance(like, Layout) else empty_like(like, stored.dtype)
    with failing_together(team):
        if not (part := array.part(team.rank)).is_empty:
            own = array.end(team.rank, part)
            target = own if isinstance(own, Array) else Array.empty(own.domain, array.dtype)
            reader.read(name, slices_of(part), target.numpy())
            if target is not own:
                own.copy_from(target)
    return array
