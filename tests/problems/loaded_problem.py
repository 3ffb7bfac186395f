"""The shipped problems as their authors' code, loaded as the harness does and then unloaded."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.check import utilities
from harness.check.author import parse_check_result
from harness.check.structure import FlatValue, flatten
from shared.problems.document import read_document
from shared.problems.task_yml import read_cases

PROBLEMS = Path(__file__).parents[2] / "problems"
SLUGS = sorted(path.parent.name for path in PROBLEMS.glob("*/task.yml"))

Kernel = Callable[[Any], Any]


@dataclass(frozen=True)
class LoadedProblem:
    """A problem whose code is loaded, with its checked cases."""

    folder: Path
    reference: Any
    cases: list[dict[str, Any]]

    def kernel(self, name: str) -> Kernel:
        """Return the custom_kernel of a file in the problem's folder."""
        path = self.folder / name
        return _load_module(path, f"{self.folder.name}_{path.stem}").custom_kernel  # type: ignore[no-any-return]  # a participant's function

    def data(self, case: dict[str, Any], **changes: int) -> Any:
        """Generate the input of a case."""
        return self.reference.generate_input(**(case | changes))

    def answer(self, case: dict[str, Any]) -> FlatValue:
        """Return the reference's answer to a case."""
        return parts(self.reference.ref_kernel(self.data(case)))

    def complaint(self, kernel: Kernel, case: dict[str, Any]) -> str | None:
        """Return what the check says of a kernel's answer, whose structure must be right."""
        answer = kernel(self.data(case))
        if forms(parts(answer)) != forms(self.answer(case)):
            return "the answer has another form"
        result = self.reference.check_implementation(self.data(case), answer)
        return parse_check_result(result)


@contextmanager
def opened(slug: str) -> Iterator[LoadedProblem]:
    """Load a shipped problem; its `task` and `utils` can be imported inside the block."""
    folder = PROBLEMS / slug
    before = {name: sys.modules.get(name) for name in ("task", "utils")}
    threads = torch().get_num_threads()
    # Threads that wait for each other are slow when other processes run.
    torch().set_num_threads(1)
    sys.modules["utils"] = utilities
    sys.modules["task"] = _load_module(folder / "task.py", "task")
    try:
        document = read_document("task.yml", (folder / "task.yml").read_bytes())
        cases = [dict(case.args) for case in read_cases(document, "tests")]
        yield LoadedProblem(
            folder, _load_module(folder / "reference.py", f"{slug}_reference"), cases
        )
    finally:
        torch().set_num_threads(threads)
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def torch() -> Any:
    """Import torch lazily: it is not a dependency of the typed code."""
    return importlib.import_module("torch")


def parts(value: Any) -> FlatValue:
    """Flatten a nest of tensors and plain values."""
    return flatten(value, "the problem")


def forms(flat: FlatValue) -> tuple[Any, ...]:
    """Return how the tensors are nested, with the shape and dtype of each."""
    return flat.template, [(tensor.shape, tensor.dtype) for tensor in flat.tensors]


def bits_apart(some: Any, others: Any) -> int:
    """Count the bits that differ between two values of equal structure, over all tensors."""
    count = 0
    for tensor_a, tensor_b in zip(parts(some).tensors, parts(others).tensors, strict=True):
        a, b = (tensor.reshape(-1).view(torch().uint8).int() for tensor in (tensor_a, tensor_b))
        count += sum(int(((a ^ b) >> bit & 1).sum()) for bit in range(8))
    return count


def _load_module(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
