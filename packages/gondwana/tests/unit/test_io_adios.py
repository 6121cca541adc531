"""None of the traps of the plain adios2 wheel reaches a user."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from gondwana.errors import UsageError
from gondwana.io import adios, checksums, paths
from gondwana.io.adios import BPWriter
from gondwana.io.dataset import Dataset

pytest.importorskip("adios2")


def write(path, **arrays):
    out = BPWriter(path)
    out.begin_step()
    for name, array in arrays.items():
        out.put(name, array, [0] * array.ndim, array.shape)
    out.end_step()
    out.close()
    return Dataset(path)


def test_arrays_that_are_not_contiguous_arrive_unchanged(tmp_path):
    whole = np.arange(6 * 7 * 8.0).reshape(6, 7, 8)
    views = {
        "ghosts_off": whole[1:-1, 1:-1, 1:-1],
        "strided": whole[::2, :, ::3],
        "turned": whole.T,
        "backwards": whole[::-1, :, ::-1],
        "fortran": np.asfortranarray(whole),
        "one_column": whole[:, 3, 2],
    }
    data = write(tmp_path / "a.bp", **views)
    for name, view in views.items():
        assert np.array_equal(data.read(name, 0), view), name


def test_small_blocks_and_those_that_are_written_without_a_copy_arrive_with_their_extremes(tmp_path):
    limit = adios._UNCOPIED // 8
    steps = [
        {str(n): random.integers(1000, size=n).astype(float) for n in (1, limit - 1, limit, limit + 1, 8 * limit + 3)}
        for random in map(np.random.default_rng, range(3))
    ]
    out = BPWriter(tmp_path / "a.bp")
    for arrays in steps:
        out.begin_step()
        for name, cells in arrays.items():
            out.put(name, cells, (0,), cells.shape)
        out.end_step()
    out.close()
    assert checksums.verify(tmp_path / "a.bp").startswith(f"{tmp_path / 'a.bp'}: verified, 3 steps")
    data = Dataset(tmp_path / "a.bp")
    for step, arrays in enumerate(steps):
        for name, cells in arrays.items():
            assert np.array_equal(data.read(name, step), cells)
            (block,) = data.blocks(name, step)
            assert (block.minimum, block.maximum) == (cells.min(), cells.max())


@pytest.mark.parametrize("dtype", sorted({str(t) for t in adios.TYPE_OF_NAME.values()}))
def test_every_type_survives(tmp_path, dtype):
    cells = (np.arange(24).reshape(2, 3, 4) * (1 + 2j if dtype.startswith("complex") else 3)).astype(dtype)
    data = write(tmp_path / "a.bp", cells=cells)
    assert data.variables["cells"].dtype == dtype
    assert data.read("cells", 0).tobytes() == cells.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bool", "longdouble", "U3", "M8[s]", "O"])
def test_types_that_cannot_be_stored_are_refused(tmp_path, dtype):
    out = BPWriter(tmp_path / "a.bp")
    out.begin_step()
    with pytest.raises(UsageError, match=r"'cells' has elements of type .*float32.*convert it"):
        out.put("cells", np.zeros((2, 2), dtype), (0, 0), (2, 2))
    with pytest.raises(UsageError, match="bool"):
        out.put_scalar("flag", True)
    out.end_step()
    out.close()


def test_attributes_of_every_kind(tmp_path):
    given = {
        "text": 'a "quoted"\nline',
        "empty": "",
        "list": ["U", "V"],
        "one": ["U"],
        "number": 0.02,
        "whole": 7,
        "numpy": np.float32(0.5),
        "truth": True,
        "numbers": [0.1, 0.2, 0.3],
        "view": np.arange(6)[::2],
    }
    out = BPWriter(tmp_path / "a.bp")
    for name, value in given.items():
        out.attribute(name, value)
    for value in ([], None, {"a": 1}, [["U"]], np.float16(1)):
        with pytest.raises(UsageError, match="must be text, numbers"):
            out.attribute("bad", value)
    out.begin_step()
    out.put_scalar("step", 1, np.int32)
    out.end_step()
    out.close()
    found = Dataset(tmp_path / "a.bp").attributes
    assert {name: value.tolist() if hasattr(value, "tolist") else value for name, value in found.items()} == {
        **given,
        "truth": 1,
        "view": [0, 2, 4],
    }


def test_an_operator_that_is_not_built_in_is_refused_before_it_ends_the_process(tmp_path):
    for name in ("zfp", "no-such-thing"):
        if adios.has_operator(name):
            continue
        with pytest.raises(UsageError, match=f"{name}.* is not in this adios2 .*; legal are"):
            BPWriter(tmp_path / "a.bp", operator=name)
    assert not (tmp_path / "a.bp").exists()


def test_two_writers_of_one_name_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "PATIENCE_S", 0.1)
    out = BPWriter(tmp_path / "a.bp")
    with pytest.raises(UsageError, match=r"another program is writing .*a\.bp"):
        BPWriter(tmp_path / "a.bp")
    out.close()
    BPWriter(tmp_path / "a.bp").close()


def test_a_directory_that_is_no_dataset_is_never_emptied(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UsageError, match="a directory that is no dataset is there"):
        BPWriter(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_a_dataset_without_steps_is_readable_and_empty(tmp_path):
    out = BPWriter(tmp_path / "a.bp")  # closing a reader of this ends a process that is not careful
    data = Dataset(tmp_path / "a.bp")
    assert (dict(data.variables), len(data.steps)) == ({}, 0)
    data.close()
    out.begin_step()
    out.put_scalar("step", 5, np.int32)
    out.end_step()
    assert data.refresh() == 1
    out.close()


def test_a_dataset_without_statistics_says_so(tmp_path):
    adios2 = adios.load()
    io = adios2.Adios().declare_io("plain")
    io.set_engine("BP5")
    io.set_parameter("StatsLevel", "0")
    cells = np.ones((2, 3))
    variable = io.define_variable("a", cells, [2, 3], [0, 0], [2, 3])
    engine = io.open(str(tmp_path / "a.bp"), adios2.bindings.Mode.Write)
    engine.begin_step()
    engine.put(variable, cells)
    engine.end_step()
    engine.close()
    with Dataset(tmp_path / "a.bp") as data:
        assert data.variables["a"].minimum is None
        assert data.blocks("a", 0)[0].maximum is None
    with write(tmp_path / "b.bp", a=np.zeros((2, 3))) as zeros:
        assert zeros.variables["a"].maximum == 0


def test_reading_and_writing_leave_nothing_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    path = tmp_path / f"unlike-others-{os.getpid()}.bp"
    write(path, a=np.ones(3)).close()
    out = BPWriter(path, keep=1)
    out.begin_step()
    out.put("a", np.zeros(3), (0,), (3,))
    out.end_step()
    out.close()
    with Dataset(path) as data:
        assert data.read("a", 1).tolist() == [0, 0, 0]
        assert data.refresh() == 2
    assert not [file for file in os.listdir("/tmp") if file.startswith(path.name)]  # ADIOS2 does not ask for TMPDIR
    assert not os.listdir(tmp_path / "temporary")
    assert sorted(os.listdir(tmp_path)) == ["temporary", path.name]


def test_a_closed_dataset_holds_no_file(tmp_path):
    data = write(tmp_path / "a.bp", a=np.ones(3))
    data.read("a", 0)
    assert held(tmp_path)
    data.close()
    assert not held(tmp_path)


def held(folder):
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return [file for link in links if os.path.lexists(link) and (file := os.readlink(link)).startswith(str(folder))]


def test_without_adios2_the_command_that_installs_it_is_named():
    code = """
import sys
sys.modules["adios2"] = None
from gondwana.io.adios import BPWriter
BPWriter("a.bp")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=os.sep)
    assert "UsageError: datasets need adios2" in done.stderr
    assert "pip install 'gondwana[io]'" in done.stderr


def test_a_dataset_that_another_program_has_just_finished_is_not_replaced(tmp_path, monkeypatch):
    """Who waits for the lock looks again before it removes anything."""
    path = tmp_path / "a.bp"
    held = paths.claim(path, empty=True)

    def finish(seconds):
        nonlocal held
        if held is not None:
            (path / "md.idx").write_text("of the other program")
            os.close(held)
            held = None

    monkeypatch.setattr(paths.time, "sleep", finish)
    with pytest.raises(UsageError, match=r"a\.bp' exists: remove it or choose another name"):
        paths.claim(path, empty=True, replace=False)
    assert (path / "md.idx").read_text() == "of the other program"
    os.close(paths.claim(path, empty=True))
    assert not os.listdir(path)


def test_a_lock_is_that_of_the_name_not_of_what_had_it_before(tmp_path, monkeypatch):
    path = tmp_path / "a.bp"
    held = paths.claim(path, empty=True)

    def rename(seconds):
        nonlocal held
        if held is not None:
            path.rename(tmp_path / "final.bp")
            os.close(held)
            held = None

    monkeypatch.setattr(paths.time, "sleep", rename)
    mine = paths.claim(path, empty=True)
    assert os.path.samestat(os.fstat(mine), path.stat())
    os.close(mine)
