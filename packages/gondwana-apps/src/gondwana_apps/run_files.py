"""The output and the input of a run that simulates a field: a dataset of its steps, and checkpoints."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.io import checkpoint
from gondwana.io.paths import PATIENCE_S, check_output, is_dataset
from gondwana.io.reservation import check_free
from gondwana.io.writer import StepWriter
from gondwana_apps.sentences import say
from gondwana_apps.settings_files import file_name

if TYPE_CHECKING:
    from gondwana_apps.grayscott.settings import Settings as GrayScottSettings
    from gondwana_apps.heat.settings import Settings as HeatSettings

Arrays = Mapping[str, gw.GlobalArray]
T = TypeVar("T")
K = TypeVar("K", "GrayScottSettings", "HeatSettings")

Keys: TypeAlias = "GrayScottSettings | HeatSettings"
"""Settings with the keys that say what is written, when, and the source of a continuation."""


class RunFiles(ExitStack):
    """Writes the steps of a run and its checkpoints. Collective over the team to make; a context manager.

    At the end of the block all submitted steps are on the disk; after an error, those that this rank has submitted.

    Args:
        keys: settings of the run.
        arrays: arrays by name, as they are written.
        attributes: attributes of the dataset.
        done: number of steps done before; if the run continues, later ones in the dataset are replaced.
        team: the ranks of the arrays.
    """

    def __init__(self, keys: Keys, arrays: Arrays, attributes: Mapping[str, Any], done: int, team: gw.Team) -> None:
        super().__init__()
        self._keys, self._team = keys, team
        self._writer = None
        if keys.output:
            writer = StepWriter(
                keys.output,
                arrays,
                attributes=attributes,
                append_after=done if keys.restart else None,
                replace=keys.overwrite,
                background=keys.async_write,
                team=team,
            )
            self._writer = self.enter_context(writer)

    def takes(self, done: int) -> bool:
        """Return whether the dataset gets the state after `done` steps. Local."""
        return self._writer is not None and done % self._keys.plotgap == 0

    def write(self, done: int, arrays: Arrays) -> None:
        """Write the state after `done` steps to the dataset, if there is one. Collective over the team."""
        if self._writer is not None:
            self._writer.write(done, arrays)

    def save(self, done: int, arrays: Arrays, physics: Mapping[str, Any]) -> None:
        """Write a checkpoint and remove those that need not be kept any more. Collective over the team; blocks.

        First the output so far is written, since a run that continues will not write it again.

        Args:
            done: steps done.
            arrays: the whole state, by name.
            physics: values that a continuation must have in common with this run.
        """
        if self._writer is not None:
            self._writer.flush()
        keys = self._keys
        checkpoint.save(
            keys.checkpoint_output, arrays, step=done, settings=physics, keep=keys.checkpoint_keep, team=self._team
        )


def steps_to_next(keys: Keys, done: int, left: int) -> int:
    """Return the steps to the next output, checkpoint or the end. Local.

    Args:
        keys: settings of the run.
        done: steps done.
        left: steps to the end.
    """
    gaps = [keys.plotgap] * bool(keys.output) + [keys.checkpoint_freq] * keys.checkpoint
    return min([left, *(gap - done % gap for gap in gaps)])


def reserved(keys: Keys, team: gw.Team) -> AbstractContextManager[Any]:
    """Keep the names of the checkpoints from other jobs, if there are any. Collective over team."""
    return checkpoint.reserve(keys.checkpoint_output, team=team) if keys.checkpoint else nullcontext()


def going_on(keys: K, last: int) -> K:
    """Return the settings with which a job goes on that was started again after a loss; else these. Local.

    It continues from the last checkpoint that it has written, or begins anew and replaces what it has written.

    Args:
        keys: settings of the run.
        last: number of the last step, before which it continues.
    """
    if not gw.restarted():
        return keys
    found = checkpoint.last_written(keys.checkpoint_output, most=last) if keys.checkpoint else None
    if found is None:
        return msgspec.structs.replace(keys, overwrite=True)
    return msgspec.structs.replace(keys, restart=True, restart_input=str(found))


def restore(keys: Keys, arrays: Arrays, physics: Mapping[str, Any], team: gw.Team) -> checkpoint.Checkpoint:
    """Set arrays from the checkpoint named by the settings, written by any ranks. Collective over team; blocks.

    Rank 0 prints the name of the checkpoint, and those of damaged ones.

    Raises:
        UsageError: no checkpoint exists, or it belongs to other settings.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = checkpoint.load(keys.restart_input, arrays, settings=physics, team=team)
    if team.rank == 0:
        for reason in found.skipped:
            say(f"note: {reason}: continuing from {found.path.name}")
        say(f"continuing after step {found.step}")
    return found


def check(keys: Keys, output: int, checkpoints: int, last: tuple[str, int]) -> None:
    """Refuse names that cannot be written or read, data that would be lost, and a disk that is too small. Local.

    Args:
        keys: settings of the run.
        output: bytes of the dataset.
        checkpoints: bytes of the checkpoints.
        last: key and value of the last step.

    Raises:
        UsageError: one line that names the key and says what to change.
    """
    if keys.checkpoint:
        _check_dataset("checkpoint_output", keys.checkpoint_output, checkpoints, replace=True)
        # Another job may be saving under this name; a restart waits for the end of a killed one.
        _checked("checkpoint_output", check_free, keys.checkpoint_output, PATIENCE_S if keys.restart else 0.0)
    if keys.output:
        # The checkpoints usually share the disk; if they do not, this asks for a little too much.
        _check_dataset("output", keys.output, output + checkpoints, replace=keys.overwrite or keys.restart)
    if keys.restart:
        found = _checked("restart_input", checkpoint.newest, keys.restart_input)
        key, value = last
        if value < found.step:
            raise UsageError(
                f"{key}: is {value} and the checkpoint {found.path.name} is from step {found.step}; {key} "
                f"counts those before the restart too, so set {key} to at least {found.step}"
            )


def _checked(key: str, check: Callable[..., T], *given: object) -> T:
    """The result of a check of a key, whose error names the key."""
    try:
        return check(*given)
    except UsageError as error:
        raise UsageError(f"{key}: {error}") from None


def _check_dataset(key: str, name: str, size: int, *, replace: bool) -> None:
    try:
        check_output(name, size, replace=replace)
    except UsageError as error:
        advice = ", or set overwrite=true" if not replace and is_dataset(Path(name)) else ""
        raise UsageError(f"{key}: {error}{advice}") from None
    except OSError as error:
        raise UsageError(f"{key}: {file_name(name)} is no legal file name ({error.strerror}); change it") from None
