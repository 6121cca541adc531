"""Slices, histograms and pictures of a dataset, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from gondwana.cli.plot import places_of
from gondwana.errors import UsageError
from gondwana.io.adios import BPWriter
from gondwana.io.analysis import pictures
from gondwana.io.analysis.pdf import histogram, joint_histogram, limits_of, write_pdfs
from gondwana.io.analysis.pictures import fields_of, plane_of
from gondwana.io.dataset import Dataset

pytest.importorskip("adios2")
pytest.importorskip("matplotlib")

random = np.random.default_rng(3)
U = random.random((4, 5, 6, 7))  # step, z, y, x
V = random.normal(size=(4, 5, 6, 7)).astype(np.float32)
FLAT = np.full((5, 6, 7), 0.25)
BAD = np.where(np.arange(210).reshape(5, 6, 7) == 100, np.nan, 1.0)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("analysis") / "gs.bp"
    out = BPWriter(path)
    for step in range(4):
        out.begin_step()
        for name, cells in {"U": U[step], "V": V[step], "flat": FLAT, "bad": BAD, "line": np.arange(9.0)}.items():
            out.put(name, cells, (0,) * cells.ndim, cells.shape)
        out.put_scalar("step", 100 * (step + 1), np.int32)
        out.end_step()
    out.close()
    return path


@pytest.fixture
def data(path):
    with Dataset(path) as data:
        yield data


def test_planes_cut_where_they_say(data):
    assert np.array_equal(plane_of(data, "U", 1).cells, U[1, 2])
    assert np.array_equal(plane_of(data, "U", -1, "xz", 4).cells, U[3, :, 4, :])
    plane = plane_of(data, "U", 0, "yz", 6)
    assert np.array_equal(plane.cells, U[0, :, :, 6])
    assert (plane.axes, plane.across, plane.step) == (("y", "z"), "x = 6", 100)
    assert fields_of(data) == ["U", "V", "bad", "flat"]


def test_planes_of_arrays_in_the_order_of_c(tmp_path):
    out = BPWriter(tmp_path / "c.bp")
    out.attribute("U/dims", ["x", "y", "z"])
    out.begin_step()
    out.put("U", U[0], (0, 0, 0), U[0].shape)
    out.end_step()
    out.close()
    with Dataset(tmp_path / "c.bp") as data:
        assert np.array_equal(plane_of(data, "U", 0, "xy", 1).cells, U[0, :, :, 1].T)


def test_planes_that_are_not_there(data):
    with pytest.raises(UsageError, match="'line' has the axes line_0: it has no xy plane"):
        plane_of(data, "line", 0)
    with pytest.raises(UsageError, match="z = 5 is outside of 'U'; legal is 0 to 4"):
        plane_of(data, "U", 0, "xy", 5)
    with pytest.raises(UsageError, match="legal are xy, xz, yz"):
        plane_of(data, "U", 0, "zz")


@pytest.mark.parametrize("name", ["U", "V"])
@pytest.mark.parametrize("bins", [1, 7, 100])
def test_histograms_are_those_of_numpy(data, name, bins):
    cells = {"U": U, "V": V}[name][2]
    limits = limits_of(data, name, 2)
    assert limits == (cells.min(), cells.max())
    found = histogram(data, name, 2, bins=bins)
    for index, values in enumerate(cells):
        assert np.array_equal(found.slices[index], np.histogram(values, bins, limits)[0])
    assert np.array_equal(found.whole, np.histogram(cells, bins)[0])
    assert np.array_equal(found.edges, np.histogram(cells, bins, limits)[1])
    assert (found.slices.sum(axis=1) == 6 * 7).all()


def test_fixed_edges_leave_out_what_is_outside(data):
    found = histogram(data, "U", 0, bins=4, limits=(0.25, 0.75))
    assert np.array_equal(found.whole, np.histogram(U[0], 4, (0.25, 0.75))[0])


def test_a_constant_field_falls_into_the_middle_bin(data):
    found = histogram(data, "flat", 0, bins=10)
    assert found.whole.tolist() == [0] * 5 + [FLAT.size] + [0] * 4


def test_the_joint_histogram_is_that_of_numpy(data):
    found = joint_histogram(data, ("U", "V"), 1, bins=9)
    ranges = [(cells.min(), cells.max()) for cells in (U[1], V[1])]
    assert np.array_equal(found, np.histogram2d(U[1].ravel(), V[1].ravel(), 9, ranges)[0])
    assert np.array_equal(found.sum(axis=1), histogram(data, "U", 1, bins=9).whole)


def test_what_has_no_histogram(data):
    with pytest.raises(UsageError, match="'bad' has values that are not finite in step 100"):
        histogram(data, "bad", 0)
    with pytest.raises(UsageError, match="'step' is one number a step"):
        histogram(data, "step", 0)
    with pytest.raises(UsageError, match="different shapes"):
        joint_histogram(data, ("U", "line"), 0)
    with pytest.raises(UsageError, match="legal is one or more"):
        histogram(data, "U", 0, bins=0)


def test_the_dataset_of_histograms(path, data, tmp_path):
    for _ in range(2):  # the second replaces the first
        write_pdfs(path, tmp_path / "pdf.bp", ["U", "V"], [0, 3], bins=20)
    low, high = min(U[0].min(), U[3].min()), max(U[0].max(), U[3].max())
    with Dataset(tmp_path / "pdf.bp") as pdfs:
        assert pdfs.steps.tolist() == [100, 400]
        assert pdfs.dims("U/pdf") == ("z", "U_bin")
        assert np.array_equal(pdfs.read("U/pdf", 1)[2], np.histogram(U[3, 2], 20, (low, high))[0])
        assert np.allclose(pdfs.read("U/bins", 0), low + (high - low) / 20 * np.arange(20))
        assert pdfs.read("U-V/joint", 0).sum() == U[0].size
    assert [entry.name for entry in tmp_path.iterdir()] == ["pdf.bp"]


def test_pictures_are_complete_files(path, data, tmp_path):
    rows = [[plane_of(data, name, place) for place in (0, 2, 3)] for name in ("U", "V")]
    write_pdfs(path, tmp_path / "pdf.bp", ["U", "V"], [0, 3], bins=20)
    with Dataset(tmp_path / "pdf.bp") as pdfs:
        drawn = [
            pictures.heat_maps([row[0] for row in rows], tmp_path / "one.png"),
            pictures.montage(rows, tmp_path / "all.png"),
            pictures.histogram_curves(pdfs, "U", tmp_path / "pdf.png"),
            pictures.joint_map(pdfs, ("U", "V"), tmp_path / "joint.png"),
        ]
    for picture in drawn:
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert not list(tmp_path.glob(".*"))


def test_choosing_steps(data):
    assert places_of(data, "all") == places_of(data, "some") == [0, 1, 2, 3]
    assert places_of(data, "last, first,200") == [0, 1, 3]
    for chosen in ("150", "-1", "u", "1e2", "²"):
        with pytest.raises(UsageError, match=rf"--steps {chosen}: .* it has 100, 200, 300, 400, and first"):
            places_of(data, chosen)
    with pytest.raises(UsageError, match="--steps is empty"):
        places_of(data, " , ")
