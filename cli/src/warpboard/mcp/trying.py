"""Tools that have a kernel tried: submit it, follow it, end it."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC

from shared.clock import new_id
from warpboard.domain import streams
from warpboard.domain.answers import Answer, Receipts, Submission, read
from warpboard.domain.progress import news
from warpboard.mcp import asks, tells
from warpboard.mcp.hands import Hands, kernel
from warpboard.service.patience import persist
from warpboard.service.ports import Told, Unavailable, Wish

REPEAT_S_MAX = 4.0
PAUSE_S = 0.5
EVENTS_MAX = 100


async def submit(hands: Hands, asked: asks.Submit) -> tells.Submitted:
    """A kernel taken in, once, however often it had to be sent. Errors: Refused; Failed."""
    name, source = kernel(hands, asked.source, asked.path, asked.language)
    wish = Wish(name, source, asked.problem, asked.mode, tuple(asked.gpus))
    key = new_id()
    answer = await persist(lambda: hands.api.submit(wish, key), REPEAT_S_MAX, _unheard)
    receipts = read(answer, Receipts).submissions
    numbers = ", ".join(str(one.number) for one in receipts)
    return tells.Submitted(
        problem=asked.problem,
        mode=asked.mode,
        submissions=[
            tells.Receipt(number=one.number, gpu=one.gpu, quota=one.quota) for one in receipts
        ],
        next=f"call follow with number {numbers} until is_over, then read_result",
    )


def _unheard(trouble: str) -> None:
    """Nobody waits for a word on this: it is over within seconds."""


@dataclass
class Heard:
    """What a stream said since a place."""

    place: int
    events: list[tells.Event] = field(default_factory=list)
    is_end: bool = False
    at: float = field(default_factory=time.monotonic)

    @property
    def is_full(self) -> bool:
        """Whether no further event is kept."""
        return len(self.events) >= EVENTS_MAX

    def take(self, place: int, event: Answer) -> None:
        """One event of the history, if it is new; where there is no room, the next call gets it."""
        if place <= self.place or self.is_full:
            return
        self.place = place
        kind, line = str(event.get("type", "")), streams.line(event, UTC)
        self.events.append(tells.Event(place=place, type=kind, line=line))


async def follow(hands: Hands, asked: asks.Follow) -> tells.Followed:
    """What happened since a place, after a bounded wait for the end. Errors: Refused; Failed."""
    heard = Heard(asked.after)
    if asked.wait_s > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(asked.wait_s):
                await _listen(hands, asked, heard)
    if not heard.events:
        for one in await hands.api.history(asked.number):
            heard.take(int(one.get("id", 0)), one)
    found = read(await hands.api.get("submissions", asked.number), Submission)
    return tells.Followed(
        number=asked.number,
        state=found.state,
        is_over=found.is_over,
        news=news(found).whole,
        events=heard.events,
        next_after=heard.place,
        next=_next(found, heard.place),
        verdict=found.verdict,
        outcome=found.outcome,
        cut=[f"events after place {heard.place}: call again"] if heard.is_full else [],
    )


def _next(found: Submission, place: int) -> str:
    if found.is_over:
        return f"call read_result with number {found.number}"
    return f"call follow again with number {found.number} and after {place}"


async def _listen(hands: Hands, asked: asks.Follow, heard: Heard) -> None:
    """Until the end, over connections that are cut; whoever waits hears what is new.

    Errors: Refused; Failed; Unavailable when the platform is silent for too long.
    """
    began = time.monotonic()
    while not heard.is_end:
        try:
            async for told in hands.api.events(asked.number, heard.place):
                heard.at = time.monotonic()
                if sentence := _said(told, heard):
                    await hands.told(heard.at - began, asked.wait_s, sentence)
        except Unavailable as trouble:
            if time.monotonic() - heard.at > REPEAT_S_MAX:
                raise
            await hands.told(time.monotonic() - began, asked.wait_s, str(trouble))
        if not heard.is_end:
            await asyncio.sleep(PAUSE_S)


def _said(told: Told, heard: Heard) -> str:
    """A piece of the stream taken in, as a sentence; "" for one that says nothing."""
    if told.kind == streams.END:
        heard.is_end = True
        return ""
    if passing := streams.notice(told.kind, told.data):
        return passing.whole
    if told.place is None:
        return ""
    heard.take(told.place, told.data)
    return streams.line(told.data, UTC)


async def cancel(hands: Hands, asked: asks.Cancel) -> tells.Cancelled:
    """A submission that ends without a verdict. Errors: Refused; Failed."""
    said = {"reason": asked.reason}
    answer = await hands.api.act("POST", "submissions", asked.number, "cancel", said=said)
    state = str(answer.get("state", "cancelling"))
    return tells.Cancelled(
        number=asked.number,
        state=state,
        next=f"call follow with number {asked.number}: it is over within seconds",
    )
