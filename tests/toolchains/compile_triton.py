"""Compile the kernels of Triton solutions for GPUs that are not here.

`python -m tests.toolchains.compile_triton TARGETS SLUG FILE …` calls each solution on its problem's
last checked case, with launches replaced by compilations for each of the targets, such as
`cuda:90,hip:gfx942`. It prints the kernels of each solution as JSON: for each target its name, the
`.target` of its PTX or GCN, and whether there is a binary; or the error that ends it.
"""

import contextlib
import importlib
import inspect
import json
import re
import sys
from typing import Any

from tests.problems.loaded_problem import opened

DTYPES = {
    "bool": "i1",
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
}
WARP_SIZES = {"cuda": 32, "hip": 64}
# The text and the binary that each backend makes, and where the text names its target.
STAGES = {"cuda": ("ptx", "cubin"), "hip": ("amdgcn", "hsaco")}
TARGET = re.compile(r"^\s*\.(?:target|amdgcn_target) \"?([\w-]+)", re.MULTILINE)


def type_name(value: Any) -> str:
    """Return Triton's name of an argument's type."""
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    if isinstance(value, float):
        return "fp32"
    return f"*{DTYPES[str(value.dtype).removeprefix('torch.')]}"


def compile_kernel(kernel: Any, arguments: dict[str, Any], target: str) -> dict[str, Any]:
    """Return what a kernel becomes for a target."""
    triton, compiler = (importlib.import_module(name) for name in ("triton", "triton.compiler"))
    gpu_target = importlib.import_module("triton.backends.compiler").GPUTarget
    constants = {
        parameter.name: arguments[parameter.name]
        for parameter in kernel.params
        if parameter.is_constexpr
    }
    signature = {
        name: "constexpr" if name in constants else type_name(value)
        for name, value in arguments.items()
    }
    backend, _, name = target.partition(":")
    architecture = int(name) if name.isdecimal() else name
    source = compiler.ASTSource(kernel, signature, constants)
    built = triton.compile(
        source, target=gpu_target(backend, architecture, WARP_SIZES[backend])
    ).asm
    text, binary = STAGES[backend]
    match = TARGET.search(built[text])
    return {
        "kernel": kernel.__name__,
        "target": match and match[1],
        "is_built": bytes(built[binary]).startswith(b"\x7fELF"),
    }


def compile_solution(slug: str, file: str, targets: list[str]) -> list[dict[str, Any]] | str:
    """Return every kernel of a solution for every target, in the order of their launches.

    If one does not compile, return why.
    """
    jit = importlib.import_module("triton.runtime.jit")
    compiled: list[dict[str, Any]] = []
    failures: list[str] = []

    def compile_instead(kernel: Any, *args: Any, **options: Any) -> None:
        given = {name: options[name] for name in kernel.arg_names if name in options}
        arguments = dict(inspect.signature(kernel.fn).bind(*args, **given).arguments)
        try:
            compiled.extend(compile_kernel(kernel, arguments, target) for target in targets)
        except Exception as error:
            failures.append(f"{kernel.__name__}: {type(error).__name__}: {error}")
            raise

    jit.JITFunction.run = compile_instead
    # No kernel runs, so what follows one may fail.
    with opened(slug) as problem, contextlib.suppress(Exception):
        problem.kernel(f"solutions/{file}")(problem.data(problem.cases[-1]))
    return failures[0] if failures else compiled


if __name__ == "__main__":
    words, *names = sys.argv[1:]
    pairs = zip(names[::2], names[1::2], strict=True)
    print(json.dumps([compile_solution(*pair, words.split(",")) for pair in pairs]))  # noqa: T201
