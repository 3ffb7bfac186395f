"""A write after the answer was copied is found, wherever it is."""

from typing import Any

import pytest

from harness.check.buffers import RankBuffers
from harness.check.inputs import Shape
from harness.check.structure import lay_out
from harness.devices.device import CpuDevice
from tests.support.harness import HONEST, REFERENCE, Host

OBJECTS = "\ndef check_implementation(data, output):\n    return False, 'the check was called'\n"


def buffers_of(torch: Any, dtype: str, *shapes: tuple[int, ...]) -> RankBuffers:
    """The memories of a case whose answer has these tensors."""
    leaves = lay_out([torch.zeros(shape, dtype=getattr(torch, dtype)) for shape in shapes])
    answer = ["list", [["tensor", place] for place in range(len(shapes))]]
    shape = Shape((), tuple(leaves), ["list", []], answer, ["list", []], (), 63, 0.0)
    return RankBuffers(CpuDevice(is_frozen=True), shape)


@pytest.mark.parametrize(
    ("dtype", "shapes"),
    [
        ("uint8", [(1,)]),
        ("uint8", [(5,)]),
        ("bool", [(4097,)]),
        ("float16", [(3, 7)]),
        ("float32", [(1023,)]),
        ("bfloat16", [(1,), (5, 5), (4099,)]),
    ],
)
def test_one_changed_byte_is_found(torch: Any, dtype: str, shapes: list[tuple[int, ...]]) -> None:
    buffers = buffers_of(torch, dtype, *shapes)
    buffers.poison.renew()
    buffers.hold()
    assert buffers.is_still()
    memory = buffers.memories[1].bytes
    for leaf in buffers.shape.outputs:
        for place in (leaf.offset, leaf.offset + leaf.size - 1):
            memory[place] ^= 1
            assert not buffers.is_still(), place
            memory[place] ^= 1
            assert buffers.is_still()
    buffers.close()


def test_an_answer_that_equals_the_references_bits_is_still_checked(host: Host) -> None:
    host.files["reference.py"] = REFERENCE + OBJECTS
    report = host.run(HONEST)
    (case, *_) = report.cases
    assert (case.verdict, case.message) == ("wrong_answer", "the check was called")
