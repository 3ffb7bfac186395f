"""Nests are flattened and rebuilt, and laid out in pages."""

from typing import Any

import pytest

from harness.check.structure import PAGE_BYTES, flatten, lay_out, layout_bytes
from harness.inspect.data import have_same_bits, tensor_bytes
from harness.problem import ProblemFault


def test_a_nest_survives_being_taken_apart(torch: Any) -> None:
    one, two = torch.ones(2), torch.zeros(3, dtype=torch.int64)
    value = {"a": [one, 2.5, "text"], 7: (None, True, {"two": two})}
    flat = flatten(value, "the test")
    assert flat.tensors == [one, two]
    assert flat.scalars == [2.5, "text", None, True]
    assert flat.rebuild(flat.tensors) == value


def test_a_tuple_with_names_of_torchs_own_is_a_tuple(torch: Any) -> None:
    found = flatten(torch.ones(2, 3).max(dim=0), "a test")
    assert found.template == ["tuple", [["tensor", 0], ["tensor", 1]]]


def test_the_shape_of_a_tensor_is_a_tuple(torch: Any) -> None:
    flat = flatten((torch.ones(6), torch.Size([2, 3])), "the test")
    assert flat.scalars == [2, 3]
    rebuilt = flat.rebuild(flat.tensors)
    assert rebuilt[1] == (2, 3) == torch.Size([2, 3])
    assert type(rebuilt[1]) is tuple


def test_the_bytes_of_any_tensor_are_compared(torch: Any) -> None:
    x = torch.randn(5, 3)
    for tensor in (
        # One element with the stride of a column, which counts as contiguous.
        *(x[:1, 0], x[2:3, 1:2], torch.empty_strided((1,), (7,)).fill_(2.0)),
        *(x.T, x[:, 1], torch.tensor(3.0), torch.randn(0, 3), torch.ones(1).expand(4)),
        *(torch.randn(3, 2, dtype=torch.complex64).conj()[:1, :1], torch.tensor([True])[:1]),
    ):
        size = tensor.numel() * tensor.element_size()
        assert tensor_bytes(tensor).shape == (size,)
        same = torch.tensor(tensor.tolist(), dtype=tensor.dtype).reshape(tensor.shape)
        assert have_same_bits(tensor, same)
        if size:
            assert not have_same_bits(tensor, torch.zeros_like(same))


def test_a_clone_shares_no_memory_and_keeps_the_need_for_gradients(torch: Any) -> None:
    tensor = torch.ones(2, requires_grad=True)
    twin = flatten([tensor], "the test").clone()[0]
    assert twin.requires_grad
    assert twin.data_ptr() != tensor.data_ptr()


@pytest.mark.parametrize("value", [object(), {1.5: 2}, {1, 2}, b"bytes"])
def test_what_cannot_be_carried_is_a_fault_of_the_problem(value: object) -> None:
    with pytest.raises(ProblemFault, match="the test made an object"):
        flatten(value, "the test")


def test_a_sparse_tensor_cannot_be_carried(torch: Any) -> None:
    with pytest.raises(ProblemFault, match="sparse"):
        flatten(torch.ones(2, 2).to_sparse(), "the test")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_a_quantized_tensor_cannot_be_carried(torch: Any) -> None:
    with pytest.raises(ProblemFault, match="qint8"):
        flatten(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "the test")


def test_a_nest_without_end_is_a_fault_of_the_problem() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ProblemFault, match="contains itself"):
        flatten(endless, "the test")


def test_an_int_that_no_c_program_reads_is_a_fault_of_the_problem() -> None:
    assert flatten([2**64 - 1, -(2**63)], "the test").scalars == [2**64 - 1, -(2**63)]
    with pytest.raises(ProblemFault, match="64 bits"):
        flatten(10**5000, "the test")


def test_leaves_begin_at_pages_and_views_keep_shape_dtype_and_order(torch: Any) -> None:
    tensors = [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.tensor([True, False]),
        torch.ones(0, 4),
        torch.arange(4.0).bfloat16().expand(2, 4),
        torch.tensor(3 + 4j),
    ]
    leaves = lay_out(tensors)
    memory = torch.zeros(layout_bytes(leaves), dtype=torch.uint8)
    for leaf, tensor in zip(leaves, tensors, strict=True):
        leaf.view(memory).copy_(tensor)
    assert all(leaf.offset % PAGE_BYTES == 0 for leaf in leaves)
    assert [leaf.stride for leaf in leaves[:1]] == [(1, 3)]
    for leaf, tensor in zip(leaves, tensors, strict=True):
        assert leaf.holds(tensor)
        assert torch.equal(leaf.view(memory), tensor)


def test_no_leaf_still_takes_a_page() -> None:
    assert layout_bytes(()) == PAGE_BYTES
