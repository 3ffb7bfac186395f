"""How much memory a run needs, and whether this machine offers that much."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.problem import Case, MemoryShortage, Problem, ProblemFault
from harness.sandbox.host_memory import (
    available_bytes,
    gib_text,
    limit_private_bytes,
    private_bytes,
    sandbox_bytes_max,
    total_bytes,
)
from harness.sandbox.spec import Limits
from harness.supervisor.inputs import Author, Shape
from harness.supervisor.structure import flatten, lay_out, size_of

_SEED = 1


@dataclass(frozen=True)
class Sizes:
    """The bytes of one rank's inputs and outputs; `answer` are outputs that have no buffer."""

    inputs: int
    outputs: int
    answer: int


@dataclass(frozen=True)
class MemoryOffer:
    """What this machine offers one run on the cpu device, beyond what is in use. Units: bytes.

    It is read before anything of the submission runs, which could otherwise make it smaller;
    `private` is what the process of the run had then.
    """

    machine: int
    sandbox: int
    private: int = 0

    def require(self, case: Case, sizes: Sequence[Sizes], *, is_timed: bool) -> None:
        """Raise MemoryShortage where a case does not fit; `sizes` has one for each rank."""
        needed, answer = needed_bytes(sizes, is_timed=is_timed), sum(one.answer for one in sizes)
        if needed > self.machine:
            raise _shortage(case.name, needed, "this machine offers", self.machine)
        if answer > self.sandbox:
            who = f"a submission to {case.name}"
            raise _shortage(who, answer, "the sandbox on this machine offers", self.sandbox)

    def limit(self, shared: int = 0) -> None:
        """Let an allocation of this process fail that the machine has no memory for.

        Otherwise the kernel kills the process, or another. `shared` is mapped besides.
        """
        limit_private_bytes(self.private + max(0, self.machine - shared))


def offer(problem: Problem, limits: Limits) -> MemoryOffer:
    """What this machine offers; `limits` are those of the device. Errors: MemoryShortage.

    It is raised for a problem that declares more than there is.
    """
    offered = MemoryOffer(available_bytes(), sandbox_bytes(problem, limits), private_bytes())
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


def sizes_of(shape: Shape) -> Sizes:
    """The sizes of a shape that is known."""
    outputs = enumerate(shape.outputs)
    answer = sum(leaf.size for index, leaf in outputs if index not in shape.buffers)
    return Sizes(size_of(shape.inputs), size_of(shape.outputs), answer)


def estimate(author: Author, case: Case) -> Sizes | None:
    """The sizes of a case of one rank that no memory is there for; None if they stay unknown.

    Torch computes shapes alone, without any memory. Not all that an author writes can do with that.
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
    made = [one for one in answer.tensors if not any(one is other for other in flat.tensors)]
    given = [one for one in flat.tensors if not any(one is other for other in answer.tensors)]
    inputs, outputs = (size_of(lay_out(some)) for some in (given, answer.tensors))
    return Sizes(inputs, outputs, sum(leaf.size for leaf in lay_out(made)))


def needed_bytes(sizes: Sequence[Sizes], *, is_timed: bool) -> int:
    """What the tensors of a case take of the machine, all copies that exist at once.

    What the author's code and the submission allocate besides is known only when they run. With
    tensors of 95 MiB it is 12 % over what a run in mode test took, and 9 % under to 13 % over what
    one in mode benchmark took (2026-11).
    """
    return sum(_of_rank(one, is_timed=is_timed) for one in sizes)


def shared_bytes(sizes: Sequence[Sizes], *, is_timed: bool) -> int:
    """How much of that is mapped by supervisor and worker alike."""
    size = sum(one.inputs + one.outputs for one in sizes)
    return 2 * size if is_timed else size


def _of_rank(sizes: Sizes, *, is_timed: bool) -> int:
    data = sizes.inputs + sizes.outputs - sizes.answer
    # What both map, the outputs' first content, and the copy that is judged.
    seat = sizes.inputs + 3 * sizes.outputs
    # The reference has data of its own and makes an answer; the check has intermediate results.
    judging = data + sizes.answer + 2 * sizes.outputs
    # Beside a timed case a null worker has as much.
    null = seat + data if is_timed else 0
    return seat + data + judging + sizes.answer + null


def _shortage(who: str, needed: int, where: str, offered: int) -> MemoryShortage:
    needs, has = gib_text(needed, is_need=True), gib_text(offered, is_need=False)
    return MemoryShortage(f"{who} needs {needs} of memory, {where} {has}")
