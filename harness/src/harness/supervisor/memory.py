"""How much memory a run needs, and whether this machine offers that much."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.problem import Case, MemoryShortage, Problem
from harness.sandbox.host_memory import (
    available_bytes,
    gib_text,
    limit_private_bytes,
    sandbox_bytes_max,
    total_bytes,
)
from harness.sandbox.spec import Limits
from harness.supervisor.inputs import Shape
from harness.supervisor.structure import size_of


@dataclass(frozen=True)
class MemoryOffer:
    """What this machine offers one run on the cpu device, beyond what is in use. Units: bytes.

    It is read before anything of the submission runs, which could otherwise make it smaller.
    """

    machine: int
    sandbox: int

    def require(self, case: Case, shapes: Sequence[Shape], *, is_timed: bool) -> None:
        """Raise MemoryShortage where a case does not fit; `shapes` has one for each rank."""
        needed, answer = needed_bytes(shapes, is_timed=is_timed), answer_bytes(shapes)
        if needed > self.machine:
            raise _shortage(case.name, needed, "this machine offers", self.machine)
        if answer > self.sandbox:
            who = f"a submission to {case.name}"
            raise _shortage(who, answer, "the sandbox on this machine offers", self.sandbox)

    def limit(self, shared: int = 0) -> None:
        """Let an allocation of this process fail that the machine has no memory for.

        Otherwise the kernel kills the process, or another. `shared` is mapped besides.
        """
        limit_private_bytes(max(0, self.machine - shared))


def offer(problem: Problem, limits: Limits) -> MemoryOffer:
    """What this machine offers; `limits` are those of the device. Errors: MemoryShortage.

    It is raised for a problem that declares more than there is.
    """
    offered = MemoryOffer(available_bytes(), sandbox_bytes(problem, limits))
    require_sandbox(problem, offered.sandbox)
    if problem.required_bytes > (total := total_bytes()):
        raise _shortage("the problem", problem.required_bytes, "this machine has", total)
    return offered


def require_sandbox(problem: Problem, sandbox: int) -> None:
    """Raise MemoryShortage where the author declares more for a submission than it would get."""
    declared = problem.memory_bytes_declared
    if declared > sandbox:
        raise _shortage("a submission", declared, "the sandbox on this machine offers", sandbox)


def sandbox_bytes(problem: Problem, limits: Limits) -> int:
    """What the submissions to a problem may use here, on a device with these limits."""
    return max(limits.memory_bytes, min(problem.memory_bytes, sandbox_bytes_max()))


def needed_bytes(shapes: Sequence[Shape], *, is_timed: bool) -> int:
    """What the tensors of a case take of the machine, all copies that exist at once.

    What the author's code and the submission allocate besides is known only when they run. With
    tensors of 95 MiB it is 12 % over what a run in mode test took, and 9 % under to 13 % over what
    one in mode benchmark took (2026-11).
    """
    return sum(_of_rank(shape, is_timed=is_timed) for shape in shapes)


def shared_bytes(shapes: Sequence[Shape], *, is_timed: bool) -> int:
    """How much of that is mapped by supervisor and worker alike."""
    size = sum(size_of(shape.inputs) + size_of(shape.outputs) for shape in shapes)
    return 2 * size if is_timed else size


def answer_bytes(shapes: Sequence[Shape]) -> int:
    """What a submission has to allocate itself: the outputs that its data has no buffer for."""
    return sum(
        leaf.size
        for shape in shapes
        for index, leaf in enumerate(shape.outputs)
        if index not in shape.buffers
    )


def _of_rank(shape: Shape, *, is_timed: bool) -> int:
    inputs, outputs, answer = size_of(shape.inputs), size_of(shape.outputs), answer_bytes([shape])
    data = inputs + outputs - answer
    # What both map, the outputs' first content, and the copy that is judged.
    seat = inputs + 3 * outputs
    # The reference has data of its own and makes an answer; the check has intermediate results.
    judging = data + answer + 2 * outputs
    # Beside a timed case a null worker has as much.
    null = seat + data if is_timed else 0
    return seat + data + judging + answer + null


def _shortage(who: str, needed: int, where: str, offered: int) -> MemoryShortage:
    needs, has = gib_text(needed, is_need=True), gib_text(offered, is_need=False)
    return MemoryShortage(f"{who} needs {needs} of memory, {where} {has}")
