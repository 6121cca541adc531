"""The CUDA driver, by `cuda.bindings`, which no other module imports but `bench.gpu.nvrtc`.

Its functions return a tuple of a status and the results, take handles and addresses as integers, and release the GIL
while they run.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import subprocess
import tempfile
import threading
import uuid
from types import ModuleType
from typing import Any, NoReturn

from gondwana.errors import UsageError
from gondwana.gpu.interface import CudaError, DeviceFacts, Driver, EntryFacts, Grid

_MAX_PITCH = 2**31 - 1
"""The largest row stride that the driver accepts [bytes]."""

_LOST = re.compile(
    "ASSERT|ECC_UNCORRECTABLE|EXTERNAL_DEVICE|HARDWARE_STACK_ERROR|ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|"
    "INVALID_ADDRESS_SPACE|INVALID_PC|LAUNCH_FAILED|LAUNCH_TIMEOUT|MISALIGNED_ADDRESS"
)
"""Errors of an earlier kernel than the call that reports them; all later calls report them again."""

_COMPILED = re.compile(
    r"entry function '(.+?)'.*?(\d+) bytes stack frame.*?Used (\d+) registers(.*?)$", re.DOTALL | re.MULTILINE
)
"""What the assembler says of a kernel: its name, bytes of its stack, registers, and further resources."""

_BLOCKS, _SPILLED = re.compile(rb"\.minnctapersm (\d+)"), re.compile(rb"[1-9]\d* bytes spill")

_MAY_FAIL = frozenset(("cuMemHostRegister", "cuIpcGetMemHandle", "cuIpcOpenMemHandle"))
"""Calls with a fallback: for those, a lack of memory is like any other reason to use it."""


class CudaDriver(Driver):
    """The CUDA driver."""

    def __init__(self, api: ModuleType, version: tuple[int, int]) -> None:
        self.version = version
        self.name = f"CUDA {version[0]}.{version[1]}"
        self._api: Any = api
        self._scratch = _Scratch(api)

    @classmethod
    def connect(cls) -> CudaDriver:
        """Return the driver of this machine. Local.

        Raises:
            UsageError: no driver is installed, it sees no device, or it is too old; the message explains what to do.
        """
        try:
            from cuda.bindings import driver as api
        except ImportError as error:
            raise UsageError(f"GPUs need cuda-bindings ({error}): pip install 'gondwana[cuda]'") from None
        try:
            status = api.cuInit(0)[0]
        except RuntimeError:  # of the loader
            raise UsageError(
                "this machine has no NVIDIA driver (libcuda.so.1 is not found): use gw.host, or install the driver; "
                "containers are started with --gpus all (Docker) or --nv (Apptainer)"
            ) from None
        if status == api.CUresult.CUDA_ERROR_NO_DEVICE:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            hidden = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible})"
            raise UsageError(f"the NVIDIA driver sees no GPU{hidden}: use gw.host, or choose a machine with one")
        if status:
            raise UsageError(f"the NVIDIA driver does not start: {_explain(api, status)}; nvidia-smi may show more")
        version = api.cuDriverGetVersion()[1]
        wanted = api.CUDA_VERSION // 1000
        if version // 1000 < wanted:
            raise UsageError(
                f"the NVIDIA driver knows CUDA {_version(version)}, but the installed cuda-bindings are made for "
                f"{_version(api.CUDA_VERSION)}: update the driver, or pip install "
                f"'numba-cuda[cu{version // 1000}]' 'cuda-bindings=={version // 1000}.*'"
            )
        return cls(api, (version // 1000, version % 1000 // 10))

    # -- devices and contexts -------------------------------------------------------------------------------------

    def count(self) -> int:
        """Return the number of devices that this process sees."""
        return int(self._ask(self._api.cuDeviceGetCount))

    def facts(self, device: int) -> DeviceFacts:
        """Return the properties of a device."""
        api = self._api
        handle = self._ask(api.cuDeviceGet, device)
        attribute = api.CUdevice_attribute

        def number(name: str) -> int:
            return int(self._ask(api.cuDeviceGetAttribute, getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))

        # Before 13.0 the plain name is the first version, which is the same for all parts of a divided GPU.
        ask_uuid = getattr(api, "cuDeviceGetUuid_v2", api.cuDeviceGetUuid)
        return DeviceFacts(
            name=_text(self._ask(api.cuDeviceGetName, 256, handle)),
            uuid=f"GPU-{uuid.UUID(bytes=bytes(self._ask(ask_uuid, handle).bytes))}",
            capability=(number("COMPUTE_CAPABILITY_MAJOR"), number("COMPUTE_CAPABILITY_MINOR")),
            processors=number("MULTIPROCESSOR_COUNT"),
            memory=int(self._ask(api.cuDeviceTotalMem, handle)),
            l2=number("L2_CACHE_SIZE"),
            shared_limit=number("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            bus=_text(self._ask(api.cuDeviceGetPCIBusId, 32, handle)),
        )

    def open(self, device: int) -> int:
        """Make the primary context of a device current in this thread, and return it."""
        handle = self._ask(self._api.cuDeviceGet, device)
        context = int(self._ask(self._api.cuDevicePrimaryCtxRetain, handle))
        self.activate(context)
        return context

    def activate(self, context: int) -> None:
        """Make a context current in this thread."""
        self._ask(self._api.cuCtxSetCurrent, context)

    # -- memory ---------------------------------------------------------------------------------------------------

    def memory(self) -> tuple[int, int]:
        """Return the free and the total bytes of the current device."""
        status, free, total = self._api.cuMemGetInfo()
        if status:
            self._fail("cuMemGetInfo", status)
        return int(free), int(total)

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory of the current device: aligned to 256 bytes, exportable, uninitialised."""
        status, address = self._api.cuMemAlloc(max(nbytes, 1))  # 0 would be refused
        if status == self._api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            free, total = self.memory()
            raise MemoryError(
                f"the device has no {_size(nbytes)} of memory left: {_size(free)} of its {_size(total)} are free"
            )
        if status:
            self._fail("cuMemAlloc", status, nbytes)
        return int(address)

    def free(self, address: int) -> None:
        """Free memory."""
        self._ask(self._api.cuMemFree, address)

    def register(self, address: int, nbytes: int) -> None:
        """Pin host memory, so that copies to and from it run at full speed and concurrently with the program."""
        self._ask(self._api.cuMemHostRegister, address, nbytes, self._api.CU_MEMHOSTREGISTER_PORTABLE)

    def unregister(self, address: int) -> None:
        """Undo `register`."""
        self._ask(self._api.cuMemHostUnregister, address)

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        """Set bytes of device memory to a value."""
        if nbytes:
            self._ask(self._api.cuMemsetD8Async, address, byte, nbytes, stream)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes between any two addresses, of the host or of devices."""
        if nbytes:
            self._ask(self._api.cuMemcpyAsync, target, source, nbytes, stream)

    def copy_box(
        self, target: int, source: int, counts: Grid, target_strides: tuple[int, int], source_strides: tuple[int, int],
        stream: int,
    ) -> None:  # fmt: skip
        """Copy rows of bytes between any two addresses."""
        width, rows, planes = counts
        if rows == 1:  # planes of one row are rows; so the distance between rows is one that is used
            rows, planes = planes, 1
            target_strides, source_strides = target_strides[::-1], source_strides[::-1]
        if not width * rows * planes:
            return
        if rows == 1:
            self.copy(target, source, width, stream)
            return
        if max(target_strides[0], source_strides[0]) > _MAX_PITCH:
            for plane in range(planes):
                for row in range(rows):
                    to = target + row * target_strides[0] + plane * target_strides[1]
                    self.copy(to, source + row * source_strides[0] + plane * source_strides[1], width, stream)
            return
        box = self._scratch.box
        box.WidthInBytes, box.Height, box.Depth = width, rows, planes
        box.srcDevice, box.srcPitch = source, source_strides[0]
        box.dstDevice, box.dstPitch = target, target_strides[0]
        box.srcHeight = source_strides[1] // source_strides[0] if planes > 1 else rows
        box.dstHeight = target_strides[1] // target_strides[0] if planes > 1 else rows
        self._ask(self._api.cuMemcpy3DAsync, box, stream)

    # -- memory of other processes --------------------------------------------------------------------------------

    def export(self, address: int) -> bytes:
        """Return a handle by which other processes of this machine attach memory that `allocate` returned."""
        handle = self._ask(self._api.cuIpcGetMemHandle, address)
        return ctypes.string_at(handle.getPtr(), 64)

    def attach(self, handle: bytes) -> int:
        """Map another process's memory and return its address in this one."""
        given = self._api.CUipcMemHandle()
        ctypes.memmove(given.getPtr(), handle, 64)
        flags = self._api.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
        return int(self._ask(self._api.cuIpcOpenMemHandle, given, int(flags)))

    def detach(self, address: int) -> None:
        """Undo `attach`."""
        self._ask(self._api.cuIpcCloseMemHandle, address)

    def atomics_between(self, device: int, other: int) -> bool:
        """Return whether kernels of a device perform atomic operations on memory of another, as those there do."""
        api = self._api
        attribute = api.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
        handles = (self._ask(api.cuDeviceGet, number) for number in (device, other))
        return bool(self._ask(api.cuDeviceGetP2PAttribute, attribute, *handles))

    # -- streams and events ---------------------------------------------------------------------------------------

    def new_stream(self, *, urgent: bool = False) -> int:
        """Return an independent stream; kernels on an urgent one are scheduled first."""
        flags = int(self._api.CUstream_flags.CU_STREAM_NON_BLOCKING)
        if not urgent:
            return int(self._ask(self._api.cuStreamCreate, flags))
        status, _, most = self._api.cuCtxGetStreamPriorityRange()
        if status:
            self._fail("cuCtxGetStreamPriorityRange", status)
        return int(self._ask(self._api.cuStreamCreateWithPriority, flags, most))

    def free_stream(self, stream: int) -> None:
        """Destroy a stream."""
        self._ask(self._api.cuStreamDestroy, stream)

    def finish(self, stream: int) -> None:
        """Wait until everything on a stream is done."""
        self._ask(self._api.cuStreamSynchronize, stream)

    def idle(self, stream: int) -> bool:
        """Return whether everything on a stream is done."""
        return self._passed(self._api.cuStreamQuery, stream)

    def new_event(self, *, timing: bool = False) -> int:
        """Return an event, which `record` sets."""
        flags = self._api.CUevent_flags
        flag = flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING
        return int(self._ask(self._api.cuEventCreate, int(flag)))

    def free_event(self, event: int) -> None:
        """Destroy an event."""
        self._ask(self._api.cuEventDestroy, event)

    def record(self, event: int, stream: int) -> None:
        """Record an event: it is reached when everything that is now on the stream is done."""
        self._ask(self._api.cuEventRecord, event, stream)

    def reached(self, event: int) -> bool:
        """Return whether an event has been reached."""
        return self._passed(self._api.cuEventQuery, event)

    def await_event(self, event: int) -> None:
        """Wait until an event has been reached."""
        self._ask(self._api.cuEventSynchronize, event)

    def order(self, stream: int, event: int) -> None:
        """Make later work of a stream wait for an event."""
        self._ask(self._api.cuStreamWaitEvent, stream, event, 0)

    def seconds(self, first: int, last: int) -> float:
        """Return the seconds between two events that were created for timing and have been reached."""
        return float(self._ask(self._api.cuEventElapsedTime, first, last)) / 1e3

    # -- code -----------------------------------------------------------------------------------------------------

    def link(self, ptx: bytes, capability: tuple[int, int]) -> bytes:
        """Translate PTX to machine code of a compute capability. Needs no device."""
        return assemble(ptx, capability)[0]

    def load(self, image: bytes) -> int:
        """Load machine code or PTX, and return the module."""
        # The driver reads PTX up to a zero; machine code knows its length.
        return int(self._ask(self._api.cuModuleLoadData, image + b"\0"))

    def unload(self, module: int) -> None:
        """Undo `load`."""
        self._ask(self._api.cuModuleUnload, module)

    def entry(self, module: int, name: str) -> int:
        """Return a kernel of a module by its name."""
        status, found = self._api.cuModuleGetFunction(module, name.encode())
        if status:
            self._fail("cuModuleGetFunction", status, module, name)
        return int(found)

    def entry_facts(self, entry: int) -> EntryFacts:
        """Return the resources of a kernel."""
        attribute = self._api.CUfunction_attribute

        def number(name: str) -> int:
            return int(self._ask(self._api.cuFuncGetAttribute, getattr(attribute, f"CU_FUNC_ATTRIBUTE_{name}"), entry))

        return EntryFacts(
            registers=number("NUM_REGS"),
            local=number("LOCAL_SIZE_BYTES"),
            shared=number("SHARED_SIZE_BYTES"),
            threads=number("MAX_THREADS_PER_BLOCK"),
        )

    def allow_shared(self, entry: int, nbytes: int) -> None:
        """Allow launches of a kernel to use `nbytes` of dynamic shared memory."""
        attribute = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._ask(self._api.cuFuncSetAttribute, entry, attribute, nbytes)

    def resident(self, entry: int, threads: int, shared: int) -> int:
        """Return how many blocks of a size and with an amount of shared memory a multiprocessor holds at once."""
        return int(self._ask(self._api.cuOccupancyMaxActiveBlocksPerMultiprocessor, entry, threads, shared))

    def launch(self, entry: int, grid: Grid, block: Grid, shared: int, stream: int, arguments: bytes) -> None:
        """Launch a kernel."""
        packed = self._scratch.packed(arguments)
        (status,) = self._api.cuLaunchKernel(entry, *grid, *block, shared, stream, None, packed)
        if status:
            self._fail("cuLaunchKernel", status, *grid, *block, shared)

    # -- graphs ---------------------------------------------------------------------------------------------------

    def begin_capture(self, stream: int) -> None:
        """Capture later work of a stream instead of executing it."""
        # Relaxed: work of this process on other streams meanwhile, such as queries of events, is not captured.
        mode = self._api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._ask(self._api.cuStreamBeginCapture, stream, mode)

    def end_capture(self, stream: int) -> int:
        """End the capture and return the captured work as a graph that can be replayed."""
        graph = self._ask(self._api.cuStreamEndCapture, stream)
        try:
            return int(self._ask(self._api.cuGraphInstantiate, graph, 0))
        finally:
            self._ask(self._api.cuGraphDestroy, graph)

    def replay(self, graph: int, stream: int) -> None:
        """Execute a graph."""
        self._ask(self._api.cuGraphLaunch, graph, stream)

    def free_graph(self, graph: int) -> None:
        """Destroy a graph."""
        self._ask(self._api.cuGraphExecDestroy, graph)

    # -- calling --------------------------------------------------------------------------------------------------

    def _ask(self, call: Any, *given: Any) -> Any:
        """Call a function of the driver and return its result, None if it has none."""
        found = call(*given)
        if found[0]:
            self._fail(call.__name__, found[0], *given)
        return found[1] if len(found) > 1 else None

    def _passed(self, query: Any, handle: int) -> bool:
        """Return whether what a query asks for is done."""
        (status,) = query(handle)
        if status and status != self._api.CUresult.CUDA_ERROR_NOT_READY:
            self._fail(query.__name__, status)
        return not status

    def _fail(self, call: str, status: Any, *given: Any) -> NoReturn:
        asked = ", ".join(str(value) for value in given if isinstance(value, int | str))
        text = f"{call}({asked}): {_explain(self._api, status)}"
        if status == self._api.CUresult.CUDA_ERROR_OUT_OF_MEMORY and call not in _MAY_FAIL:
            raise MemoryError(text)
        if _LOST.search(text):
            text += "; a kernel or copy started before has failed, and this process cannot use the device any more"
        raise CudaError(text)


class _Scratch(threading.local):
    """Arguments and results that are passed by address, separate for each thread, since calls may overlap."""

    def __init__(self, api: Any) -> None:
        self.box = api.CUDA_MEMCPY3D()
        self.box.srcMemoryType = self.box.dstMemoryType = api.CUmemorytype.CU_MEMORYTYPE_UNIFIED
        self._packs: dict[int, _Pack] = {}

    def packed(self, arguments: bytes) -> int:
        """Return the address of the `extra` argument of `cuLaunchKernel`, 0 if there are no arguments."""
        if not arguments:
            return 0
        pack = self._packs.get(len(arguments))
        if pack is None:
            pack = self._packs[len(arguments)] = _Pack(len(arguments))
        pack.buffer.raw = arguments
        return pack.address


class _Pack:
    """A buffer for the arguments of a kernel, and the list with its address and size."""

    def __init__(self, nbytes: int) -> None:
        self.buffer = ctypes.create_string_buffer(nbytes)
        self._size = ctypes.c_size_t(nbytes)
        # Pairs of a key (1: address of the buffer, 2: address of its size) and a value; 0 ends them.
        self._extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(self.buffer), 2, ctypes.addressof(self._size), 0)
        self.address = ctypes.addressof(self._extra)


def assemble(ptx: bytes, capability: tuple[int, int]) -> tuple[bytes, dict[str, EntryFacts]]:
    """Translate PTX to machine code by nvJitLink. Local; needs neither a driver nor a device.

    A kernel whose text demands so many blocks on a multiprocessor that values find no register gets fewer of them.

    Args:
        ptx: the PTX text.
        capability: compute capability of the device, such as (9, 0).

    Returns:
        The machine code, and the resources of each kernel by its name.

    Raises:
        CudaError: the text does not translate; the message is the assembler's.
        UsageError: nvJitLink is not installed.
    """
    try:
        from cuda.bindings import nvjitlink

        linker = nvjitlink.create(2, [f"-arch=sm_{capability[0]}{capability[1]}", "-Xptxas=-v"])
    except (ImportError, RuntimeError) as error:  # the latter from the loader
        raise UsageError(f"kernels for GPUs need nvJitLink ({error}): pip install 'gondwana[cuda]'") from None
    except nvjitlink.nvJitLinkError as error:
        raise CudaError(f"nvJitLink {nvjitlink.version()} and capability {capability}: {error}") from None
    try:
        nvjitlink.add_data(linker, nvjitlink.InputType.PTX, ptx, len(ptx), "kernel.ptx")
        nvjitlink.complete(linker)
        code = bytearray(nvjitlink.get_linked_cubin_size(linker))
        nvjitlink.get_linked_cubin(linker, code)
        log = bytearray(nvjitlink.get_info_log_size(linker))
        nvjitlink.get_info_log(linker, log)
        blocks = _BLOCKS.search(ptx)
        if blocks is None or int(blocks[1]) == 1 or not _SPILLED.search(log):
            return bytes(code), _resources(_text(bytes(log)), ptx.decode())
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(linker))
        nvjitlink.get_error_log(linker, log)
        raise CudaError(f"PTX does not translate: {error}: {_text(bytes(log)).strip()}") from None
    finally:
        nvjitlink.destroy(linker)
    return assemble(_BLOCKS.sub(b".minnctapersm %d" % (int(blocks[1]) - 1), ptx), capability)


def disassembled(machine_code: bytes) -> str:
    """Return the machine code of a GPU as text, "" where NVIDIA's disassembler is not installed. Local; runs it."""
    from cuda.pathfinder import find_nvidia_binary_utility

    program = find_nvidia_binary_utility("nvdisasm")
    if program is None:
        return ""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(machine_code)
        file.flush()
        return subprocess.run([program, "-c", file.name], capture_output=True, text=True, check=True).stdout


def _resources(log: str, ptx: str) -> dict[str, EntryFacts]:
    """The resources of kernels by the assembler's log, which has no number of threads: the text sets it."""
    found = {}
    for name, stack, registers, rest in _COMPILED.findall(log):
        threads = re.search(rf"\.entry {re.escape(name)}\(.*?\.maxntid ([0-9, ]+)", ptx, re.DOTALL)
        most = math.prod(map(int, threads[1].split(","))) if threads else 1024
        shared = re.search(r"(\d+) bytes smem", rest)
        found[name] = EntryFacts(int(registers), int(stack), int(shared[1]) if shared else 0, most)
    return found


def _explain(api: Any, status: Any) -> str:
    """Return the driver's name of a status, and its text."""
    name, text = (_text(answer[1] or b"") for answer in (api.cuGetErrorName(status), api.cuGetErrorString(status)))
    return f"{name or int(status)}: {text}"


def _text(answer: bytes) -> str:
    return answer.partition(b"\0")[0].decode(errors="replace")


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _size(nbytes: int) -> str:
    unit, name = next(
        (2**power, name) for power, name in ((30, "GiB"), (20, "MiB"), (0, "bytes")) if nbytes >= 2**power or not power
    )
    return f"{nbytes / unit:.1f} {name}" if unit > 1 else f"{nbytes} {name}"
