"""The worker's view of a case: new tensors on shared memory, and an exact commit."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.worker.memory import AnswerMismatch, SharedCase
from harness.worker.submission import load_submission

PAGE = 4096


def _case(data: Any, answer: Any) -> tuple[SharedCase, int]:
    leaf = [0, 24, "float32", [2, 3], [3, 1]]
    flags = [PAGE, 2, "bool", [2], [1]]
    layout = {"inputs": [leaf], "outputs": [leaf, flags], "data": data, "answer": answer}
    shown, held = os.memfd_create("shown"), os.memfd_create("held")
    for descriptor in (shown, held):
        os.truncate(descriptor, 2 * PAGE)
    kept = os.dup(held)
    return SharedCase(json.dumps(layout).encode(), [shown, held]), kept


def _held(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as memory:
        return memory.read()


def test_data_is_built_anew_for_every_call(torch: Any) -> None:
    nest = ["tuple", [["tensor", 0], ["dict", [["n", ["scalar", 0]], ["out", ["buffer", 0]]]]]]
    case, descriptor = _case(nest, ["buffer", 0])
    first, second = case.data(b"[2.5]"), case.data(b"[3]")
    assert first[0] is not second[0]
    assert (first[1]["n"], second[1]["n"]) == (2.5, 3)
    second[1]["out"].fill_(1)
    assert torch.equal(first[1]["out"], torch.ones(2, 3))
    os.close(descriptor)


def test_the_next_call_has_its_tensors_before_it_begins(torch: Any) -> None:
    nest = ["list", [["tensor", 0], ["buffer", 0]]]
    case, descriptor = _case(nest, ["buffer", 0])
    made: list[Any] = []

    class TensorCounter(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        """Records what is asked of torch."""

        def __torch_function__(self, function: Any, _: Any, args: Any, kwargs: Any = None) -> Any:
            made.append(function.__name__)
            return function(*args, **(kwargs or {}))

    first = case.data(b"")
    case.prepare()
    with TensorCounter():
        second = case.data(b"")
        case.commit(second[1])
    assert "as_strided" not in made
    assert "copy_" not in made
    assert [one is two for one, two in zip(first, second, strict=True)] == [False, False]
    os.close(descriptor)


def test_an_output_that_was_turned_in_place_is_copied_as_it_is_now(torch: Any) -> None:
    leaf = [0, 16, "float32", [2, 2], [2, 1]]
    layout = {"inputs": [], "outputs": [leaf], "data": ["buffer", 0], "answer": ["buffer", 0]}
    shown, held = os.memfd_create("shown"), os.memfd_create("held")
    for descriptor in (shown, held):
        os.truncate(descriptor, PAGE)
    kept = os.dup(held)
    case = SharedCase(json.dumps(layout).encode(), [shown, held])
    data = case.data(b"")
    data.copy_(torch.arange(4.0).reshape(2, 2))
    case.commit(data.t_())
    assert list(memoryview(_held(kept)[:16]).cast("f")) == [0.0, 2.0, 1.0, 3.0]


def test_what_is_returned_is_copied_into_the_answer(torch: Any) -> None:
    case, descriptor = _case(["tensor", 0], ["list", [["tensor", 0], ["tensor", 1]]])
    case.commit((torch.arange(6.0).reshape(3, 2).t().contiguous(), torch.tensor([True, False])))
    memory = _held(descriptor)
    assert list(memoryview(memory[:24]).cast("f")) == [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]
    assert memory[PAGE : PAGE + 2] == b"\1\0"


def test_a_written_buffer_need_not_be_returned(torch: Any) -> None:
    case, descriptor = _case(["buffer", 0], ["buffer", 0])
    data = case.data(b"")
    data.copy_(torch.arange(6.0).reshape(2, 3))
    case.commit(None)
    case.commit(data)
    assert list(memoryview(_held(descriptor)[:24]).cast("f")) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_another_view_of_the_answer_is_not_garbled_by_its_copy(torch: Any) -> None:
    case, descriptor = _case(["buffer", 0], ["buffer", 0])
    data = case.data(b"")
    data.copy_(torch.arange(6.0).reshape(2, 3))
    case.commit(data.view(3, 2).t())
    assert list(memoryview(_held(descriptor)[:24]).cast("f")) == [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("torch.zeros(2, 3).double()", "returned float64[2, 3], expected float32[2, 3]"),
        ("torch.zeros(3, 2)", "returned float32[3, 2], expected float32[2, 3]"),
        ("None", "returned None, expected a list of 2"),
        ("torch.zeros(2, 3)", "returned float32[2, 3], expected a list of 2"),
        ("(1, 2, 3)", "returned a tuple of 3, expected a list of 2"),
        ("object()", "returned an object of type object, expected a list of 2"),
        ("(1, 2)", "returned an object of type int, expected a dense torch.Tensor float32[2, 3]"),
    ],
)
def test_what_does_not_fit_is_named(torch: Any, returned: str, text: str) -> None:
    case, descriptor = _case(["tensor", 0], ["list", [["tensor", 0], ["tensor", 1]]])
    value = eval(returned, {"torch": torch})  # noqa: S307  (the texts above)
    if not isinstance(value, tuple) and value is not None and "list" not in text:
        value = [value, torch.zeros(2, dtype=torch.bool)]
    with pytest.raises(AnswerMismatch) as caught:
        case.commit(value)
    assert text in str(caught.value)
    os.close(descriptor)


def test_a_call_of_a_null_worker_copies_no_answer() -> None:
    """A submission that writes in place must not be credited with the time of a copy."""
    case, descriptor = _case(["tensor", 0], ["list", [["tensor", 0], ["tensor", 1]]])
    os.pwrite(descriptor, b"\1" * PAGE, 0)
    load_submission(Path("/"), {"is_null": True}, [], "")(case)(b"")
    assert _held(descriptor)[:PAGE] == b"\1" * PAGE
