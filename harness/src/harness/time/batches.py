"""Batches of short calls on a GPU: the cost of a call among many, which is shown and never ranks.

A submission could answer all sets of a batch together.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Self

from harness.check.buffers import RankBuffers
from harness.check.calls import GatedCase
from harness.check.inputs import Shape
from harness.check.judging import JudgeContext
from harness.check.structure import layout_bytes
from harness.devices.cuda.device import CudaDevice
from harness.devices.cuda.rules import BATCH_US_MAX, MIB, batch_size
from harness.devices.device import Device, DeviceFault, Memory
from harness.messages import CaseFailed
from harness.problem import Case, ProblemFault
from harness.sandbox.team import Team
from harness.time.process import SPOT
from harness.worker import protocol

_TIERS = ("G1", "G2")
_BATCH_BYTES_MAX = 1024 * MIB
_SETS_MIN = 2
_CALLS_MAX = 20
_S_MAX = 5.0


@dataclass(frozen=True)
class ShortCase:
    """A timed case of one rank; `time_us` is one call and `null_us` one null call.

    `seeds` continues the sequence of seeds of its timed calls.
    """

    case: Case
    shape: Shape
    seeds: Iterator[int]
    time_us: float
    null_us: float

    @property
    def set_bytes(self) -> int:
        """The size of the inputs and outputs of one call."""
        return layout_bytes(self.shape.inputs) + layout_bytes(self.shape.outputs)


def count_sets(time_us: float, set_bytes: int, cache_bytes: int) -> int:
    """Return how many input sets a batch has; 0 if a batch is useless or does not fit."""
    if not 0 < time_us < BATCH_US_MAX:
        return 0
    sets = min(batch_size(time_us, set_bytes, cache_bytes), _BATCH_BYTES_MAX // set_bytes)
    return sets if sets >= _SETS_MIN else 0


def measure_batch(
    judge_context: JudgeContext, team: Team, short: ShortCase, deadline: float
) -> dict[str, float]:
    """Return the time per call in a batch and how it was measured; {} if it is unknown.

    Every answer is judged; a wrong one only loses this column, because these calls do not rank.
    """
    device, set_bytes = judge_context.device, short.set_bytes
    if not isinstance(device, CudaDevice) or device.tier not in _TIERS:
        return {}
    # A flush sweeps twice the size of the cache.
    cache_bytes = device.facts.flush_bytes // 2
    sets = count_sets(short.time_us - short.null_us, set_bytes, cache_bytes)
    times: list[float] = []
    with contextlib.suppress(CaseFailed, DeviceFault, ProblemFault):
        times = _time_batch(judge_context, team, short, sets, deadline) if sets else []
    if not times:
        return {}
    each_us = max(0.0, median(times) - short.null_us) / sets
    return {"batch_us": each_us, "batch_sets": float(sets), "batch_calls": float(len(times))}


def _time_batch(
    judge_context: JudgeContext, team: Team, short: ShortCase, sets: int, deadline: float
) -> list[float]:
    times: list[float] = []
    with Batch(judge_context, team, short, sets) as batch:
        until = min(deadline, time.monotonic() + _S_MAX)
        # The first call captures the graph.
        batch.call(next(short.seeds), deadline)
        while len(times) < _CALLS_MAX and time.monotonic() < until:
            time_us = batch.call(next(short.seeds), deadline)
            if SPOT not in judge_context.device.flags:
                times.append(time_us)
    return times


class Batch(GatedCase):
    """Many input sets of one case, revealed to one worker together and answered together."""

    def __init__(
        self, judge_context: JudgeContext, team: Team, short: ShortCase, sets: int
    ) -> None:
        super().__init__(judge_context, team, short.case, [short.shape] * sets)
        self._short_case = short
        self._batch_memory = BatchMemory(judge_context.device, short.shape, sets)

    def __enter__(self) -> Self:
        """Send both memories to the worker, with the layout of the sets in them."""
        memory = self._batch_memory
        self._buffers = [RankBuffers(memory, shape) for shape in self.shapes]
        layouts = [each.layout for each in memory.memories]
        layout = json.loads(self._short_case.shape.layout(layouts))
        layout |= {"sets": len(self._buffers), "steps": memory.steps}
        descriptors = [each.descriptor for each in memory.memories]
        self.team.send(0, protocol.CASE + json.dumps(layout).encode(), descriptors)
        return self

    def __exit__(self, *_: object) -> None:
        """Release the memories."""
        super().__exit__()
        self._batch_memory.close()

    @property
    def memories(self) -> list[tuple[Memory, Memory]]:
        """The inputs and the outputs, each one memory for all sets."""
        return [self._batch_memory.memories]

    def _data(self, seed: int, rank: int) -> Any:
        """Every set has its own seed."""
        return self._author.data(self.case, next(self._short_case.seeds) if rank else seed)

    def _order(self, order: bytes) -> None:
        """Send one message for all sets. Raises ProblemFault if their plain values differ."""
        super()._order(order)
        if len(set(self._messages)) > 1:
            raise ProblemFault("plain values differ by seed, but all sets of a batch share them")
        del self._messages[1:]


class BatchMemory:
    """Two large memories of a device, each divided into as many pieces as there are sets."""

    def __init__(self, device: Device, shape: Shape, sets: int) -> None:
        self.steps = [layout_bytes(shape.inputs), layout_bytes(shape.outputs)]
        inputs, outputs = (
            device.allocate(sets * step, role)
            for step, role in zip(self.steps, ("inputs", "outputs"), strict=True)
        )
        self.memories = inputs, outputs
        self._used_bytes = {"inputs": 0, "outputs": 0}

    def allocate(self, size: int, role: str) -> Memory:
        """Return the next piece of a role's memory."""
        memory = self.memories[0 if role == "inputs" else 1]
        begin = self._used_bytes[role]
        self._used_bytes[role] += size
        return _Piece(memory.bytes[begin : begin + size])

    def close(self) -> None:
        """Release the memories; no piece may be used afterwards."""
        for memory in self.memories:
            memory.close()


@dataclass
class _Piece:
    """A part of a memory that it does not own."""

    bytes: Any
    descriptor: int = -1
    layout: dict[str, Any] = field(default_factory=dict)

    def close(self) -> None:
        self.bytes = None
