"""Seeds that nobody can foresee, and what the data and the answer of a case look like."""

import hashlib
import hmac
import importlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.problem import Case, ProblemFault
from harness.supervisor.structure import Flat, Leaf, Node, flatten, lay_out, marked, name_of
from harness.worker import protocol

KEY_BYTES = 32
SEED_BITS = (63, 31)

_PROBE = "shape"
# Those with a code, and one that C++ has no type for; four bits can be neither copied nor compared.
_ANSWER_DTYPES = ({*protocol.DTYPES} | {"complex32"}) - {"float4_e2m1fn_x2"}


class Author(Protocol):
    """What is asked of the author's code to find out a shape. Errors: ProblemFault."""

    def data(self, case: Case, seed: int, rank: int = 0) -> Any:
        """A rank's data of the case under a seed."""

    def answer(self, case: Case, data: Any) -> Any:
        """The reference's answer; it may write to the data."""


@dataclass(frozen=True)
class Shape:
    """The layout of a case, taken from a run of the reference under a seed of no other use.

    `template` is that of fresh data, whose tensors are inputs if their index is in `shown`, else
    output buffers; `data` and `answer` are templates as the worker reads them. `is_checked` leaves
    it to the problem's own check what becomes of an answer that looks a little otherwise.
    `scalars` are the plain values in the data of that run, as JSON.
    """

    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    data: Node
    answer: Node
    template: Node
    shown: tuple[int, ...]
    seed_bits: int
    reference_s: float
    is_checked: bool = False
    scalars: str = ""

    @property
    def buffers(self) -> set[int]:
        """Which outputs are written into memory that the data brings."""
        return {index for kind, index in _leaves(self.answer) if kind == "buffer"}

    def specialisation(self) -> bytes:
        """What a compiled function is made for: shapes, dtypes, strides, and the plain values.

        Two cases that differ in nothing of it need no second compilation. Errors: as `layout`.
        """
        return self.layout() + self.scalars.encode()

    def layout(self, memories: Sequence[dict[str, Any]] = ()) -> bytes:
        """What the worker is told of the case, and of the memories that it lies in.

        Errors: ProblemFault, if there are so many tensors that it does not fit a message.
        """
        leaves = {
            "inputs": [leaf.as_json() for leaf in self.inputs],
            "outputs": [leaf.as_json() for leaf in self.outputs],
        }
        forms = {"data": self.data, "answer": self.answer, "memories": list(memories)}
        rule = {"is_checked": True} if self.is_checked else {}
        said = json.dumps(leaves | forms | rule).encode()
        if len(said) >= protocol.LAYOUT_BYTES_MAX:
            reason = f"takes {len(said)} bytes to describe, at most {protocol.LAYOUT_BYTES_MAX}"
            raise ProblemFault(f"the layout of data and answer {reason}: use fewer tensors")
        return said

    def inputs_of(self, flat: Flat) -> list[Any]:
        """The input tensors of fresh data. Errors: ProblemFault, if they are not as laid out."""
        if flat.template == self.template:
            tensors = [flat.tensors[index] for index in self.shown]
            if all(map(Leaf.holds, self.inputs, tensors)):
                return tensors
        raise ProblemFault("generate_input makes other shapes under another seed")


def shapes_text(shape: Shape) -> str:
    """The inputs of a case for people, or the outputs where there are no inputs."""
    return ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in shape.inputs or shape.outputs)


def _leaves(node: Node) -> Iterator[Node]:
    """The tensors and buffers of a template."""
    kind, rest = node
    if kind in ("tensor", "buffer"):
        yield node
    else:
        for item in rest:
            yield from _leaves(item[1] if kind == "dict" else item)


def seed_of(key: bytes, stage: str, case: str, call: int, bits: int) -> int:
    """The seed of one call, of 63 or 31 bits: a keyed function that reveals none by another.

    >>> seed_of(bytes(32), "check", "size=4", 0, 31) < 2**31
    True
    """
    what = f"{stage}|{case}|{call}".encode()
    digest = hmac.new(key, what, hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "little") >> (64 - bits)


def probe(author: Author, case: Case, key: bytes, rank: int = 0, place: str = "cpu") -> Shape:
    """The shape of a rank's part of a case on the device at `place`. Errors: ProblemFault."""
    flat, seed_bits = _generated(author, case, key, rank)
    _require_place(flat, place, "generate_input")
    given = flatten(flat.clone(), "generate_input")
    began = time.monotonic()
    answer = _answered(author, case, given)
    _require_place(answer, place, "ref_kernel")
    _require_dtypes(answer)
    _settle(answer.tensors)
    reference_s = time.monotonic() - began
    buffers = _buffers(author, case, flat, (given, answer))
    shown = tuple(index for index in range(len(flat.tensors)) if index not in buffers)
    places: dict[int, Node] = {index: ["tensor", place] for place, index in enumerate(shown)}
    places |= {index: ["buffer", place] for index, place in buffers.items()}
    written = set(buffers.values())
    return Shape(
        inputs=lay_out([flat.tensors[index] for index in shown]),
        outputs=lay_out(answer.tensors),
        data=marked(flat.template, lambda index: places[index]),
        answer=marked(answer.template, lambda i: ["buffer" if i in written else "tensor", i]),
        template=flat.template,
        shown=shown,
        seed_bits=seed_bits,
        reference_s=reference_s,
        scalars=json.dumps(flat.scalars),
    )


def _require_dtypes(answer: Flat) -> None:
    """Refuse dtypes that torch can neither copy nor compare. Errors: ProblemFault."""
    for tensor in answer.tensors:
        if (name := name_of(tensor.dtype)) not in _ANSWER_DTYPES:
            advice = "return it as bytes instead: tensor.view(torch.uint8)"
            raise ProblemFault(f"ref_kernel made a tensor of dtype {name}, {advice}")


def _generated(author: Author, case: Case, key: bytes, rank: int) -> tuple[Flat, int]:
    """Data of the case, and the longest seed that its generator takes."""
    for bits in SEED_BITS:
        seed = seed_of(key, _PROBE, case.name, 0, bits)
        try:
            return flatten(author.data(case, seed, rank), "generate_input"), bits
        except ProblemFault:
            if bits == SEED_BITS[-1] or case.seed is None:
                raise
    raise AssertionError


def _require_place(flat: Flat, place: str, source: str) -> None:
    for tensor in flat.tensors:
        if str(tensor.device) != place:
            raise ProblemFault(
                f"{source} made a tensor on {tensor.device}, this run is on {place}: "
                "make it with device=utils.get_device()"
            )


def _settle(tensors: Sequence[Any]) -> None:
    """Waits until they are computed: a GPU answers before it is done."""
    torch: Any = importlib.import_module("torch")
    for tensor in tensors:
        if tensor.is_cuda:
            torch.cuda.synchronize(tensor.device)


def _answered(author: Author, case: Case, given: Flat) -> Flat:
    answer = flatten(author.answer(case, given.rebuild(given.tensors)), "ref_kernel")
    if not answer.tensors or answer.scalars or _has_others(answer.template):
        raise ProblemFault("ref_kernel must return a tensor, or a nest of tensors alone")
    return answer


def _has_others(node: Node) -> bool:
    """Whether an answer holds what is neither a tensor nor a nest."""
    kind, rest = node
    if kind == "dict":
        return any(_has_others(item) for _, item in rest)
    return kind not in ("tensor", "list", "tuple") or (
        isinstance(rest, list) and any(map(_has_others, rest))
    )


def _buffers(author: Author, case: Case, flat: Flat, seen: tuple[Flat, Flat]) -> dict[int, int]:
    """Which tensors of the data are output buffers, and of which output.

    Sharing memory with the answer is not enough: an input that is sorted in place, or returned as
    it is, shares it too. A buffer's first content is never read, so it must not change the answer.
    """
    given, answer = seen
    shared = {
        index: place
        for index, tensor in enumerate(given.tensors)
        for place, output in enumerate(answer.tensors)
        if _is_same(tensor, output)
    }
    if not shared:
        return {}
    scrambled = flatten(flat.clone(), "generate_input")
    torch: Any = importlib.import_module("torch")
    for index in shared:
        tensor = scrambled.tensors[index].detach()
        tensor.copy_(torch.randint(0, 100, tensor.shape))
    try:
        again = _answered(author, case, scrambled)
    except ProblemFault:
        return {}
    same = all(map(torch.equal, answer.tensors, again.tensors))
    return shared if same else {}


def _is_same(tensor: Any, output: Any) -> bool:
    """Whether two tensors are one view of one memory."""
    here = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
    return bool(tensor.numel()) and here == (
        output.data_ptr(),
        output.dtype,
        output.shape,
        output.stride(),
    )
