"""How the functions of an author's file are called, in each public form of a problem."""

import importlib
import random
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from harness.problem import ProblemFault
from harness.supervisor.structure import flatten

_NUMPY_SEED_MASK = 0xFFFF_FFFF
_SEED_MASK = 0x7FFF_FFFF_FFFF_FFFF
# Any odd number: the seed of a call's forward is then as fresh as that of its inputs, and another.
_NEXT = 0x9E37_79B9_7F4A_7C15
# What two answers may differ by, relative and absolute alike; all else must be equal.
_CLOSE = {
    **dict.fromkeys(("float64", "float32", "complex64", "complex128"), 1e-4),
    **dict.fromkeys(("float16", "bfloat16"), 1e-2),
}


class Functions(NamedTuple):
    """What a problem does: data of a case, the right answer, and what to say of another."""

    generate: Callable[..., Any]
    answer: Callable[[Any], Any]
    check: Callable[[Any, Any], Any]


def functions(form: str, module: ModuleType) -> Functions:
    """The functions of a file of this form. Errors: ProblemFault, if one is missing."""
    if form == "kernelbench":
        return _Models(module).functions()
    names = ("generate_input", "ref_kernel", "check_implementation")
    generate, answer, check = (_function(module, name) for name in names)
    if form == "outputs":
        return Functions(
            generate, answer, lambda data, output: check(output, answer(_copied(data)))
        )
    return Functions(generate, answer, check)


def seed(number: int) -> None:
    """Sets the global generators: of torch, of Python, and of numpy if it was imported."""
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(number)
    random.seed(number)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(number & _NUMPY_SEED_MASK)


class _Models:
    """A `Model` with `get_inputs` and `get_init_inputs`, as harness.worker.model is told of it.

    The model is built once, under the first seed that the run has drawn, which every call tells.
    """

    def __init__(self, module: ModuleType) -> None:
        names = ("get_inputs", "get_init_inputs", "Model")
        self._inputs, self._init_inputs, self._class = (_function(module, one) for one in names)
        self._torch: Any = importlib.import_module("torch")
        self._seed = 0
        self._init: list[Any] | None = None
        self._model: Any = None

    def functions(self) -> Functions:
        return Functions(self.data, self.answer, self.check)

    def data(self) -> Any:
        """Inputs under the generators' present seed, moved to where the run computes."""
        drawn = self._torch.initial_seed()
        if self._init is None:
            self._seed = drawn
            self._init = list(self._init_inputs())
            seed(drawn)
        inputs = [self._moved(one) for one in self._inputs()]
        after = (drawn * _NEXT + 1) & _SEED_MASK
        return {"model": self._seed, "init": self._init, "seed": after, "inputs": inputs}

    def answer(self, data: Any) -> Any:
        """The model's answer, in training mode and without gradients."""
        if self._model is None:
            seed(data["model"])
            self._model = self._class(*data["init"]).to(self._place(), self._torch.float32)
        seed(data["seed"])
        with self._torch.no_grad():
            return self._model(*data["inputs"])

    def check(self, data: Any, output: Any) -> tuple[bool, str]:
        """Whether every part is close to the model's own answer."""
        pairs = list(_pairs(output, self.answer(_copied(data))))
        said = [one for one in (self._difference(*pair) for pair in pairs) if one]
        return not said, "\n".join(said)

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, self._torch.Tensor):
            return value
        kind = self._torch.float32 if value.is_floating_point() else value.dtype
        return value.detach().to(self._place(), kind)

    def _place(self) -> Any:
        is_gpu = self._torch.cuda.is_available()
        return self._torch.device("cuda", self._torch.cuda.current_device()) if is_gpu else "cpu"

    def _difference(self, got: Any, want: Any) -> str:
        bound = _CLOSE.get(str(want.dtype).removeprefix("torch."))
        if bound is None:
            is_same = self._torch.equal(got, want)
            return "" if is_same else f"{int((got != want).sum())} of {want.numel()} values differ"
        wide = self._torch.complex128 if want.is_complex() else self._torch.float64
        off = ~self._torch.isclose(got.to(wide), want.to(wide), bound, bound, equal_nan=True)
        if not bool(off.any()):
            return ""
        return f"{int(off.sum())} of {want.numel()} values are off by more than {bound:g}"


def _copied(data: Any) -> Any:
    """Data that may be written to: a reference may do so, and others are still to see it."""
    return flatten(data, "generate_input").clone()


def _pairs(output: Any, expected: Any) -> Iterator[tuple[Any, Any]]:
    """Tensors and what they should be; the harness has compared the structure before."""
    if isinstance(expected, dict):
        for key, one in expected.items():
            yield from _pairs(output[key], one)
    elif isinstance(expected, list | tuple):
        for got, want in zip(output, expected, strict=True):
            yield from _pairs(got, want)
    else:
        yield output, expected


def _function(module: ModuleType, name: str) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        kind = "class" if name[0].isupper() else "function"
        raise ProblemFault(f"reference.py defines no {kind} {name}")
    return function  # type: ignore[no-any-return]  # the author's object, checked where it is used
