"""Gray-Scott on several ranks: the reference table, the same bits everywhere, and runs that are killed."""

from __future__ import annotations

import csv
import functools
import json
import os
import random
import signal
import sys
import time
from importlib import resources
from pathlib import Path

import pytest

from gondwana.io.dataset import Dataset
from gondwana.results import read
from support import jobs

PROGRAM = Path(__file__).parent / "programs" / "grayscott_rows.py"
FOUR, SIX = (pytest.param(ranks, marks=pytest.mark.more) for ranks in (4, 6))
RANKS = (1, 2, 3, FOUR, SIX)
# Ranks, and the steps of the longest run.
JOBS = [
    (1, 1000),
    (2, 100),
    (3, 100),
    *(pytest.param(*job, marks=pytest.mark.more) for job in ((2, 1000), (4, 100), (6, 100))),
]


def reference_rows():
    for name in ("reference.csv", "reference_noisy.csv"):
        yield from csv.DictReader(resources.files("gondwana_apps.grayscott").joinpath(name).read_text().splitlines())


def case_of(row):
    rates = [row[key] for key in ("preset", "L", "precision", "F", "k", "dt")]
    return ":".join([*rates, row.get("noise", "0"), row.get("seed", "0")])


def rows_until(longest):
    """The rows that a job computes."""
    return [row for row in reference_rows() if int(row["steps"]) <= longest]


def cases(longest):
    """The reference runs of a job with their largest number of steps."""
    last = {}
    for row in rows_until(longest):
        last[case_of(row)] = max(int(row["steps"]), last.get(case_of(row), 0))
    return [f"{case}:{steps}" for case, steps in last.items()]


@functools.cache
def results(ranks, longest):
    """Verdict and bits by case and step, from one job on so many ranks."""
    job = jobs.run_ranks(ranks, PROGRAM, *cases(longest), timeout=280)
    assert job.status == 0, job.stderr
    rows = [line.split()[1:] for line in job.stdout.splitlines() if line.startswith("row ")]
    return {(case.rpartition(":")[0], int(steps)): (verdict, bits) for case, steps, verdict, bits in rows}


@pytest.mark.parallel
@pytest.mark.parametrize(("ranks", "longest"), JOBS)
def test_every_reference_row_is_reproduced(ranks, longest):
    found = results(ranks, longest)
    for row in rows_until(longest):
        assert found[case_of(row), int(row["steps"])][0] == "True", row


@pytest.mark.parallel
@pytest.mark.parametrize(("ranks", "longest"), JOBS[1:])
def test_the_bits_do_not_depend_on_the_number_of_ranks(ranks, longest):
    expected, found = results(1, 1000), results(ranks, longest)
    assert {key: bits for key, (_, bits) in found.items()} == {key: expected[key][1] for key in found}


KEYS = {
    *("app", "version", "config", "ranks", "threads", "device", "verified", "seconds", "steps", "L", "environment"),
    *("u_min", "u_max", "u_sum", "v_min", "v_max", "v_sum", "cells_per_s", "t_eff_gb_s"),
    *("device_name", "fuse_steps", "seconds_first_step", "grid"),
}

SETTINGS = {
    "L": 32, "steps": 60, "plotgap": 5, "F": 0.02, "k": 0.048, "dt": 1.0, "Du": 0.2, "Dv": 0.1, "noise": 0.1,
    "seed": 42, "output": "gs.bp", "checkpoint": True, "checkpoint_freq": 10,
}  # fmt: skip


def gondwana(*arguments, cwd, timeout=120):
    return jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *map(str, arguments)], cwd=cwd, timeout=timeout)


def write_settings(folder, **keys):
    (folder / "settings.json").write_text(json.dumps({**SETTINGS, **keys}))


def steps_and_fields(path):
    with Dataset(path) as data:
        return list(map(int, data.steps)), [data.read(name, len(data.steps) - 1).tobytes() for name in ("U", "V")]


@pytest.mark.parallel
@pytest.mark.parametrize("ranks", RANKS)
def test_the_command_writes_its_result(ranks, tmp_path):
    write_settings(tmp_path, steps=100, output=None, checkpoint=False)
    outcome = gondwana("run", "-n", ranks, "gray-scott", "settings.json", "--json", "result.json", cwd=tmp_path)
    assert outcome.status == 0, outcome
    result = read(tmp_path / "result.json")[0]
    assert result.keys() >= KEYS
    assert (result["verified"], result["ranks"], result["steps"], result["L"]) == (True, ranks, 100, 32)
    assert result["u_sum"] == pytest.approx(29588.2375862, rel=1e-11)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["result.json", "settings.json"]


@functools.cache
def uninterrupted(folder):
    write_settings(folder)
    outcome = gondwana("run", "-n", 2, "gray-scott", "settings.json", cwd=folder)
    assert outcome.status == 0, outcome
    return steps_and_fields(folder / "gs.bp")


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    return uninterrupted(tmp_path_factory.mktemp("whole"))


@pytest.mark.parallel
@pytest.mark.parametrize("attempt", [0, 1, *(pytest.param(attempt, marks=pytest.mark.more) for attempt in (2, 3))])
def test_a_killed_run_goes_on_from_its_checkpoint_to_the_same_bits(attempt, tmp_path, whole_run):
    """SIGKILL to everybody at a random moment; then another number of ranks ends the run."""
    chance = random.Random(attempt)
    # Slow enough that the moment falls into the run, checkpoints and writing included.
    write_settings(tmp_path, checkpoint_freq=5, plotgap=1 if attempt % 2 else 5)
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", str(chance.choice((1, 2, 3))), "gray-scott"]
    with jobs.start_command([*command, "settings.json"], cwd=tmp_path) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and not (tmp_path / "gs.bp").exists():
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.4))
        jobs.kill_group(process)
        process.communicate()
    if (tmp_path / "gs.bp" / "md.idx").exists() and (tmp_path / "gs.bp" / "md.idx").stat().st_size > 64:
        steps, _ = steps_and_fields(tmp_path / "gs.bp")
        assert steps == sorted(set(steps))
    restart = any(tmp_path.glob("ckpt.*.bp"))
    options = ["--set", f"restart={str(restart).lower()}", "--set", "overwrite=true", "--set", "plotgap=5"]
    ranks = chance.choice((1, 2, 4))
    outcome = gondwana("run", "-n", ranks, "gray-scott", "settings.json", *options, cwd=tmp_path)
    assert outcome.status == 0, outcome
    steps, fields = steps_and_fields(tmp_path / "gs.bp")
    assert [step for step in steps if step % 5 == 0] == whole_run[0]
    assert fields == whole_run[1]


@pytest.mark.parallel
def test_a_signal_stops_the_run_with_a_checkpoint(tmp_path, whole_run):
    write_settings(tmp_path, steps=10_000_000, plotgap=1_000_000, checkpoint_freq=1_000_000)
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "gray-scott", "settings.json"]
    with jobs.start_command(command, cwd=tmp_path) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "gs.bp").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.0)
        os.kill(process.pid, signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=60)
    assert list(tmp_path.glob("ckpt.*.bp")), stdout + stderr


@pytest.mark.parallel
def test_a_second_run_with_the_checkpoints_of_the_first_is_refused_before_it_starts(tmp_path):
    write_settings(tmp_path, steps=10_000_000, output=None, checkpoint_freq=1_000_000)
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", "2", "gray-scott", "settings.json"]
    with jobs.start_command(command, cwd=tmp_path) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / ".ckpt.bp.lock").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        second = gondwana("run", "-n", 2, "gray-scott", "settings.json", cwd=tmp_path)
        jobs.kill_group(process)
        process.communicate()
    assert (second.status, second.stdout) == (2, ""), second
    assert "checkpoint_output: another job (process " in second.stderr
    assert len(second.stderr.splitlines()) == 1


MALFORMED = {
    "not_json": b"{L: 3}",
    "empty": b"",
    "blank": b"  \n",
    "list": b"[1, 2]",
    "number": b"7",
    "null": b"null",
    "trailing_comma": b'{"L": 32,}',
    "cut": b'{"L": 32, "steps"',
    "binary": bytes(range(256)),
    "utf16": '{"L": 32}'.encode("utf-16"),
    "huge": b'{"L": 32' + b" " * 2_000_000 + b"}",
    "deep": b"[" * 100_000,
    "duplicate": b'{"L": 32, "L": 64}',
    "unknown": b'{"stepz": 3}',
    "unknown_case": b'{"l": 3}',
    "string_for_int": b'{"L": "32"}',
    "float_for_int": b'{"L": 32.5}',
    "bool_for_number": b'{"F": true}',
    "null_for_number": b'{"F": null}',
    "nan": b'{"F": NaN}',
    "infinity": b'{"dt": 1e999}',
    "zero_side": b'{"L": 0}',
    "negative_side": b'{"L": -5}',
    "small_side": b'{"L": 8}',
    "giant_side": b'{"L": 1000000000}',
    "negative_steps": b'{"steps": -1}',
    "zero_plotgap": b'{"plotgap": 0}',
    "unstable": b'{"dt": 20.0, "Du": 0.2}',
    "negative_noise": b'{"noise": -0.1}',
    "precision": b'{"precision": "Float16"}',
    "preset": b'{"preset": "adios3"}',
    "backend": b'{"backend": "AMDGPU"}',
    "grid": b'{"L": 32, "dims": [3, 1, 1]}',
    "list_for_text": b'{"output": ["a"]}',
    "under_a_file": b'{"L": 32, "output": "bad.json/gs.bp"}',
    "restart": b'{"L": 32, "restart": true}',
}


FORKED = """
import contextlib, json, os, sys
import gondwana_apps.grayscott.devices
from gondwana.cli.main import main

words, names = json.loads(sys.argv[1]), sys.argv[2:]
sys.argv[1:] = ["--version"]  # imports what every command needs
with contextlib.suppress(SystemExit):
    main()
found = {}
for name in names:
    if os.fork() == 0:
        for number, end in enumerate(("out", "err"), 1):
            os.dup2(os.open(f"{name}.{end}", os.O_WRONLY | os.O_CREAT), number)
        os.chdir(name)
        sys.argv[1:] = words
        main()
    found[name] = os.waitstatus_to_exitcode(os.wait()[1])
print(json.dumps(found))
"""
"""Runs a command in several folders: in processes that have the interpreter and all modules of the first one."""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    """The folder of each malformed file, and how the command ends there."""
    folder = tmp_path_factory.mktemp("malformed")
    for name, content in MALFORMED.items():
        (folder / name).mkdir()
        (folder / name / "bad.json").write_bytes(content)
    words = "run", "-n", "2", "gray-scott", "bad.json", "--json", "result.json"
    outcome = jobs.run_command([sys.executable, "-c", FORKED, json.dumps(words), *MALFORMED], cwd=folder, timeout=200)
    assert outcome.status == 0, str(outcome)
    texts = {name: [(folder / f"{name}.{end}").read_text() for end in ("out", "err")] for name in MALFORMED}
    return {
        name: (folder / name, jobs.Outcome(status, *texts[name]))
        for name, status in json.loads(outcome.stdout.splitlines()[-1]).items()
    }


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_gives_one_line_and_writes_nothing(name, refusals):
    folder, outcome = refusals[name]
    assert outcome.status == 2, outcome
    assert len(outcome.stderr.splitlines()) == 1, outcome
    assert outcome.stdout == ""
    assert [entry.name for entry in folder.iterdir()] == ["bad.json"]
