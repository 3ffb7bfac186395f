"""A submission that is a class of torch.nn.Module, called as a kernel: KernelBench's form."""

import importlib
import random
import sys
from collections.abc import Callable
from typing import Any

_NUMPY_SEED_MASK = 0xFFFF_FFFF


class Modelled:
    """Calls a model, which is built at the first call, as the reference's is: under its seed.

    The data is {"model": seed, "init": arguments, "seed": of this call, "inputs": arguments}. The
    model stays in training mode, its gradients are not asked for, and where its inputs are, it is.
    """

    def __init__(self, model: Callable[..., Any]) -> None:
        self._class = model
        self._model: Any = None
        self._torch: Any = importlib.import_module("torch")

    def __call__(self, data: dict[str, Any]) -> Any:
        """The answer to one call's data."""
        if self._model is None:
            self._seed(data["model"])
            self._model = self._placed(self._class(*data["init"]), data["inputs"])
        self._seed(data["seed"])
        with self._torch.no_grad():
            return self._model(*data["inputs"])

    def _placed(self, model: Any, inputs: Any) -> Any:
        places = (one.device for one in inputs if isinstance(one, self._torch.Tensor))
        return model.to(next(places, "cpu"), self._torch.float32)

    def _seed(self, seed: int) -> None:
        self._torch.manual_seed(seed)
        random.seed(seed)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed(seed & _NUMPY_SEED_MASK)
