"""Arrays on a GPU, on one rank and the emulated GPU: views, elements, fills, copies, what kernels and others see."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import gondwana as gw
from gondwana.arrays.global_array import LINE, BlockMemory
from gondwana.arrays.layout import Layout
from gondwana.compiler.types.records import DTYPES
from gondwana.errors import KernelError, UsageError
from gondwana.testing.gpu import emulated_gpu
from gondwana.transfer.box_copy import BoxCopy
from gondwana.transfer.devices import device_boxes
from gondwana.transfer.devices.device_boxes import BoxProgram

BOX = gw.RectDomain((-1, 2), (3, 8))


@pytest.fixture(scope="module", autouse=True)
def gpu() -> Iterator[None]:
    with emulated_gpu():
        yield


def numbered(domain: gw.RectDomain = BOX, dtype: str = "float64", order: str = "C") -> gw.Array:
    return gw.Array(np.arange(domain.size).reshape(domain.shape).astype(dtype, order), domain)


def on_gpu(like: gw.Array) -> gw.DeviceArray:
    """An array on the GPU with the elements of another one."""
    T = gw.empty(like.domain, like.dtype, kind=gw.cuda(0))  # noqa: N806
    T.local.copy_from(like)
    assert isinstance(T.local, gw.DeviceArray)
    return T.local


def same(a: gw.DeviceArray, b: gw.Array) -> bool:
    return a.domain == b.domain and np.array_equal(a.copy().numpy(), b.numpy())


def test_an_array_says_where_it_lies() -> None:
    T = gw.zeros(BOX, "float32", ghost=1, kind=gw.cuda(0))  # noqa: N806
    a = T.local
    assert isinstance(a, gw.DeviceArray)
    assert (a.device, a.readonly, a.pointer.kind, a.pointer.rank) == (0, False, gw.cuda(0), 0)
    assert repr(a) == "DeviceArray(float32, RectDomain((-2, 1), (4, 9)), cuda(0))"
    assert a.address == a.pointer.segment.address + a.pointer.offset
    inside = a.restrict(T.owned)
    assert inside.address - a.address == a.strides[0] + 4
    assert inside.extent == (inside.address, inside.address + 3 * a.strides[0] + 6 * 4)
    assert a.restrict(gw.RectDomain(0, (0, 0))).extent[0] == a.restrict(gw.RectDomain(0, (0, 0))).extent[1]
    assert a.reference().array().address == a.address
    assert gw.share(a)[0].address == a.address
    for action in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="reference"):
            action(a)


def test_views_are_those_of_the_host() -> None:
    host = numbered()
    here = on_gpu(host)
    views = [
        lambda a: a.restrict(gw.RectDomain((-3, 3), (2, 30), (2, 3))),
        lambda a: a.restrict(gw.RectDomain((20, 20), (21, 21))),
        lambda a: a.shrink(1),
        lambda a: a.shrink(1, -2),
        lambda a: a.translate((5, -5)),
        lambda a: a.slice(0, 1),
        lambda a: a.slice(1, 7),
        lambda a: a.permute((1, 0)),
        lambda a: a.inject(3),
        lambda a: a.inject((2, 3)).project((2, 3)),
        lambda a: a[0:2, 3],
        lambda a: a[:, 3:7:2],
        lambda a: a[gw.RectDomain((0, 4), (2, 6))],
        lambda a: a.permute((1, 0)).shrink(1).inject(2).translate(1).slice(1, 3),
    ]
    for view in views:
        assert isinstance(view(here), gw.DeviceArray)
        assert same(view(here), view(host))


def test_elements_move_one_by_one() -> None:
    here = on_gpu(numbered())
    assert (here[0, 3], type(here[0, 3])) == (7.0, float)
    here[0, 3] = 2.5
    here[gw.Point(2, 7)] = -1
    here[-1, :] = np.arange(6) + 50
    here[1:, 6:] = 9.0
    expected = numbered().numpy().copy()
    expected[1, 1], expected[3, 5], expected[0], expected[2:, 4:] = 2.5, -1, np.arange(6) + 50, 9
    assert np.array_equal(here.copy().numpy(), expected)
    assert type(on_gpu(numbered(dtype="float32"))[0, 3]) is np.float32
    with pytest.raises(IndexError, match="outside"):
        here[3, 3] = 1
    with pytest.raises(IndexError, match="outside"):
        here[3, 3]


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_fill(dtype: str) -> None:
    random = np.random.default_rng(4)
    value = np.array(1 if dtype == "bool" else 77 + 3j if "complex" in dtype else 77.5 if "float" in dtype else 101)
    for ndim, order in itertools.product((1, 2, 3, 5), "CF"):
        shape = random.integers(1, (300, 40, 12, 0, 5)[ndim - 1], ndim).tolist()
        T = gw.zeros(tuple(shape), dtype, ghost=1, order=order, kind=gw.cuda(0))  # noqa: N806
        host = gw.Array.zeros(T.local.domain, dtype, order=order)
        lo = [int(random.integers(a, b)) for a, b in zip(host.domain.lo, host.domain.hi, strict=True)]
        part = gw.RectDomain(lo, host.domain.hi, random.integers(1, 4, ndim).tolist())
        for array in (host, T.local):
            array.restrict(part).fill(value.astype(dtype)[()])
        assert same(T.local, host), (T, part)
    T.fill(value.astype(dtype).item())
    assert (T.local.copy().numpy() == value.astype(dtype)).all()


def test_a_fill_takes_its_turn_among_kernels() -> None:
    @gw.foreach
    def grow(p, a):
        a[p] = 3 * a[p] + 1

    T = gw.zeros((50,), "int64", kind=gw.cuda(0))  # noqa: N806
    for value in (1, 5):
        grow(T.owned, T)
        T.local[10:40].fill(value)
        grow(T.owned, T)
    first, second = 3 * (3 * 0 + 1) + 1, 3 * 5 + 1
    assert T.to_numpy().tolist() == [3 * (3 * first + 1) + 1] * 10 + [second] * 30 + [3 * (3 * first + 1) + 1] * 10


def test_copies_take_their_turn_behind_kernels() -> None:
    @gw.foreach
    def grow(p, a):
        a[p] = a[p] + 1

    T, H = (gw.zeros((40, 3), "int64", kind=kind) for kind in (gw.cuda(0), gw.host))  # noqa: N806
    for step in range(1, 6):
        grow(T.owned, T)
        H.local.copy_from(T.local.shrink((1, 0)))
        assert (H.local.shrink((1, 0)).numpy() == step).all()
    grow(T.owned, T)
    U = gw.zeros_like(T)  # noqa: N806
    U.local.copy_from(T.local)
    grow(U.owned, U)
    assert (U.to_numpy() == 7).all()


def test_copies_cast_or_refuse() -> None:
    here, host = on_gpu(numbered(dtype="float32")), numbered()
    here.copy_from(gw.Array(host.numpy() + 0.25, BOX))
    assert np.array_equal(here.copy().numpy(), (host.numpy() + 0.25).astype("float32"))
    into = gw.Array.zeros(BOX)
    into.copy_from(here)
    assert np.array_equal(into.numpy(), host.numpy() + 0.25)
    other = on_gpu(numbered(dtype="float64"))
    other.copy_from(here)
    assert np.array_equal(other.copy().numpy(), host.numpy() + 0.25)
    with pytest.raises(TypeError, match="same_kind"):
        here.copy_from(gw.Array.zeros(BOX, complex))
    with pytest.raises(UsageError, match=r"float64.*float32"):
        here.copy_from_async(host)


def test_a_part_copied_over_itself() -> None:
    here, expected = on_gpu(numbered()), numbered()
    for shift in ((0, 1), (-1, 2), (1, 0)):
        here.copy_from(here.translate(shift))
        expected.copy_from(expected.translate(shift))
    assert same(here, expected)
    even, odd = (gw.RectDomain((-1, 2 + start), (3, 8), (1, 2)) for start in (0, 1))
    assert here.restrict(even)._may_overlap(here.restrict(even))
    assert not here.restrict(even)._may_overlap(here.restrict(odd))
    assert not here._may_overlap(on_gpu(expected))
    here.restrict(odd).translate((0, -1)).copy_from(here.restrict(even))
    assert np.array_equal(here.restrict(odd).copy().numpy(), expected.restrict(even).numpy())


def test_what_the_processor_does_not_reach() -> None:
    here = on_gpu(numbered())

    @gw.jit
    def first(a):
        return a[0, 2]

    for call in (here.numpy, lambda: np.asarray(here), lambda: np.add(here, 1)):
        with pytest.raises(UsageError, match=r"device memory; fetch them by copy\(\)"):
            call()
    with pytest.raises(KernelError, match=r"first runs on the processor .* pass a\.copy\(\)"):
        first(here)


def test_kernels_see_the_descriptor_of_the_host_at_another_address() -> None:
    host = numbered(gw.RectDomain((-1, 2, 0), (3, 8, 16)), "float32")
    here = on_gpu(host)
    views = [
        lambda a: a,
        lambda a: a.permute((2, 0, 1)),
        lambda a: a.slice(2, 3),
        lambda a: a.restrict(gw.RectDomain((0, 2, 0), (3, 8, 16), (1, 2, 3))),
        lambda a: a.inject(2),
    ]
    for view in views:
        a, b = view(here), view(host)
        (spec, raw), (wanted, words) = a.__gondwana_argument__(), b.__gondwana_argument__()
        assert (spec.place, wanted.place) == ("cuda", "host")
        assert (spec.dtype, spec.ndim, spec.unit, spec.scaled, spec.readonly) == (
            (wanted.dtype, wanted.ndim, wanted.unit, wanted.scaled, wanted.readonly)
        )
        assert raw[8:] == words[8:]
        found, origin = np.frombuffer(raw, np.int64)[0], np.frombuffer(words, np.int64)[0]
        assert found - a.address == origin - b.numpy().ctypes.data
        assert a.__gondwana_argument__() is a.__gondwana_argument__()


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("item", [1, 2, 4, 8, 16])
def test_rows_start_on_lines(order: str, item: int) -> None:
    for shape, ghost in [
        ((9, 600), (1, 1)),
        ((700, 3), (0, 2)),
        ((5, 5, 5), (1, 0, 3)),
        ((1000,), (9,)),
        ((1, 1), (40, 200)),
    ]:
        layout = Layout(gw.RectDomain.from_shape(shape), (1,) * len(shape), ghost, (False,) * len(shape), order)
        memory, held = BlockMemory.on_lines(layout, 0, item), layout.held(0)
        row_axis = len(shape) - 1 if order == "C" else 0
        row = held.shape[row_axis] * item
        line = LINE if row >= 4 * LINE else 32
        first_owned = memory.offset + sum(g * s for g, s in zip(ghost, memory.strides, strict=True))
        across = [stride for axis, stride in enumerate(memory.strides) if axis != row_axis]
        assert memory.strides[row_axis] == item
        assert first_owned % line == 0
        assert all(stride % line == 0 for stride in across)
        assert 0 <= memory.offset < line
        ends = [(count - 1) * stride for count, stride in zip(held.shape, memory.strides, strict=True)]
        assert (
            memory.offset + sum(ends) + item
            <= memory.nbytes
            <= memory.offset + held.size // held.shape[row_axis] * (row + line)
        )
        assert sorted(across, reverse=order == "C") == across
    empty = Layout(gw.RectDomain(0, 1), (2,), (1,), (False,), order)
    assert BlockMemory.on_lines(empty, 1, item).nbytes == 0


def test_many_copies_in_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(8)
    kind = gw.cuda(0)
    segment = gw.Segment(gw.world, 1 << 16, kind)
    for limit in (device_boxes.MOST_UNITS, 300):
        monkeypatch.setattr(device_boxes, "MOST_UNITS", limit)
        for _ in range(20):
            data = random.integers(0, 256, 1 << 16, dtype=np.uint8)
            expected = data.copy()
            copies = []
            for place in range(8):  # each in a part of its own, from its first half to its second
                first = place << 13
                item = int(2 ** random.integers(0, 5))
                shape = tuple(random.integers(1, (60, 9, 5, 3, 3)[n], 1)[0] for n in range(int(random.integers(1, 6))))
                count = int(np.prod(shape))
                if 2 * count * item > 1 << 13:
                    continue
                axes = random.permutation(len(shape))
                source = data[first : first + count * item].view(f"V{item}").reshape(np.array(shape)[np.argsort(axes)])
                source = source.transpose(axes)
                start = first + (1 << 12) + int(random.integers(0, (1 << 12) // item - count + 1)) * item
                target = expected[start : start + count * item].view(f"V{item}").reshape(shape)
                target[...] = source
                copies.append(
                    BoxCopy.of(
                        source.shape,
                        item,
                        source.strides,
                        target.strides,
                        source=segment.address + first,
                        target=segment.address + start,
                    )
                )
            gw.put(data, segment.pointer()).wait()
            program = BoxProgram(kind, copies)
            assert program.nbytes == sum(one.nbytes for one in copies)
            program.launch(kind.device.compute)
            assert np.array_equal(gw.get(segment.pointer(), 1 << 16).result(), expected)
    BoxProgram(kind, []).launch(kind.device.compute)
