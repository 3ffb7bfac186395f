"""What produced an answer: the parts of one recorded call, and what a policy doubts about it.

The record comes from the submission's own process (`harness.worker.server`), so nothing here
ends a run: a doubt asks for a moderator.
"""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from harness.build.plan import read_memory
from harness.build.teams import StageBudget
from harness.check.calls import GatedCase, WarmUps
from harness.check.shortcuts import Rules
from harness.messages import Composition, make_printable
from harness.problem import ShortcutPolicy
from harness.vocabulary import LIBRARIES
from harness.worker.protocol import (
    RECORD,
    RECORD_BYTES_MAX,
    RECORD_NAME_CHARS_MAX,
    RECORD_ROWS_MAX,
)

# How long the recorded call and its judgement may take; its import and warm-up come on top.
RECORD_S_MAX = 30.0
OPERATORS_MAX = 12
DOUBTS_MAX = 8
_NAME_CHARS_MAX = 60
# Larger figures are not those of a call, and their sums may not be finite.
_CALLS_MAX, _TIME_US_MAX = 10**12, 1e12
# A kernel of its own that does less than this of the work is doubted, if one is required.
OWN_SHARE_MIN = 0.1

OWN_KERNELS, OWN_CODE, TORCH, COPIES = "own_kernels", "own_code", "torch", "copies"
# What Python and torch spend on calls of operators, which is not the work of the submission.
OVERHEAD = "overhead"
# A call with operators of torch spends up to this outside of them: 22 us beside a copy of 5 us were
# the first lookups (2 cores, 2026-11). What is smaller cannot be told from it.
_LOOKUPS_US = 100.0

# They compute nothing, and the harness calls them too.
_VIEWS = ("aten::as_strided", "aten::detach", "aten::view")

# GPU kernels by name, the first that matches. Any other kernel is the submission's own.
_KERNELS = (
    ("cudnn", re.compile(r"cudnn|_scudnn_|implicit_gemm|\bconv2d_grouped")),
    (
        "cublas",
        re.compile(
            r"cublas|^nvjet_|^(?:void )?gemv|gemvNSP|gemv2T|gemmk1_|splitKreduce_kernel"
            r"|^(?:maxwell|volta|turing|ampere|ada|hopper|blackwell|sm\d+)_\w*gemm"
        ),
    ),
    ("cutlass", re.compile(r"\bcutlass(?:_\d|::)")),
    (TORCH, re.compile(r"\bat(?:_cuda_detail)?::|\bat::native\b|\bc10::")),
    (COPIES, re.compile(r"^Mem(?:cpy|set)\b")),
)


def kernel_part(name: str) -> str:
    """Return the part of a composition that a GPU kernel belongs to, by its name.

    >>> kernel_part("ampere_sgemm_128x64_nn"), kernel_part("_my_kernel")
    ('cublas', 'own_kernels')
    """
    return next((part for part, pattern in _KERNELS if pattern.search(name)), OWN_KERNELS)


def record_call(gate: GatedCase, warm_ups: WarmUps, seeds: Iterator[int]) -> bytes:
    """Make one judged call that records itself, and return the record. Raises CaseFailed."""
    budget = StageBudget(RECORD_S_MAX)
    memory = os.memfd_create("record", os.MFD_CLOEXEC)
    try:
        warm_ups.warm_up(gate, budget)
        gate.call(next(seeds), budget.ends_at, RECORD, (memory,))
        return read_memory(memory, RECORD_BYTES_MAX)
    finally:
        os.close(memory)


def read_composition(data: bytes, policy: ShortcutPolicy) -> Composition | None:
    """Return the composition that the first record shows, with doubts; None if malformed."""
    try:
        record = json.loads(data.partition(b"\n")[0])
        other_us = _time(record["total_us"]), _time(record["overhead_us"])
        operators, kernels = _rows(record["operators"]), _rows(record["kernels"])
        shares = _kernel_shares(kernels) if kernels else _operator_shares(operators, *other_us)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return None
    names = [_printable(name) for name, _, _ in operators if name not in _VIEWS]
    doubts = _doubts(operators, kernels, shares, policy)
    return Composition(shares, names[:OPERATORS_MAX], doubts[:DOUBTS_MAX])


def _rows(items: Any) -> list[tuple[str, int, float]]:
    """Check the rows of a record. Raises TypeError or ValueError."""
    if len(items) > RECORD_ROWS_MAX:
        raise ValueError("there are too many rows")
    rows = []
    for name, calls, time_us in items:
        if not isinstance(name, str) or isinstance(calls, bool) or not isinstance(calls, int):
            raise TypeError("a row is not a name, a count and a time")
        if len(name) > RECORD_NAME_CHARS_MAX or not 0 < calls <= _CALLS_MAX:
            raise ValueError("a row is not one that is recorded")
        rows.append((name, calls, _time(time_us)))
    return rows


def _time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a time is not a number")
    if not 0 <= value <= _TIME_US_MAX:
        raise ValueError("a time is out of range")
    return float(value)


def _printable(name: str) -> str:
    return make_printable(name)[:_NAME_CHARS_MAX]


def _kernel_shares(kernels: list[tuple[str, int, float]]) -> dict[str, float]:
    times: dict[str, float] = {}
    for name, _, time_us in kernels:
        part = kernel_part(name)
        times[part] = times.get(part, 0.0) + time_us
    return _shares(times)


def _operator_shares(
    operators: list[tuple[str, int, float]], total_us: float, overhead_us: float
) -> dict[str, float]:
    """Divide the time of a call on a processor: torch's operators, their overhead, and the rest.

    >>> _operator_shares([("aten::add", 1, 600.0)], total_us=1000.0, overhead_us=100.0)
    {'torch': 0.6, 'overhead': 0.2, 'own_code': 0.2}
    >>> _operator_shares([], total_us=10.0, overhead_us=0.0)
    {'own_code': 1.0}
    """
    torch_us = sum(time_us for name, _, time_us in operators if name.startswith("aten::"))
    rest_us = max(0.0, total_us - torch_us)
    overhead_us = min(overhead_us + _LOOKUPS_US, rest_us) if torch_us else 0.0
    return _shares({TORCH: torch_us, OVERHEAD: overhead_us, OWN_CODE: rest_us - overhead_us})


def _shares(times: dict[str, float]) -> dict[str, float]:
    total_us = sum(times.values())
    if total_us <= 0:
        return {}
    return {part: round(time_us / total_us, 4) for part, time_us in times.items() if time_us}


def _doubts(
    operators: list[tuple[str, int, float]],
    kernels: list[tuple[str, int, float]],
    shares: dict[str, float],
    policy: ShortcutPolicy,
) -> list[str]:
    """Return what the policy forbids and the record shows."""
    rules = Rules(policy)
    doubts = []
    for name, calls, _ in operators:
        operator, text = name.rpartition("::")[2], f"{_printable(name)} ran {calls} times in a call"
        if entry := rules.methods.get(operator, ""):
            doubts.append(f"{text} ({entry} is not allowed)")
        elif entry := rules.substitute_methods.get(operator, ""):
            doubts.append(f"{text} and can do the work of {entry}, which is not allowed")
    for name, calls, _ in kernels:
        library = next((item for item in LIBRARIES if item in name.lower()), kernel_part(name))
        if library in rules.libraries:
            text = f"the kernel {_printable(name)} ran {calls} times in a call"
            doubts.append(f"{text} ({library} is not allowed)")
    if rules.requires_own_kernel:
        # A small kernel of its own cannot be told from the overhead beside it.
        own = sum(shares.get(part, 0.0) for part in (OWN_KERNELS, OWN_CODE, OVERHEAD))
        if own < OWN_SHARE_MIN:
            doubts.append(f"only {own:.0%} of a call was its own kernel, which is required")
    return doubts
