"""What the platform answers as of an event or later, to nobody in particular or to the edge."""

import asyncio
import time
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from discord_edge.service.ports import Api, User
from shared.errors import Failed, Refused
from shared.telling.answers import Answer, read

BEHIND_S_MAX, STEP_S = 10.0, 0.2

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True)
class AsOf:
    """Reads that wait until the read models have what they are about."""

    api: Api

    async def seen(self, seq: int, kind: type[T], *path: str, **query: str | int) -> T | None:
        """What everybody may see, as of an event or later; None of what nobody may.

        Errors: Failed.
        """
        await self.caught_up(seq)
        return await self.asked(kind, *path, **query)

    async def asked(self, kind: type[T], *path: str, **query: str | int) -> T | None:
        """What everybody is answered now; None of what is refused. Errors: Failed."""
        return await self.asked_for(None, kind, *path, **query)

    async def asked_for(
        self, user: User | None, kind: type[T], *path: str | int, **query: str | int
    ) -> T | None:
        """What somebody is answered now; None of what is refused. Errors: Failed."""
        try:
            answer = await self.api.get(user, *path, **query)
        except Refused as refused:
            if refused.retry_after_s is not None:
                raise Failed(f"asked too often: {refused.reason}") from refused
            return None
        return read(answer, kind)

    async def caught_up(self, seq: int) -> None:
        """Wait until what is read has the event in it. Errors: Failed."""
        until = time.monotonic() + BEHIND_S_MAX
        while int((await self._newest())["as_of"]) < seq:
            if time.monotonic() > until:
                raise Failed(f"what is read is not as far as event {seq}")
            await asyncio.sleep(STEP_S)

    async def _newest(self) -> Answer:
        try:
            return await self.api.get(None, "problems", limit=1)
        except Refused as refused:
            raise Failed(f"problems cannot be listed: {refused.reason}") from refused
