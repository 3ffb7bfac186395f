"""Participants who want submissions and evaluations in, and sometimes want them no more."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from tests.support.people import HONEST
from tests.system.chaos.asking import Asked, Asker, client
from tests.system.chaos.plan import Batch, Wish
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


@dataclass(frozen=True)
class AcceptedBatch:
    """The promise of an evaluation: 202, with its id."""

    id: str
    batch: Batch


def item_source(number: int) -> str:
    """The source of an item; equal items have known verdicts."""
    return f"ITEM = {number}\n{HONEST}"


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
    batches: list[Batch]
    asked: Asked = field(default_factory=Asked)
    accepted: list[Accepted] = field(default_factory=list)
    accepted_batches: list[AcceptedBatch] = field(default_factory=list)
    streams: Streams = field(default_factory=Streams)
    followers: list["asyncio.Task[None]"] = field(default_factory=list)

    async def live(self) -> None:
        """Every wish at its time; returns when each was accepted or refused."""
        began = time.monotonic()
        async with client(self.urls[0]) as http:
            asker = Asker(http, self.asked, self.urls)
            wishes = enumerate(self.wishes)
            await asyncio.gather(
                *(self._wish(asker, wish, at, began) for at, wish in wishes),
                *(self._evaluate(asker, batch, began) for batch in self.batches),
            )

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
            await self._cancel(asker, wish.participant, f"submissions/{said['number']}")

    async def _evaluate(self, asker: Asker, batch: Batch, began: float) -> None:
        await asyncio.sleep(max(0.0, began + batch.at_s - time.monotonic()))
        items = [{"id": str(number), "source": item_source(number)} for number in batch.items]
        request = httpx.Request(
            "POST",
            f"{self.urls[len(self.accepted_batches) % len(self.urls)]}/v1/evaluations",
            json={"problem": "identity", "gpu": batch.gpu, "items": items},
            headers={"Warpboard-Participant": batch.participant, "Idempotency-Key": batch.key},
        )
        answer = await asker.ask("evaluate", request)
        if answer is None:
            return
        id_ = answer.json()["id"]
        self.accepted_batches.append(AcceptedBatch(id_, batch))
        if batch.cancel_after_s is not None:
            await asyncio.sleep(batch.cancel_after_s)
            await self._cancel(asker, batch.participant, f"evaluations/{id_}")

    async def _cancel(self, asker: Asker, participant: str, path: str) -> None:
        """Ask for the end of a submission or an evaluation; it may be over already."""
        request = httpx.Request(
            "POST",
            f"{self.urls[0]}/v1/{path}/cancel",
            json={"reason": "thought better of it"},
            headers={"Warpboard-Participant": participant},
        )
        await asker.ask("cancel", request)
