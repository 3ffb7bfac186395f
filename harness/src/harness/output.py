"""What a submission prints, kept within limits."""

KEPT_BYTES = 32 * 1024
REPORTED_BYTES = 8 * 1024
OUTPUT_BYTES_MAX = 1024 * 1024


class OutputLog:
    """A bounded record of an unbounded stream."""

    def __init__(self) -> None:
        self.bytes = 0
        self._head = b""
        self._tail = b""

    @property
    def is_over(self) -> bool:
        """Whether a run printed more than it may."""
        return self.bytes > OUTPUT_BYTES_MAX

    def add(self, chunk: bytes) -> None:
        """Append the next bytes of the stream."""
        self.bytes += len(chunk)
        room = KEPT_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail = (self._tail + chunk[room:])[-KEPT_BYTES:]

    def whole(self) -> str:
        """Return everything kept, with a line where something is left out."""
        left_out = self.bytes - len(self._head) - len(self._tail)
        gap = f"\n[{left_out} bytes are left out here]\n" if left_out else ""
        return self._head.decode(errors="replace") + gap + self._tail.decode(errors="replace")

    def ends(self) -> tuple[str, str]:
        """Return the first and last 8 KiB; the second is empty if the first holds everything."""
        if self.bytes <= REPORTED_BYTES:
            return self._head.decode(errors="replace"), ""
        kept_bytes = self._head + self._tail
        start = max(REPORTED_BYTES, len(kept_bytes) - REPORTED_BYTES)
        head, tail = kept_bytes[:REPORTED_BYTES], kept_bytes[start:]
        return head.decode(errors="replace"), tail.decode(errors="replace")
