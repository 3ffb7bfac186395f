"""Compiles and loads a submission, and words what went wrong in it."""

import importlib.util
import sys
import traceback
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from harness.worker.protocol import TEXT_CHARS_MAX

# What g++ says when the kernel ended one of its programs for want of memory.
_KILLED = "Killed signal terminated program"

Kernel = Callable[[Any], Any]
CUSTOM_KERNEL = "custom_kernel"


class Unusable(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The submission failed: `kind` is one of protocol.FAILURE_KINDS, `text` is for people."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text[-TEXT_CHARS_MAX:]


def load(path: Path, entry: str = CUSTOM_KERNEL) -> Kernel:
    """What the submission defines as its entry.

    Errors: Unusable, of kind compile_error or import_error.
    """
    name = path.stem
    loader = SourceFileLoader(name, str(path))
    try:
        path.read_text(encoding="utf-8")
        loader.get_code(name)
    except Exception as error:
        raise Unusable("compile_error", _last_lines(error, path)) from error
    module = importlib.util.module_from_spec(_spec(name, loader))
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException as error:
        raise failure(error, path, "import_error") from error
    kernel = getattr(module, entry, None)
    if not callable(kernel):
        kind = "function" if entry == CUSTOM_KERNEL else "class"
        raise Unusable("import_error", f"{path.name} defines no {kind} {entry}")
    return kernel  # type: ignore[no-any-return]  # a participant's object, believed in nothing


def failure(error: BaseException, path: Path, kind: str) -> Unusable:
    """What an exception out of the submission's code means; the traceback begins in its file."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return Unusable("memory", _last_lines(error, path))
    if str(error).startswith("Error building extension"):
        if _KILLED in str(error):
            return Unusable("memory", _last_lines(error, path))
        return Unusable("compile_error", _last_lines(error, path))
    if isinstance(error, SystemExit):
        return Unusable(kind, f"the submission called exit({error.code!r})")
    return Unusable(kind, _traceback(error, path))


def _spec(name: str, loader: SourceFileLoader) -> Any:
    return importlib.util.spec_from_loader(name, loader)


def _last_lines(error: BaseException, path: Path) -> str:
    return _plain("".join(traceback.format_exception_only(error)), path)


def _traceback(error: BaseException, path: Path) -> str:
    """The frames from the submission's first on: ours above them help no participant."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != str(path):
        frame = frame.tb_next
    lines = traceback.format_exception(type(error), error, frame or error.__traceback__)
    return _plain("".join(lines), path)


def _plain(text: str, path: Path) -> str:
    return text.replace(f"{path.parent}/", "").strip()
