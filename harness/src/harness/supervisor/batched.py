"""What short work costs when much of it is revealed together: beside its time, never ranked."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Self

from harness.devices.cuda.device import Cuda
from harness.devices.cuda.rules import BATCH_US_MAX, MIB, batch_size
from harness.devices.device import Device, DeviceFault, Memory
from harness.problem import Case, ProblemFault
from harness.supervisor.calls import Gate
from harness.supervisor.inputs import Shape
from harness.supervisor.judging import Court
from harness.supervisor.seat import Seat
from harness.supervisor.structure import size_of
from harness.supervisor.team import Team
from harness.supervisor.verdict import CaseFailed
from harness.timing.source import SPOT
from harness.worker import protocol

_TIERS = ("G1", "G2")
_BYTES_MAX = 1024 * MIB
_SETS_MIN = 2
_CALLS_MAX = 20
_S_MAX = 5.0


@dataclass(frozen=True)
class Short:
    """A case of one rank that was timed: what a call and a null call of it took, in microseconds.

    `seeds` go on from those of its calls.
    """

    case: Case
    shape: Shape
    seeds: Iterator[int]
    time_us: float
    null_us: float


def sets_of(time_us: float, set_bytes: int, cache_bytes: int) -> int:
    """How many input sets a batch has; 0 where it would tell nothing, or does not fit.

    >>> sets_of(5.0, 4 * MIB, 60 * MIB), sets_of(25.0, 4 * MIB, 60 * MIB)
    (80, 0)
    >>> sets_of(19.0, 64 * MIB, 60 * MIB), sets_of(19.0, 1024 * MIB, 60 * MIB)
    (16, 0)
    """
    if not 0 < time_us < BATCH_US_MAX:
        return 0
    sets = min(batch_size(time_us, set_bytes, cache_bytes), _BYTES_MAX // set_bytes)
    return sets if sets >= _SETS_MIN else 0


def measure(court: Court, team: Team, short: Short, deadline: float) -> dict[str, float]:
    """What one of a batch costs, and how it was found out; nothing where that cannot be known.

    Every answer is judged as ever; a wrong one costs the column, for these calls do not rank.
    """
    sets = _sets(court.device, short)
    if not sets:
        return {}
    try:
        times = _times(court, team, (short, sets), deadline)
    except (CaseFailed, DeviceFault, ProblemFault):
        return {}
    if not times:
        return {}
    each_us = max(0.0, median(times) - short.null_us) / sets
    return {"batch_us": each_us, "batch_sets": float(sets), "batch_calls": float(len(times))}


def _sets(device: Device, short: Short) -> int:
    if not isinstance(device, Cuda) or device.tier not in _TIERS or short.case.ranks > 1:
        return 0
    set_bytes = size_of(short.shape.inputs) + size_of(short.shape.outputs)
    # What is flushed is twice the cache.
    cache_bytes = device.facts.flush_bytes // 2
    return sets_of(short.time_us - short.null_us, set_bytes, cache_bytes)


def _times(court: Court, team: Team, what: tuple[Short, int], deadline: float) -> list[float]:
    short, sets = what
    times: list[float] = []
    with Batch(court, team, short, sets) as batch:
        until = min(deadline, time.monotonic() + _S_MAX)
        # The first one captures.
        batch.call(next(short.seeds), deadline)
        while len(times) < _CALLS_MAX and time.monotonic() < until:
            time_us = batch.call(next(short.seeds), deadline)
            if SPOT not in court.device.flags:
                times.append(time_us)
    return times


class Batch(Gate):
    """Many input sets of one case, revealed to one worker at once and answered together."""

    def __init__(self, court: Court, team: Team, short: Short, sets: int) -> None:
        super().__init__(court, team, short.case, [short.shape] * sets)
        self._short = short
        self._shelf = Shelf(court.device, short.shape, sets)

    def __enter__(self) -> Self:
        """Hands both memories to the worker, and says how they are divided."""
        self._seats = [Seat(self._shelf, shape) for shape in self.shapes]
        descriptors = [memory.descriptor for memory in self._shelf.memories]
        self.team.send(0, protocol.CASE + self._layout(), descriptors)
        return self

    def __exit__(self, *_: object) -> None:
        """Lets go of the memories."""
        super().__exit__()
        self._shelf.close()

    @property
    def memories(self) -> list[tuple[Memory, Memory]]:
        """The two whole ones."""
        return [self._shelf.memories]

    def _layout(self) -> bytes:
        told = [memory.told for memory in self._shelf.memories]
        layout = json.loads(self._short.shape.layout(told))
        return json.dumps(layout | {"sets": len(self._seats), "steps": self._shelf.steps}).encode()

    def _data(self, seed: int, rank: int) -> Any:
        """Every set has a seed of its own."""
        return self._author.data(self.case, next(self._short.seeds) if rank else seed)

    def _order(self, order: bytes) -> None:
        """One message for all sets. Errors: ProblemFault, if their plain values differ."""
        super()._order(order)
        if len(set(self._messages)) > 1:
            raise ProblemFault("plain values hang on the seed, and a batch has but one of each")
        del self._messages[1:]


class Shelf:
    """Two large memories of a device, in as many pieces as there are sets."""

    def __init__(self, device: Device, shape: Shape, sets: int) -> None:
        self.steps = [size_of(shape.inputs), size_of(shape.outputs)]
        inputs, outputs = (
            device.allocate(sets * step, role)
            for step, role in zip(self.steps, ("inputs", "outputs"), strict=True)
        )
        self.memories = inputs, outputs
        self._taken = {"inputs": 0, "outputs": 0}

    def allocate(self, size: int, role: str) -> Memory:
        """The next piece of a role's memory."""
        whole = self.memories[0 if role == "inputs" else 1]
        begin = self._taken[role]
        self._taken[role] += size
        return _Piece(whole.bytes[begin : begin + size])

    def close(self) -> None:
        """Lets go of the memories; no piece may be used afterwards."""
        for memory in self.memories:
            memory.close()


@dataclass
class _Piece:
    """A part of a memory, which owns nothing."""

    bytes: Any
    descriptor: int = -1
    told: dict[str, Any] = field(default_factory=dict)

    def close(self) -> None:
        """Nothing is held."""
        self.bytes = None
