"""Checkpoints and output of arrays on a GPU: the bytes of arrays on the host, on one rank and the emulated GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gondwana as gw
from gondwana.io import checkpoint
from gondwana.io.dataset import Dataset
from gondwana.io.writer import StepWriter
from gondwana.testing.gpu import emulated_gpu

SHAPE = (7, 5, 6)


@pytest.fixture(scope="module", autouse=True)
def gpu() -> Iterator[None]:
    with emulated_gpu():
        yield


@gw.foreach
def grow(p, a):
    a[p] = 2 * a[p] + 1


def pair(dtype: str, order: str) -> tuple[gw.GlobalArray, gw.GlobalArray]:
    """The same array on the GPU and on the host; on the GPU a kernel may still be at work on it."""
    whole = np.arange(np.prod(SHAPE)).reshape(SHAPE).astype(dtype)
    arrays = [gw.from_numpy(whole, ghost=1, order=order, kind=kind) for kind in (gw.cuda(0), gw.host)]
    for array in arrays:
        grow(array.owned, array)
    return arrays[0], arrays[1]


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "complex128"])
def test_checkpoints_of_either_are_the_same(tmp_path: Path, dtype: str, order: str) -> None:
    there, here = pair(dtype, order)
    for name, array in (("gpu", there), ("host", here)):
        checkpoint.save(tmp_path / f"{name}.bp", {"a": array}, step=3)
    with Dataset(tmp_path / "gpu.00000003.bp") as one, Dataset(tmp_path / "host.00000003.bp") as other:
        assert one.read("a", 0).tobytes() == other.read("a", 0).tobytes()
    for name in ("gpu", "host"):
        for like in (there, here):
            array = gw.zeros_like(like)
            checkpoint.load(tmp_path / f"{name}.bp", {"a": array})
            assert array.to_numpy().tobytes() == here.to_numpy().tobytes()
            assert array.local.copy()[array.local.domain.lo] == 0  # a ghost


@pytest.mark.parametrize("order", "CF")
def test_a_checkpoint_is_converted(tmp_path: Path, order: str) -> None:
    there, here = pair("float64", order)
    checkpoint.save(tmp_path / "c.bp", {"a": here}, step=1)
    narrow = gw.zeros_like(there, "float32")
    checkpoint.load(tmp_path / "c.bp", {"a": narrow}, convert=True)
    assert np.array_equal(narrow.to_numpy(), here.to_numpy().astype("float32"))


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("order", "CF")
def test_steps_of_either_are_the_same(tmp_path: Path, order: str, background: bool) -> None:
    there, here = pair("float32", order)
    with StepWriter(tmp_path / "s.bp", {"there": there, "here": here}, background=background) as out:
        for step in range(5):
            out.write(step, {"there": there, "here": here})
            for array in (there, here):
                grow(array.owned, array)
    with Dataset(tmp_path / "s.bp") as data:
        for step in range(5):
            assert data.read("there", step).tobytes() == data.read("here", step).tobytes()


@pytest.mark.parametrize("ending", [".h5", ".zarr", ".bp"])
def test_files_of_ones_own(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("h5py" if ending == ".h5" else "zarr")
    device, host = pair("f8", "F")
    saved = gw.save(tmp_path / f"a{ending}", T=device, part=device[1:5, 2, ...])
    found = gw.load(saved, like={"T": device, "part": None})
    assert not found["T"].in_host_memory
    assert np.array_equal(found["T"].to_numpy(), host.to_numpy())
    assert np.array_equal(found["part"].to_numpy(), host.to_numpy()[1:5, 2])
