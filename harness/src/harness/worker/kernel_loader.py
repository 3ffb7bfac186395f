"""Loads a Python submission and describes what went wrong in it.

A submission that is a torch.nn.Module class, KernelBench's form, is called as a kernel.
"""

import importlib
import importlib.util
import random
import sys
import traceback
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from harness.worker.protocol import TEXT_CHARS_MAX

# What g++ reports when the kernel killed one of its programs because memory ran out.
_KILLED = "Killed signal terminated program"

Kernel = Callable[[Any], Any]
CUSTOM_KERNEL = "custom_kernel"

_NUMPY_SEED_MASK = 0xFFFF_FFFF


class SubmissionFailure(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The submission failed: `kind` is one of protocol.FAILURE_KINDS, `text` is for people."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text[-TEXT_CHARS_MAX:]


def load_kernel(path: Path, entry: str = CUSTOM_KERNEL) -> Kernel:
    """Return the object that the submission defines as its entry.

    Raises SubmissionFailure of kind compile_error or import_error.
    """
    name = path.stem
    loader = SourceFileLoader(name, str(path))
    try:
        path.read_text(encoding="utf-8")
        loader.get_code(name)
    except Exception as error:
        raise SubmissionFailure("compile_error", _last_lines(error, path)) from error
    spec: Any = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException as error:
        raise explain_exception(error, path, "import_error") from error
    kernel = getattr(module, entry, None)
    if not callable(kernel):
        kind = "function" if entry == CUSTOM_KERNEL else "class"
        raise SubmissionFailure("import_error", f"{path.name} defines no {kind} {entry}")
    return kernel  # type: ignore[no-any-return]  # a participant's object, not trusted


def explain_exception(error: BaseException, path: Path, kind: str) -> SubmissionFailure:
    """Return the failure for an exception; the traceback begins in the submission's file."""
    is_build = str(error).startswith("Error building extension")
    has_no_memory = isinstance(error, MemoryError) or "can't allocate memory" in str(error)
    if has_no_memory or (is_build and _KILLED in str(error)):
        return SubmissionFailure("memory", _last_lines(error, path))
    if is_build:
        return SubmissionFailure("compile_error", _last_lines(error, path))
    if isinstance(error, SystemExit):
        return SubmissionFailure(kind, f"the submission called exit({error.code!r})")
    # Our own frames, above the submission's first one, do not help.
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != str(path):
        frame = frame.tb_next
    lines = traceback.format_exception(type(error), error, frame or error.__traceback__)
    return SubmissionFailure(kind, _join_lines(lines, path))


def _last_lines(error: BaseException, path: Path) -> str:
    return _join_lines(traceback.format_exception_only(error), path)


def _join_lines(lines: list[str], path: Path) -> str:
    return "".join(lines).replace(f"{path.parent}/", "").strip()


class ModelKernel:
    """Calls a model. It is built at the first call, as the reference's is, under its seed.

    The data is {"model": seed, "init": arguments, "seed": of this call, "inputs": arguments}. The
    model stays in training mode, on the device of its inputs, and computes no gradients.
    """

    def __init__(self, model: Callable[..., Any]) -> None:
        self._class = model
        self._model: Any = None
        self._torch: Any = importlib.import_module("torch")

    def __call__(self, data: dict[str, Any]) -> Any:
        """Return the answer to one call's data."""
        if self._model is None:
            self._seed(data["model"])
            self._model = self._move_model(self._class(*data["init"]), data["inputs"])
        self._seed(data["seed"])
        with self._torch.no_grad():
            return self._model(*data["inputs"])

    def _move_model(self, model: Any, inputs: Any) -> Any:
        places = (value.device for value in inputs if isinstance(value, self._torch.Tensor))
        return model.to(next(places, "cpu"), self._torch.float32)

    def _seed(self, seed: int) -> None:
        self._torch.manual_seed(seed)
        random.seed(seed)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed(seed & _NUMPY_SEED_MASK)
