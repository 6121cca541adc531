"""Damaged datasets are told in one sentence: nothing crashes, waits for ever, or is read as if it were whole."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import numpy as np
import pytest

from gondwana.errors import GondwanaError, UsageError
from gondwana.io import bp5, checksums, other_process
from gondwana.io.adios import BPWriter
from gondwana.io.checksums import verify
from gondwana.io.dataset import Dataset
from gondwana.io.paths import DatasetError
from support import damage

pytest.importorskip("adios2")

TESTS = Path(__file__).parents[4] / "tests"
STEPS = 3


def write(path, steps=STEPS, keep=None):
    out = BPWriter(path, keep=keep)
    for step in range(steps):
        out.begin_step()
        for name in "UV":
            cells = np.random.default_rng(step).random((6, 5, 4))
            out.put(name, cells[:2], (0, 0, 0), cells.shape)
            out.put(name, cells[2:], (2, 0, 0), cells.shape)
        out.put_scalar("step", 10 * step, np.int32)
        out.end_step()
    return out


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """Datasets of ours and of another program, each closed and left open."""
    folder = tmp_path_factory.mktemp("damage")
    out = write(folder / "closed.bp")
    out.flush()
    shutil.copytree(folder / "closed.bp", folder / "open.bp")
    out.close()
    for name in "closed", "open":
        shutil.copytree(folder / f"{name}.bp", folder / f"foreign-{name}.bp")
        (folder / f"foreign-{name}.bp" / checksums.NAME).unlink()
    return folder


@pytest.mark.parametrize("name", ["closed", "open", "foreign-closed", "foreign-open"])
def test_whole_datasets_are_read(pristine, name):
    path = pristine / f"{name}.bp"
    index = bp5.check(path)
    assert (index.steps, index.active) == (STEPS, name.endswith("open"))
    assert checksums.vouches(path, index.steps) == (not name.startswith("foreign"))
    with Dataset(path) as data:
        assert data.steps.tolist() == [0, 10, 20]
        assert np.array_equal(data.read("V", -1), np.random.default_rng(2).random((6, 5, 4)))


def test_nothing_that_is_damaged_ends_or_stops_a_reader_of_our_datasets(pristine, tmp_path):
    """In a process of its own, since a failure would end this one."""
    program = f"""
        import random, shutil, sys
        from pathlib import Path
        from gondwana.errors import GondwanaError
        from gondwana.io.dataset import Dataset
        from gondwana.io.checksums import verify
        from support.damage import damage, same
        def read(path):
            with Dataset(path) as data:
                return [data.read(name, -1) for name in "UV"]
        source, target = Path({str(pristine)!r}, "closed.bp"), Path({str(tmp_path)!r}, "a.bp")
        for number in range(50):
            rng = random.Random(number)
            shutil.copytree(source, target)
            what = damage(rng, target)
            outcome = []
            for look in (read, verify):
                try:
                    look(target)
                    outcome.append("read")
                except GondwanaError as error:
                    outcome.append("refused")
                    assert str(error).count(str(target)) and len(str(error).splitlines()) == 1, error
            print(number, what, *outcome, same(source, target))
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink()
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 50
    wrong = [line for line in lines if line[-1] == "False" and line[-2] != "refused"]
    assert not wrong
    assert {line[-2] for line in lines} == {"read", "refused"}


@pytest.mark.parametrize("name", ["foreign-closed", "foreign-open"])
@pytest.mark.parametrize(
    ("file", "harm"),
    [("data.0", "cut"), ("md.0", "cut"), ("mmd.0", "cut"), ("md.idx", "cut"), ("mmd.0", "middle")],
)
def test_damage_to_what_nobody_vouches_for_is_found(pristine, tmp_path, monkeypatch, name, file, harm):
    monkeypatch.setattr(other_process, "_PATIENCE_S", 8.0)
    path = shutil.copytree(pristine / f"{name}.bp", tmp_path / "a.bp")
    victim = path / file
    size = victim.stat().st_size
    if harm == "cut":
        os.truncate(victim, size - 40)
    else:
        content = bytearray(victim.read_bytes())
        content[size // 2 : size // 2 + 64] = bytes(64)
        victim.write_bytes(content)
    if file == "md.idx":  # what is left is a step less
        assert Dataset(path).steps.tolist() == [0, 10]
        return
    with pytest.raises(DatasetError, match=r"a\.bp(:| is damaged:) .") as found, Dataset(path) as data:
        data.read("V", -1)
    assert "\n" not in str(found.value)


def test_a_flipped_bit_is_found_by_verification(pristine, tmp_path):
    path = shutil.copytree(pristine / "closed.bp", tmp_path / "a.bp")
    assert verify(path) == f"{path}: verified, 3 steps with 9.9 KiB of data"
    content = bytearray((path / "data.0").read_bytes())
    content[-10] ^= 8
    (path / "data.0").write_bytes(content)
    with pytest.raises(DatasetError, match=r"in its step 2 data\.0 differs from its checksum in bytes \d+ to \d+"):
        verify(path)
    with pytest.raises(UsageError, match=r"has no checksums .*not written by this library"):
        verify(pristine / "foreign-closed.bp")


def test_checksums_of_earlier_versions_are_verified(pristine, tmp_path):
    path = shutil.copytree(pristine / "closed.bp", tmp_path / "a.bp")
    data, lines = bytearray((path / "data.0").read_bytes()), []
    for line in (path / checksums.NAME).read_bytes().splitlines():
        content = json.loads(line.split(b" ", 1)[1])
        if "pieces" in content:
            content["pieces"] = [[name, a, b, zlib.crc32(data[a:b])] for name, a, b, *_ in content["pieces"]]
        text = json.dumps(content).encode()
        lines.append(b"%08x %b\n" % (zlib.crc32(text), text))
    (path / checksums.NAME).write_bytes(b"".join(lines))
    assert "verified, 3 steps" in verify(path)
    write(path, keep=3, steps=1).close()
    assert "verified, 4 steps" in verify(path)
    data[-10] ^= 8
    (path / "data.0").write_bytes(data + (path / "data.0").read_bytes()[len(data) :])
    with pytest.raises(DatasetError, match=r"in its step 2 data\.0 differs from its checksum"):
        verify(path)


def test_a_flipped_bit_of_a_large_step_is_found(tmp_path):
    """Its checksum is computed by machine code, from the file as it is written and as it is read."""
    path, cells = tmp_path / "a.bp", np.random.default_rng(0).random(80_000)
    out = BPWriter(path)
    for _ in range(2):
        out.begin_step()
        out.put("U", cells, (0,), cells.shape)
        out.end_step()
    out.close()
    assert "verified, 2 steps" in verify(path)
    with (path / "data.0").open("r+b") as opened:
        opened.seek(400_001)
        byte = opened.read(1)[0]
        opened.seek(400_001)
        opened.write(bytes([byte ^ 16]))
    with pytest.raises(DatasetError, match=r"in its step 0 data\.0 differs from its checksum in bytes \d+ to \d+$"):
        verify(path)


def test_checksums_follow_a_dataset_that_is_continued(tmp_path):
    path = tmp_path / "a.bp"
    write(path).close()
    write(path, keep=2, steps=2).close()
    assert "verified, 4 steps" in verify(path)
    assert checksums.vouches(path, bp5.check(path).steps)
    write(path, keep=4, steps=1).close()  # nothing is cut off
    assert "verified, 5 steps" in verify(path)
    write(path, steps=1).close()
    assert "verified, 1 steps" in verify(path)


def test_checksums_that_are_damaged_do_not_vouch(pristine, tmp_path):
    path = shutil.copytree(pristine / "closed.bp", tmp_path / "a.bp")
    content = (path / checksums.NAME).read_bytes()
    deep = b"[" * 100_000
    for text in (b"", content[:-9], content.replace(b'"step":1', b'"step":7'), b"00000000 {}\n", deep + b"\n"):
        (path / checksums.NAME).write_bytes(text)
        assert Dataset(path).steps.tolist() == [0, 10, 20]
        with pytest.raises(GondwanaError, match="checksums"):
            verify(path)


def test_an_append_begins_where_the_last_complete_step_ends(tmp_path):
    """A writer that is killed between its metadata and their index leaves metadata of no step."""
    path = tmp_path / "a.bp"
    write(path).close()
    with (path / "md.0").open("ab") as opened:
        opened.write(bytes(1000))
    with (path / "md.idx").open("ab") as opened:
        opened.write(b"s" + b"\x40" + bytes(20))
    write(path, keep=STEPS, steps=1).close()
    (path / checksums.NAME).unlink()
    with Dataset(path) as data:
        assert data.steps.tolist() == [0, 10, 20, 0]
        assert np.array_equal(data.read("U", 3), data.read("U", 0))


def test_random_damage_is_the_same_for_the_same_seed(pristine, tmp_path):
    whats = set()
    for attempt in range(2):
        path = shutil.copytree(pristine / "closed.bp", tmp_path / f"{attempt}.bp")
        whats.add(
            json.dumps([damage.damage(random.Random(f"{number}"), path) for number in range(3)]).replace(
                f"{attempt}.bp", "a.bp"
            )
        )
    assert len(whats) == 1
