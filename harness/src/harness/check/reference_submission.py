"""The reference as a submission: what the main file of a yardstick calls, if it is the reference.

It is copied into the yardstick's folder, beside the problem's files, and imports nothing else of
the harness. `context` is entered around the author's code; on the cpu device it may be that of
`processor.map_cuda_to_cpu`.
"""

import contextlib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_REFERENCE = "reference"

Context = Callable[[], contextlib.AbstractContextManager[None]]


def load_kernel(context: Context = contextlib.nullcontext) -> Callable[[Any], Any]:
    """Return the reference's kernel as `custom_kernel`."""
    with context():
        reference: Any = importlib.import_module(_REFERENCE)

    def custom_kernel(data: Any) -> Any:
        with context():
            return reference.ref_kernel(restore_objects(data))

    return custom_kernel


def load_model(context: Context = contextlib.nullcontext) -> type:
    """Return the reference's model as `ModelNew`."""
    with context():
        reference: Any = importlib.import_module(_REFERENCE)

    class ModelNew(reference.Model):  # type: ignore[misc]  # the author's class
        def __init__(self, *arguments: Any) -> None:
            with context():
                super().__init__(*arguments)

        def __call__(self, *inputs: Any) -> Any:
            with context():
                return super().__call__(*inputs)

    return ModelNew


def restore_objects(value: Any) -> Any:
    """Return data with objects of the problem's classes in the place of their namespaces.

    A namespace has all attributes of an object, except for the private ones of a model.
    """
    if type(value) in (list, tuple):
        return type(value)(map(restore_objects, value))
    if isinstance(value, dict):
        return {key: restore_objects(item) for key, item in value.items()}
    if not isinstance(value, SimpleNamespace):
        return value
    parts = {name: restore_objects(item) for name, item in vars(value).items()}
    kind = _find_class(type(value).__name__)
    twin = object.__new__(kind)
    torch: Any = importlib.import_module("torch")
    if issubclass(kind, torch.nn.Module):
        _fill_model(twin, parts, torch)
        return twin
    for name, part in parts.items():
        object.__setattr__(twin, name, part)
    return twin


def _fill_model(twin: Any, parts: dict[str, Any], torch: Any) -> None:
    torch.nn.Module.__init__(twin)
    is_layer = type(twin).__module__.startswith("torch.")
    for name, part in parts.items():
        if not isinstance(part, torch.Tensor):
            setattr(twin, name, part)
        elif is_layer and part.is_floating_point():
            setattr(twin, name, torch.nn.Parameter(part, requires_grad=False))
        else:
            twin.register_buffer(name, part)


def _find_class(name: str) -> Any:
    """Return the class with this name: of a module of the problem, or a layer of torch."""
    folder = Path(__file__).parent
    modules = [
        module
        for module in [*sys.modules.values()]
        if Path(getattr(module, "__file__", None) or "/").parent == folder
    ]
    torch: Any = importlib.import_module("torch")
    for owner in (*modules, torch.nn):
        if isinstance(kind := getattr(owner, name, None), type):
            return kind
    raise TypeError(f"the problem's files define no class {name}")
