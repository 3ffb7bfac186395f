"""Compile solutions in CuTe DSL and in numba for GPUs that are not here.

`python -m tests.toolchains.compile_python LANGUAGE ARCHITECTURES FILE …` compiles the kernel of
each solution to `axpy` for each of the architectures, such as `sm_80,sm_90a`. It prints the kernels
of each solution as JSON: the `.target` and the `.entry` of its PTX, and whether there is a cubin.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.problems.loaded_problem import LoadedProblem, opened

TARGET = re.compile(r"^\.target (\w+)", re.MULTILINE)
ENTRY = re.compile(r"\.entry (\w+)\(")
PTXAS_S_MAX = 60
# The newest GPU that numba knows; the driver compiles its PTX for newer ones.
NUMBA_NEWEST = (9, 0)

# A kernel's PTX and cubin for each architecture.
Compiled = Iterator[tuple[str, bytes]]


def compile_cute_dsl(problem: LoadedProblem, file: str, architectures: list[str]) -> Compiled:
    """Call a solution on the last checked case, with its launch replaced by compilations."""
    torch, cute = (importlib.import_module(name) for name in ("torch", "cutlass.cute"))
    # The host code passes the stream on, which only a launch uses.
    torch.cuda.current_stream = lambda: SimpleNamespace(cuda_stream=0)
    custom_kernel: Any = problem.kernel(file)
    namespace = custom_kernel.__globals__
    launch, calls = namespace["launch"], []
    namespace["launch"] = lambda *args: calls.append(args)
    custom_kernel(problem.data(problem.cases[-1]))
    (arguments,) = calls
    for architecture in architectures:
        with tempfile.TemporaryDirectory() as folder:
            options = f"--gpu-arch={architecture} --keep-ptx --keep-cubin --dump-dir={folder}"
            artifacts = cute.compile(launch, *arguments, options=options).artifacts
        yield artifacts.PTX, artifacts.CUBIN


def compile_numba(problem: LoadedProblem, file: str, architectures: list[str]) -> Compiled:
    """Compile the kernel of a solution for the types of its arguments with CUDA_HOME."""
    cuda, types = (importlib.import_module(f"numba.{name}") for name in ("cuda", "types"))
    custom_kernel: Any = problem.kernel(file)
    kernel = custom_kernel.__globals__["axpy"].py_func
    signature = (types.float64, types.float32[::1], types.float32[::1])
    for architecture in architectures:
        major, minor = divmod(int(re.sub(r"\D", "", architecture)), 10)
        ptx, _ = cuda.compile_ptx(kernel, signature, cc=min((major, minor), NUMBA_NEWEST))
        with tempfile.TemporaryDirectory() as folder:
            source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
            source.write_text(ptx)
            ptxas = [f"{os.environ['CUDA_HOME']}/bin/ptxas", f"-arch={architecture}"]
            line = [*ptxas, "-o", str(cubin), str(source)]
            subprocess.run(line, check=True, timeout=PTXAS_S_MAX)
            yield ptx, cubin.read_bytes()


COMPILERS: dict[str, Callable[[LoadedProblem, str, list[str]], Compiled]] = {
    "cute_dsl": compile_cute_dsl,
    "numba": compile_numba,
}


def compile_solution(language: str, file: str, architectures: list[str]) -> list[dict[str, Any]]:
    """Return the kernel of a solution for every architecture."""
    with opened("axpy") as problem:
        return [
            {
                "target": TARGET.findall(ptx),
                "kernel": ENTRY.findall(ptx),
                "is_built": cubin.startswith(b"\x7fELF"),
            }
            for ptx, cubin in COMPILERS[language](problem, f"solutions/{file}", architectures)
        ]


if __name__ == "__main__":
    name, words, *files = sys.argv[1:]
    results = [compile_solution(name, file, words.split(",")) for file in files]
    print(json.dumps(results))  # noqa: T201
