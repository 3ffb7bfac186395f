"""Kernels that fail, one of each kind, for the problem of `tests.support.harness.Host`.

Each fails for real in the harness; what participants read about them is tested from these runs.
"""

from typing import NamedTuple


class FailingKernel(NamedTuple):
    """A source, and the suffix of its file."""

    source: str
    suffix: str = ".py"


FAILING: dict[str, FailingKernel] = {
    "syntax": FailingKernel("""import torch


def custom_kernel(data)
    data[1].copy_(data[0])
    return data[1]
"""),
    "import": FailingKernel("""import no_such_module


def custom_kernel(data):
    data[1].copy_(data[0])
    return data[1]
"""),
    "import_raises": FailingKernel("""TABLE = {}
TABLE['tile']


def custom_kernel(data):
    data[1].copy_(data[0])
    return data[1]
"""),
    "no_kernel": FailingKernel("""def kernel(data):
    data[1].copy_(data[0])
    return data[1]
"""),
    "helper": FailingKernel("""import torch


def load(values, index):
    return torch.stack(values)[index]


def tile(data):
    return load(data, 7)


def custom_kernel(data):
    return tile(data)
"""),
    "shape": FailingKernel("""def custom_kernel(data):
    return data[0][:1]
"""),
    "dtype": FailingKernel("""import torch


def custom_kernel(data):
    return data[0].to(torch.float64)
"""),
    "nan": FailingKernel("""def custom_kernel(data):
    data[1].fill_(float('nan'))
    return data[1]
"""),
    "wrong": FailingKernel("""def custom_kernel(data):
    data[1].copy_(data[0] + 1)
    return data[1]
"""),
    "wrong_in_one": FailingKernel("""def custom_kernel(data):
    data[1].copy_(data[0])
    if data[0].numel() > 16:
        data[1][3] += 0.5
    return data[1]
"""),
    "timeout": FailingKernel("""import time

CALLS = []


def custom_kernel(data):
    while CALLS:
        time.sleep(1)
    CALLS.append(0)
    data[1].copy_(data[0])
    return data[1]
"""),
    "segfault": FailingKernel("""import ctypes


def read(address):
    return ctypes.string_at(address)


def custom_kernel(data):
    read(0)
    data[1].copy_(data[0])
    return data[1]
"""),
    "memory": FailingKernel("""import torch


def custom_kernel(data):
    torch.ones(2**40)
    data[1].copy_(data[0])
    return data[1]
"""),
    "exit": FailingKernel("""import os


def custom_kernel(data):
    os._exit(3)
"""),
    "exit_call": FailingKernel("""def custom_kernel(data):
    raise SystemExit(2)
"""),
    "cpp": FailingKernel(
        """#include "warpboard.h"

int add(int value) { return value + 1; }

extern "C" void custom_kernel(const wb_tensor *data, const wb_tensor *out) {
    undeclared[0] = add(2);
    int broken = "text";
}
""",
        ".cpp",
    ),
    "flood": FailingKernel("""def custom_kernel(data):
    for _ in range(100):
        print('x' * 1_000_000)
    data[1].copy_(data[0])
    return data[1]
"""),
    "deep": FailingKernel("""def descend(depth):
    return descend(depth + 1)


def custom_kernel(data):
    return descend(0)
"""),
    "long_message": FailingKernel(r"""def custom_kernel(data):
    raise ValueError("\n".join(f"element {n} is wrong" for n in range(400)))
"""),
    "non_ascii": FailingKernel(r"""def custom_kernel(data):
    größe = "τ → 0"
    raise ValueError(f"die Größe ist falsch: {größe} \x1b[31m")
"""),
    "chained": FailingKernel("""def custom_kernel(data):
    try:
        {}['tile']
    except KeyError as error:
        raise RuntimeError('no tile') from error
"""),
    "late_write": FailingKernel("""import random
import threading
import time


def write(out):
    # The output is copied a while after the call, later on a busy machine.
    time.sleep(random.uniform(0.001, 0.009))
    for _ in range(2000):
        out.add_(1)
        time.sleep(0.0005)


def custom_kernel(data):
    data[1].copy_(data[0])
    threading.Thread(target=write, args=(data[1],), daemon=True).start()
    return data[1]
"""),
}
