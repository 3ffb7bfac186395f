"""Asking what a leaderboard is set to."""

from warpboard.domain.answers import read
from warpboard.domain.boards import BoardSettings, lines
from warpboard.domain.outcome import OK
from warpboard.service.ports import Api, Screen


async def settings(api: Api, screen: Screen, slug: str, *, as_json: bool) -> int:
    """All that a leaderboard is set to. Errors: Refused; Failed."""
    answer = await api.get("leaderboards", slug)
    if as_json:
        screen.json(answer)
        return OK
    for line in lines(read(answer, BoardSettings)):
        screen.say(line)
    return OK
