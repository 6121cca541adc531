"""One rank writes steps: in the background, again and again into the same buffers, and when things go wrong."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.io import adios, checkpoint, paths, staging
from gondwana.io.checksums import verify
from gondwana.io.dataset import Dataset
from gondwana.io.paths import DatasetError
from gondwana.io.provenance import fides, provenance, vtk_image
from gondwana.io.writer import StepWriter, steps_to_keep
from gondwana.teams import world
from support.datasets import three_steps
from support.divided_array import DividedArray, regular

pytest.importorskip("adios2")

SHAPE = (5, 4, 3)
TESTS = Path(__file__).parents[4] / "tests"


def whole(shape=SHAPE, **options):
    return DividedArray(shape, regular(shape, (1,) * len(shape)), **options)


def numbered(step, shape=SHAPE):
    return np.arange(float(np.prod(shape))).reshape(shape) + 1000 * step


def write(path, steps, **options):
    u = whole(order="F")
    with StepWriter(path, {"U": u}, **options) as out:
        for step in steps:
            out.write(step, {"U": u.set(numbered(step))})


def test_axes_of_both_orders(tmp_path):
    f, c = whole(order="F", base=7), whole(order="C", ghost=2)
    values = numbered(1)
    with StepWriter(tmp_path / "a.bp", {"f": f, "c": c}) as out:
        out.write(1, {"f": f.set(values), "c": c.set(values)}, {"time": 0.5})
    with Dataset(tmp_path / "a.bp") as data:
        assert (data.variables["f"].shape, data.dims("f")) == ((3, 4, 5), ("z", "y", "x"))
        assert (data.variables["c"].shape, data.dims("c")) == ((5, 4, 3), ("x", "y", "z"))
        assert np.array_equal(data.read("f", 0).T, values)
        assert np.array_equal(data.read("c", 0), values)
        assert (data.steps.tolist(), data.steps.dtype, data.read("time", -1)) == ([1], np.int32, 0.5)
        assert data.attributes["gondwana_io"].startswith("bp-node")


def test_buffers_are_not_reused_before_they_are_written(tmp_path):
    """Large steps in quick succession, each overwritten at once: the writer is always behind."""
    shape = (64, 64, 64)
    u = whole(shape)
    with StepWriter(tmp_path / "a.bp", {"U": u}) as out:
        for step in range(25):
            u.local.cells[...] = step
            out.write(step, {"U": u})
            u.local.cells[...] = -1
    with Dataset(tmp_path / "a.bp") as data:
        extremes = [(cells.min(), cells.max()) for cells in data.read_steps("U", 0, 25)]
    assert extremes == [(step, step) for step in range(25)]


def test_a_growing_dataset_can_be_followed(tmp_path):
    u = whole()
    with StepWriter(tmp_path / "a.bp", {"U": u}) as out:
        out.write(1, {"U": u.set(numbered(1))})
        out.flush()
        with Dataset(tmp_path / "a.bp") as data:
            assert data.steps.tolist() == [1]
            out.write(2, {"U": u.set(numbered(2))})
            out.flush()
            assert data.steps.tolist() == [1]
            assert data.refresh() == 2
            assert np.array_equal(data.read("U", -1), numbered(2))


@pytest.mark.parametrize(
    ("last", "kept"), [(0, []), (10, [10]), (25, [10, 20]), (30, [10, 20, 30]), (99, [10, 20, 30])]
)
def test_appending_cuts_off_what_comes_after_the_checkpoint(tmp_path, last, kept):
    write(tmp_path / "a.bp", [10, 20, 30])
    assert steps_to_keep(tmp_path / "a.bp", last) == (len(kept) or None)
    write(tmp_path / "a.bp", [last + 5, last + 10], append_after=last, attributes={"F": 0.04})
    with Dataset(tmp_path / "a.bp") as data:
        assert data.steps.tolist() == [*kept, last + 5, last + 10]
        for place, step in enumerate(data.steps):
            assert np.array_equal(data.read("U", place).T, numbered(step))
        assert data.attributes["F"] == 0.04


def test_appending_to_nothing_starts_a_dataset(tmp_path):
    write(tmp_path / "a.bp", [5], append_after=4)
    assert Dataset(tmp_path / "a.bp").steps.tolist() == [5]


def test_a_dataset_with_a_pipe_among_its_files_is_not_appended_to(tmp_path):
    write(tmp_path / "a.bp", [5])
    (tmp_path / "a.bp" / "profiling.json").unlink()
    os.mkfifo(tmp_path / "a.bp" / "profiling.json")
    with pytest.raises(DatasetError, match=r"profiling\.json is not a file"):
        write(tmp_path / "a.bp", [9], append_after=5)


def test_an_older_dataset_is_replaced_as_a_whole(tmp_path):
    write(tmp_path / "a.bp", [1, 2, 3])
    (tmp_path / "a.bp" / "data.1").write_text("of a run with more writers")
    write(tmp_path / "a.bp", [9])
    assert Dataset(tmp_path / "a.bp").steps.tolist() == [9]
    assert not (tmp_path / "a.bp" / "data.1").exists()


def test_a_dataset_that_is_finished_while_this_one_waits_is_not_replaced(tmp_path, monkeypatch):
    """When the writer begins there is nothing yet; the other program has the lock, and writes a dataset meanwhile."""
    path = tmp_path / "a.bp"
    held = paths.claim(path, empty=True)

    def finish(seconds):
        nonlocal held
        if held is not None:
            adios.BPWriter(path, lock=held).close()
            held = None

    monkeypatch.setattr(paths.time, "sleep", finish)
    with pytest.raises(UsageError, match=r"a\.bp' exists: remove it or choose another name"):
        StepWriter(path, {"U": whole()}, replace=False)
    assert held is None
    assert paths.is_dataset(path)


def test_misuse_is_told(tmp_path):
    u, other = whole(), whole((5, 4, 4))
    with pytest.raises(UsageError, match="at least one array"):
        StepWriter(tmp_path / "a.bp", {})
    with pytest.raises(UsageError, match="'half' has elements of type float16"):
        StepWriter(tmp_path / "a.bp", {"half": whole(dtype=np.float16)})
    with pytest.raises(UsageError, match="rename the array"):
        StepWriter(tmp_path / "a.bp", {"step": u})
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="a file is there"):
        StepWriter(tmp_path / "file", {"U": u})
    assert not (tmp_path / "a.bp").exists()
    with StepWriter(tmp_path / "a.bp", {"U": u}) as out:
        out.write(5, {"U": u})
        with pytest.raises(UsageError, match="steps must increase"):
            out.write(5, {"U": u})
        with pytest.raises(UsageError, match=r"started with U \(5, 4, 3\) float64"):
            out.write(6, {"U": other})
        with pytest.raises(UsageError, match="write those"):
            out.write(6, {"U": u, "V": u})


def run(program, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


WRITER = """
import os, resource, signal, sys
import numpy as np
from gondwana.io.writer import StepWriter
from support.divided_array import DividedArray, regular
shape = (64, 64, 64)
u = DividedArray(shape, regular(shape, (1, 1, 1)))
"""


def test_a_full_disk_is_one_clear_error_and_the_steps_before_stay(tmp_path):
    """A limit on the size of files stands in for a full disk."""
    program = f"""{WRITER}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (7 << 20, 7 << 20))
with StepWriter({str(tmp_path / "a.bp")!r}, {{"U": u}}) as out:
    for step in range(10):
        u.local.cells[...] = step
        out.write(step, {{"U": u}})
"""
    with run(program) as process:
        stderr = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "DatasetError: cannot write to" in stderr
    assert "File too large" in stderr
    with Dataset(tmp_path / "a.bp") as data:
        assert data.steps.tolist() == [0, 1, 2]
        assert (data.read("U", 2) == 2).all()


def check_three_steps(path):
    assert verify(path).startswith(f"{path}: verified, 3 steps")
    with Dataset(path) as data:
        assert data.steps.tolist() == [1, 2, 3]
        assert all(np.array_equal(data.read("U", step - 1), numbered(step)) for step in (1, 2, 3))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, None])
def test_the_steps_before_an_error_are_complete(tmp_path, error):
    """Whatever the error is; without one the writer is only forgotten."""
    u = whole()
    out, writer = three_steps(tmp_path / "a.bp", u, numbered)
    later = threading.Timer(1.0, os.kill, (writer, signal.SIGCONT))
    later.start()
    if error is None:
        del out
        gc.collect()
    else:
        with pytest.raises(error, match="elsewhere"), out:
            raise error("elsewhere")
    later.join()
    check_three_steps(tmp_path / "a.bp")


@pytest.mark.parametrize("end", ["killed", "over"])
def test_the_steps_of_a_program_that_has_not_closed_them_are_complete(tmp_path, end):
    path = tmp_path / "a.bp"
    program = f"""{WRITER}
import numpy as np
from support.datasets import three_steps
cells = np.arange(60.0).reshape(5, 4, 3)
u = DividedArray((5, 4, 3), regular((5, 4, 3), (1, 1, 1)))
out, writer = three_steps({str(path)!r}, u, lambda step: cells + 1000 * step)
print(writer, flush=True)
if {end == "killed"}:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with run(program) as process:
        writer = int(process.stdout.readline())
        if end == "killed":
            process.wait(60)  # only then does its writer go on
        os.kill(writer, signal.SIGCONT)
        assert "Error" not in process.communicate(timeout=60)[1]
    # It had the pipes of the output, too: it has ended.
    check_three_steps(path)


def test_an_error_of_the_writer_is_told_beside_the_other_one(tmp_path):
    u = whole()
    out, writer = three_steps(tmp_path / "a.bp", u, numbered)
    os.kill(writer, signal.SIGKILL)
    with pytest.raises(ValueError, match="elsewhere") as found, out:
        raise ValueError("elsewhere")
    assert "ended with signal SIGKILL" in found.value.__notes__[0]
    out, writer = three_steps(tmp_path / "b.bp", u, numbered)
    os.kill(writer, signal.SIGKILL)
    for again in (out.flush, out.flush, lambda: out.write(4, {"U": u}), out.close):
        with pytest.raises(DatasetError, match="ended with signal SIGKILL"):
            again()


def test_a_step_that_was_interrupted_is_not_part_of_the_dataset(tmp_path, monkeypatch):
    u = whole()
    out = StepWriter(tmp_path / "a.bp", {"U": u}, background=False)
    for step in (1, 2):
        out.write(step, {"U": u.set(numbered(step))})
    monkeypatch.setattr(adios.BPWriter, "put_scalar", lambda *_: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in the background
    try:
        with pytest.raises(KeyboardInterrupt), out:
            out.write(3, {"U": u})
    finally:
        signal.signal(signal.SIGINT, before)
    with Dataset(tmp_path / "a.bp") as data:
        assert data.steps.tolist() == [1, 2]
    assert "verified, 2 steps" in verify(tmp_path / "a.bp")


@pytest.mark.parametrize(
    ("step", "scalars", "message"),
    [
        (-1, {}, r"step = -1: give a whole number from 0 to 2147483647"),
        (2**31, {}, r"step = 2147483648: give a whole number"),
        (1.5, {}, r"step = 1\.5: give a whole number"),
        (2, {"time": "noon"}, r"'time' has elements of type <U4; a dataset holds complex128"),
        (2, {"time": None}, r"'time' has elements of type object"),
        (2, {"time": [1.0, 2.0]}, r"the number 'time' has shape \(2,\): give one value, or a global array"),
        (2, {"time": 1}, r"the number 'time' is int64 in step 2 and was float64 before: convert it, .*float\(time\)"),
        (2, {"U": 1}, r"a number named 'U': that is the name of something else; rename the number"),
        (2, {"step": 1}, r"a number named 'step'"),
    ],
)
def test_numbers_that_cannot_be_stored_are_refused_before_the_step_begins(tmp_path, step, scalars, message):
    u = whole()
    with StepWriter(tmp_path / "a.bp", {"U": u}) as out:
        out.write(1, {"U": u}, {"time": 0.5})
        with pytest.raises(UsageError, match=message):
            out.write(step, {"U": u}, scalars)
        out.write(3, {"U": u}, {"time": np.float64(1.5)})
    with Dataset(tmp_path / "a.bp") as data:
        assert (data.steps.tolist(), data.read_steps("time", 0, 2).tolist()) == ([1, 3], [0.5, 1.5])


def test_what_is_no_global_array_is_named(tmp_path):
    box = gw.RectDomain((0, 0), (2, 3))
    numpy_array = (
        r"'U' is a numpy\.ndarray, memory of one rank: a dataset stores global arrays; make one with gw\.zeros"
    )
    for arrays, message in (
        ({"U": np.zeros(3)}, numpy_array),
        ({"U": gw.zeros(box).local}, r"'U' is a gondwana\.Array, memory of one rank"),
        ({"U": 1.5}, r"'U' is a builtins\.float"),
        (gw.zeros(box), r"arrays = GlobalArray: give the arrays by name, as in \{'U': U\}"),
        ({1: gw.zeros(box)}, r"an array is named 1: give a text"),
    ):
        with pytest.raises(UsageError, match=message):
            StepWriter(tmp_path / "a.bp", arrays)
        if message is not numpy_array:  # for checkpoints rows of this rank
            with pytest.raises(UsageError, match=message):
                checkpoint.save(tmp_path / "ckpt.bp", arrays, step=1)
            with pytest.raises(UsageError, match=message):
                checkpoint.load(tmp_path / "ckpt.bp", arrays)
        with StepWriter(tmp_path / "b.bp", {"U": whole()}) as out, pytest.raises(UsageError, match=message):
            out.write(1, arrays)
    assert not (tmp_path / "a.bp").exists()


def test_a_killed_run_leaves_its_steps_and_no_process(tmp_path):
    program = f"""{WRITER}
with StepWriter({str(tmp_path / "a.bp")!r}, {{"U": u}}) as out:
    for step in range(1, 10000):
        u.local.cells[...] = step
        out.write(step, {{"U": u}})
        print(step, flush=True)
"""
    with run(program) as process:
        while int(process.stdout.readline()) < 8:
            pass
        process.kill()
        process.communicate()
    # The writing process finishes its step and goes; a restart waits for it.
    write(tmp_path / "b.bp", [1])
    deadline = time.monotonic() + 20
    while True:
        try:
            adios.BPWriter(tmp_path / "a.bp", keep=5).close()
            break
        except UsageError:
            assert time.monotonic() < deadline
    with Dataset(tmp_path / "a.bp") as data:
        assert data.steps.tolist() == [1, 2, 3, 4, 5]
        assert all((data.read("U", place) == step).all() for place, step in enumerate(data.steps))


def test_a_writing_process_that_dies_is_reported(tmp_path):
    u = whole()
    out = StepWriter(tmp_path / "a.bp", {"U": u})
    out.write(1, {"U": u})
    out.flush()
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    for child in children:
        if "gondwana.io.background" in Path(f"/proc/{child}/cmdline").read_text():
            os.kill(int(child), signal.SIGKILL)
    out.write(2, {"U": u})
    with pytest.raises(DatasetError, match="ended with signal SIGKILL; the steps before are readable"):
        out.close()
    assert Dataset(tmp_path / "a.bp").steps.tolist() == [1]


def test_an_adios2_with_mpi_is_used_directly(tmp_path, monkeypatch):
    """The wheel has no MPI: this checks who writes what, with a stand-in for the engine."""
    calls = []
    engine = SimpleNamespace(
        attribute=lambda name, value: calls.append((name, value)),
        begin_step=lambda: None,
        put=lambda name, cells, start, shape: calls.append((name, cells.shape, start, shape)),
        put_scalar=lambda name, value, dtype=None: calls.append((name, value)),
        end_step=lambda: None,
        close=lambda: None,
    )
    monkeypatch.setattr("gondwana.io.writer.BPWriter", lambda path, **options: engine)
    monkeypatch.setattr(adios, "built_with_mpi", lambda: True)
    blocks = regular((6, 5), (2, 1))
    u = DividedArray((6, 5), blocks, rank=1, order="F")
    team = SimpleNamespace(rank=1, size=2, comm=None, bcast=lambda value: value)
    team.expect_same = lambda what, error, **given: None
    with StepWriter(tmp_path / "a.bp", {"U": u}, team=team) as out:
        out.write(1, {"U": u})
    assert ("U", (5, 3), (0, 3), (5, 6)) in calls
    assert dict(call for call in calls if len(call) == 2)["gondwana_io"].startswith("adios2-mpi: each of 2 ranks")


def test_provenance_for_people_and_viewers(tmp_path):
    about = provenance(world, {"F": 0.02, "precision": "Float64"}, {"L": 8, "output": "a.bp"}, grid=(1, 1, 1))
    about |= fides(["U"]) | vtk_image(["U"], SHAPE)
    write(tmp_path / "a.bp", [1], attributes=about)
    found = Dataset(tmp_path / "a.bp").attributes
    assert (found["F"], found["F"].dtype, found["precision"]) == (0.02, np.float64, "Float64")
    assert found["gondwana_settings"] == '{"L": 8, "output": "a.bp"}'
    assert {"gondwana_host", "gondwana_start", "gondwana_version", "gondwana_python", "gondwana_grid"} <= set(found)
    assert found["Fides_Variable_List"] == ["U"]
    assert found["Fides_Spacing"].tolist() == [1, 1, 1]
    for part in ('WholeExtent="0 5 0 4 0 3"', 'Spacing="1 1 1"', ">step<", 'Scalars="U"'):
        assert part in found["vtk.xml"]


def test_the_loss_of_a_rank_is_reported_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is gone before the launcher, or another rank, has noticed its end, which ends this rank."""
    pauses: list[float] = []
    monkeypatch.setattr(staging.time, "sleep", pauses.append)
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(DatasetError, match="a rank ended before its output was written"):
        staging.open_bytes(f"/proc/{process.pid}/fd/3")
    assert sum(pauses) > 2.0
