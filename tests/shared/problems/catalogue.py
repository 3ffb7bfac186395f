"""The shipped problems as their authors' code, loaded as the harness does and then unloaded."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.supervisor import utilities
from harness.supervisor.compare import complaint
from shared.problems.cases import read_cases
from shared.problems.document import read_document

PROBLEMS = Path(__file__).parents[3] / "problems"
SLUGS = sorted(path.name for path in PROBLEMS.iterdir() if path.is_dir())

Data = tuple[Any, ...]


@dataclass(frozen=True)
class Opened:
    """A problem whose code is loaded, with its checked cases."""

    folder: Path
    reference: Any
    cases: list[dict[str, Any]]

    def kernel(self, path: Path) -> Any:
        """The custom_kernel of a file in the problem's folder."""
        return _loaded(path, f"{self.folder.name}_{path.stem}").custom_kernel

    def data(self, case: dict[str, Any], **changes: int) -> Data:
        """What generate_input makes of a case."""
        data: Data = self.reference.generate_input(**(case | changes))
        return data

    def complaint(self, kernel: Any, case: dict[str, Any]) -> str | None:
        """What the check says of a kernel's answer to a case; its buffer comes full of poison."""
        data = self.data(case)
        *inputs, output = cloned(data)
        poison = torch().Generator().manual_seed(1)
        output.view(-1).view(torch().uint8).random_(generator=poison)
        answer = kernel((*inputs, output))
        return complaint(self.reference.check_implementation(data, answer))


@contextmanager
def opened(slug: str) -> Iterator[Opened]:
    """A shipped problem, for as long as its `task` and `utils` may be imported."""
    folder = PROBLEMS / slug
    before = {name: sys.modules.get(name) for name in ("task", "utils")}
    sys.modules["utils"] = utilities
    sys.modules["task"] = _loaded(folder / "task.py", "task")
    try:
        document = read_document("task.yml", (folder / "task.yml").read_bytes())
        cases = [dict(case.args) for case in read_cases(document, "tests")]
        yield Opened(folder, _loaded(folder / "reference.py", f"{slug}_reference"), cases)
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def torch() -> Any:
    """The library, looked up: it is no dependency of what we type."""
    return importlib.import_module("torch")


def equal(some: Data, others: Data) -> bool:
    """Whether tensors are equal in pairs."""
    return all(map(torch().equal, some, others))


def cloned(data: Data) -> Data:
    """Equal tensors in other memory."""
    return tuple(tensor.clone() for tensor in data)


def files(kind: str) -> list[Path]:
    """All shipped solutions of a kind, `correct` or `wrong`."""
    return sorted(PROBLEMS.glob(f"*/solutions/{kind}/*.py"))


def named(path: Path) -> str:
    """A file of the catalogue, as a test's name should show it."""
    return f"{path.relative_to(PROBLEMS).parts[0]}-{path.stem}"


def _loaded(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
