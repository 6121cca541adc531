"""Checkpoints are whole or not there, fit any division, and refuse what does not belong to them."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from gondwana.errors import UsageError
from gondwana.io import bp5, checkpoint, checksums
from gondwana.io.stop import StopRequest
from gondwana.io.writer import StepWriter
from support.damage import each_byte
from support.divided_array import DividedArray, regular

pytest.importorskip("adios2")

SHAPE = (4, 5, 6)
VALUES = np.random.default_rng(1).random(SHAPE)


def array(shape=SHAPE, **options):
    return DividedArray(shape, regular(shape, (1, 1, 1)), **options)


def save(path, step, factor=1.0, **options):
    return checkpoint.save(path, {"U": array(order="F").set(factor * VALUES)}, step=step, **options)


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_the_last_two_stay_and_the_last_is_found(tmp_path):
    for step in (700, 1400, 2100):
        save(tmp_path / "ckpt.bp", step, step, state={"time": step / 2})
    assert names(tmp_path) == ["ckpt.00001400.bp", "ckpt.00002100.bp"]
    u = array(ghost=3, base=-2)  # other ghosts, another base, the same order of axes on disk
    u.order = "F"
    found = checkpoint.load(tmp_path / "ckpt.bp", {"U": u})
    assert (found.step, found.state, found.skipped) == (2100, {"time": 1050.0}, ())
    assert u.equals(2100 * VALUES)
    assert checkpoint.load(tmp_path / "ckpt.00001400.bp", {"U": u}).step == 1400


def test_a_new_run_beside_an_older_longer_one_finds_its_own(tmp_path):
    for step in (20_000, 40_000):
        save(tmp_path / "ckpt.bp", step)
    save(tmp_path / "ckpt.bp", 700)
    assert names(tmp_path) == ["ckpt.00000700.bp", "ckpt.00040000.bp"]
    assert checkpoint.newest(tmp_path / "ckpt.bp").step == 700


def test_the_same_step_again_replaces_it(tmp_path):
    save(tmp_path / "ckpt.bp", 5, 1.0)
    save(tmp_path / "ckpt.bp", 5, 2.0)
    assert names(tmp_path) == ["ckpt.00000005.bp"]
    u = array(order="F")
    checkpoint.load(tmp_path / "ckpt.bp", {"U": u})
    assert u.equals(2 * VALUES)


@pytest.mark.parametrize("harm", ["data.0", "md.0", "md.idx", checksums.SEAL])
@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path, harm, how):
    save(tmp_path / "ckpt.bp", 5)
    victim = save(tmp_path / "ckpt.bp", 10) / harm
    if how == "gone":
        victim.unlink()
    else:
        os.truncate(victim, victim.stat().st_size - 1)
    u = array(order="F")
    with pytest.warns(
        UserWarning, match=rf"ckpt\.00000010\.bp is damaged \({harm}.*continuing from ckpt\.00000005\.bp"
    ):
        assert checkpoint.load(tmp_path / "ckpt.bp", {"U": u}).step == 5
    assert u.equals(VALUES)


def test_no_byte_of_a_checkpoint_stops_a_restart(tmp_path):
    """Whichever has changed, the older checkpoint is found."""
    for step in (1, 2):
        save(tmp_path / "ckpt.bp", step, step, state={"time": step / 2})
    newer = tmp_path / "ckpt.00000002.bp"
    # The end of the line with the sums of the data, which are compared below.
    last = (checksums.NAME, (newer / checksums.NAME).stat().st_size - 1)
    for name in ("complete.json", checksums.NAME, bp5.INDEX, bp5.METADATA, bp5.FORMATS):
        for place in each_byte(newer / name):
            found = checksums.damage(newer)
            assert (found is None) == ((name, place) == last), (name, place, found)
            assert found is None or "\n" not in found
    for name in sorted(os.listdir(newer)):
        step = 3 if name in ("complete.json", checksums.NAME) else 97
        for place in each_byte(newer / name, range(0, (newer / name).stat().st_size, step)):
            u = array(order="F")
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                found = checkpoint.load(tmp_path / "ckpt.bp", {"U": u})
            assert found.step == (2 if name == "profiling.json" else 1), (name, place)
            assert u.equals(found.step * VALUES)
            assert found.state == {"time": found.step / 2}
            assert [str(one.message).count("\n") for one in warned] == [0] * (2 - found.step)
    assert checkpoint.load(tmp_path / "ckpt.bp", {"U": u}).step == 2


def test_what_a_killed_save_left_is_removed_and_never_loaded(tmp_path):
    left = tmp_path / "ckpt.00000010.bp.unfinished"
    with StepWriter(left, {"U": array(order="F")}, background=False) as out:
        out.write(10, {"U": array(order="F")})
    with pytest.raises(UsageError, match="no complete checkpoint"):
        checkpoint.newest(tmp_path / "ckpt.bp")
    save(tmp_path / "ckpt.bp", 5)
    assert names(tmp_path) == ["ckpt.00000005.bp"]


def test_a_failing_save_leaves_the_older_ones(tmp_path, monkeypatch):
    save(tmp_path / "ckpt.bp", 5)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "_sync", full)
    with pytest.raises(OSError, match=r"cannot finish the checkpoint .*No space left"):
        save(tmp_path / "ckpt.bp", 10)
    assert checkpoint.newest(tmp_path / "ckpt.bp").step == 5


def test_what_does_not_fit_is_refused(tmp_path):
    save(tmp_path / "ckpt.bp", 5, settings={"F": 0.02, "dims": [1, 2], "output": "gs.bp"})
    path, u = tmp_path / "ckpt.bp", array(order="F")
    checkpoint.load(path, {"U": u}, settings={"F": 0.02, "dims": (1, 2), "new": 1})
    with pytest.raises(UsageError, match=r"ckpt\.00000005\.bp was made with F = 0\.02, not 0\.03: use the same"):
        checkpoint.load(path, {"U": u}, settings={"F": 0.03})
    with pytest.raises(UsageError, match=r"shape \(6, 5, 4\) .* and \(3, 3, 3\)"):
        checkpoint.load(path, {"U": array((3, 3, 3), order="F")})
    with pytest.raises(UsageError, match="no variable 'W'"):
        checkpoint.load(path, {"W": u})
    with pytest.raises(UsageError, match=r"none is named like other\.00000700\.bp"):
        checkpoint.load(tmp_path / "other.bp", {"U": u})
    with pytest.raises(UsageError, match="at least one checkpoint must stay"):
        save(path, 6, keep=0)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"n": 1, "rng": np.int64(3)}, r"state\['rng'\] is .*3.* \(int64\), which JSON cannot hold: .*by int\(\)"),
        ({"a": {"b": [1, {2, 3}]}}, r"state\['a'\]\['b'\]\[1\] is \{2, 3\} \(set\), which JSON cannot hold"),
        ({"cells": np.zeros(100)}, r"state\['cells'\] is array\(\[0\., .{30,50}\.\.\. \(ndarray\)"),
        ({"a": {(1, 2): 3}}, r"a key of state\['a'\] is \(1, 2\) \(tuple\)"),
        ([1, 2], r"state = \[1, 2\]: give values by name"),
    ],
)
def test_a_state_that_is_no_json_is_refused_by_its_key(tmp_path, state, message):
    with pytest.raises(UsageError, match=message) as found:
        save(tmp_path / "ckpt.bp", 1, state=state)
    assert "\n" not in str(found.value)
    with pytest.raises(UsageError, match=message.replace("state", "settings", 1)):
        checkpoint.load(tmp_path / "ckpt.bp", {"U": array()}, settings=state)
    assert not names(tmp_path)


def test_a_step_that_has_no_name_is_refused(tmp_path):
    for step in (-5, 1.0, "7", 2**31):
        with pytest.raises(UsageError, match="give a whole number from 0 to 2147483647"):
            save(tmp_path / "ckpt.bp", step)


def test_another_precision_only_on_demand(tmp_path):
    save(tmp_path / "ckpt.bp", 5)
    single = array(order="F", dtype=np.float32)
    with pytest.raises(UsageError, match=r"type float64 .* and float32 in this run: use the same precision, or allow"):
        checkpoint.load(tmp_path / "ckpt.bp", {"U": single})
    checkpoint.load(tmp_path / "ckpt.bp", {"U": single}, convert=True)
    assert single.equals(VALUES.astype(np.float32))


def test_a_seal_that_is_not_ours_is_damage(tmp_path):
    path = save(tmp_path / "ckpt.bp", 5)
    whole = (path / checksums.SEAL).read_text()
    contents = {
        "is not readable": ("[]", "{}", json.dumps({"written_ns": "x", "sizes": 3}), "[" * 100_000),
        "differs from its checksum": (whole.replace('"written_ns":1', '"written_ns":2'),),
        "is too large": (whole + " " * (1 << 20),),
    }
    for reason, texts in contents.items():
        for text in texts:
            (path / checksums.SEAL).write_text(text)
            with pytest.raises(UsageError, match=reason):
                checkpoint.newest(tmp_path / "ckpt.bp")


def test_signals_and_time_ask_to_stop():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        assert stop.agreed() is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stop.agreed(), stop.status) == ("signal SIGTERM", 143)
    assert signal.getsignal(signal.SIGTERM) == before
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert (stop.agreed(), stop.status) == ("signal SIGINT", 130)
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGUSR2)
        assert (stop.agreed(), stop.status) == ("signal SIGUSR2", 0)
    stop = StopRequest(after_seconds=0.01)
    deadline = time.monotonic() + 5
    while (reason := stop.agreed()) is None:
        assert time.monotonic() < deadline
    assert reason == "the time limit"


@pytest.mark.parametrize("how", ["zeros", "a bit", "of another checkpoint"])
def test_data_that_have_changed_are_passed_over(tmp_path, how):
    older, newer = save(tmp_path / "ckpt.bp", 5), save(tmp_path / "ckpt.bp", 10, 2.0)
    data = bytearray((newer / "data.0").read_bytes())
    if how == "zeros":
        data[:] = bytes(len(data))
    elif how == "a bit":
        data[len(data) // 2] ^= 4
    else:
        data[:] = (older / "data.0").read_bytes()
    (newer / "data.0").write_bytes(data)
    u = array(order="F")
    with pytest.warns(UserWarning, match=r"ckpt\.00000010\.bp is damaged \(data\.0 differs from its checksum"):
        assert checkpoint.load(tmp_path / "ckpt.bp", {"U": u}).step == 5
    assert u.equals(VALUES)
    with pytest.raises(UsageError, match=r"no complete checkpoint .*ckpt\.00000010\.bp is damaged"):
        checkpoint.load(newer, {"U": u})


def test_damaged_metadata_are_found_at_once(tmp_path):
    save(tmp_path / "ckpt.bp", 5)
    newer = save(tmp_path / "ckpt.bp", 10)
    assert checkpoint.newest(tmp_path / "ckpt.bp").step == 10
    metadata = bytearray((newer / "md.0").read_bytes())
    metadata[len(metadata) // 2] ^= 4
    (newer / "md.0").write_bytes(metadata)
    started = time.monotonic()
    found = checkpoint.newest(tmp_path / "ckpt.bp")
    assert (found.step, len(found.skipped)) == (5, 1)
    with pytest.raises(UsageError, match=r"ckpt\.00000010\.bp is damaged \(md\.0"):
        checkpoint.newest(newer)
    # Less than a tenth of a second; no machine is so busy that it would take this long.
    assert time.monotonic() - started < 5


def test_names_of_checkpoints_that_are_something_else_are_passed_over_and_removed(tmp_path):
    save(tmp_path / "ckpt.bp", 5)
    (tmp_path / "ckpt.00000006.bp").symlink_to("nowhere")
    (tmp_path / "ckpt.00000007.bp").symlink_to("ckpt.00000007.bp")
    (tmp_path / "ckpt.00000008.bp").write_text("a file")
    os.mkfifo(tmp_path / "ckpt.00000009.bp")
    (tmp_path / "ckpt.00000009.bp.unfinished").symlink_to("nowhere")
    found = checkpoint.newest(tmp_path / "ckpt.bp")
    assert (found.step, len(found.skipped)) == (5, 4)
    save(tmp_path / "ckpt.bp", 10)
    save(tmp_path / "ckpt.bp", 15)
    assert names(tmp_path) == ["ckpt.00000010.bp", "ckpt.00000015.bp"]


def test_a_name_is_written_by_one_job_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("gondwana.io.reservation.PATIENCE_S", 0.1)
    path = tmp_path / "ckpt.bp"
    with checkpoint.reserve(path):
        save(path, 5)  # the job that has the name
        other = f"""
from gondwana.errors import UsageError
from gondwana.io import reservation
reservation.PATIENCE_S = 0.1
for attempt in (reservation.check_free, lambda path: reservation.reserve(path).__enter__()):
    try:
        attempt({str(path)!r})
    except UsageError as error:
        print(error)
"""
        done = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=True)
        refusal = f"another job (process {os.getpid()} on {platform.node()}) writes checkpoints '{path}': "
        assert [line.startswith(refusal) for line in done.stdout.splitlines()] == [True, True], done
    assert names(tmp_path) == ["ckpt.00000005.bp"]
    subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=True)
