"""Writing of the steps of a parallel run into one dataset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from gondwana.errors import GondwanaError, UsageError
from gondwana.io import adios
from gondwana.io.adios import AttributeValue, BPWriter, check_type
from gondwana.io.aggregate import AggregatedSink, remote_ranks
from gondwana.io.dataset import Dataset
from gondwana.io.layout import Arrays, axes_of, block_of, cells_of, check_arrays, fields_of, labels_of, shape_of
from gondwana.io.paths import StrPath, check_output, has_steps
from gondwana.runtime.tracing import traced
from gondwana.teams import Team, world
from gondwana.teams.team import failing_together


class _Sink(Protocol):
    def write(self, step: int, arrays: Arrays, scalars: Mapping[str, int | float]) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...


class _DirectSink:
    """Every rank writes its own block: for an adios2 that was built with MPI."""

    def __init__(
        self,
        team: Team,
        path: str,
        attributes: Mapping[str, AttributeValue],
        *,
        keep: int | None,
        replace: bool,
        operator: str | None,
    ) -> None:
        self._team = team
        self._out = BPWriter(path, keep=keep, replace=replace, operator=operator, comm=team.comm)
        for name, value in attributes.items():
            self._out.attribute(name, value)

    def write(self, step: int, arrays: Arrays, scalars: Mapping[str, int | float]) -> None:
        self._out.begin_step()
        for name, array in arrays.items():
            block = block_of(array, self._team.rank)
            if block.size:
                self._out.put(name, cells_of(array), block.start, shape_of(array))
        if self._team.rank == 0:
            self._out.put_scalar("step", step, np.int32)
            for name, value in scalars.items():
                self._out.put_scalar(name, value)
        self._out.end_step()

    def flush(self) -> None:
        """Do nothing: a step is written when `write` returns."""

    def close(self) -> None:
        self._out.close()

    def abandon(self) -> None:
        """Do nothing: closing the dataset would be collective."""


def _own_bytes(writer: object, step: int, arrays: Arrays, *_rest: object, **_more: object) -> int:
    """Bytes of this rank's part of a step."""
    return sum(array.owned.size * array.dtype.itemsize for array in arrays.values())


class StepWriter:
    """A writer of global arrays, step by step, into one ADIOS2 dataset. Collective over team.

    The dataset is one BP5 directory, whatever the number of ranks. With the plain adios2 wheel, rank 0's node gathers
    the blocks in shared memory and a separate process writes them, so that no rank waits for the disk unless two steps
    are still unwritten; with an adios2 that has MPI, every rank writes its own block. Each step also has the number
    ``step`` (int32).

    Use it as a context manager: an error inside leaves the steps so far complete.

    Args:
        path: the dataset, for example ``gs.bp``.
        arrays: the arrays of every step, by name: all of one team, float32, float64, integers or complex, or records of
            those, whose fields become variables such as ``U.mass``. The same on all ranks, in any order; the dataset
            has them in that of rank 0.
        attributes: text, numbers or sequences of them; see ``gondwana.io.provenance``. Those of rank 0 are written.
        append_after: continue an existing dataset: its steps up to this number stay, later ones are removed.
        replace: whether an existing dataset that is not continued may be replaced; False: it is refused.
        operator: a compression operator for all arrays, if this adios2 has one.
        background: whether a separate process writes; False: each step is written before ``write`` returns.
        team: the ranks of the arrays.

    Raises:
        UsageError: an array cannot be stored, the dataset cannot be written there, or ranks give different arrays or
            options. All ranks raise.
        DatasetError: no memory to stage a step.

    Example:
        >>> import tempfile
        >>> import gondwana as gw
        >>> path = tempfile.mkdtemp() + "/gs.bp"
        >>> u = gw.zeros(gw.RectDomain((0, 0, 0), (8, 8, 8)), order="F")
        >>> with StepWriter(path, {"U": u}) as out:
        ...     out.write(10, {"U": u})
        >>> Dataset(path).steps
        array([10], dtype=int32)
    """

    @traced("io", "open a dataset to write")
    def __init__(
        self,
        path: StrPath,
        arrays: Arrays,
        *,
        attributes: Mapping[str, AttributeValue] | None = None,
        append_after: int | None = None,
        replace: bool = True,
        operator: str | None = None,
        background: bool = True,
        team: Team = world,
    ) -> None:
        self._team = team
        self._last: int | None = append_after
        replace = replace or append_after is not None
        self.path = Path(path).absolute()
        keep: int | None = None
        same: dict[str, object] = {"replace": replace, "operator": operator, "background": background}
        with failing_together(team, "datasets", same):
            check_arrays(arrays)
            arrays = fields_of(arrays)
            self._kinds: dict[str, np.dtype[Any]] = {}
            same |= {"arrays": labels_of(arrays), "append_after": append_after}
            adios.load()
            if operator is not None and team.rank == 0:
                adios.check_operator(operator)
            if team.rank == 0:
                check_output(self.path, replace=replace)
                keep = None if append_after is None else steps_to_keep(self.path, append_after)
        keep, names = team.bcast((keep, list(arrays)))
        arrays = {name: arrays[name] for name in names}
        self._layout = _layout(arrays)
        direct = adios.built_with_mpi() and team.size > 1
        described: dict[str, AttributeValue] = {f"{name}/dims": axes_of(array) for name, array in arrays.items()}
        described |= {"gondwana_io": _way(team, direct), "gondwana_adios2": adios.version(), **(attributes or {})}
        self._sink: _Sink
        if direct:
            self._sink = _DirectSink(team, str(self.path), described, keep=keep, replace=replace, operator=operator)
        else:
            self._sink = AggregatedSink(
                team,
                str(self.path),
                arrays,
                described,
                keep=keep,
                replace=replace,
                operator=operator,
                background=background,
            )

    @traced("io", "write a step", _own_bytes)
    def write(self, step: int, arrays: Arrays, scalars: Mapping[str, int | float] | None = None) -> None:
        """Write one step; the arrays may change as soon as it returns. Collective over team.

        Args:
            step: the number of the step, larger than the previous one; the same on all ranks.
            arrays: the same names and layouts as at the start; they may be other arrays.
            scalars: further numbers of this step, with the same names and types in every step. Those of rank 0 are
                written.

        Raises:
            UsageError: the arrays or the numbers are not those of this dataset, or the step is not a later one, or not
                the same on all ranks.
            DatasetError: an earlier step could not be written, for example because the disk is full. All ranks raise.
        """
        arrays = fields_of(arrays)
        if _layout(arrays) != self._layout:
            raise UsageError(f"{self.path.name} was started with {_names(self._layout)}: write those, divided alike")
        self._check_numbers(step, scalars or {})
        if self._last is not None and step <= self._last:
            raise UsageError(f"step {step} of {self.path.name} would follow step {self._last}: steps must increase")
        self._sink.write(step, {name: arrays[name] for name in self._layout}, scalars or {})
        self._last = step

    def _check_numbers(self, step: int, scalars: Mapping[str, int | float]) -> None:
        """Raise UsageError for numbers that the writing process could not store."""
        if not isinstance(step, int | np.integer) or not 0 <= step < 2**31:
            raise UsageError(f"step = {step!r}: give a whole number from 0 to {2**31 - 1}")
        for name, value in scalars.items():
            if name == "step" or name in self._layout:
                raise UsageError(f"a number named {name!r}: that is the name of something else; rename the number")
            number = np.asarray(value)
            if number.ndim:
                raise UsageError(f"the number {name!r} has shape {number.shape}: give one value, or a global array")
            kind = check_type(name, number.dtype)
            if kind != self._kinds.setdefault(name, kind):
                raise UsageError(
                    f"the number {name!r} is {kind} in step {step} and was {self._kinds[name]} before: convert it, "
                    f"for example by float({name})"
                )

    @traced("io", "flush steps")
    def flush(self) -> None:
        """Wait until readers can see all steps so far, even if this program is killed. Collective over team.

        Raises:
            DatasetError: a step could not be written. All ranks raise.
        """
        self._sink.flush()

    @traced("io", "close a dataset")
    def close(self) -> None:
        """Wait until everything is written to the file system, and close the dataset. Collective over team.

        Raises:
            DatasetError: a step could not be written.
        """
        self._sink.close()

    def abandon(self) -> None:
        """Write the steps submitted before an error elsewhere, and leave the dataset readable. Local; blocks.

        Raises:
            DatasetError: a step could not be written.
        """
        self._sink.abandon()

    def __enter__(self) -> StepWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.abandon()
        except GondwanaError as problem:
            if error is not None:
                error.add_note(str(problem))


def steps_to_keep(path: StrPath, last: int) -> int | None:
    """Return the number of steps of a dataset that are not later than ``last``; None: none, start anew. Local.

    Args:
        path: the dataset, which need not exist.
        last: the number of the simulation step that continues, for example the checkpoint's.
    """
    if not has_steps(Path(path)):
        return None
    with Dataset(path) as data:
        return int(np.searchsorted(data.steps, last, side="right")) or None


def _way(team: Team, direct: bool) -> str:
    """Describe which process writes, and why."""
    if direct:
        return f"adios2-mpi: each of {team.size} ranks writes its block, because this adios2 was built with MPI"
    remote = len(remote_ranks(team))
    return (
        f"bp-node: rank 0 writes for {team.size} ranks, {team.size - remote} through shared memory and {remote} by "
        f"messages, because {'there is one rank' if team.size == 1 else 'this adios2 was built without MPI'}"
    )


def _layout(arrays: Arrays) -> dict[str, tuple[Any, ...]]:
    return {name: (array.domain, array.dtype, array.order, array.owned) for name, array in arrays.items()}


def _names(layout: Mapping[str, tuple[Any, ...]]) -> str:
    return ", ".join(f"{name} {domain.shape} {dtype}" for name, (domain, dtype, *_) in layout.items())
