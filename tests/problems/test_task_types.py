"""Every problem in Python has a `task.py` with the types of data and answer."""

import json

import pytest

from shared.problems.compilation import compile_problem
from shared.problems.task_types import write_task_module
from tests.problems.test_reference_form import CHECKS, GENERATORS, HEAD, REFERENCE
from tests.problems.test_templates import MODEL
from tests.shared.problems.examples import FILES, replace_in_task


def types_of(source: str) -> tuple[object, object]:
    """Run the module that is written for a reference, and return its two types."""
    names: dict[str, object] = {}
    exec(compile(write_task_module(source.encode()), "task.py", "exec"), names)  # noqa: S102  (importing it is the test)
    return names["input_t"], names["output_t"]


def kernel(data: str, answer: str) -> str:
    return f"def ref_kernel(data: {data}) -> {answer}: ..."


@pytest.mark.parametrize(
    ("head", "data", "answer", "expected"),
    [
        ("import torch", "torch.Tensor", "torch.Tensor", "torch.Tensor"),
        ("from torch import Tensor as T", "T", "T", "torch.Tensor"),
        (
            "from typing import List\nimport torch",
            *2 * ["List[torch.Tensor]"],
            "list[torch.Tensor]",
        ),
        ("import typing as t, torch", *2 * ["t.List[torch.Tensor]"], "list[torch.Tensor]"),
        ("import torch\nIn = list[torch.Tensor]", "In", "'In'", "list[torch.Tensor]"),
        (
            "import torch",
            *2 * ["(float, float, torch.Tensor)"],
            "tuple[float, float, torch.Tensor]",
        ),
        ("import torch", *2 * ["torch.Tensor | None"], "Union[torch.Tensor, None]"),
        ("", *2 * ["tuple[int, ...]"], "tuple[int, ...]"),
        ("", *2 * ["dict[str, Data]"], "dict[str, Any]"),
        ("import jax", *2 * ["jax.Array"], "Any"),
        ("from task import input_t, output_t", "input_t", "output_t", "Any"),
    ],
)
def test_types_are_read_from_the_annotations(
    head: str, data: str, answer: str, expected: str
) -> None:
    text = write_task_module(f"{head}\n{kernel(data, answer)}\n".encode()).decode()
    assert f"input_t = {expected}\noutput_t = {expected}\n" in text
    types_of(f"{head}\n{kernel(data, answer)}\n")


def test_the_generator_tells_the_type_that_the_kernel_does_not() -> None:
    source = "def generate_input() -> list[int]: ...\ndef ref_kernel(data): ...\n"
    assert types_of(source)[0] == list[int]


@pytest.mark.parametrize(
    "annotation",
    [
        "__import__('os').system('exit 1')",
        "exit(1)",
        "1 / 0",
        "int[torch.Tensor]",
        "list[int, int]",
        "dict[int]",
        "Optional",
        "Union[()]",
        "None | None",
        "tuple[...]",
        "Literal['\\n\\'\\n']",
        "'list['",
        "\"'\" '\"'",
        "torch.Tensor.data",
        "torch.Tensor[0]",
        "lambda: 0",
        "(x := 3)",
        "[exit(n) for n in range(9)]",
        "list[" * 60 + "int" + "]" * 60,
        " | ".join(["int"] * 900),
        "a.b" * 200,
        "x" * 50_000,
    ],
)
def test_no_annotation_breaks_the_module(annotation: str) -> None:
    source = f"import torch\nfrom typing import *\n{kernel(annotation, annotation)}\n"
    types_of(source)
    # Also where the file names it before, or itself.
    types_of(f"A = {annotation}\nA = list[A]\nB = C\nC = B\n{kernel('A', 'B')}\n")


@pytest.mark.parametrize(
    "head",
    [
        "from task import __debug__, __builtins__, __name__",
        "from task import *",
        "from task import Any, torch, list, input_t as output_t",
        "class list: pass\nclass int: pass",
        "def torch(): pass",
        "from task import " + ", ".join(f"name{number}" for number in range(500)),
        "(",
        "\0",
    ],
)
def test_no_name_of_a_reference_breaks_the_module(head: str) -> None:
    types_of(f"{head}\nimport torch\n{kernel('list[torch.Tensor]', 'int')}\n")


def test_other_names_that_a_reference_takes_from_it_exist() -> None:
    text = write_task_module(b"from task import input_t, TestSpec as Spec\n").decode()
    assert text.endswith("input_t = Any\noutput_t = Any\nTestSpec = Any\n")


def test_every_problem_in_python_has_the_module_of_its_author_or_ours() -> None:
    single = (HEAD + GENERATORS["seed"] + REFERENCE + CHECKS["input and output"]).encode()
    ours = b"input_t = list[torch.Tensor]\noutput_t = list[torch.Tensor]\n"
    assert ours in compile_problem("p", {"reference.py": single}).files["task.py"]
    own = b"input_t = output_t = object\n"
    version = compile_problem("p", {"reference.py": single, "task.py": own})
    assert version.files["task.py"] == own
    # The files that participants get are the problem again.
    again = compile_problem(
        "p", {name: version.files[name] for name in ("reference.py", "task.py")}
    )
    assert again.digest == version.digest
    task = replace_in_task("  - {name: task.py, source: task.py}\n", "").encode()
    directory = compile_problem("p", {**FILES, "task.yml": task})
    assert b"input_t = Any" in directory.files["task.py"]
    assert "task.py" in compile_problem("p", {"9_Add.py": MODEL}, ["CPU"]).files
    assert json.loads(version.manifest)["files"].keys() == {"reference.py", "task.py"}
