"""Objects of a problem's own classes, and models, as the plain parts that data crosses by.

An object is its attributes, and nothing of its class leaves the author's process: a worker is given
a namespace of that name with the same attributes, which are tensors, plain values and nests of
them. The author's own functions get an object of the class again.
"""

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_REFERENCE = "reference"


def parts_of(value: Any) -> dict[str, Any] | None:
    """The attributes of an object that can be taken apart, by name; None for any other."""
    if _is_model(value):
        own = {name: one for name, one in vars(value).items() if not name.startswith("_")}
        held = (value._parameters, value._buffers, value._modules)  # noqa: SLF001  (as torch does)
        return own | {name: one for some in held for name, one in some.items()}
    if not _is_own(type(value)):
        return None
    return {name: getattr(value, name) for name in _names(value) if hasattr(value, name)}


def rebuilt(value: Any, parts: Mapping[str, Any]) -> Any:
    """An object like this one, with other parts."""
    twin = object.__new__(type(value))
    if not _is_model(value):
        for name, one in parts.items():
            object.__setattr__(twin, name, one)
        return twin
    kept = {name: _copied(one) for name, one in vars(value).items()}
    vars(twin).update(kept)
    for name, one in parts.items():
        home = next((some for some in _homes(kept) if name in some), kept)
        home[name] = _parameter(one) if home is kept["_parameters"] and one is not None else one
    vars(twin).update(kept)
    return twin


def constant(value: Any) -> list[str] | None:
    """A dtype or a device of torch as two words; None for any other value."""
    torch: Any = importlib.import_module("torch")
    if isinstance(value, torch.dtype):
        return ["dtype", str(value).removeprefix("torch.")]
    return ["device", str(value)] if isinstance(value, torch.device) else None


def of_constant(kind: str, name: str) -> Any:
    """The value of two such words."""
    torch: Any = importlib.import_module("torch")
    return getattr(torch, name) if kind == "dtype" else torch.device(name)


def _is_model(value: Any) -> bool:
    torch: Any = importlib.import_module("torch")
    return isinstance(value, torch.nn.Module)


def _is_own(kind: type) -> bool:
    """Whether a class is defined in one of the problem's own files, which lie in one folder."""
    files = (_file(kind.__module__), _file(_REFERENCE))
    return None not in files and len({one.parent for one in files if one}) == 1


def _file(module: str) -> Path | None:
    name = getattr(sys.modules.get(module), "__file__", None)
    return Path(name) if name else None


def _names(value: Any) -> list[str]:
    """The attributes of an object, in their order, those of its slots too."""
    slots = [getattr(one, "__slots__", ()) for one in reversed(type(value).__mro__)]
    found = [name for some in slots for name in ((some,) if isinstance(some, str) else some)]
    return list(dict.fromkeys([*found, *getattr(value, "__dict__", {})]))


def _homes(kept: Mapping[str, Any]) -> list[Any]:
    return [kept["_parameters"], kept["_buffers"], kept["_modules"]]


def _copied(one: Any) -> Any:
    return one.copy() if isinstance(one, dict | set) else one


def _parameter(tensor: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    return torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
