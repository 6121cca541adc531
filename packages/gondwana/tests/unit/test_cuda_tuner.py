"""Shapes of launches: guesses, trials on the emulated GPU, and their records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.gpu.device import Device, device
from gondwana.gpu.interface import CudaError
from gondwana.kernels import trials
from gondwana.kernels.cuda import tuner
from gondwana.kernels.cuda.shapes import Shape
from gondwana.kernels.variant import Variant
from gondwana.testing.gpu import emulated_gpu


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(trials, "_folder", lambda: tmp_path)
    monkeypatch.setattr(trials, "_known", {})
    with emulated_gpu():
        yield


@gw.foreach
def relax(p: gw.Point, target: Any, source: Any) -> None:
    target[p] = 0.5 * source[p] + 0.25 * (source[p - gw.Z] + source[p + gw.Z])


@gw.foreach
def double(p: gw.Point, a: Any) -> None:
    a[p] = 2.0 * a[p]


def _arrays() -> tuple[gw.GlobalArray, gw.GlobalArray, gw.RectDomain]:
    source = gw.from_numpy(np.arange(6.0**3).reshape(6, 6, 6), kind=gw.cuda(0))
    return gw.zeros_like(source), source, source.owned.shrink(1)


def test_a_trial_takes_the_fastest_shape_and_keeps_the_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried = []

    def pretend(device: Any, launch: Any) -> float:
        launch()
        tried.append(1)
        return 1.0 / len(tried)  # the later, the faster

    monkeypatch.setattr(tuner, "LEAST", 1)
    monkeypatch.setattr(tuner, "measured", pretend)
    monkeypatch.setattr(tuner, "SINGLE", (({"lanes": 1}, {"lanes": 2}), ({"held": False},)))
    monkeypatch.setattr(Device, "emulated", False)
    target, source, inner = _arrays()
    relax(inner, target, source)
    gw.synchronize()
    assert len(tried) == 3
    (record,) = tmp_path.glob("*.json")
    assert '"lanes": 2' in record.read_text()
    assert '"held": false' in record.read_text()
    expected = gw.zeros(source.domain)
    relax(inner, expected, gw.from_numpy(source.to_numpy()))
    assert np.array_equal(target.to_numpy(), expected.to_numpy())

    relax._remembered.clear()
    trials._known.clear()
    relax(inner, target, source)
    assert len(tried) == 3, "a second process finds the record"


@gw.reduce(op="max")
def largest(p: gw.Point, a: Any) -> Any:
    return a[p]


@gw.reduce(op="sum")
def total(p: gw.Point, a: Any) -> Any:
    return a[p]


def _clock(monkeypatch: pytest.MonkeyPatch, tried: list[Any]) -> None:
    """Have small domains tried on the emulated GPU, whose launches take the less the later they are tried."""

    def pretend(device: Any, launch: Any) -> float:
        launch()
        gw.synchronize()
        tried.append(launch)
        return 1.0 / len(tried)

    monkeypatch.setattr(tuner, "LEAST", 1)
    monkeypatch.setattr(tuner, "measured", pretend)
    monkeypatch.setattr(Device, "emulated", False)


def test_reductions_are_tried_if_their_bits_do_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "SINGLE", (({"lanes": 2},), ({"x": 16, "y": 4},)))
    tried: list[Any] = []
    _clock(monkeypatch, tried)
    _, source, inner = _arrays()
    assert largest(inner, source) == source.to_numpy()[1:-1, 1:-1, 1:-1].max()
    assert len(tried) == 3
    integers = gw.from_numpy(np.arange(216).reshape(6, 6, 6), kind=gw.cuda(0))
    assert total(integers.owned, integers) == 216 * 215 // 2
    assert len(tried) == 6
    assert total(source.owned, source) == 216 * 215 / 2
    assert len(tried) == 6, "the shape decides on the order of a sum"


def test_pairs_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "PAIR", (({"x": 4, "y": 8},), ({"lanes": 2}, {"resident": 2})))
    tried: list[Any] = []
    _clock(monkeypatch, tried)
    source = gw.from_numpy(np.random.default_rng(1).random((9, 12, 12)), kind=gw.cuda(0))
    target, host = gw.zeros_like(source), gw.from_numpy(source.to_numpy())
    expected, inner = gw.zeros_like(host), source.owned.shrink(2)
    between = gw.Intermediate("float64")
    for out, of in ((target, source), (expected, host)):
        gw.fused(inner, (relax, between, of), (relax, out, between))
    assert len(tried) == 4
    assert np.array_equal(target.to_numpy(), expected.to_numpy())


def test_one_text_serves_shapes_that_differ_in_threads_and_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    from gondwana.kernels.cuda import build

    texts = []
    compile_kernel = build.compile_kernel
    monkeypatch.setattr(build, "compile_kernel", lambda *given: texts.append(given) or compile_kernel(*given))
    monkeypatch.setattr(
        tuner, "SINGLE", (({"x": 16, "y": 4}, {"x": 8, "y": 8}), ({"resident": 2},), ({"streamed": True},))
    )
    tried: list[Any] = []
    _clock(monkeypatch, tried)
    target, source, inner = _arrays()
    relax(inner, target, source)
    assert len(tried) == 5
    assert len(texts) <= 1
    expected = gw.zeros(source.domain)
    relax(inner, expected, gw.from_numpy(source.to_numpy()))
    assert np.array_equal(target.to_numpy(), expected.to_numpy())


def test_shapes_that_a_device_cannot_run_are_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried = []

    def pretend(device: Any, launch: Any) -> float:
        tried.append(1)
        if len(tried) > 1:
            raise CudaError("cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
        return 1.0

    monkeypatch.setattr(tuner, "LEAST", 1)
    monkeypatch.setattr(tuner, "measured", pretend)
    monkeypatch.setattr(tuner, "SINGLE", (({"lanes": 2},), ({"held": False},)))
    monkeypatch.setattr(Device, "emulated", False)
    target, source, inner = _arrays()
    relax(inner, target, source)
    assert len(tried) == 3
    (record,) = tmp_path.glob("*.json")
    assert '"lanes": 1' in record.read_text()
    assert float(target.to_numpy().sum()) > 0.0


def test_kernels_that_read_what_they_write_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "LEAST", 1)
    monkeypatch.setattr(Device, "emulated", False)
    monkeypatch.setattr(tuner, "measured", lambda *_: pytest.fail("it was tried"))
    a = gw.from_numpy(np.ones((4, 4, 4)), kind=gw.cuda(0))
    double(a.owned, a)
    assert float(a.to_numpy().sum()) == 128.0


def test_a_damaged_record_is_made_anew(tmp_path: Path) -> None:
    assert trials.recorded(("key",), lambda: {"x": 1}) == {"x": 1}
    (file,) = tmp_path.glob("*.json")
    file.write_text("{")
    trials._known.clear()
    assert trials.recorded(("key",), lambda: {"x": 2}) == {"x": 2}


def test_a_record_that_cannot_be_written_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_folder", lambda: tmp_path / "gone")
    assert trials.recorded(("key",), lambda: {"x": 1}) == {"x": 1}


def test_launches_are_timed_by_the_device() -> None:
    target, source, inner = _arrays()
    assert tuner.measured(device(0), lambda: relax(inner, target, source)) > 0.0


def test_which_is_faster_is_kept() -> None:
    target, source, inner = _arrays()
    launches = []

    def many() -> None:
        launches.append("many")
        for _ in range(40):
            relax(inner, target, source)

    def few() -> None:
        launches.append("few")
        relax(inner, target, source)

    here = gw.cuda(0).device
    assert gw.is_faster(few, many, key=("test",), device=here)
    count = len(launches)
    assert gw.is_faster(few, many, key=("test",), device=here)
    assert len(launches) == count
    assert not gw.is_faster(many, few, key=("turned round",), device=here)


@pytest.mark.parametrize("operation", [None, "sum"])
@pytest.mark.parametrize("extents", [(5,), (1000,), (3, 200), (64, 64, 64), (2, 9, 9, 300)])
def test_guesses_fit_their_boxes(extents: tuple[int, ...], operation: str | None) -> None:
    variant = Variant((), len(extents), "C", True, (), True, operation, False)
    shape = tuner.shape_for(variant, extents)
    assert shape.threads <= 1024
    assert len(extents) > 2 or shape.y == 1
    assert shape.x // 2 < extents[-1]
    assert shape.threads >= 128 or extents[-1] < 65


def test_candidates_are_possible() -> None:
    found = list(tuner.candidates(Shape(x=32, y=16), tuner.PAIR[0], (100, 9, 40), 16))
    assert found
    assert all(shape.x <= 42 and shape.y <= 11 for shape in found)
    flat = list(tuner.candidates(Shape(x=256, y=1), tuner.SINGLE[0], (100, 1000)))
    assert {(shape.x, shape.y) for shape in flat} == {(64, 1), (128, 1), (512, 1)}
    assert all(shape.threads * shape.resident <= 2048 for shape in found + flat)
    assert all(shape.y > 1 for shape in tuner.candidates(Shape(resident=6), tuner.SINGLE[0], (100, 100, 100)))


def test_planes_of_intermediates_fit_shared_memory() -> None:
    box = (1000, 1000, 1000)
    wide = Shape(x=64, y=8, lanes=1)
    assert [shape.lanes for shape in tuner.candidates(wide, tuner.PAIR[1], box, 16)] == [2]
    assert list(tuner.candidates(wide, tuner.PAIR[1], box, 32)) == []
