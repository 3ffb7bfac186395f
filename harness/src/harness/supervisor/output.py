"""What a worker prints: its head and its tail are kept, the rest is counted."""

KEPT_BYTES = 32 * 1024
REPORTED_BYTES = 8 * 1024
OUTPUT_BYTES_MAX = 1024 * 1024


class Log:
    """A bounded record of an unbounded stream."""

    def __init__(self) -> None:
        self.bytes = 0
        self._head = b""
        self._tail = b""

    @property
    def is_over(self) -> bool:
        """Whether more was printed than a run may print."""
        return self.bytes > OUTPUT_BYTES_MAX

    def add(self, chunk: bytes) -> None:
        """Takes the next bytes of the stream."""
        self.bytes += len(chunk)
        room = KEPT_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail = (self._tail + chunk[room:])[-KEPT_BYTES:]

    def whole(self) -> str:
        """All that was kept, with a line where something is left out."""
        left_out = self.bytes - len(self._head) - len(self._tail)
        gap = f"\n[{left_out} bytes are left out here]\n" if left_out else ""
        return _text(self._head) + gap + _text(self._tail)

    def ends(self) -> tuple[str, str]:
        """The first and the last 8 KiB; the second is empty where the first says all."""
        if self.bytes <= REPORTED_BYTES:
            return _text(self._head), ""
        kept = self._head + self._tail
        start = max(REPORTED_BYTES, len(kept) - REPORTED_BYTES)
        return _text(kept[:REPORTED_BYTES]), _text(kept[start:])


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
