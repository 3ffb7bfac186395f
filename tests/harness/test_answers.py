"""The problem's check judges answers of another form, if the problem says so."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.check import judging
from harness.check.inputs import Shape
from harness.check.structure import Leaf, lay_out
from harness.messages import CaseFailed
from harness.worker.protocol import is_compatible_answer
from tests.support.harness import Host

REFERENCE = """
import torch
def generate_input(size, seed):
    return torch.rand(size, generator=torch.Generator().manual_seed(seed))
def ref_kernel(data):
    return {"sums": data.double().cumsum(0), "last": data.double().sum()}
def check_implementation(data, output):
    want = ref_kernel(data)
    if output["last"].dtype == torch.float16:
        raise TypeError("half is not what I can read")
    off = (output["sums"] - want["sums"]).abs().max() + (output["last"] - want["last"]).abs().max()
    return bool(off < 1e-3), f"off by {off}"
"""
RIGHT = """
def custom_kernel(data):
    sums = data.cumsum(0)
    return {"sums": sums, "last": sums[-1:].double()}
"""

ROWS = """
import torch
def generate_input(size, seed):
    return torch.rand(size, size, generator=torch.Generator().manual_seed(seed))
def ref_kernel(data):
    return data.cumsum(1)
def check_implementation(data, output):
    return all(torch.allclose(got, want) for got, want in zip(output, ref_kernel(data)))
"""
# With a one in front the first row is compared with all of the answer, and no other row is.
FIRST_ROW = """
def custom_kernel(data):
    return data[0].cumsum(0).expand(1, len(data), -1)
"""


@pytest.fixture
def checked(host: Host) -> Host:
    """A problem whose own check judges."""
    host.files["reference.py"] = REFERENCE
    host.told_besides = {"answers": "checked"}
    return host


@pytest.mark.long
def test_a_narrower_dtype_passes_by_the_problems_own_check(checked: Host) -> None:
    report = checked.run(RIGHT, "benchmark")
    assert report.verdict == "passed", report.reason


def test_elsewhere_dtype_and_shape_are_the_references(checked: Host) -> None:
    checked.told_besides = {}
    report = checked.run(RIGHT)
    assert report.reason.endswith("returned float32[4], expected float64[4]")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"sums": sums', '"sums": sums * 2', "off by"),
        ('"sums": sums', '"sums": sums * float("nan")', "NaN"),
        ('"sums": sums', '"sums": sums.long()', "returned int64[4], expected float64[4]"),
        ('"sums": sums', '"sums": sums[:, None]', "returned float32[4, 1], expected float64[4]"),
        ('"sums": sums', '"sums": sums[:1]', "returned float32[1], expected float64[4]"),
        ("double()}", "half()}", "float16[1], expected float64[], which the problem's own check"),
    ],
)
def test_what_is_wrong_stays_wrong(checked: Host, old: str, new: str, words: str) -> None:
    report = checked.run(RIGHT.replace(old, new))
    assert (report.verdict, report.failure_code) == ("wrong_answer", ""), report.reason
    assert words in report.reason


def test_a_check_that_goes_row_by_row_sees_every_row(checked: Host) -> None:
    checked.files["reference.py"] = ROWS
    report = checked.run(FIRST_ROW)
    assert report.verdict == "wrong_answer", report.reason


def shape(*, is_buffer: bool = False) -> Shape:
    """A case with one output, nine float64."""
    leaf = Leaf(0, 72, "float64", (9,), (1,))
    kind = ["buffer" if is_buffer else "tensor", 0]
    return Shape((), (leaf,), ["list", []], kind, ["list", []], (), 63, 0.0, is_checked=True)


def test_nothing_said_is_the_references_form() -> None:
    assert judging.declared_leaves(shape(), b"") == shape().outputs


@pytest.mark.long
def test_a_narrower_reading_of_the_same_bytes_may_be_said() -> None:
    (leaf,) = judging.declared_leaves(shape(), json.dumps([[0, "float32", [1, 9]]]).encode())
    assert (leaf.size, leaf.dtype, leaf.shape, leaf.stride) == (36, "float32", (1, 9), (9, 1))


@pytest.mark.parametrize(
    "said",
    [
        [[0, "float32", [2**40]]],
        [[0, "float32", [3, 3]]],
        [[0, "float32", [9, 1]]],
        [[0, "float32", [-9]]],
        [[0, "float32", [True] * 9]],
        [[0, "float32", 9]],
        [[0, "complex64", [9]]],
        [[0, "float8_e8m0fnu", [9]]],
        [[0, "storage", [9]]],
        [[0, ["float32"], [9]]],
        [[1, "float32", [9]]],
        [[-1, "float32", [9]]],
        [[True, "float32", [9]]],
        [[0, "float32", [9]], [0, "float32", [9]]],
        [[0, "float32", [1] * 5000 + [9]]],
        {"0": 1},
        [0],
        None,
    ],
)
def test_what_a_worker_may_not_say_of_its_answer_ends_the_run(said: object) -> None:
    with pytest.raises(CaseFailed, match="impossible dtype or shape"):
        judging.declared_leaves(shape(), json.dumps(said).encode())


def test_nothing_may_be_said_of_memory_that_the_data_brings() -> None:
    with pytest.raises(CaseFailed, match="impossible dtype or shape"):
        judging.declared_leaves(shape(is_buffer=True), b'[[0, "float32", [9]]]')


@given(st.binary(max_size=200))
def test_whatever_is_said_is_read_or_refused(said: bytes) -> None:
    with contextlib.suppress(CaseFailed):
        assert all(leaf.size <= 72 for leaf in judging.declared_leaves(shape(), said))


SIZES = st.lists(st.integers(0, 4), max_size=4)
KINDS = st.sampled_from(["float64", "float32", "float16", "bfloat16", "int64", "int8", "uint8"])


@given(KINDS, SIZES, KINDS, SIZES)
def test_what_is_alike_fits_and_broadcasts_to_nothing_larger(
    dtype: str, sizes: list[int], got: str, got_sizes: list[int]
) -> None:
    torch: Any = pytest.importorskip("torch")
    if not is_compatible_answer(dtype, sizes, got, got_sizes):
        return
    want, found = (
        lay_out([torch.empty(some, dtype=getattr(torch, kind))])[0]
        for kind, some in ((dtype, sizes), (got, got_sizes))
    )
    assert found.size <= want.size
    together = torch.broadcast_shapes(tuple(sizes), tuple(got_sizes))
    assert torch.Size(together).numel() == torch.Size(sizes).numel()
