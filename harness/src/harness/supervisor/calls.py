"""One gated call: reveal the input, hold the output, judge it, and only then look at the clock.

The order is the defence. Before the clock starts the worker has seen nothing of the input; after
it stops nothing can change the answer, for the supervisor holds a copy; the reference is computed
when the answer is committed, so it exists nowhere while the worker could look for it.
"""

import gc
import importlib
import json
import secrets
import time
from typing import Any, Self

from harness.devices.device import Device
from harness.problem import Case, ProblemFault
from harness.supervisor import compare
from harness.supervisor.author import Author
from harness.supervisor.inputs import Shape
from harness.supervisor.sandbox import Worker
from harness.supervisor.shared_memory import SharedMemory
from harness.supervisor.structure import Flat, flatten, size_of
from harness.supervisor.verdict import CaseFailed
from harness.worker import protocol

CALL_S_MIN = 5.0
CALL_REFERENCES_MAX = 20
_IDLE_ODDS = 4
_IDLE_S = 0.01


class Court:
    """Who takes part in a call: the worker, the author's code, and the clock of the device."""

    def __init__(self, worker: Worker, author: Author, device: Device) -> None:
        self.worker = worker
        self.author = author
        self.device = device


class Gate:
    """A case whose inputs the worker sees one call at a time."""

    def __init__(self, court: Court, case: Case, shape: Shape) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._worker = court.worker
        self._author = court.author
        self._now_ns = court.device.now_ns
        self._case = case
        self._shape = shape
        self._inputs = SharedMemory(size_of(shape.inputs))
        self._outputs = SharedMemory(size_of(shape.outputs))
        self._poison = _Poison(self._torch, shape, self._outputs)
        self._snapshot: Any = self._torch.empty_like(self._outputs.bytes)

    def __enter__(self) -> Self:
        """Hands the memories to the worker; it sees no input in them yet."""
        descriptors = (self._inputs.descriptor, self._outputs.descriptor)
        self._worker.send(protocol.CASE + self._shape.layout(), descriptors)
        return self

    def __exit__(self, *_: object) -> None:
        """Lets go of the memories."""
        self._inputs.close()
        self._outputs.close()

    def call(self, seed: int, deadline: float) -> float:
        """One call under a seed, judged. Units: microseconds out, `deadline` in monotonic seconds.

        Errors: CaseFailed, for anything but a right answer in time; ProblemFault.
        """
        data = self._author.data(self._case, seed)
        flat = flatten(data, "generate_input")
        self._poison.renew()
        self._worker.require_silence()
        time_us = self._timed(flat, deadline)
        self._require_stillness()
        self._judge(flat, data)
        return time_us

    def _timed(self, flat: Flat, deadline: float) -> float:
        nonce = secrets.token_bytes(protocol.NONCE_BYTES)
        go = protocol.GO + nonce + _scalars(flat)
        views = [leaf.view(self._inputs.bytes) for leaf in self._shape.inputs]
        tensors = [tensor.detach() for tensor in self._shape.inputs_of(flat)]
        until, limit = self._until(deadline)
        gc.disable()
        try:
            began_ns = self._now_ns()
            for view, tensor in zip(views, tensors, strict=True):
                view.copy_(tensor)
            self._worker.send(go)
            answer = self._worker.receive(until, limit)
            self._snapshot.copy_(self._outputs.bytes)
            ended_ns = self._now_ns()
        finally:
            gc.enable()
        if answer != protocol.DONE + nonce:
            raise CaseFailed("protocol", "the worker answered what was not asked")
        return (ended_ns - began_ns) / 1000

    def _until(self, deadline: float) -> tuple[float, str]:
        call_s = max(CALL_S_MIN, CALL_REFERENCES_MAX * self._shape.reference_s)
        until = time.monotonic() + call_s
        if until > deadline:
            return deadline, "the stage used up its budget"
        return until, f"one call took more than {call_s:.0f} s"

    def _require_stillness(self) -> None:
        """After the commit nothing may change; now and then there is time for that to show."""
        if secrets.randbelow(_IDLE_ODDS) == 0:
            time.sleep(_IDLE_S)
        if not self._torch.equal(self._outputs.bytes, self._snapshot):
            raise CaseFailed("late_write", "the output changed after the call had returned")

    def _judge(self, flat: Flat, data: Any) -> None:
        compare.require_written(self._shape.outputs, self._snapshot, self._poison.bytes)
        compare.require_bools(self._shape.outputs, self._snapshot)
        outputs = [leaf.view(self._snapshot) for leaf in self._shape.outputs]
        compare.require_numbers(outputs, lambda: self._expected(flat))
        output = Flat(self._shape.answer, outputs, []).rebuild(outputs)
        if said := self._author.complaint(self._case, data, output):
            raise CaseFailed("wrong_answer", said, is_last=False)

    def _expected(self, flat: Flat) -> list[Any]:
        answer = flatten(self._author.answer(self._case, flat.clone()), "ref_kernel")
        if not all(map(lambda leaf, part: leaf.holds(part), self._shape.outputs, answer.tensors)):
            raise ProblemFault("ref_kernel makes other shapes under another seed")
        return answer.tensors


class _Poison:
    """What fills the outputs before a call: other bits every time, so that none are right."""

    def __init__(self, torch: Any, shape: Shape, outputs: SharedMemory) -> None:
        generator = torch.Generator().manual_seed(secrets.randbits(63))
        self._torch = torch
        self._target = outputs
        self._pool = torch.empty(len(outputs.bytes) // 8, dtype=torch.int64)
        self._pool.random_(generator=generator)
        self._words = torch.empty_like(self._pool)
        self._bools = [leaf for leaf in shape.outputs if leaf.dtype == "bool"]
        self.bytes = self._words.view(torch.uint8)

    def renew(self) -> None:
        """Fills the outputs anew. A bool may hold nothing but 0 and 1."""
        word = secrets.randbits(63)
        self._torch.bitwise_xor(self._pool, word, out=self._words)
        for leaf in self._bools:
            leaf.bytes_in(self.bytes).bitwise_and_(1)
        self._target.bytes.copy_(self.bytes)


def _scalars(flat: Flat) -> bytes:
    said = json.dumps(flat.scalars).encode() if flat.scalars else b""
    if len(said) > protocol.SCALARS_BYTES_MAX:
        reason = f"{len(said)} bytes, at most {protocol.SCALARS_BYTES_MAX} can be carried"
        raise ProblemFault(f"generate_input makes plain values of {reason}")
    return said
