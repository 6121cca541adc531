"""What is written comes back to the bit, and xarray's indexing is NumPy's."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

pytest.importorskip("adios2")
xr = pytest.importorskip("xarray")

from gondwana.io.adios import TYPE_OF_NAME, BPWriter  # noqa: E402
from gondwana.io.dataset import Dataset  # noqa: E402
from gondwana.io.writer import StepWriter  # noqa: E402
from support.divided_array import DividedArray, regular  # noqa: E402

SHAPE = (5, 4, 6, 7)
CELLS = np.arange(float(np.prod(SHAPE))).reshape(SHAPE)


@st.composite
def arrays(draw):
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    dtype = draw(st.sampled_from(sorted(set(TYPE_OF_NAME.values()), key=str)))
    cells = np.frombuffer(
        np.random.default_rng(draw(st.integers(0, 99))).bytes(int(np.prod(shape)) * dtype.itemsize), dtype
    )
    options = {"order": draw(st.sampled_from("CF")), "ghost": draw(st.integers(0, 2)), "base": draw(st.integers(-3, 3))}
    return DividedArray(shape, regular(shape, (1,) * len(shape)), dtype=dtype, **options), cells.reshape(shape)


@settings(max_examples=25)
@given(arrays=st.dictionaries(st.sampled_from(["a", "b", "c/d"]), arrays(), min_size=1, max_size=3))
def test_round_trip(arrays):
    folder = Path(tempfile.mkdtemp())
    try:
        divided = {name: array.set(cells) for name, (array, cells) in arrays.items()}
        with StepWriter(folder / "a.bp", divided, background=False) as out:
            out.write(3, divided)
        with Dataset(folder / "a.bp") as data:
            for name, (array, cells) in arrays.items():
                read = data.read(name, 0)
                assert (read if array.order == "C" else read.T).tobytes() == cells.tobytes(), name
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("indexing") / "a.bp"
    out = BPWriter(path)
    for step, cells in enumerate(CELLS):
        out.begin_step()
        out.put("U", cells[:3], (0, 0, 0), SHAPE[1:])
        out.put("U", cells[3:], (3, 0, 0), SHAPE[1:])
        out.put_scalar("step", step, np.int32)
        out.end_step()
    out.close()
    with xr.open_dataset(path, engine="gondwana", cache=False) as data:
        yield data


def index(length):
    # Not further: xarray itself takes slice(-length - 1, None, -1), which is empty, for the whole axis backwards.
    bound = st.none() | st.integers(-length, length + 2)
    step = st.sampled_from([None, 1, 2, 3, -1, -2, -3])
    return st.integers(-length, length - 1) | st.builds(slice, bound, bound, step)


@given(key=st.tuples(*(index(length) for length in SHAPE)))
def test_indexing_like_numpy(opened, key):
    assert np.array_equal(opened["U"][key].values, CELLS[key])
