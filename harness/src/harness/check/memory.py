"""How much memory a run needs, and whether this machine has that much."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.check.inputs import ReferenceFunctions, Shape
from harness.check.structure import flatten, lay_out, layout_bytes
from harness.problem import Case, MemoryShortage, Problem, ProblemFault
from harness.sandbox import host
from harness.sandbox.box import Limits

_SEED = 1
_SANDBOX_OFFERS = "the sandbox on this machine offers"


@dataclass(frozen=True)
class TensorSizes:
    """The bytes of one rank's inputs and outputs; `answer` counts outputs without a buffer."""

    inputs: int
    outputs: int
    answer: int


@dataclass(frozen=True)
class AvailableMemory:
    """What this machine offers one run on the cpu device, besides what is in use, in bytes.

    It is read before anything of the submission runs, which could otherwise reduce it. `private` is
    what the run's process had then.
    """

    machine: int
    sandbox: int
    private: int = 0

    def require(self, case: Case, sizes: Sequence[TensorSizes], *, is_timed: bool) -> None:
        """Raise MemoryShortage if a case does not fit; `sizes` has one item per rank."""
        needed = needed_bytes(sizes, is_timed=is_timed)
        if needed > self.machine:
            raise _make_shortage(case.name, needed, "this machine offers", self.machine)
        answer = sum(rank_sizes.answer for rank_sizes in sizes)
        if answer > self.sandbox:
            subject = f"a submission to {case.name}"
            raise _make_shortage(subject, answer, _SANDBOX_OFFERS, self.sandbox)

    def limit(self, shared: int = 0) -> None:
        """Make allocations of this process fail if the machine has no memory for them.

        Otherwise the kernel kills this process, or another. `shared` bytes are mapped in addition.
        """
        host.limit_private_bytes(self.private + max(0, self.machine - shared))


def measure_available_memory(problem: Problem, limits: Limits) -> AvailableMemory:
    """Return what this machine offers; `limits` are those of the device.

    Raises MemoryShortage if the problem declares more than there is.
    """
    sandbox = host.sandbox_bytes(problem.memory_bytes, limits)
    available = AvailableMemory(host.available_bytes(), sandbox, host.private_bytes())
    require_sandbox(problem, available.sandbox)
    if problem.required_bytes > (total := host.total_bytes()):
        raise _make_shortage("the problem", problem.required_bytes, "this machine has", total)
    return available


def require_sandbox(problem: Problem, sandbox: int) -> None:
    """Raise MemoryShortage if the author declares more for a submission than it would get."""
    declared = problem.memory_bytes_declared
    if declared > sandbox:
        raise _make_shortage("a submission", declared, _SANDBOX_OFFERS, sandbox)


def measure_sizes(shape: Shape) -> TensorSizes:
    """Return the sizes of a known shape."""
    outputs = enumerate(shape.outputs)
    answer = sum(leaf.size for index, leaf in outputs if index not in shape.buffers)
    return TensorSizes(layout_bytes(shape.inputs), layout_bytes(shape.outputs), answer)


def estimate_sizes(author: ReferenceFunctions, case: Case) -> TensorSizes | None:
    """Estimate the sizes of a case for which there is no memory; None if they stay unknown.

    Torch computes shapes without any memory; not all code of an author can run this way. Only cases
    of one rank are supported.
    """
    fakes: Any = importlib.import_module("torch._subclasses.fake_tensor")
    if case.ranks > 1:
        return None
    try:
        with fakes.FakeTensorMode(allow_non_fake_inputs=True):
            flat = flatten(author.data(case, _SEED), "generate_input")
            answer = flatten(author.answer(case, flat.rebuild(flat.tensors)), "ref_kernel")
    except (MemoryShortage, ProblemFault):
        return None
    input_ids, output_ids = (set(map(id, value.tensors)) for value in (flat, answer))
    new_outputs = [output for output in answer.tensors if id(output) not in input_ids]
    pure_inputs = [tensor for tensor in flat.tensors if id(tensor) not in output_ids]
    inputs, outputs = (layout_bytes(lay_out(tensors)) for tensors in (pure_inputs, answer.tensors))
    return TensorSizes(inputs, outputs, sum(leaf.size for leaf in lay_out(new_outputs)))


def needed_bytes(sizes: Sequence[TensorSizes], *, is_timed: bool) -> int:
    """Return the memory for all copies of a case's tensors that exist at the same time.

    What the author's code and the submission allocate in addition is known only when they run. With
    tensors of 95 MiB this is 12 % more than a run in mode test used, and 9 % less to 13 % more than
    runs in mode benchmark used (2026-11).
    """
    return sum(_rank_bytes(rank_sizes, is_timed=is_timed) for rank_sizes in sizes)


def shared_bytes(sizes: Sequence[TensorSizes], *, is_timed: bool) -> int:
    """Return how much of that is mapped by both supervisor and worker."""
    size = sum(rank_sizes.inputs + rank_sizes.outputs for rank_sizes in sizes)
    return 2 * size if is_timed else size


def _rank_bytes(sizes: TensorSizes, *, is_timed: bool) -> int:
    data = sizes.inputs + sizes.outputs - sizes.answer
    # What both map, the outputs' initial content, and the copy that is judged.
    buffers = sizes.inputs + 3 * sizes.outputs
    # The reference has its own data and makes an answer; the check has intermediate results.
    judging = data + sizes.answer + 2 * sizes.outputs
    # A timed case has a null worker beside it that needs as much.
    null = buffers + data if is_timed else 0
    return buffers + data + judging + sizes.answer + null


def _make_shortage(subject: str, needed: int, owner: str, offered: int) -> MemoryShortage:
    needs, has = host.format_gib(needed, is_need=True), host.format_gib(offered, is_need=False)
    return MemoryShortage(f"{subject} needs {needs} of memory, {owner} {has}")
