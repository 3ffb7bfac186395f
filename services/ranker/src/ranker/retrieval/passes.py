"""A pass over what is missing that all who wait for it share."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

# How long a read waits for the newest.
WAIT_S_MAX = 2.0


class SharedPass:
    """Runs one pass at a time, however many reads ask for it."""

    def __init__(self, read_missing: Callable[[], Awaitable[None]]) -> None:
        self._read_missing = read_missing
        self._pass: asyncio.Future[None] | None = None

    async def catch_up(self) -> bool:
        """Wait for a pass, for two seconds at most; whether nothing is missing now.

        A pass that takes longer goes on by itself. Raises Failed.
        """
        if self._pass is None or self._pass.done():
            self._pass = asyncio.ensure_future(self._read_missing())
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S_MAX):
                await asyncio.shield(self._pass)
        return self._pass.done()
