"""The rows of an outbox, in a dict."""


class MemoryOutbox:
    """Which event became which effect; keeps the port shared.outbox.Outbox."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], bool] = {}

    async def begin(self, event: str, target: str) -> bool:
        """Write down that an effect is tried; see the port."""
        return not self.rows.setdefault((event, target), False)

    async def mark(self, event: str, target: str) -> None:
        """Write down that an effect is done; see the port."""
        self.rows[event, target] = True

    async def pending(self) -> int:
        """How many effects were tried and are not done."""
        return sum(not is_done for is_done in self.rows.values())
