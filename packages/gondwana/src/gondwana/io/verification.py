"""Verification of a dataset: its data are read again and compared with their checksums."""

from __future__ import annotations

from pathlib import Path

from gondwana.errors import UsageError
from gondwana.io import bp5, checksums
from gondwana.io.dataset import missing
from gondwana.io.paths import StrPath, has_steps, in_units, is_dataset


def verify(path: StrPath) -> str:
    """Read all data of a dataset, compare them with their checksums, and return what has been verified. Local; blocks.

    Args:
        path: the dataset.

    Raises:
        UsageError: it has no checksums.
        DatasetError: something differs, or is not there.
    """
    folder = Path(path)
    if not is_dataset(folder):
        raise UsageError(missing(folder))
    record = checksums.read(folder)
    if record is None:
        raise UsageError(f"{path} has no checksums ({checksums.NAME}): it was not written by this library")
    if record.problem:
        raise bp5.damaged(folder, record.problem)
    steps = bp5.check(folder).steps if has_steps(folder) else 0
    if not checksums.vouches(folder, steps) and steps:
        raise bp5.damaged(folder, f"{checksums.NAME} does not have the metadata of all {steps} steps")
    data = record.data()
    absent = sorted(set(range(steps)) - set(data))
    if absent:
        raise bp5.damaged(folder, f"{checksums.NAME} does not have the data of {len(absent)} of {steps} steps")
    found = [(step, reason) for step in data for _, reason in checksums.differing(folder, data[step])]
    if found:
        step, reason = found[0]
        others = f"; and {len(found) - 1} other differences" if len(found) > 1 else ""
        raise bp5.damaged(folder, f"in its step {step} {reason}{others}")
    size = sum(piece.end - piece.begin for pieces in data.values() for piece in pieces)
    return f"{path}: verified, {steps} steps with {in_units(size)} of data"
