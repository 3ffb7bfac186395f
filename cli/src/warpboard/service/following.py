"""What happened to a submission, and what happens to it, as it happens."""

import asyncio
import time
from dataclasses import dataclass

from shared.errors import Failed
from warpboard.domain import streams
from warpboard.domain.answers import Answer, Submission, read
from warpboard.domain.outcome import OK, ending, exit_code, log_lines
from warpboard.domain.progress import News, news
from warpboard.domain.units import seconds_text
from warpboard.service.ports import Api, Live, Screen, Unavailable

SILENCE_S_MAX = 60.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.2, 4.0


@dataclass(frozen=True)
class Asked:
    """Which submission; with `within_s`, followed for so long at most until it is over."""

    number: int
    within_s: float | None
    after: int = 0
    as_json: bool = False


async def logs(api: Api, screen: Screen, asked: Asked) -> int:
    """The events of a submission and what it printed; followed, its exit code at the end."""
    if asked.within_s is None:
        return await _so_far(api, screen, asked)
    follower = Follower(api, screen, asked)
    try:
        async with asyncio.timeout(asked.within_s):
            await follower.follow()
    except TimeoutError as late:
        raise Failed(
            f"submission {asked.number} is not over after {seconds_text(asked.within_s)}; go on by "
            f"warpboard logs {asked.number} --follow --after {follower.place}"
        ) from late
    found = read(await api.get("submissions", asked.number), Submission)
    for line in () if asked.as_json else ending(found):
        screen.say(line)
    return exit_code(found)


async def _so_far(api: Api, screen: Screen, asked: Asked) -> int:
    answer = await api.get("submissions", asked.number)
    found = read(answer, Submission)
    events = [one for one in await api.history(asked.number) if _place(one) > asked.after]
    if asked.as_json:
        printed = {name: answer.get(name, "") for name in ("log_head", "log_tail")}
        screen.json({"number": asked.number, "events": events, **printed})
        return OK
    for one in events:
        screen.say(streams.line(one))
    for line in log_lines(found):
        screen.say(line)
    if not found.is_over:
        screen.note(f"it goes on: warpboard logs {asked.number} --follow")
    return OK


def _place(event: Answer) -> int:
    return int(event.get("id", 0))


class Follower:
    """Prints each event once, in order, over connections that are cut."""

    def __init__(self, api: Api, screen: Screen, asked: Asked) -> None:
        self._api = api
        self._screen = screen
        self._asked = asked
        self.place = asked.after
        self._heard_at = time.monotonic()

    async def follow(self) -> None:
        """Until the platform says that it is the end. Errors: Refused; Unavailable; Failed."""
        pause_s, key = PAUSE_S_MIN, f"submission {self._asked.number}"
        with self._screen.live([key]) as live:
            while True:
                began_at = self.place
                try:
                    if await self._connection(live, key):
                        return
                    why = "the connection was closed"
                except Unavailable as trouble:
                    if time.monotonic() - self._heard_at > SILENCE_S_MAX:
                        raise
                    why = str(trouble)
                pause_s = PAUSE_S_MIN if self.place > began_at else min(2 * pause_s, PAUSE_S_MAX)
                live.show(key, News(f"{why}; asking on from {self.place}"))
                await asyncio.sleep(pause_s)

    async def _connection(self, live: Live, key: str) -> bool:
        """All that one connection says; whether that was the end."""
        async for told in self._api.events(self._asked.number, self.place):
            self._heard_at = time.monotonic()
            if told.kind == streams.END:
                return True
            if found := streams.notice(told.kind, told.data):
                live.show(key, found)
            elif told.place is not None and told.place > self.place:
                self.place = told.place
                self._print(told.data)
        return False

    def _print(self, event: Answer) -> None:
        if self._asked.as_json:
            self._screen.json_line(event)
        else:
            self._screen.say(streams.line(event))


async def brief(api: Api, screen: Screen, number: int, *, as_json: bool) -> int:
    """Where a submission is, in a line, and how it ended; its exit code."""
    answer = await api.get("submissions", number)
    found = read(answer, Submission)
    if as_json:
        names = ("number", "problem", "gpu", "mode", "state", "is_over", "outcome", "verdict")
        more = ("score_us", "queue", "progress", "ranking", "version")
        screen.json({name: answer.get(name) for name in (*names, *more)})
    elif found.is_over:
        for line in ending(found):
            screen.say(line)
    else:
        screen.say(f"submission {number}: {news(found).whole}")
    return exit_code(found)
