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

from harness.supervisor import utilities
from harness.supervisor.compare import complaint
from harness.supervisor.structure import Flat, flatten
from shared.problems.cases import read_cases
from shared.problems.document import read_document

PROBLEMS = Path(__file__).parents[2] / "problems"
SLUGS = sorted(path.parent.name for path in PROBLEMS.glob("*/task.yml"))

Kernel = Callable[[Any], Any]


@dataclass(frozen=True)
class Opened:
    """A problem whose code is loaded, with its checked cases."""

    folder: Path
    reference: Any
    cases: list[dict[str, Any]]

    def kernel(self, name: str) -> Kernel:
        """The custom_kernel of a file in the problem's folder."""
        path = self.folder / name
        return _loaded(path, f"{self.folder.name}_{path.stem}").custom_kernel  # type: ignore[no-any-return]  # a participant's function

    def data(self, case: dict[str, Any], **changes: int) -> Any:
        """What generate_input makes of a case."""
        return self.reference.generate_input(**(case | changes))

    def answer(self, case: dict[str, Any]) -> Flat:
        """What the reference says of a case."""
        return parts(self.reference.ref_kernel(self.data(case)))

    def complaint(self, kernel: Kernel, case: dict[str, Any]) -> str | None:
        """What the check says of a kernel's answer to a case, whose form must be right."""
        answer = kernel(self.data(case))
        if forms(parts(answer)) != forms(self.answer(case)):
            return "the answer has another form"
        said = self.reference.check_implementation(self.data(case), answer)
        return complaint(said)


@contextmanager
def opened(slug: str) -> Iterator[Opened]:
    """A shipped problem, for as long as its `task` and `utils` may be imported."""
    folder = PROBLEMS / slug
    before = {name: sys.modules.get(name) for name in ("task", "utils")}
    threads = torch().get_num_threads()
    # Threads that wait for each other are slow where others work too.
    torch().set_num_threads(1)
    sys.modules["utils"] = utilities
    sys.modules["task"] = _loaded(folder / "task.py", "task")
    try:
        document = read_document("task.yml", (folder / "task.yml").read_bytes())
        cases = [dict(case.args) for case in read_cases(document, "tests")]
        yield Opened(folder, _loaded(folder / "reference.py", f"{slug}_reference"), cases)
    finally:
        torch().set_num_threads(threads)
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def torch() -> Any:
    """The library, looked up: it is no dependency of what we type."""
    return importlib.import_module("torch")


def parts(value: Any) -> Flat:
    """A nest of tensors and plain values, taken apart."""
    return flatten(value, "the problem")


def forms(flat: Flat) -> tuple[Any, ...]:
    """How the tensors are nested, with the shape and dtype of each."""
    return flat.template, [(tensor.shape, tensor.dtype) for tensor in flat.tensors]


def bits_apart(some: Any, others: Any) -> int:
    """How many bits differ between two values of one form, of all their tensors together."""
    count = 0
    for one, other in zip(parts(some).tensors, parts(others).tensors, strict=True):
        a, b = (tensor.reshape(-1).view(torch().uint8).int() for tensor in (one, other))
        count += sum(int(((a ^ b) >> bit & 1).sum()) for bit in range(8))
    return count


def _loaded(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
