"""Compilation of CUDA C at run time by NVIDIA's NVRTC, so that no other compiler is needed."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

from gondwana.errors import UsageError
from gondwana_bench.build import NATIVE


def ptx(name: str, capability: tuple[int, int], flags: Sequence[str] = ()) -> bytes:
    """Translate a CUDA C program to PTX. Local; needs no GPU.

    Args:
        name: file name of the source in `gondwana_bench/native`.
        capability: compute capability to compile for, such as (9, 0).
        flags: flags for the compiler.

    Raises:
        UsageError: the library is not there, or refuses the source.
    """
    words = [f"--gpu-architecture=compute_{capability[0]}{capability[1]}", "--std=c++17", *flags]
    options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    source = NATIVE.joinpath(name).read_bytes()
    nvrtc, program = _library(), ctypes.c_void_p()
    _ask(nvrtc.nvrtcCreateProgram, ctypes.byref(program), source, name.encode(), 0, None, None)
    try:
        if nvrtc.nvrtcCompileProgram(program, len(words), options):
            log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode()
            errors = [line for line in log.splitlines() if "error" in line] or [log]
            raise UsageError(f"NVRTC could not compile {name}: {errors[0]}")
        return _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


@functools.cache
def _library() -> ctypes.CDLL:
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return ctypes.CDLL(load_nvidia_dynamic_lib("nvrtc").abs_path)
    except (ImportError, RuntimeError) as error:  # pathfinder's own errors are RuntimeErrors
        reason = str(error).splitlines()[0]
        raise UsageError(f"CUDA C cannot be compiled here: {reason}; pip install 'gondwana[cuda]'") from None


def _text(size_of: ctypes._NamedFuncPointer, get: ctypes._NamedFuncPointer, program: ctypes.c_void_p) -> bytes:
    """Return the text of a pair of functions of the library, for its size (with a final zero) and for the text."""
    size = ctypes.c_size_t()
    _ask(size_of, program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    _ask(get, program, text)
    return text.value


def _ask(function: ctypes._NamedFuncPointer, *arguments: object) -> None:
    status = function(*arguments)
    if status:
        raise UsageError(f"NVRTC: {function.__name__} failed with status {status}")
