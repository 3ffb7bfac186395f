"""Snapshots as a dict."""


class MemorySnapshots:
    """The newest bytes by name, in a dict."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def load(self, name: str) -> bytes | None:
        """What was kept last; see the port."""
        return self._kept.get(name)

    async def save(self, name: str, data: bytes) -> None:
        """Keep this instead; see the port."""
        self._kept[name] = data
