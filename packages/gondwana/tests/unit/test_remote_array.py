"""Arrays by pointers and references, and arrays out of reach, on one rank: a fake device keeps loads and stores out."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError

BOX = gw.RectDomain((-1, 2), (3, 8))


def remote(domain: gw.RectDomain = BOX, dtype: str = "float64") -> gw.RemoteArray:
    """An array of zeros out of reach."""
    segment = gw.Segment(gw.world, domain.size * np.dtype(dtype).itemsize, gw.fake_device)
    array = gw.array_at(segment.pointer(dtype=dtype), domain)
    assert isinstance(array, gw.RemoteArray)
    return array


def numbered(domain: gw.RectDomain = BOX) -> gw.Array:
    return gw.Array(np.arange(float(domain.size)).reshape(domain.shape), domain)


def test_an_array_says_where_it_lies() -> None:
    segment = gw.Segment(gw.world, 1000)
    a = gw.array_at(segment.pointer(dtype="float32", offset=8), BOX, order="F")
    assert isinstance(a, gw.Array)
    assert (a.pointer.rank, a.pointer.kind, a.pointer.offset, a.pointer.dtype) == (0, gw.host, 8, np.float32)
    view = a.permute((1, 0))[4:8:2, 1:]
    a.fill(0)
    view.fill(1)
    assert view.pointer.offset == 8 + 4 * (2 + 4 * 2)
    assert view.pointer.local().tolist() == [1.0]
    assert view.reference().array().strides == view.strides == (2 * 4 * 4, 4)
    assert a.restrict(gw.RectDomain(0, (0, 0))).pointer.rank == 0


def test_private_memory_has_no_pointer() -> None:
    a = numbered()
    with pytest.raises(UsageError, match=r"private memory.*array_at"):
        _ = a.pointer
    with pytest.raises(UsageError, match="private memory"):
        a.reference()
    with pytest.raises(UsageError, match="private memory"):
        gw.share(a)
    assert gw.share(None) == [None]


def test_an_array_must_fit_its_part_of_the_segment() -> None:
    segment = gw.Segment(gw.world, 80)
    with pytest.raises(UsageError, match="80"):
        gw.array_at(segment.pointer(dtype=float), 11)
    with pytest.raises(UsageError, match="80"):
        gw.ArrayReference(segment.pointer(dtype=float), gw.RectDomain(0, 3), (-8,)).array()
    with pytest.raises(UsageError, match="one stride for each axis"):
        gw.ArrayReference(segment.pointer(dtype=float), gw.RectDomain(0, 3), (8, 8)).array()
    assert gw.array_at(segment.pointer(dtype=float, offset=80), 0).size == 0


def test_arrays_are_pickled_by_value_and_references_by_name() -> None:
    T = gw.zeros(BOX, ghost=1)  # noqa: N806
    T.local.__gondwana_argument__()  # what compiled code was told about this array must not go along
    value, name = pickle.loads(pickle.dumps((T.local, T.local.reference())))
    name.array().fill(4.0)
    assert (value.numpy() == 0).all()
    assert (T.local.numpy() == 4).all()
    assert value.domain == T.local.domain
    assert value.__gondwana_argument__() != T.local.__gondwana_argument__()
    assert (copy.deepcopy(T.local).numpy() == 4).all()
    with pytest.raises(TypeError, match="reference"):
        pickle.dumps(remote())


def test_elements_and_slices_of_a_remote_array() -> None:
    b = remote()
    b[0, 3] = 2.5
    b[gw.Point(1, 4)] = 3
    b[-1, :] = np.arange(6)
    b[1:, 6:] = 9.0
    b[gw.RectDomain((2, 2), (3, 4))] = numbered(gw.RectDomain((0, 0), (1, 2)))
    expected = np.zeros(BOX.shape)
    expected[1, 1], expected[2, 2], expected[0], expected[2:, 4:] = 2.5, 3, np.arange(6), 9
    expected[3, :2] = [0, 1]
    assert np.array_equal(b.copy().numpy(), expected)
    assert (b[0, 3], type(b[0, 3])) == (2.5, float)
    assert type(remote(dtype="float32")[0, 3]) is np.float32
    with pytest.raises(IndexError, match="outside"):
        b[3, 3] = 1
    with pytest.raises(UsageError, match="as int32"):
        remote(dtype="int32")[0, 3] = 1.5


def test_a_remote_array_keeps_its_memory_order_in_a_copy() -> None:
    b = remote()
    b.copy_from(numbered())
    assert b.copy().numpy().flags.c_contiguous
    assert b.permute((1, 0)).copy().numpy().flags.f_contiguous
    assert np.array_equal(b.permute((1, 0)).copy().numpy(), numbered().numpy().T)


def test_copies_cast_or_refuse() -> None:
    b, whole = remote(dtype="float32"), gw.Array.zeros(BOX, int)
    b.copy_from(numbered())
    assert b.copy().dtype == np.float32
    with pytest.raises(TypeError, match="same_kind"):
        whole.copy_from(b)
    with pytest.raises(TypeError, match="same_kind"):
        b.copy_from(gw.Array.zeros(BOX, complex))
    with pytest.raises(UsageError, match=r"float64.*float32"):
        b.copy_from_async(numbered())
    with pytest.raises(ValueError, match=r"axes|dimension"):
        b.copy_from(gw.Array.zeros(gw.RectDomain(0, 3)))


def test_a_remote_array_may_be_copied_onto_itself() -> None:
    b, expected = remote(), numbered()
    b.copy_from(expected)
    for shift in ((0, 1), (-1, 2)):
        b.copy_from(b.translate(shift))
        expected.copy_from(expected.translate(shift))
    assert np.array_equal(b.copy().numpy(), expected.numpy())


def test_what_needs_loads_and_stores_says_what_to_do() -> None:
    b = remote()

    @gw.foreach
    def double(p, a):
        a[p] = 2 * a[p]

    for call in (lambda: double(BOX, b), lambda: double(BOX, (b,)), lambda: np.asarray(b), lambda: np.add(b, 1)):
        with pytest.raises(UsageError, match=r"fake_device memory; fetch them by copy\(\)"):
            call()
    T = gw.zeros(BOX, kind=gw.fake_device)  # noqa: N806
    with pytest.raises(UsageError, match=r"fake_device memory: move them by block\(rank\)"):
        double(T.owned, T)
    assert repr(b) == "RemoteArray(float64, RectDomain((-1, 2), (3, 8)), rank 0, fake_device)"


def test_global_arrays_in_other_memory() -> None:
    data = np.arange(24.0).reshape(4, 6)
    T = gw.from_numpy(data, ghost=1, periodic=True, kind=gw.fake_device)  # noqa: N806
    assert np.array_equal(T.to_numpy(), data)
    T.exchange(corners=True).wait()
    assert np.array_equal(T.block(0).copy().numpy(), np.pad(data, 1, mode="wrap"))
    assert gw.zeros_like(T).kind == gw.fake_device
    assert (gw.full((3,), 2, kind=gw.fake_device).to_numpy() == 2).all()


def test_sums_of_memory_that_no_kernel_reaches() -> None:
    T = gw.full(BOX, 0.1, kind=gw.fake_device)  # noqa: N806
    assert T.sum() == math.fsum([0.1] * BOX.size)
    assert (T.min(), T.max()) == (0.1, 0.1)


def test_extremes_need_cells() -> None:
    nothing = gw.GlobalArray(gw.Layout(gw.RectDomain(0, 0), (1,), (0,), (False,), "C"), np.dtype(float), gw.world)
    assert (nothing.sum(), nothing.norm()) == (0.0, 0.0)
    for method in (nothing.min, nothing.max, nothing.mean):
        with pytest.raises(UsageError, match="no cells"):
            method()
