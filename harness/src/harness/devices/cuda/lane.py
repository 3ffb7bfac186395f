"""A referee's own stream, as torch knows it and as the driver does."""

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


class Lane:
    """The stream of one device that a referee's work goes to; `handle` is the driver's."""

    def __init__(self, place: str) -> None:
        torch: Any = importlib.import_module("torch")
        self._cuda = torch.cuda
        self._place = place
        self._stream: Any = torch.cuda.Stream(place)
        self.handle = int(self._stream.cuda_stream)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Within it torch's work on the device goes here, behind all that it was given before."""
        with self._cuda.stream(self._stream):
            self._stream.wait_stream(self._cuda.default_stream(self._place))
            yield

    def current(self) -> AbstractContextManager[Any]:
        """Within it the driver's calls are for this device, where there are several."""
        device: AbstractContextManager[Any] = self._cuda.device(self._place)
        return device
