"""Repeat requests while the platform does not answer, and wait until submissions are over."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from shared.api.submissions import FullSubmission
from shared.errors import Failed
from shared.presentation.report_parts import ProgressText, submission_progress
from shared.presentation.units import seconds_text
from warpboard.api import Api, Response, Unavailable
from warpboard.screen import LiveProgress, Screen

PAUSE_S_MIN = 0.2
PAUSE_S_MAX = 2.0
T = TypeVar("T")
# Progress inside a run is no event, so the server holds an answer no longer than this.
HOLD_S = 1.0
PACE_S = 0.1
SILENCE_S_MAX = 60.0


async def retry_until_available(
    send_request: Callable[[], Awaitable[T]],
    within_s: float,
    report_trouble: Callable[[str], None],
) -> T:
    """Return the answer of a repeated request; `report_trouble` is called with each failure.

    Raises Unavailable after `within_s`; all other errors at once.
    """
    deadline = time.monotonic() + within_s
    pause_s = PAUSE_S_MIN
    while True:
        try:
            return await send_request()
        except Unavailable as trouble:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise
            report_trouble(f"{trouble}; trying for {remaining_s:.0f} s more")
            wait_s = max(pause_s, trouble.wait_s or 0.0)
        await asyncio.sleep(min(wait_s, remaining_s))
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


async def wait_until_over(
    apis: Mapping[int, Api], screen: Screen, within_s: float
) -> list[Response[FullSubmission]]:
    """Return each submission once all are over; each is read through the API given for it.

    Raises Failed after `within_s`.
    """
    with screen.live([_key(number) for number in apis]) as live:
        waits = {
            number: asyncio.create_task(_wait_for(api, live, number))
            for number, api in apis.items()
        }
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.gather(*waits.values())
        except TimeoutError as late:
            open_numbers = [
                number for number, task in waits.items() if not task.done() or task.cancelled()
            ]
            names = ", ".join(map(str, open_numbers))
            raise Failed(
                f"not over after {seconds_text(within_s)}: {names}; it goes on without you, "
                f"warpboard submission show {open_numbers[0]} --wait waits again"
            ) from late
        finally:
            for wait in waits.values():
                wait.cancel()
            await asyncio.gather(*waits.values(), return_exceptions=True)


def _key(number: int) -> str:
    return f"submission {number}"


async def _wait_for(api: Api, live: LiveProgress, number: int) -> Response[FullSubmission]:
    """Poll until a submission is over; each request asks for a newer version than the last."""
    key, after = _key(number), -1
    while True:
        asked_at = time.monotonic()
        answer = await retry_until_available(
            partial(api.get, FullSubmission, "submissions", number, after=after, wait_s=HOLD_S),
            SILENCE_S_MAX,
            lambda trouble: live.show(key, ProgressText(trouble)),
        )
        submission = answer.value
        live.show(key, submission_progress(submission))
        if submission.is_over:
            return answer
        after = submission.version
        await asyncio.sleep(max(0.0, PACE_S - (time.monotonic() - asked_at)))
