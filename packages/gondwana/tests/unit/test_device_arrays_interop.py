"""Arrays of other libraries without a copy: DLPack against NumPy, and a small library on the emulated GPU."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.arrays import interop
from gondwana.arrays.interop import CPU, CUDA, Contents
from gondwana.errors import UsageError
from gondwana.gpu.device import device
from gondwana.testing.gpu import emulated_gpu


@pytest.fixture(scope="module", autouse=True)
def gpu() -> Iterator[None]:
    with emulated_gpu():
        yield


class Theirs:
    """An array of another library: it writes on a stream of its own, and nobody waits for it.

    Args:
        data: its elements.
        strides: as `data` has them.
        says: which protocols it speaks.
    """

    def __init__(self, data: np.ndarray, says: str = "interface", *, readonly: bool = False, version: int = 3) -> None:
        self.like, self.says, self.readonly, self.version = data, says, readonly, version
        driver = device(0).driver
        low, high = np.lib.array_utils.byte_bounds(data)
        self.whole = np.frombuffer((ctypes.c_char * (high - low)).from_address(low), np.uint8).copy()
        self.memory = driver.allocate(high - low)
        self.address = self.memory + data.ctypes.data - low
        self.stream = driver.new_stream() if version >= 3 else 1
        driver.copy(self.memory, self.whole.ctypes.data, self.whole.size, self.stream)

    def __getattr__(self, name: str) -> Any:
        if name == "__cuda_array_interface__" and self.says == "interface":
            return {
                "data": (self.address, self.readonly),
                "shape": self.like.shape,
                "strides": None if self.like.flags.c_contiguous else self.like.strides,
                "typestr": self.like.dtype.str,
                "version": self.version,
                **({"stream": self.stream} if self.version >= 3 else {}),
            }
        if name == "__dlpack_device__" and self.says != "interface":
            return lambda: (CUDA, 0)
        if name == "__dlpack__" and self.says == "dlpack":
            return self.new_capsule
        if name == "__dlpack__" and self.says == "old dlpack":
            return lambda *, stream: self.new_capsule(stream=stream, max_version=None)
        raise AttributeError(name)

    def new_capsule(self, *, stream: int, max_version: tuple[int, int] | None) -> Any:
        device(0).record(self.stream).block(stream)
        elements = Contents(self.address, self.like.shape, self.like.strides, self.like.dtype, (CUDA, 0), self.readonly)
        return interop.give(elements, self, max_version)

    def load(self) -> np.ndarray:
        """What the memory holds when all before on the stream is done; views alike `like`."""
        driver = device(0).driver
        driver.copy(self.whole.ctypes.data, self.memory, self.whole.size, self.stream)
        driver.finish(self.stream)
        start = self.address - self.memory
        return np.ndarray(self.like.shape, self.like.dtype, self.whole, start, self.like.strides)


def numbered(shape: tuple[int, ...] = (4, 6), dtype: str = "float64") -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@gw.foreach
def double(p, a):
    a[p] = 2 * a[p]


PROTOCOLS = ["interface", "dlpack", "old dlpack"]
VIEWS = [
    lambda a: a,
    lambda a: a.T,
    lambda a: a[1:, ::2],
    lambda a: a[::-1, ::-1],
    lambda a: a[2],
    lambda a: a[1:1],
    lambda a: np.asfortranarray(a),
]


@pytest.mark.parametrize("says", PROTOCOLS)
@pytest.mark.parametrize("view", VIEWS)
def test_arrays_of_others_are_taken_without_a_copy(says: str, view: Any) -> None:
    theirs = Theirs(view(numbered()), says)
    ours = gw.on_device(theirs)
    assert isinstance(ours, gw.DeviceArray)
    assert (ours.size, ours.dtype, ours.readonly) == (theirs.like.size, theirs.like.dtype, False)
    assert not ours.size or (ours.address, ours.strides) == (theirs.address, theirs.like.strides)
    double(ours.domain, ours)  # behind what they have put on their stream
    assert np.array_equal(ours.copy().numpy(), 2 * theirs.like) or not ours.size
    assert np.array_equal(theirs.load(), 2 * theirs.like)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "uint64", "float32", "complex64", "complex128"])
@pytest.mark.parametrize("says", PROTOCOLS)
def test_dtypes_and_domains(says: str, dtype: str) -> None:
    box = gw.RectDomain((-1, 3), (3, 9))
    theirs = Theirs(numbered(dtype=dtype), says)
    ours = gw.on_device(theirs, box)
    assert ours.domain == box
    assert ours.dtype == dtype
    assert np.array_equal(ours.copy().numpy(), theirs.like)
    with pytest.raises(UsageError, match="make them equal"):
        gw.on_device(theirs, gw.RectDomain(0, (2, 2)))


def test_old_interfaces_mean_the_default_stream() -> None:
    theirs = Theirs(numbered(), version=2)
    ours = gw.on_device(theirs)
    double(ours.domain, ours)
    assert np.array_equal(ours.copy().numpy(), 2 * theirs.like)


@pytest.mark.parametrize("says", ["interface", "dlpack"])
def test_what_is_read_only_stays_so(says: str) -> None:
    ours = gw.on_device(Theirs(numbered(), says, readonly=True))
    assert ours.readonly
    assert np.array_equal(ours.copy().numpy(), numbered())
    for write in (
        lambda: ours.fill(0),
        lambda: ours.shrink(1).fill(0),
        lambda: ours.copy_from(gw.Array(numbered())),
        lambda: ours.copy_from_async(gw.Array(numbered())),
        lambda: gw.copy(numbered(), ours),
        lambda: ours.__setitem__((0, 0), 1.0),
    ):
        with pytest.raises(UsageError, match="read-only"):
            write()
    with pytest.raises(Exception, match="read-only"):
        double(ours.domain, ours)
    assert ours.__cuda_array_interface__["data"] == (ours.address, True)
    with pytest.raises(BufferError, match="read-only"):
        ours.__dlpack__(stream=-1)
    again = gw.from_dlpack(ours)
    assert again.readonly


@pytest.mark.parametrize("says", PROTOCOLS)
def test_memory_of_others_lives_as_long_as_it_is_used(says: str) -> None:
    theirs = Theirs(numbered(), says)
    alive = weakref.ref(theirs)
    ours = gw.on_device(theirs)
    view = ours[1:3, 2]
    del theirs, ours
    gc.collect()
    assert alive() is not None
    assert view.copy().numpy().tolist() == [8.0, 14.0]
    gw.synchronize()
    del view
    while gw.progress():
        pass
    gc.collect()
    assert alive() is None


def test_memory_of_others_has_no_name() -> None:
    ours = gw.on_device(Theirs(numbered()))
    for name in (lambda: ours.pointer, ours.reference, lambda: gw.share(ours)):
        with pytest.raises(UsageError, match="another library that other ranks cannot reach"):
            name()
    there = gw.zeros((4, 6), kind=gw.cuda(0))
    there.local.copy_from(ours)
    assert np.array_equal(there.to_numpy(), numbered())
    ours.shrink(1).copy_from(there.local.translate((1, 1)))
    assert ours.copy().numpy()[1, 1:5].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a.shrink(1), lambda a: a.permute((1, 0)), lambda a: a[1:1, :]])
def test_ours_is_taken_by_others(view: Any) -> None:
    T = gw.from_numpy(numbered(), kind=gw.cuda(0))  # noqa: N806
    double(T.owned, T)
    ours = view(T.local)
    seen = ours.__cuda_array_interface__
    assert (seen["version"], seen["stream"], seen["typestr"]) == (3, device(0).compute, "<f8")
    assert (seen["shape"], seen["strides"]) == (ours.shape, ours.strides)
    assert seen["data"] == (ours.address if ours.size else 0, False)
    assert ours.__dlpack_device__() == (CUDA, 0)
    for version in (None, (1, 0), (1, 3)):
        elements, loan = interop.take(ours.__dlpack__(stream=-1, max_version=version))
        assert elements == Contents(ours.address, ours.shape, ours.strides, ours.dtype, (CUDA, 0), False)
        del loan
    again = gw.on_device(ours)
    assert again.address == ours.address
    assert np.array_equal(again.copy().numpy(), ours.copy().numpy())


@pytest.mark.parametrize("stream", ["theirs", None, 1, 2])
def test_their_stream_waits_for_our_kernels(stream: Any) -> None:
    T = gw.from_numpy(numbered(), kind=gw.cuda(0))  # noqa: N806
    driver = device(0).driver
    stream = driver.new_stream() if stream == "theirs" else stream
    found = np.zeros(24)
    double(T.owned, T)
    row = T.local[3, :]
    elements, loan = interop.take(row.__dlpack__(stream=stream, max_version=(1, 0)))
    driver.copy(found.ctypes.data, elements.address, 6 * 8, 1 if stream is None else stream)
    driver.finish(1 if stream is None else stream)
    assert found[:6].tolist() == (2 * numbered()[3]).tolist()
    del loan


def test_what_cannot_be_handed_out() -> None:
    ours = gw.from_numpy(numbered(), kind=gw.cuda(0)).local
    with pytest.raises(BufferError, match="stream=0"):
        ours.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="as it is"):
        ours.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="where it lies"):
        ours.__dlpack__(dl_device=(CUDA, 1))
    with pytest.raises(BufferError, match="without a copy"):
        ours.__dlpack__(dl_device=(CPU, 0), copy=False)
    assert np.array_equal(np.from_dlpack(ours, device="cpu", copy=True), numbered())
    with pytest.raises((BufferError, RuntimeError), match="device"):
        np.from_dlpack(ours)
    with pytest.raises(BufferError, match="without a copy"):
        np.from_dlpack(ours, device="cpu", copy=False)


def test_wrong_things_are_refused() -> None:
    theirs = Theirs(numbered())
    with pytest.raises(UsageError, match=r"gw\.on_device"):
        gw.Array(theirs)
    with pytest.raises(UsageError, match=r"gw\.Array"):
        gw.on_device(numbered())
    with pytest.raises(UsageError, match="neither __dlpack__ nor"):
        gw.on_device([1.0, 2.0])
    with pytest.raises(UsageError, match="no CUDA device 7"):
        gw.on_device(theirs, device=7)

    class Strange(Theirs):
        kind = 7

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.kind, 0

    with pytest.raises(UsageError, match="device type 7"):
        gw.from_dlpack(Strange(numbered(), "dlpack"))


def test_a_mask_or_an_unknown_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Masked:
        def __init__(self, theirs: Theirs) -> None:
            self.__cuda_array_interface__ = {**theirs.__cuda_array_interface__, "mask": theirs}

    with pytest.raises(UsageError, match="mask"):
        gw.on_device(Masked(Theirs(numbered())))
    monkeypatch.setenv("GONDWANA_EMULATED_DEVICES", "2")
    with pytest.raises(UsageError, match="device=number"):
        gw.on_device(Theirs(numbered()))
    assert gw.on_device(Theirs(numbered()), device=0).device == 0


# Capsules, against NumPy's


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("version", [None, (1, 0), (1, 9)])
def test_capsules_that_numpy_makes(version: tuple[int, int] | None, view: Any) -> None:
    data = view(numbered(dtype="int16"))
    elements, loan = interop.take(data.__dlpack__(max_version=version))
    assert elements == Contents(data.ctypes.data, data.shape, data.strides, data.dtype, (CPU, 0), False)
    owner = weakref.ref(data)
    del data
    gc.collect()
    assert owner() is not None
    del loan
    assert owner() is None


class Ours:
    """Something that NumPy takes by DLPack, through our capsules; of either form."""

    def __init__(self, data: np.ndarray, *, versions: bool = True) -> None:
        self.data, self.versions = data, versions
        self.owner = weakref.finalize(self, lambda: None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, max_version: Any = None, **_: Any) -> Any:
        data = self.data
        elements = Contents(data.ctypes.data, data.shape, data.strides, data.dtype, (CPU, 0), not data.flags.writeable)
        return interop.give(elements, self, max_version if self.versions else None)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("versions", [True, False])
def test_capsules_that_numpy_takes(versions: bool, view: Any) -> None:
    data = view(numbered(dtype="complex64"))
    source = Ours(data, versions=versions)
    alive = weakref.ref(source)
    taken = np.from_dlpack(source)
    assert np.shares_memory(taken, data) or not data.size
    assert (taken.shape, taken.dtype) == (data.shape, data.dtype)
    assert np.array_equal(taken, data)
    before = len(interop._given)
    del source
    gc.collect()
    assert alive() is not None
    del taken
    assert alive() is None
    assert len(interop._given) == before - 1


def test_read_only_capsules() -> None:
    data = numbered()
    data.flags.writeable = False
    assert interop.take(data.__dlpack__(max_version=(1, 0)))[0].readonly
    assert not np.from_dlpack(Ours(data)).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        np.from_dlpack(Ours(data, versions=False))


def test_capsules_that_nobody_takes_give_their_memory_back() -> None:
    before = len(interop._given)
    source = Ours(numbered())
    capsules = [source.__dlpack__(max_version=version) for version in (None, (1, 0))]
    assert len(interop._given) == before + 2
    del capsules
    taken = source.__dlpack__(max_version=(1, 0))  # the next one clears away what is left of those before
    assert len(interop._given) == before + 1
    loan = interop.take(taken)[1]
    del taken, loan
    assert len(interop._given) == before


def test_a_capsule_is_taken_once() -> None:
    capsule = numbered().__dlpack__()
    loan = interop.take(capsule)[1]
    with pytest.raises(UsageError, match="taken before"):
        interop.take(capsule)
    with pytest.raises(UsageError, match="no DLPack capsule"):
        interop.take(object())
    del capsule, loan


def test_elements_that_are_not_known() -> None:
    source = Ours(numbered())
    capsule = source.__dlpack__(max_version=(1, 0))
    address = next(reversed(interop._given))
    managed = interop._Versioned.from_address(address)
    managed.tensor.lanes = 4
    with pytest.raises(UsageError, match="4 lanes"):
        interop.take(capsule)
    managed.tensor.lanes, managed.tensor.code = 1, 4
    with pytest.raises(UsageError, match="code 4"):
        interop.take(capsule)
    managed.tensor.code, managed.major = 2, 2
    with pytest.raises(UsageError, match=r"DLPack 2\.0"):
        interop.take(capsule)
    managed.major = 1
    managed.tensor.strides = None
    assert interop.take(capsule)[0].strides == (48, 8)


# Arrays of the host


@pytest.mark.parametrize("view", VIEWS)
def test_host_arrays_both_ways(view: Any) -> None:
    data = view(numbered())
    ours = gw.from_dlpack(data)
    assert isinstance(ours, gw.Array)
    assert np.shares_memory(ours.numpy(), data) or not data.size
    back = np.from_dlpack(ours)
    assert np.shares_memory(back, data) or not data.size
    assert np.array_equal(back, data) or back.size == data.size == 0
    data.flags.writeable = False
    assert not gw.from_dlpack(data).numpy().flags.writeable
    assert not np.from_dlpack(gw.Array(data)).flags.writeable
    with pytest.raises(BufferError, match="readonly"):
        gw.Array(data).__dlpack__()
