"""Waiting for submissions to be over, with what is known on the way."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from shared.errors import Failed
from warpboard.domain.answers import Answer, Submission, read
from warpboard.domain.progress import News, news
from warpboard.domain.units import seconds_text
from warpboard.service.patience import persist
from warpboard.service.ports import Live, Reads, Screen

# Progress inside a run is no event, so an answer is held no longer than this.
HOLD_S = 1.0
PACE_S = 0.1
SILENCE_S_MAX = 60.0
WAIT_S_MAX = 3600.0


async def until_over(
    api: Reads, screen: Screen, numbers: Sequence[int], within_s: float
) -> list[Answer]:
    """Each submission whole, once all are over. Errors: Failed when `within_s` are over."""
    with screen.live([_key(number) for number in numbers]) as live:
        waits = [asyncio.create_task(_one(api, live, number)) for number in numbers]
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.gather(*waits)
        except TimeoutError as late:
            left = [n for n, one in zip(numbers, waits, strict=True) if not _is_told(one)]
            names = ", ".join(str(number) for number in left)
            raise Failed(
                f"not over after {seconds_text(within_s)}: {names}; it goes on without you, "
                f"warpboard show {left[0]} --wait waits again"
            ) from late
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


def _key(number: int) -> str:
    return f"submission {number}"


def _is_told(wait: asyncio.Task[Answer]) -> bool:
    return wait.done() and not wait.cancelled()


async def _one(api: Reads, live: Live, number: int) -> Answer:
    """Ask for news until it is over; each answer names the version that the next must be after."""
    key, after = _key(number), -1
    while True:
        asked_at = time.monotonic()
        answer = await persist(
            partial(api.get, "submissions", number, after=after, wait_s=HOLD_S),
            SILENCE_S_MAX,
            lambda trouble: live.show(key, News(trouble)),
        )
        submission = read(answer, Submission)
        live.show(key, news(submission))
        if submission.is_over:
            return answer
        after = submission.version
        await asyncio.sleep(max(0.0, PACE_S - (time.monotonic() - asked_at)))
