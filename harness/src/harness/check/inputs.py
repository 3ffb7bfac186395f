"""Unpredictable seeds, the layout of a case's data and answer, their buffers and their memory."""

import hashlib
import hmac
import importlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.check.structure import (
    FlatValue,
    Leaf,
    Node,
    dtype_name,
    flatten,
    lay_out,
    layout_bytes,
    relabel_tensors,
)
from harness.problem import Case, MemoryShortage, Problem, ProblemFault
from harness.sandbox import host
from harness.sandbox.box import Limits
from harness.worker import protocol

KEY_BYTES = 32
SEED_BITS = (63, 31)

_PROBE_STAGE = "shape"
# Those with a code, and one without a C++ type; 4-bit values can be neither copied nor compared.
_ANSWER_DTYPES = ({*protocol.DTYPES} | {"complex32"}) - {"float4_e2m1fn_x2"}


class ReferenceFunctions(Protocol):
    """The author's functions that reveal a shape. Both raise ProblemFault."""

    def data(self, case: Case, seed: int, rank: int = 0) -> Any:
        """Generate the data of a case for one rank under a seed."""

    def answer(self, case: Case, data: Any) -> Any:
        """Return the reference's answer; the reference may write to the data."""


@dataclass(frozen=True)
class Shape:
    """The layout of a case, taken from a run of the reference under a seed used for nothing else.

    `template` describes freshly generated data; its tensors are inputs if their index is in
    `input_indices`, else output buffers. `data` and `answer` are the templates that the worker
    reads. With `is_checked`, the problem's own check judges answers of another dtype or shape.
    `scalars` are the plain values in the data of that run, as JSON.
    """

    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    data: Node
    answer: Node
    template: Node
    input_indices: tuple[int, ...]
    seed_bits: int
    reference_s: float
    is_checked: bool = False
    scalars: str = ""

    @property
    def buffers(self) -> set[int]:
        """The outputs that are written into memory that comes with the data."""
        return {index for kind, index in _leaves(self.answer) if kind == "buffer"}

    def specialisation(self) -> bytes:
        """Return what a compiled function depends on: shapes, dtypes, strides, plain values.

        Two cases with equal bytes need only one compilation. Raises as `layout`.
        """
        return self.layout() + self.scalars.encode()

    def layout(self, memories: Sequence[dict[str, Any]] = ()) -> bytes:
        """Return what the worker is told of the case and of its memories.

        Raises ProblemFault if there are so many tensors that it does not fit a message.
        """
        leaves = {
            "inputs": [leaf.as_json() for leaf in self.inputs],
            "outputs": [leaf.as_json() for leaf in self.outputs],
        }
        forms = {"data": self.data, "answer": self.answer, "memories": list(memories)}
        rule = {"is_checked": True} if self.is_checked else {}
        message = json.dumps(leaves | forms | rule).encode()
        if len(message) >= protocol.LAYOUT_BYTES_MAX:
            reason = f"takes {len(message)} bytes to describe, at most {protocol.LAYOUT_BYTES_MAX}"
            raise ProblemFault(f"the layout of data and answer {reason}: use fewer tensors")
        return message

    def inputs_of(self, flat: FlatValue) -> list[Any]:
        """Return the input tensors of fresh data. Raises ProblemFault if their layout differs."""
        if flat.template == self.template:
            tensors = [flat.tensors[index] for index in self.input_indices]
            if all(map(Leaf.holds, self.inputs, tensors)):
                return tensors
        raise ProblemFault("generate_input makes other shapes under another seed")


def describe_shapes(shape: Shape) -> str:
    """Describe the inputs of a case for people, or the outputs if there are no inputs."""
    return ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in shape.inputs or shape.outputs)


def _leaves(node: Node) -> Iterator[Node]:
    kind, content = node
    if kind in ("tensor", "buffer"):
        yield node
    else:
        for item in content:
            yield from _leaves(item[1] if kind == "dict" else item)


def derive_seed(key: bytes, stage: str, case: str, call: int, bits: int) -> int:
    """Derive the seed of one call, of 63 or 31 bits; one seed reveals neither key nor others."""
    message = f"{stage}|{case}|{call}".encode()
    digest = hmac.new(key, message, hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "little") >> (64 - bits)


def probe_shape(
    author: ReferenceFunctions, case: Case, key: bytes, rank: int = 0, place: str = "cpu"
) -> Shape:
    """Find the shape of a rank's part of a case on the device at `place`. Raises ProblemFault."""
    flat, seed_bits = _generate_data(author, case, key, rank)
    _require_place(flat, place, "generate_input")
    data_copy = flatten(flat.clone(), "generate_input")
    began = time.monotonic()
    answer = _compute_answer(author, case, data_copy)
    _require_place(answer, place, "ref_kernel")
    torch: Any = importlib.import_module("torch")
    for tensor in answer.tensors:
        # Torch can neither copy nor compare the others.
        if (name := dtype_name(tensor.dtype)) not in _ANSWER_DTYPES:
            advice = "return it as bytes instead: tensor.view(torch.uint8)"
            raise ProblemFault(f"ref_kernel made a tensor of dtype {name}, {advice}")
        if tensor.is_cuda:
            # A GPU returns before it is done.
            torch.cuda.synchronize(tensor.device)
    reference_s = time.monotonic() - began
    buffers = _find_buffers(author, case, flat, (data_copy, answer))
    input_indices = tuple(index for index in range(len(flat.tensors)) if index not in buffers)
    places: dict[int, Node] = {
        index: ["tensor", place] for place, index in enumerate(input_indices)
    }
    places |= {index: ["buffer", place] for index, place in buffers.items()}
    written = set(buffers.values())
    return Shape(
        inputs=lay_out([flat.tensors[index] for index in input_indices]),
        outputs=lay_out(answer.tensors),
        data=relabel_tensors(flat.template, lambda index: places[index]),
        answer=relabel_tensors(
            answer.template, lambda i: ["buffer" if i in written else "tensor", i]
        ),
        template=flat.template,
        input_indices=input_indices,
        seed_bits=seed_bits,
        reference_s=reference_s,
        scalars=json.dumps(flat.scalars),
    )


def _generate_data(
    author: ReferenceFunctions, case: Case, key: bytes, rank: int
) -> tuple[FlatValue, int]:
    """Return the data of a case, and the longest seed that its generator accepts."""
    for bits in SEED_BITS:
        seed = derive_seed(key, _PROBE_STAGE, case.name, 0, bits)
        try:
            return flatten(author.data(case, seed, rank), "generate_input"), bits
        except ProblemFault:
            if bits == SEED_BITS[-1] or case.seed is None:
                raise
    raise AssertionError


def _require_place(flat: FlatValue, place: str, source: str) -> None:
    for tensor in flat.tensors:
        if str(tensor.device) != place:
            raise ProblemFault(
                f"{source} made a tensor on {tensor.device}, this run is on {place}: "
                "make it with device=utils.get_device()"
            )


def _compute_answer(author: ReferenceFunctions, case: Case, data: FlatValue) -> FlatValue:
    answer = flatten(author.answer(case, data.rebuild(data.tensors)), "ref_kernel")
    if not answer.tensors or answer.scalars or _has_non_tensors(answer.template):
        raise ProblemFault("ref_kernel must return a tensor, or a nest of tensors alone")
    return answer


def _has_non_tensors(node: Node) -> bool:
    kind, content = node
    if kind == "dict":
        return any(_has_non_tensors(item) for _, item in content)
    return kind not in ("tensor", "list", "tuple") or (
        isinstance(content, list) and any(map(_has_non_tensors, content))
    )


def _find_buffers(
    author: ReferenceFunctions, case: Case, flat: FlatValue, first_call: tuple[FlatValue, FlatValue]
) -> dict[int, int]:
    """Return which tensors of the data are output buffers, and for which output.

    Sharing memory with the answer is not enough: an input that is sorted in place or returned
    unchanged shares it too. A buffer's initial content is never read, so it must not change the
    answer.
    """
    data, answer = first_call
    shared = {
        index: place
        for index, tensor in enumerate(data.tensors)
        for place, output in enumerate(answer.tensors)
        if _is_same_view(tensor, output)
    }
    if not shared:
        return {}
    scrambled = flatten(flat.clone(), "generate_input")
    torch: Any = importlib.import_module("torch")
    for index in shared:
        tensor = scrambled.tensors[index].detach()
        tensor.copy_(torch.randint(0, 100, tensor.shape))
    try:
        again = _compute_answer(author, case, scrambled)
    except ProblemFault:
        return {}
    is_same_answer = all(map(torch.equal, answer.tensors, again.tensors))
    return shared if is_same_answer else {}


def _is_same_view(tensor: Any, output: Any) -> bool:
    first, second = (
        (view.data_ptr(), view.dtype, view.shape, view.stride()) for view in (tensor, output)
    )
    return bool(tensor.numel()) and first == second


# The data of the calls of a block are drawn ahead, as far as they and the answers fit into this.
_AHEAD_BYTES_MAX = 128 * 1024**2
# A block of the cpu device, the only one whose memory is counted, has no more calls than this.
BLOCK_CALLS_MAX = 25
_SEED = 1
_SANDBOX_OFFERS = "the sandbox on this machine offers"


@dataclass(frozen=True)
class TensorSizes:
    """The bytes of one rank's inputs and outputs; `answer` counts outputs without a buffer."""

    inputs: int
    outputs: int
    answer: int

    @property
    def data(self) -> int:
        """The bytes of the data of one call: inputs, and buffers for outputs."""
        return self.inputs + self.outputs - self.answer


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


def fits_in_share(problem: Problem, slots: int) -> bool:
    """Return whether a problem declares no more memory than the share of a slot."""
    is_sandbox_enough = problem.memory_bytes_declared <= host.sandbox_bytes_max(slots)
    return is_sandbox_enough and problem.required_bytes <= host.total_bytes() // slots


def measure_available_memory(problem: Problem, limits: Limits, slots: int) -> AvailableMemory:
    """Return what a slot of this machine offers; `limits` are those of the device.

    Raises MemoryShortage if the problem declares more than there is.
    """
    require_memory(problem, limits, slots)
    sandbox = host.sandbox_bytes(problem.memory_bytes, limits, slots)
    return AvailableMemory(host.available_bytes(slots), sandbox, host.private_bytes())


def require_memory(problem: Problem, limits: Limits, slots: int) -> None:
    """Raise MemoryShortage if a problem declares more than this machine has, free or not."""
    if problem.memory_bytes_declared:
        require_sandbox(problem, host.sandbox_bytes(problem.memory_bytes, limits, slots))
    if problem.required_bytes and problem.required_bytes > (total := host.total_bytes()):
        raise _make_shortage("the problem", problem.required_bytes, "this machine has", total)


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
    tensors of 95 MiB this is 37 to 58 % more than runs in mode test used, and 0 to 16 % more than
    runs in mode benchmark used (2026-11).
    """
    first = sum(_rank_bytes(rank_sizes, is_timed=is_timed) for rank_sizes in sizes)
    if not is_timed:
        return first
    # Both sides may draw data, as in a duel, and both keep their answers.
    each = sum(2 * (rank_sizes.data + rank_sizes.outputs) for rank_sizes in sizes)
    return first + each * (min(BLOCK_CALLS_MAX, calls_ahead(sizes)) - 1)


def calls_ahead(sizes: Sequence[TensorSizes]) -> int:
    """Return for how many calls of a timed case data and answers may exist at the same time."""
    each = sum(rank_sizes.inputs + rank_sizes.outputs for rank_sizes in sizes)
    return max(1, _AHEAD_BYTES_MAX // max(1, each))


def shared_bytes(sizes: Sequence[TensorSizes], *, is_timed: bool) -> int:
    """Return how much of that is mapped by both supervisor and worker."""
    size = sum(rank_sizes.inputs + rank_sizes.outputs for rank_sizes in sizes)
    return 2 * size if is_timed else size


def _rank_bytes(sizes: TensorSizes, *, is_timed: bool) -> int:
    data = sizes.data
    # What both map, the outputs' initial content, and the copy that is judged.
    buffers = sizes.inputs + 3 * sizes.outputs
    # The reference has its own data and makes an answer; the check has intermediate results.
    judging = data + sizes.answer + 2 * sizes.outputs
    # A timed case has the yardstick beside it, which needs as much, and both keep an answer that is
    # judged later. The null worker has let go of its memories before.
    second = buffers + data + 2 * sizes.outputs if is_timed else 0
    return buffers + data + judging + sizes.answer + second


def _make_shortage(subject: str, needed: int, owner: str, offered: int) -> MemoryShortage:
    needs, has = host.format_gib(needed, is_need=True), host.format_gib(offered, is_need=False)
    return MemoryShortage(f"{subject} needs {needs} of memory, {owner} {has}")
