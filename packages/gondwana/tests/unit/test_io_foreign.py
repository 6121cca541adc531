"""Datasets that plain ADIOS2 has written: right values or one line, and the rest stays readable."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from gondwana.errors import GondwanaError, UsageError
from gondwana.io import bp5, checksums
from gondwana.io.adios import BPWriter
from gondwana.io.analysis.listing import listing
from gondwana.io.analysis.pdf import histogram
from gondwana.io.analysis.pictures import plane_of
from gondwana.io.dataset import Dataset
from gondwana.io.paths import DatasetError

adios2 = pytest.importorskip("adios2")
xr = pytest.importorskip("xarray")


def stream(path, engine="BP5"):
    io = adios2.Adios().declare_io("writer")
    io.set_engine(engine)
    return io, adios2.Stream(io, str(path), "w")


def write(out, name, cells, shape=None, start=None):
    cells = np.asarray(cells)
    out.write(name, cells, list(shape or cells.shape), list(start or [0] * cells.ndim), list(cells.shape))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """One dataset with all that ours do not have; also as it is before its writer closes it."""
    path = tmp_path_factory.mktemp("foreign") / "a.bp"
    io, out = stream(path)
    for step in range(4):
        out.begin_step()
        write(out, "every", np.full(3, step))
        write(out, "grown", np.arange(5 * (step + 1)) + 100 * step)
        write(out, "shrunk", np.arange(30.0).reshape(5, 6)[: 5 - step] - step)
        write(out, "gap", [1.0, 2], [6])
        write(out, "gap", [3.0, 4], [6], [4])
        write(out, "bytes", np.array([5 * step, 200], "u1"), [4], [2 * (step % 2)])
        out.write("blocks", np.arange(4) + step, [], [], [4])
        out.write("blocks", np.arange(2 + step) - 10, [], [], [2 + step])
        for kind in ("f4", "f8", "i2", "i8", "u1", "u8"):
            write(out, f"{kind}/some", np.empty(0, kind), [4], [4])
            write(out, f"{kind}/some", np.arange(1, 5).astype(kind))
            write(out, f"{kind}/none", np.empty((0, 3), kind))
        out.write("text", f"größe {step}")
        io.remove_variable("turned")
        write(out, "turned", np.arange(6).reshape([(6,), (2, 3)][step == 3]))
        if step % 2:
            write(out, "odd", np.arange(6.0).reshape(2, 3) + step)
            out.write("step", np.array(0.5 * step))
        if step == 3:
            out.write("late", np.array(7.5))
        out.end_step()
    out.write_attribute("grown/dims", ["x"])
    out.write_attribute("shrunk/dims", ["y", "x"])
    out.write_attribute("gap/dims", ["time"])
    shutil.copytree(path, path.with_name("open.bp"))
    out.close()
    return path


@pytest.fixture
def data(path):
    with Dataset(path) as opened:
        yield opened


def test_a_shape_that_changes_is_that_of_its_step(path, data):
    with adios2.FileReader(str(path)) as oracle:
        for name in "grown", "shrunk":
            for step in range(4):
                found = data.read(name, step)
                assert found.shape == data.shape_of(name, step) == data.shape_of(name, step - 4)
                assert np.array_equal(found, oracle.read(name, step_selection=[step, 1], start=[0] * found.ndim,
                                                         count=list(found.shape)).reshape(found.shape))  # fmt: skip
                assert [stored.block.count for stored in data.blocks(name, step)] == [found.shape]
    assert data.read("grown", 2).tolist() == list(range(200, 215))
    assert data.read("shrunk", 3, [1, 2], [1, 2]).tolist() == [[5, 6]]
    with pytest.raises(
        UsageError, match=r"'grown' has shape \(10,\); the box from \[12\] of shape \[-2\] is not inside"
    ):
        data.read("grown", 1, [12])
    with pytest.raises(UsageError, match=r"'grown' has shape \(5,\) and then \(10,\): read one step at a time"):
        data.read_steps("grown", 0, 2)
    for step in range(4):
        with pytest.raises(UsageError, match="'turned' changes its number of axes"):
            data.read("turned", step)


def test_cells_that_nobody_wrote_are_zeros(data):
    for _ in range(3):
        np.full(6, np.pi)  # what has this memory before
        assert data.read("gap", 3).tolist() == [1, 2, 0, 0, 3, 4]
        assert data.read_steps("gap", 0, 4, [1], [4]).tolist() == [[2, 0, 0, 3]] * 4
        assert data.read("bytes", 1).tolist() == [0, 0, 5, 200]


def test_local_blocks_are_listed_and_read_one_by_one(data):
    variable = data.variable("blocks")
    assert (variable.local, variable.shape, variable.minimum, variable.maximum) == (True, (), -10, 6)
    for step in range(4):
        assert [stored.block.count for stored in data.blocks("blocks", step)] == [(4,), (2 + step,)]
        assert data.read("blocks", step, block=0).tolist() == [step, step + 1, step + 2, step + 3]
        assert data.read("blocks", step, block=1).tolist() == list(range(-10, -8 + step))
    assert data.read("gap", 0, block=1).tolist() == [3, 4]
    with pytest.raises(UsageError, match=r"'blocks' has blocks without a global shape: read one of them with block=0"):
        data.read("blocks", 0)
    with pytest.raises(UsageError, match=r"'blocks' has no block 2 in step 1: legal are 0 to 1"):
        data.read("blocks", 1, block=2)
    with pytest.raises(UsageError, match=r"'text' has no block 0 in step 1: it is one value"):
        data.read("text", 1, block=0)
    with pytest.raises(UsageError, match=r"block=0 with start or count"):
        data.read("gap", 0, [0], block=0)


def test_a_step_is_one_of_the_dataset_not_of_the_variable(path):
    for name in "a.bp", "open.bp":
        with Dataset(path.with_name(name)) as data:
            assert (data.variable("odd").at, data.variable("late").at) == ((1, 3), (3,))
            assert [data.read("odd", step)[0, 0] for step in (1, 3, -1, -3)] == [1, 3, 3, 1]
            assert data.read("late", 3) == 7.5
            for step, missing in ((0, "odd"), (2, "odd"), (-2, "odd"), (1, "late")):
                where = "steps 1, 3" if missing == "odd" else "step 3"
                with pytest.raises(UsageError, match=rf"'{missing}' is not in step {step % 4}: it is in {where}$"):
                    data.read(missing, step)
                with pytest.raises(UsageError, match=f"'{missing}' is not in step {step % 4}"):
                    data.blocks(missing, step % 4)
            with pytest.raises(UsageError, match="'odd' is not in step 2"):
                data.read_steps("odd", 1, 3)
            # A number that is no integer, and not in every step, is not that of the steps.
            assert data.steps.tolist() == [0, 1, 2, 3]


def test_blocks_without_cells_have_no_extremes(data):
    for kind in "f4", "f8", "i2", "i8", "u8":
        some, none = data.variable(f"{kind}/some"), data.variable(f"{kind}/none")
        assert (some.minimum, some.maximum, none.minimum, none.maximum) == (1, 4, None, None)
        assert [(stored.minimum, stored.maximum) for stored in data.blocks(some.name, 1)] == [(None, None), (1, 4)]
        assert data.read(none.name, 0).shape == (0, 3)
    # ADIOS2 has the extremes of a block of bytes as characters: "5" is not 5, and 200 is no text at all.
    assert (data.variable("bytes").minimum, data.variable("bytes").maximum) == (0, 200)
    with pytest.raises(DatasetError, match=r"ADIOS2 cannot tell where the blocks of 'bytes' \(uint8_t\) are"):
        data.blocks("bytes", 0)
    assert data.variable("u1/some").minimum is None
    assert data.read("bytes", 3, block=0).tolist() == [15, 200]


def test_texts_beside_arrays(path, data):
    assert [data.read("text", step) for step in range(4)] == [f"größe {step}" for step in range(4)]
    with pytest.warns(UserWarning, match="is left out") as warned:
        opened = xr.open_dataset(path)
    with opened:
        assert opened["text"].values.tolist() == [f"größe {step}" for step in range(4)]
        assert opened["every"].values.tolist() == [[step] * 3 for step in range(4)]
        assert opened["gap"].dims == ("time", "gap_0")
        assert opened["odd"].values.tolist() == [(np.arange(6.0).reshape(2, 3) + step).tolist() for step in (1, 3)]
        assert opened["odd"].isel(time_odd=slice(None, None, -1)).values[:, 0, 0].tolist() == [3, 1]
        assert opened["odd"].isel(time_odd=1).values[0, 0] == 3
        assert opened["step_odd"].values.tolist() == [1, 3]
        assert opened["step"].values.tolist() == [0.5, 1.5]
        assert opened["bytes"].values[1].tolist() == [0, 0, 5, 200]
    reasons = {str(one.message).split("'")[1]: str(one.message).split("since ")[1] for one in warned}
    assert sorted(reasons) == ["blocks", "grown", "shrunk", "turned"]
    assert reasons["grown"] == "its shape changes from step to step; Dataset.read reads one step"


def test_the_listing_of_all_that(data):
    lines = list(listing(data, long=True, blocks=True))
    first = {line.split()[1]: line for line in lines if not line.startswith("   ")}
    assert first["grown"].endswith("4*{__} = 0 / 319")
    assert first["shrunk"].endswith("4*{__, 6} = -3 / 29")
    assert first["blocks"].endswith("4*[2]*{__} = -10 / 6")
    assert first["late"].endswith("scalar = 7.5")
    assert first["turned"].endswith("4*{...} = 0 / 5")
    assert first["f8/some"].endswith("4*{4} = 1 / 4")
    assert first["f8/none"].endswith("4*{0, 3} = N/A / N/A")
    where = lines.index(first["odd"])
    assert [line.strip() for line in lines[where + 1 : where + 5]] == [
        "step 1:", "block 0: [0:1, 0:2] = 1 / 6", "step 3:", "block 0: [0:1, 0:2] = 3 / 8",
    ]  # fmt: skip
    assert "          block 0: no cells = N/A / N/A" in lines
    assert '        step 2:  = "größe 2"' in lines


def test_planes_and_histograms_have_the_shape_of_their_step(data):
    assert plane_of(data, "shrunk", 3).cells.shape == (2, 6)
    assert histogram(data, "shrunk", 2, bins=4).slices.sum() == 18
    with pytest.raises(UsageError, match="'odd' is not in step 0"):
        histogram(data, "odd", 0)


def test_what_we_write_may_change_from_step_to_step_too(tmp_path):
    """It is read in this process, since its checksums vouch for it."""
    out = BPWriter(tmp_path / "a.bp")
    for step in range(4):
        out.begin_step()
        out.put("a", np.full(step + 1, 200, np.uint8), (0,), (step + 1,))
        if step > 1:
            out.put("b", np.full(2, step), (0,), (2,))
        out.end_step()
    out.close()
    with Dataset(tmp_path / "a.bp") as data:
        assert checksums.vouches(tmp_path / "a.bp", 4)
        assert [data.read("a", step).tolist() for step in range(4)] == [[200] * (step + 1) for step in range(4)]
        assert (data.variable("b").at, data.read("b", 2).tolist(), len(data.steps)) == ((2, 3), [2, 2], 4)
        assert "          ADIOS2 cannot tell where the blocks of 'a' (uint8_t) are" in list(listing(data, blocks=True))


@pytest.mark.parametrize("engine", ["BP3", "BP4", "HDF5"])
def test_other_formats_are_named(tmp_path, engine):
    path = tmp_path / "a.bp"
    if engine == "HDF5":
        path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(2000))
    else:
        _, out = stream(path, engine)
        out.begin_step()
        write(out, "a", np.arange(3.0))
        out.end_step()
        out.close()
    advice = r"gw\.load reads one that ends in \.h5" if engine == "HDF5" else "have it written by ADIOS2's engine BP5"
    with pytest.raises(GondwanaError, match=rf"a\.bp is an? .*{engine}.*{advice}") as found:
        Dataset(path)
    assert "damaged" not in str(found.value)
    assert len(str(found.value).splitlines()) == 1


def test_an_attribute_of_another_encoding_does_not_hide_the_others(tmp_path, path):
    copy = shutil.copytree(path, tmp_path / "a.bp")
    content = (copy / bp5.METADATA).read_bytes()
    assert content.count("größe 2".encode()) == 1
    (copy / bp5.METADATA).write_bytes(content.replace("größe 2".encode(), b"gr\xf6\xdfe 2!!"))
    with Dataset(copy) as data:
        assert data.read("text", 2) == "gr��e 2!!"
        assert data.read("text", 1) == "größe 1"
