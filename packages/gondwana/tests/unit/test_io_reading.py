"""Datasets through our reader, through xarray and as a listing."""

from __future__ import annotations

import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gondwana.errors import UsageError
from gondwana.io.adios import BPWriter
from gondwana.io.analysis.listing import listing
from gondwana.io.dataset import Dataset
from gondwana.io.paths import DatasetError

pytest.importorskip("adios2")
xr = pytest.importorskip("xarray")

STEPS = 5
U = np.random.default_rng(2).random((STEPS, 4, 6, 8))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("reading") / "gs.bp"
    out = BPWriter(path)
    out.attribute("F", 0.02)
    out.attribute("names", ["U", "n"])
    out.attribute("n/dims", ["kind"])
    for step, cells in enumerate(U):
        out.begin_step()
        out.put("U", cells[:, :2], (0, 0, 0), (4, 6, 8))
        out.put("U", cells[:, 2:], (0, 2, 0), (4, 6, 8))
        out.put("n", np.arange(3) + step, (0,), (3,))
        if step == 0:
            out.put("once", np.ones(2, np.float32), (0,), (2,))
        out.put_scalar("step", 10 * (step + 1), np.int32)
        out.end_step()
    out.close()
    return path


def test_boxes_of_steps(path):
    with Dataset(path) as data:
        assert data.steps.tolist() == [10, 20, 30, 40, 50]
        assert np.array_equal(data.read("U", -1, [1, 2, 3], [2, 3, 4]), U[-1, 1:3, 2:5, 3:7])
        assert np.array_equal(data.read_steps("U", 1, 3), U[1:4])
        assert data.read("U", 0, [0, 0, 0], [0, 6, 8]).shape == (0, 6, 8)
        assert [(found.block.start, found.block.count) for found in data.blocks("U", 0)] == [
            ((0, 0, 0), (4, 2, 8)),
            ((0, 2, 0), (4, 4, 8)),
        ]
        assert repr(data).endswith("5 steps of U, n, once, step>")


def test_reading_what_is_not_there(path, tmp_path):
    with Dataset(path) as data:
        with pytest.raises(UsageError, match="no variable 'u': did you mean 'U'"):
            data.read("u", 0)
        with pytest.raises(UsageError, match=r"has no step 5 of 'U': legal are -5 to 4"):
            data.read("U", 5)
        with pytest.raises(UsageError, match=r"shape \(4, 6, 8\); the box from \[3, 0, 0\] of shape \[2, 1, 1\]"):
            data.read("U", 0, [3, 0, 0], [2, 1, 1])
    with pytest.raises(UsageError, match=r"there is no dataset .*gz\.bp; there is .*gs\.bp"):
        Dataset(path.with_name("gz.bp"))
    with pytest.raises(UsageError, match="without a BP dataset"):
        Dataset(tmp_path)
    (tmp_path / "file.bp").write_text("")
    with pytest.raises(UsageError, match="is a file; a dataset is a directory"):
        Dataset(tmp_path / "file.bp")


def test_threads_and_processes_read(path):
    data = pickle.loads(pickle.dumps(Dataset(path)))
    with ThreadPoolExecutor(4) as pool:
        planes = list(pool.map(lambda job: data.read("U", job % STEPS, [job % 4, 0, 0], [1, 6, 8]), range(40)))
    assert all(np.array_equal(plane[0], U[job % STEPS, job % 4]) for job, plane in enumerate(planes))


def test_xarray_opens_it_lazily(path):
    with xr.open_dataset(path) as opened:
        assert opened["U"].dims == ("time", "z", "y", "x")
        assert opened["n"].dims == ("time", "kind")
        assert opened["once"].dims == ("time_once", "once_0")
        assert opened["step"].values.tolist() == [10, 20, 30, 40, 50]
        assert (opened.attrs["F"], opened.attrs["names"]) == (0.02, ["U", "n"])
        assert not opened["U"].variable._in_memory
        assert np.array_equal(opened["U"].sel(time=2).values, U[2])
    with xr.open_dataset(path, engine="gondwana", drop_variables=["U"]) as opened:
        assert "U" not in opened


def test_xarray_refuses_data_that_were_cut_off(path, tmp_path):
    copy = shutil.copytree(path, tmp_path / "cut.bp")
    os.truncate(copy / "data.0", (copy / "data.0").stat().st_size // 2)
    with pytest.raises(DatasetError, match=r"cut\.bp is damaged: data\.0"):
        xr.open_dataset(copy).load()


def test_xarray_with_dask_and_pickle(path):
    pytest.importorskip("dask")
    with xr.open_dataset(path, chunks={}) as opened:
        assert opened["U"].chunks == ((1,) * STEPS, (4,), (2, 4), (8,))
        assert float(opened["U"].mean().compute(scheduler="threads")) == pytest.approx(U.mean())
        assert np.array_equal(pickle.loads(pickle.dumps(opened))["U"].isel(time=1).values, U[1])


def test_the_listing_looks_like_that_of_bpls(path):
    with Dataset(path) as data:
        assert list(listing(data)) == [
            "  double   F       attr",
            "  double   U       5*{4, 6, 8}",
            "  int64_t  n       5*{3}",
            "  string   n/dims  attr",
            "  string   names   attr",
            "  float    once    {2}",
            "  int32_t  step    5*scalar",
        ]
        long = list(listing(data, long=True))
        blocks = list(listing(data, blocks=True))
    assert long[0] == "  double   F       attr   = 0.02"
    assert long[1].startswith(f"  double   U       5*{{4, 6, 8}} = {U.min():g} / ")
    assert long[4] == '  string   names   attr   = {"U", "n"}'
    assert long[6] == "  int32_t  step    5*scalar = 10 / 50"
    first, second = U[0, :, :2], U[0, :, 2:]
    assert blocks[2:5] == [
        "        step 0:",
        f"          block 0: [0:3, 0:1, 0:7] = {first.min():g} / {first.max():g}",
        f"          block 1: [0:3, 2:5, 0:7] = {second.min():g} / {second.max():g}",
    ]
