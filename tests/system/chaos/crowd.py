"""Participants who want their submissions in, whatever dies, and sometimes want them no more."""

import asyncio
import time
from dataclasses import dataclass, field

import httpx

from tests.support.people import HONEST
from tests.system.chaos.asking import Asked, Asker, client
from tests.system.chaos.plan import Wish

WRONG = HONEST.replace("output.copy_(source)", "output.copy_(source).add_(1)")


@dataclass(frozen=True)
class Accepted:
    """A promise: 202, with the number and the id that were in it."""

    number: int
    id: str
    key: str


@dataclass
class Crowd:
    """The participants of a plan, and what they were promised."""

    url: str
    wishes: list[Wish]
    asked: Asked = field(default_factory=Asked)
    accepted: list[Accepted] = field(default_factory=list)

    async def live(self) -> None:
        """Every wish at its time; returns when each was accepted or refused."""
        began = time.monotonic()
        async with client(self.url) as http:
            asker = Asker(http, self.asked)
            await asyncio.gather(*(self._wish(asker, one, began) for one in self.wishes))

    async def _wish(self, asker: Asker, wish: Wish, began: float) -> None:
        await asyncio.sleep(max(0.0, began + wish.at_s - time.monotonic()))
        source = f"# {wish.key}\n{WRONG if wish.kernel == 'wrong' else HONEST}"
        request = httpx.Request(
            "POST",
            f"{self.url}/v1/submissions",
            data={"problem": "identity", "mode": wish.mode, "gpu": wish.gpu},
            files={"file": ("kernel.py", source.encode())},
            headers={"Warpboard-Participant": wish.participant, "Idempotency-Key": wish.key},
        )
        answer = await asker.ask("submit", request)
        if answer is None:
            return
        said = answer.json()["submissions"][0]
        self.accepted.append(Accepted(said["number"], said["id"], wish.key))
        if wish.cancel_after_s is not None:
            await asyncio.sleep(wish.cancel_after_s)
            await self._cancel(asker, wish, said["number"])

    async def _cancel(self, asker: Asker, wish: Wish, number: int) -> None:
        """Ask for its end; it may be over already."""
        request = httpx.Request(
            "POST",
            f"{self.url}/v1/submissions/{number}/cancel",
            json={"reason": "thought better of it"},
            headers={"Warpboard-Participant": wish.participant},
        )
        await asker.ask("cancel", request)
