"""`gw.save` and `gw.load` in one process: files of and for other programs, names, kills, libraries that are missing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.io import checkpoint, paths
from gondwana.io.dataset import Dataset
from gondwana.io.paths import DatasetError
from gondwana.io.writer import StepWriter

pytest.importorskip("adios2")
h5py, zarr, xarray = pytest.importorskip("h5py"), pytest.importorskip("zarr"), pytest.importorskip("xarray")

ENDINGS = (".h5", ".nc", ".zarr", ".bp")
STAR = np.dtype([("mass", "f8"), ("place", "f4", (3,)), ("state", [("age", "i4"), ("bright", "?")])])

WITHOUT_US = """
import json, sys, warnings
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].startswith("gondwana"):
            raise ImportError(name)
sys.meta_path.insert(0, Refused())
import dask.array, h5py, numpy as np, xarray, zarr
found = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # xarray tells that our engine cannot be loaded
    for name, options in (("a.h5", {"engine": "h5netcdf"}), ("a.nc", {"engine": "h5netcdf"}), ("a.zarr", {})):
        with xarray.open_dataset(sys.argv[1] + "/" + name, **options) as data:
            found[name] = [data["T"].dims, data["T"].values.tolist(), data["mask"].values.tolist(), data.attrs["k"],
                           str(data["mask"].dtype), data["z"].values.imag.tolist()]
    with xarray.open_dataset(sys.argv[1] + "/a.nc", chunks={}) as data:
        found["lazy"] = float(data["T"].mean().compute())
    steps = xarray.open_mfdataset(sys.argv[1] + "/s.*.nc", combine="nested", concat_dim="step", preprocess=lambda data:
        data.assign_coords(step=data.attrs["step"]))
    found["steps"] = [steps["step"].values.tolist(), steps["T"].sum(("x", "y")).values.tolist()]
with h5py.File(sys.argv[1] + "/a.h5") as file:
    found["h5py"] = [file["T"][:].tolist(), file["mask"][:].tolist(), str(file["mask"].dtype),
                     file["stars"]["mass"].tolist(), file["stars"]["state"]["age"].tolist()]
group = zarr.open_group(sys.argv[1] + "/a.zarr", mode="r")
found["zarr"] = [group["T"][:].tolist(), group["stars.place"][:].tolist(), group["T"].metadata.dimension_names,
                 dict(group.attrs)["names"]]
found["dask"] = dask.array.from_zarr(sys.argv[1] + "/a.zarr", component="T").sum().compute().item()
print(json.dumps(found))
"""


def test_other_programs_open_the_files_without_us(tmp_path: Path) -> None:
    cells = np.arange(12.0).reshape(3, 4)
    mask, z = np.arange(5) % 2 == 0, np.arange(3) * 1j
    stars = np.zeros(4, STAR)
    stars["mass"], stars["place"][:, 2], stars["state"]["age"] = np.arange(4), 7, np.arange(4) + 10
    arrays: dict[str, Any] = {"T": gw.from_numpy(cells, ghost=1, order="F"), "mask": gw.from_numpy(mask)}
    arrays |= {"z": gw.from_numpy(z), "stars": stars}
    for ending in (".h5", ".nc", ".zarr"):
        gw.save(tmp_path / f"a{ending}", **arrays, attributes={"k": 0.5, "names": ["a", "b"]})
    for step in (1, 2):
        gw.save(tmp_path / "s.nc", step=step, T=gw.full((2, 2), float(step)))
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_US, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name in ("a.h5", "a.nc", "a.zarr"):
        assert found[name] == [["x", "y"], cells.tolist(), mask.tolist(), 0.5, "bool", z.imag.tolist()]
    assert found["lazy"] == cells.mean()
    assert found["steps"] == [[1, 2], [4, 8]]
    assert found["h5py"] == [cells.tolist(), mask.tolist(), "bool", [0, 1, 2, 3], [10, 11, 12, 13]]
    assert found["zarr"] == [cells.tolist(), [[0, 0, 7]] * 4, ["x", "y"], ["a", "b"]]
    assert found["dask"] == cells.sum()


def test_files_of_other_programs_are_loaded(tmp_path: Path) -> None:
    cells = np.arange(6.0).reshape(2, 3)
    dataset = xarray.Dataset({"T": (("x", "y"), cells), "n": ((), 3)}, {"x": [10, 20]}, {"title": "theirs"})
    dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=2)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["T"], file["n"], file["x"], file.attrs["title"] = cells, 3, [10, 20], "theirs"
        file.create_group("deeper")["U"] = cells
    with StepWriter(tmp_path / "a.bp", {"T": gw.zeros((2, 3))}, attributes={"title": "theirs"}) as out:
        out.write(1, {"T": gw.zeros((2, 3))})
        out.write(2, {"T": gw.from_numpy(cells)}, {"n": 3})
    for ending in ENDINGS:
        found = gw.load(tmp_path / f"a{ending}")
        assert np.array_equal(found["T"].to_numpy(), cells)
        assert found.attributes["title"] == "theirs"
        if ending != ".bp":
            assert sorted(found) == ["T", "n", "x"]
            assert (found["n"].shape, int(found["n"]), found["x"].to_numpy().tolist()) == ((), 3, [10, 20])


@pytest.mark.parametrize("ending", ENDINGS)
def test_attributes_come_back(tmp_path: Path, ending: str) -> None:
    given = {
        "k": 0.25,
        "n": np.int64(3),
        "who": "me",
        "list": (1, 2),
        "texts": ["a", "bc"],
        "one": [5],
        "f": np.ones(2),
    }
    found = gw.load(gw.save(tmp_path / f"a{ending}", T=gw.zeros(2), attributes=given, step=9)).attributes
    one = found.pop("one")
    assert one in ([5], 5)  # ADIOS2 has no lists of one number
    assert found == {"k": 0.25, "n": 3, "who": "me", "list": [1, 2], "texts": ["a", "bc"], "f": [1.0, 1.0], "step": 9}


@pytest.mark.parametrize("ending", ENDINGS)
def test_steps_are_files_of_their_own(tmp_path: Path, ending: str) -> None:
    common = tmp_path / f"run{ending}"
    for step in (700, 20):
        assert gw.save(common, T=gw.full(3, step), step=step).name == f"run.{step:08d}{ending}"
    assert gw.load(common).attributes["step"] == 20  # the one that was saved last
    assert gw.load(common, step=700)["T"].to_numpy().tolist() == [700] * 3
    assert gw.load(tmp_path / f"run.00000700{ending}").path.name == f"run.00000700{ending}"


KILLED = """
import os, signal, sys
import gondwana as gw
from gondwana.io.files import contents, hdf5_files, save_and_load, zarr_files
from gondwana.io.staging import BPWriter
path, moment, step = sys.argv[1], sys.argv[2], int(sys.argv[3]) or None
gw.save(path, T=gw.ones((4, 4)), step=step and step - 1)
def end(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if moment == "before the name":
    save_and_load.publish = end
else:
    contents.slabs = zarr_files.field_of = BPWriter.end_step = end
gw.save(path, T=gw.zeros((4, 4)), step=step)
"""


@pytest.mark.parametrize(
    ("moment", "step"), [("within the elements", 0), ("before the name", 0), ("within the elements", 2)]
)
@pytest.mark.parametrize("ending", [".h5", ".zarr", ".bp"])
def test_a_kill_leaves_the_earlier_file(tmp_path: Path, ending: str, moment: str, step: int) -> None:
    """That of the same name, or that of the step before."""
    path = tmp_path / f"run{ending}"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), moment, str(step)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert gw.load(path)["T"].to_numpy().sum() == 16
    target = checkpoint.name_of(path, step) if step else path
    assert target.with_name(f"{target.name}.unfinished").exists()
    gw.save(path, T=gw.full((4, 4), 2.0), step=step or None)
    assert gw.load(path)["T"].to_numpy().sum() == 32
    earlier = [checkpoint.name_of(path, step - 1).name] if step else []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [*earlier, target.name]


@pytest.mark.parametrize("ending", [".zarr", ".bp"])
def test_folders_are_replaced_where_names_cannot_be_exchanged(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths.ctypes, "CDLL", lambda _: None)
    for value in (1.0, 2.0):
        gw.save(tmp_path / f"a{ending}", T=gw.full(3, value))
    assert gw.load(tmp_path / f"a{ending}")["T"].to_numpy().tolist() == [2.0] * 3
    assert [entry.name for entry in tmp_path.iterdir()] == [f"a{ending}"]


@pytest.mark.parametrize("ending", [".h5", ".nc", ".zarr", ".hdf5", ".npz"])
def test_datasets_are_not_named_like_other_files(tmp_path: Path, ending: str) -> None:
    t, path = gw.zeros((2, 2)), tmp_path / f"run{ending}"
    refused = (
        rf"run{ending}' would be a dataset of ADIOS2 and not what {ending} says: give a name like run\.bp; gw\.save"
    )
    with pytest.raises(UsageError, match=refused):
        StepWriter(path, {"T": t})
    with pytest.raises(UsageError, match=f"would be a dataset of ADIOS2 and not what {ending} says"):
        checkpoint.save(path, {"T": t}, step=1)
    with pytest.raises(UsageError, match=f"would be a dataset of ADIOS2 and not what {ending} says"):
        paths.check_output(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_else_is_replaced(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    path.write_text("mine")
    with pytest.raises(UsageError, match="a file is there; remove it or choose another name"):
        gw.save(path, T=gw.zeros(2))
    with pytest.raises(UsageError, match=rf"there is no \{ending} file .*; what has this name is something else"):
        gw.load(path)
    path.unlink()
    path.mkdir()
    (path / "diary.txt").write_text("mine")
    with pytest.raises(UsageError, match="a directory that is no dataset is there"):
        gw.save(path, T=gw.zeros(2))
    assert [entry.name for entry in path.iterdir()] == ["diary.txt"]


@pytest.mark.parametrize(("ending", "library"), [(".h5", "h5py"), (".zarr", "zarr"), (".bp", "adios2")])
def test_a_library_that_is_missing_is_named_with_its_extra(
    tmp_path: Path, ending: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for act in (lambda path: gw.save(path, T=gw.zeros(2)), gw.load):
        with pytest.raises(UsageError, match=rf"such files need {library} .*: pip install 'gondwana\[io\]'"):
            act(tmp_path / f"a{ending}")


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    saved = gw.save(tmp_path / "a.h5", T=gw.zeros(20000))
    with saved.open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(DatasetError, match=r"cannot read .*a\.h5: "):
        gw.load(saved)
    saved = gw.save(tmp_path / "a.zarr", T=gw.ones(8))
    chunk = next(path for path in saved.rglob("*") if path.is_file() and path.name == "0")
    chunk.write_bytes(b"short")
    with pytest.raises(DatasetError, match=r"cannot read .*a\.zarr: "):
        gw.load(saved)


def test_an_hdf5_file_that_is_read_as_a_dataset_names_the_way(tmp_path: Path) -> None:
    saved = gw.save(tmp_path / "a.h5", T=gw.zeros(2))
    with pytest.raises(UsageError, match=r"is an HDF5 file; gw\.load reads one that ends in \.h5"):
        Dataset(saved)


def test_importing_the_library_loads_none_of_these(tmp_path: Path) -> None:
    code = "import sys, gondwana as gw; gw.save; print(sorted({'h5py', 'zarr', 'adios2'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
