"""The CUDA driver by `cuda.bindings`, on a driver that does in host memory what it is asked, and notes it."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gondwana.gpu.bindings import CudaDriver, assemble
from gondwana.gpu.interface import CudaError
from support import jobs, stub_cuda

Call = Callable[..., list[str]]

ON_A_GPU = Path(__file__).parents[1] / "gpu" / "test_driver.py"


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables by which a process finds the stub."""
    return stub_cuda.build(tmp_path_factory.mktemp("stub"))


@pytest.fixture
def run(stub: dict[str, str], tmp_path: Path) -> Call:
    """Run a function in a process that has the stub, and return what the stub noted."""

    def start(program: Callable[[], None], **variables: str) -> list[str]:
        log = tmp_path / "log"
        settings = {**stub, "STUB_CUDA_LOG": str(log), **variables}
        outcome = jobs.run_command([sys.executable, *jobs.python_arguments(program)], variables=settings)
        assert outcome.status == 0, str(outcome)
        return log.read_text().splitlines()

    return start


def test_devices(run: Call) -> None:
    def program() -> None:
        from gondwana.gpu.driver import driver
        from gondwana.gpu.interface import DeviceFacts

        one = driver()
        assert (one.name, one.version, one.count()) == ("CUDA 13.0", (13, 0), 2)
        uuid = "GPU-2930373e-454c-535a-6168-6f767d848b92"
        assert one.facts(1) == DeviceFacts("Stub 41", uuid, (9, 0), 1016, 2**33, 1038, 1097, "0000:29:00.0")
        assert [one.atomics_between(*pair) for pair in ((1, 0), (0, 1))] == [True, False]
        assert one.open(1) == 0x1029
        one.activate(0x1234)

    assert run(program) == ["cuInit 0", "cuCtxSetCurrent 0x1029", "cuCtxSetCurrent 0x1234"]


def test_memory(run: Call) -> None:
    def program() -> None:
        import ctypes

        from gondwana.gpu.driver import driver

        one = driver()
        assert one.memory() == (2**32, 2**33)
        first, second = one.allocate(1000), one.allocate(0)
        assert first % 256 == second % 256 == 0
        one.fill(first, 0xAB, 1000, 7)
        one.fill(first, 0xCD, 0, 7)
        one.copy(second, first, 0, 7)
        host = ctypes.create_string_buffer(10)
        one.copy(ctypes.addressof(host), first, 9, 7)
        assert host.raw == b"\xab" * 9 + b"\0"
        page = ctypes.addressof(ctypes.create_string_buffer(4096))
        one.register(page, 4096)
        one.unregister(page)
        handle = one.export(first)
        assert len(handle) == 64
        assert handle[0] == 0xE0  # bytes above 127, and zeros, arrive too
        assert handle[63] == 31
        assert one.attach(handle) == first
        one.detach(0x999)
        one.free(first)

    said = run(program)[1:]
    page = said[4].split()[1]
    assert said == [
        "cuMemAlloc 1000", "cuMemAlloc 1", "cuMemcpyAsync 9 0x7", f"cuMemHostRegister {page} 4096 1",
        f"cuMemHostUnregister {page}", "cuIpcOpenMemHandle 1", "cuIpcCloseMemHandle 0x999",
    ]  # fmt: skip


def test_boxes(run: Call) -> None:
    def program() -> None:
        import numpy as np

        from gondwana.gpu.driver import driver

        source = np.arange(5 * 6 * 8, dtype=np.uint8).reshape(5, 6, 8)
        one = driver()

        def check(counts: tuple[int, int, int], shape: tuple[int, int, int]) -> None:
            width, rows, planes = counts
            target = np.full(shape, 255, np.uint8)
            wanted = target.copy()
            wanted[:planes, :rows, :width] = source[1 : 1 + planes, 2 : 2 + rows, 3 : 3 + width]
            start = source[1:, 2:, 3:]
            one.copy_box(
                target.ctypes.data, start.ctypes.data, counts, (target.strides[1], target.strides[0]),
                (source.strides[1], source.strides[0]), 0,
            )  # fmt: skip
            np.testing.assert_array_equal(target, wanted)

        check((4, 3, 2), (3, 5, 7))
        check((4, 3, 1), (1, 3, 4))
        check((4, 1, 3), (3, 2, 5))
        check((4, 1, 1), (1, 1, 4))
        for empty in ((0, 3, 2), (4, 0, 2), (4, 3, 0), (4, 1, 0)):
            check(empty, (3, 5, 7))

    assert run(program)[1:] == [
        "cuMemcpy3DAsync 4 3 2 pitch 8 7 height 6 5",
        "cuMemcpy3DAsync 4 3 1 pitch 8 4 height 3 3",
        "cuMemcpy3DAsync 4 3 1 pitch 48 10 height 3 3",
        "cuMemcpyAsync 4 0",
    ]


def test_rows_far_apart_are_copied_one_by_one(run: Call) -> None:
    def program() -> None:
        import mmap

        import numpy as np

        from gondwana.gpu.driver import driver

        far = 2**31 + 8
        with mmap.mmap(-1, 3 * far) as memory:  # touched here and there only
            sparse = np.frombuffer(memory, np.uint8)
            for plane in range(3):
                sparse[plane * far : plane * far + 4] = plane + 1
            target = np.zeros((3, 4), np.uint8)
            driver().copy_box(target.ctypes.data, sparse.ctypes.data, (4, 1, 3), (4, 4), (8, far), 0)
            assert target.tolist() == [[1] * 4, [2] * 4, [3] * 4]
            del sparse

    assert run(program)[1:] == ["cuMemcpyAsync 4 0"] * 3


def test_streams_and_events(run: Call) -> None:
    def program() -> None:
        from gondwana.gpu.driver import driver

        one = driver()
        stream, event, timed = one.new_stream(), one.new_event(), one.new_event(timing=True)
        assert (stream, event, timed) == (0x5001, 0x5002, 0x5003)
        one.record(event, stream)
        assert not one.reached(event)
        assert one.reached(event)
        one.order(stream, event)
        one.await_event(event)
        later = one.new_event(timing=True)
        assert one.seconds(timed, later) == 0.0015
        assert not one.idle(stream)
        assert one.idle(stream)
        one.finish(stream)
        one.free_event(event)
        one.free_stream(stream)
        assert one.new_stream(urgent=True) == 0x5005

    assert run(program)[1:] == [
        "cuStreamCreate 1 0x5001", "cuEventCreate 2 0x5002", "cuEventCreate 0 0x5003", "cuEventRecord 0x5002 0x5001",
        "cuStreamWaitEvent 0x5001 0x5002 0", "cuEventSynchronize 0x5002",
        "cuEventCreate 0 0x5004", "cuStreamSynchronize 0x5001", "cuEventDestroy 0x5002", "cuStreamDestroy 0x5001",
        "cuStreamCreateWithPriority 1 -5 0x5005",
    ]  # fmt: skip


def test_kernels(run: Call) -> None:
    def program() -> None:
        import struct
        import threading

        import pytest

        from gondwana.gpu.driver import driver
        from gondwana.gpu.interface import CudaError, EntryFacts

        one = driver()
        module = one.load(b".version 8.0 .entry sweep")
        entry = one.entry(module, "sweep")
        with pytest.raises(
            CudaError, match=r"^cuModuleGetFunction\(28672, missing\): CUDA_ERROR_NOT_FOUND: named symbol"
        ):
            one.entry(module, "missing")
        assert one.entry_facts(entry) == EntryFacts(registers=104, local=103, shared=101, threads=100)
        one.allow_shared(entry, 99_000)
        assert one.resident(entry, 256, 1024) == 8
        arguments = struct.pack("<qdq", -2, 0.5, 2**40)
        one.launch(entry, (3, 4, 5), (32, 2, 1), 512, 0x77, arguments)
        one.launch(entry, (3, 4, 5), (32, 2, 1), 512, 0x77, arguments[::-1])
        thread = threading.Thread(target=lambda: one.launch(entry, (1, 1, 1), (1, 1, 1), 0, 0, b"\x01" * 8))
        thread.start()
        thread.join()
        one.launch(entry, (1, 1, 1), (1, 1, 1), 0, 0, b"")
        one.unload(module)

    arguments = struct.pack("<qdq", -2, 0.5, 2**40)
    shape = "cuLaunchKernel 0x7100 grid 3 4 5 block 32 2 1 shared 512 stream 0x77 parameters 0 arguments"
    small = "cuLaunchKernel 0x7100 grid 1 1 1 block 1 1 1 shared 0 stream 0 parameters 0 arguments"
    assert run(program)[1:] == [
        "cuModuleLoadData .version 8.0 .entry sweep", "cuModuleGetFunction 0x7000 sweep",
        "cuModuleGetFunction 0x7000 missing",
        "cuFuncSetAttribute 0x7100 8 99000", "cuOccupancy 0x7100 256 1024", f"{shape} {arguments.hex()}",
        f"{shape} {arguments[::-1].hex()}", f"{small} {'01' * 8}", f"{small} none", "cuModuleUnload 0x7000",
    ]  # fmt: skip


def test_graphs(run: Call) -> None:
    def program() -> None:
        from gondwana.gpu.driver import driver

        one = driver()
        one.begin_capture(0x11)
        graph = one.end_capture(0x11)
        one.replay(graph, 0x12)
        one.free_graph(graph)

    assert run(program)[1:] == [
        "cuStreamBeginCapture 0x11 2", "cuGraphInstantiate 0x111 0", "cuGraphDestroy 0x111", "cuGraphLaunch 0x211 0x12",
        "cuGraphExecDestroy 0x211",
    ]  # fmt: skip


def test_errors(run: Call) -> None:
    def program() -> None:
        import pytest

        from gondwana.gpu.driver import driver
        from gondwana.gpu.interface import CudaError

        one = driver()
        with pytest.raises(MemoryError, match=r"no 6\.0 GiB of memory left: 4\.0 GiB of its 8\.0 GiB"):
            one.allocate(3 * 2**31)
        with pytest.raises(
            CudaError, match=r"^cuMemHostRegister\(4096, 8589934592, 1\): CUDA_ERROR_OUT_OF_MEMORY: out"
        ):
            one.register(4096, 2**33)
        with pytest.raises(CudaError, match=r"^cuMemFree\(2989\): CUDA_ERROR_INVALID_VALUE: invalid argument$"):
            one.free(0xBAD)
        with pytest.raises(CudaError, match=r"^cuIpcOpenMemHandle\(1\)"):
            one.attach(bytes(64))
        with pytest.raises(CudaError, match=r"^cuLaunchKernel\(1, 1, 1, 2048, 1, 1, 0\): CUDA_ERROR_INVALID_VALUE"):
            one.launch(1, (1, 1, 1), (2048, 1, 1), 0, 0, b"")
        with pytest.raises(CudaError, match=r"ILLEGAL_ADDRESS.*this process cannot use the device any more$"):
            one.free(0xDEAD)

    run(program)


def test_a_capture_refuses_what_nvidias_driver_refuses(run: Call) -> None:
    def program() -> None:
        import ctypes

        import pytest

        from gondwana.gpu.driver import driver
        from gondwana.gpu.interface import CudaError

        one = driver()
        stream, event, memory = one.new_stream(), one.new_event(), one.allocate(64)
        host = ctypes.addressof(ctypes.create_string_buffer(64))
        one.begin_capture(stream)
        one.record(event, stream)
        with pytest.raises(CudaError, match="CAPTURED_EVENT: operation not permitted on an event last recorded in a"):
            one.reached(event)
        with pytest.raises(CudaError, match="CAPTURED_EVENT"):
            one.await_event(event)
        with pytest.raises(CudaError, match="STREAM_CAPTURE_UNSUPPORTED: operation not permitted when stream is capt"):
            one.finish(stream)
        with pytest.raises(CudaError, match="STREAM_CAPTURE_UNSUPPORTED"):
            one.copy(memory, host, 64, stream)
        one.register(host, 64)
        one.copy(memory, host, 64, stream)
        one.end_capture(stream)
        one.record(event, stream)
        one.await_event(event)

    run(program)


def test_what_the_tests_on_a_gpu_expect_of_refusals_holds_here(stub: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "refusal", str(ON_A_GPU)]
    outcome = jobs.run_command(command, variables=stub)
    assert outcome.status == 0, str(outcome)
    assert "5 passed" in outcome.stdout
    assert "skipped" not in outcome.stdout


@pytest.mark.parametrize(
    ("variables", "texts"),
    [
        ({"STUB_CUDA_INIT": "100", "CUDA_VISIBLE_DEVICES": ""}, ["sees no GPU (CUDA_VISIBLE_DEVICES=)", "gw.host"]),
        ({"STUB_CUDA_INIT": "1"}, ["does not start", "CUDA_ERROR_INVALID_VALUE", "nvidia-smi"]),
        ({"STUB_CUDA_VERSION": "11080"}, ["knows CUDA 11.8", "update the driver", "numba-cuda[cu11]"]),
    ],
)
def test_machines_that_have_none(run: Call, variables: dict[str, str], texts: list[str]) -> None:
    def program() -> None:
        import os
        from pathlib import Path

        import pytest

        from gondwana.errors import UsageError
        from gondwana.gpu.driver import driver

        with pytest.raises(UsageError) as refusal:
            driver()
        with Path(os.environ["STUB_CUDA_LOG"]).open("a") as log:
            print(refusal.value, file=log)

    said = run(program, **variables)[1:]
    assert len(said) == 1
    for text in texts:
        assert text in said[0]


def test_without_a_driver_or_the_package() -> None:
    def program() -> None:
        import sys

        import cuda.bindings
        import pytest

        from gondwana.errors import UsageError
        from gondwana.gpu.bindings import CudaDriver

        class Missing:
            CUresult = None

            @staticmethod
            def cuInit(flags: int) -> None:  # noqa: N802
                raise RuntimeError("libcuda.so.1: cannot open shared object file")

        cuda.bindings.driver = sys.modules["cuda.bindings.driver"] = Missing
        with pytest.raises(UsageError, match=r"no NVIDIA driver \(libcuda.so.1 is not found\)"):
            CudaDriver.connect()
        del cuda.bindings.driver
        sys.modules["cuda.bindings.driver"] = None
        with pytest.raises(UsageError, match=r"pip install 'gondwana\[cuda\]'"):
            CudaDriver.connect()

    outcome = jobs.run_command([sys.executable, *jobs.python_arguments(program)])
    assert outcome.status == 0, str(outcome)


PTX = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry store(.param .u64 to) {
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [to];
    cvta.to.global.u64 %rd2, %rd1;
    st.global.u64 [%rd2], %rd1;
    ret;
}
"""


def test_ptx_is_translated_without_a_device() -> None:
    code, _ = assemble(PTX, (9, 0))
    assert code.startswith(b"\x7fELF")
    assert b"store" in code


def test_the_assembler_says_what_a_kernel_needs() -> None:
    bounded = PTX.replace(b"to) {", b"to)\n.maxntid 64, 4, 1\n{\n    .shared .align 8 .b8 room[1024];")
    bounded = bounded.replace(b"ret;", b"st.shared.u64 [room], %rd1;\n    ret;")
    resources = assemble(bounded, (9, 0))[1]["store"]
    assert (resources.local, resources.shared, resources.threads) == (0, 1024, 256)
    assert 0 < resources.registers < 20
    assert assemble(PTX, (9, 0))[1]["store"].threads == 1024


def test_ptx_that_does_not_translate_says_why() -> None:
    with pytest.raises(CudaError, match=r"does not translate.*\n?.*nonsense"):
        assemble(PTX.replace(b"st.global.u64", b"nonsense"), (9, 0))
    with pytest.raises(CudaError, match=r"capability \(2, 0\)"):
        assemble(PTX, (2, 0))


def test_the_class_is_whole() -> None:
    assert not CudaDriver.__abstractmethods__
