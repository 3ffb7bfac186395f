"""Records which torch operators and GPU kernels run in one call, for a submission's composition.

It runs in the submission's own process, which can falsify all of it. So the record shows a
composition and may send a run to a moderator; it never decides a verdict.
"""

import importlib
import json
import os
import time
from collections.abc import Callable
from typing import Any

from harness.worker.protocol import RECORD_NAME_CHARS_MAX, RECORD_ROWS_MAX


def record_call(call: Callable[[], bytes | None], descriptor: int) -> bytes | None:
    """Make the call and return its result; write its operators and kernels as JSON into a memory.

    The keys are total_us, and operators and kernels as rows [name, calls, time_us], those with the
    most time first; rows that are too many are left out. Each rank adds a line.
    Raises whatever the call raises.
    """
    torch: Any = importlib.import_module("torch")
    operators: dict[str, list[float]] = {}
    kernels: list[tuple[str, int, float]] = []
    results: list[bytes | None] = []

    def run() -> None:
        results.append(call())

    began = time.perf_counter()
    if torch.cuda.is_available():
        kernels = _profile_kernels(torch, lambda: _count_operators(run, operators))
    else:
        _count_operators(run, operators)
    total_us = 1e6 * (time.perf_counter() - began)
    rows = [(name, int(calls), time_us) for name, (calls, time_us) in operators.items()]
    record = {"total_us": total_us, "operators": _longest(rows), "kernels": _longest(kernels)}
    os.write(descriptor, json.dumps(record).encode() + b"\n")
    return results[0]


def _longest(rows: list[tuple[str, int, float]]) -> list[tuple[str, int, float]]:
    longest = sorted(rows, key=lambda row: -row[2])[:RECORD_ROWS_MAX]
    return [(name[:RECORD_NAME_CHARS_MAX], calls, time_us) for name, calls, time_us in longest]


def _count_operators(call: Callable[[], object], operators: dict[str, list[float]]) -> None:
    """Make the call and count each operator that torch dispatches in this thread."""
    dispatch: Any = importlib.import_module("torch.utils._python_dispatch")

    class OperatorCounter(dispatch.TorchDispatchMode):  # type: ignore[misc]  # torch is untyped
        def __torch_dispatch__(
            self, operator: Any, _: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            began = time.perf_counter()
            try:
                return operator(*args, **(kwargs or {}))
            finally:
                entry = operators.setdefault(operator._schema.name, [0, 0.0])  # noqa: SLF001
                entry[0] += 1
                entry[1] += 1e6 * (time.perf_counter() - began)

    with OperatorCounter():
        call()


def _profile_kernels(torch: Any, run: Callable[[], object]) -> list[tuple[str, int, float]]:
    """Run under torch's profiler; return the GPU's kernels and copies with their times."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        run()
        torch.cuda.synchronize()
    return [
        (row.key, int(row.count), float(row.self_device_time_total))
        for row in profile.key_averages()
        if row.self_device_time_total > 0
    ]
