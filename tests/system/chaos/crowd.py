"""Participants who want their submissions in, whatever dies, and sometimes want them no more."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from tests.support.people import HONEST
from tests.system.chaos.asking import Asked, Asker, client
from tests.system.chaos.plan import Wish
from tests.system.chaos.streams import Streams

# Every so manyth submission is followed live.
FOLLOWED_EVERY = 10
STREAMS_END_S_MAX = 30.0
WRONG = HONEST.replace("output.copy_(source)", "output.copy_(source).add_(1)")


@dataclass(frozen=True)
class Accepted:
    """A promise: 202, with the number and the id that were in it."""

    number: int
    id: str
    key: str


def source_of(wish: Wish) -> bytes:
    """The file that is submitted; no two wishes have the same, also without comments."""
    return f"KEY = '{wish.key}'\n{WRONG if wish.kernel == 'wrong' else HONEST}".encode()


@dataclass
class Crowd:
    """The participants of a plan, and what they were promised.

    They share the ingests at `urls`, and follow some of their submissions live.
    """

    urls: Sequence[str]
    wishes: list[Wish]
    asked: Asked = field(default_factory=Asked)
    accepted: list[Accepted] = field(default_factory=list)
    streams: Streams = field(default_factory=Streams)
    followers: list["asyncio.Task[None]"] = field(default_factory=list)

    async def live(self) -> None:
        """Every wish at its time; returns when each was accepted or refused."""
        began = time.monotonic()
        async with client(self.urls[0]) as http:
            asker = Asker(http, self.asked, self.urls)
            wishes = enumerate(self.wishes)
            await asyncio.gather(*(self._wish(asker, wish, at, began) for at, wish in wishes))

    async def finish_following(self, within_s: float) -> None:
        """Wait for the ends of the streams; what has none by then is seen by its places."""
        if self.followers:
            await asyncio.wait(self.followers, timeout=min(within_s, STREAMS_END_S_MAX))
        for task in self.followers:
            task.cancel()
        await asyncio.gather(*self.followers, return_exceptions=True)

    async def _wish(self, asker: Asker, wish: Wish, at: int, began: float) -> None:
        await asyncio.sleep(max(0.0, began + wish.at_s - time.monotonic()))
        url = self.urls[at % len(self.urls)]
        headers = {"Warpboard-Participant": wish.participant}
        request = httpx.Request(
            "POST",
            f"{url}/v1/submissions",
            data={"problem": "identity", "mode": wish.mode, "gpu": wish.gpu},
            files={"file": ("kernel.py", source_of(wish))},
            headers=headers | {"Idempotency-Key": wish.key},
        )
        answer = await asker.ask("submit", request)
        if answer is None:
            return
        said = answer.json()["submissions"][0]
        self.accepted.append(Accepted(said["number"], said["id"], wish.key))
        if at % FOLLOWED_EVERY == 0:
            following = self.streams.follow(url, headers, said["number"])
            self.followers.append(asyncio.create_task(following))
        if wish.cancel_after_s is not None:
            await asyncio.sleep(wish.cancel_after_s)
            await self._cancel(asker, wish, said["number"])

    async def _cancel(self, asker: Asker, wish: Wish, number: int) -> None:
        """Ask for its end; it may be over already."""
        request = httpx.Request(
            "POST",
            f"{self.urls[0]}/v1/submissions/{number}/cancel",
            json={"reason": "thought better of it"},
            headers={"Warpboard-Participant": wish.participant},
        )
        await asker.ask("cancel", request)
