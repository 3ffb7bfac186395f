"""What of the author's code a run is in: the supervisor must see it when the run hangs in it."""

import mmap
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

_SINCE = struct.Struct("=dd")
_NOTHING = 0.0
_TEXT_BYTES_MAX = 1024


class Mark:
    """A page that run and supervisor share: since when the author's code runs, and which part."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    @contextmanager
    def over(self, what: str) -> Iterator[None]:
        """Within it a part of the author's code runs, should that be the run's end."""
        text = what.encode(errors="replace")[:_TEXT_BYTES_MAX].ljust(_TEXT_BYTES_MAX, b"\0")
        self._page[_SINCE.size : _SINCE.size + _TEXT_BYTES_MAX] = text
        _SINCE.pack_into(self._page, 0, time.monotonic(), time.process_time())
        try:
            yield
        finally:
            _SINCE.pack_into(self._page, 0, _NOTHING, 0.0)

    @property
    def what(self) -> str:
        """The part that runs, or ran, when the run ended; "" if none did."""
        if self._since() == _NOTHING:
            return ""
        text = self._page[_SINCE.size : _SINCE.size + _TEXT_BYTES_MAX]
        return text.rstrip(b"\0").decode(errors="replace")

    def runs_s(self, cpu_s: float) -> tuple[float, float]:
        """For how many seconds it has been running: of the processor, and of the wall.

        `cpu_s` is what the run's process has used by now. Both are 0 if no author's code runs.
        """
        since, cpu_before_s = _SINCE.unpack_from(self._page, 0)
        if since == _NOTHING:
            return 0.0, 0.0
        return cpu_s - cpu_before_s, time.monotonic() - since

    def _since(self) -> float:
        since: float
        since, _ = _SINCE.unpack_from(self._page, 0)
        return since
