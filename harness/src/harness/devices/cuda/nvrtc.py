"""Compiles our kernels by NVRTC: no toolkit, no headers, a few hundredths of a second."""

import ctypes
import ctypes.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.devices.device import DeviceFault

# Where the wheels of CUDA 13 and 12 put it, and where a toolkit does.
_WHEELS = ("nvidia/cu*/lib", "nvidia/cuda_nvrtc/lib")
_TOOLKITS = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib")
_LOG_BYTES_MAX = 64 * 1024


class Nvrtc:
    """The compiler's library. Errors: DeviceFault, if there is none."""

    def __init__(self, path: str = "") -> None:
        self.path = path or _found()
        try:
            # NVRTC opens its builtins by name alone: unless they are here already, it finds none.
            for builtins in sorted(Path(self.path).parent.glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            self._library = ctypes.CDLL(self.path)
        except OSError as error:
            raise DeviceFault(f"NVRTC cannot be loaded: {error}") from error
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    @property
    def version(self) -> tuple[int, int]:
        """The version of CUDA that it compiles for."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def compile(self, source: str, name: str, architecture: str) -> bytes:
        """Machine code for an architecture such as sm_90a. Errors: DeviceFault, with the log."""
        program = ctypes.c_void_p()
        text = source.encode()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text, name.encode(), 0, None, None)
        options = (f"--gpu-architecture={architecture}".encode(), b"--std=c++17")
        try:
            array = (ctypes.c_char_p * len(options))(*options)
            if self._library.nvrtcCompileProgram(program, len(options), array):
                raise DeviceFault(
                    f"{name} does not compile for {architecture}: {self._log(program)}"
                )
            return self._read(program, "CUBIN")
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _log(self, program: ctypes.c_void_p) -> str:
        return self._read(program, "ProgramLog")[:_LOG_BYTES_MAX].decode(errors="replace")

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, text)
        return text.raw

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            said = self._library.nvrtcGetErrorString(status).decode()
            raise DeviceFault(f"NVRTC answered {name} with {said}")


def _found() -> str:
    for folder in _folders():
        names = [path for path in sorted(folder.glob("libnvrtc.so.*")) if "alt" not in path.name]
        if names:
            return str(names[-1])
    if name := ctypes.util.find_library("nvrtc"):
        return name
    raise DeviceFault("NVRTC was not found: install nvidia-cuda-nvrtc, or a CUDA toolkit")


def _folders() -> Iterator[Path]:
    for entry in sys.path:
        for pattern in _WHEELS:
            yield from sorted(Path(entry).glob(pattern), reverse=True)
    yield from map(Path, _TOOLKITS)
