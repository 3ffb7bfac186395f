"""How one is told on Discord: shown, and chosen."""

import msgspec

from warpboard.domain.answers import read
from warpboard.domain.outcome import OK
from warpboard.service.ports import Api, Screen

PATH = ("me", "preferences")
HOWS = ("off", "thread", "dm")
# What one may choose of each; the platform says the same.
CHOICES = {
    "overtaken": HOWS,
    "run-finished": HOWS,
    "deadline-near": HOWS,
    "ranked-line": ("on", "off"),
    "threads": ("default", "per_submission", "per_problem"),
}


class Preferences(msgspec.Struct, frozen=True, kw_only=True):
    """How one is told of each."""

    overtaken: str
    run_finished: str
    deadline_near: str
    ranked_line: str
    threads: str


async def notify(api: Api, screen: Screen, wanted: tuple[str, str] | None, *, as_json: bool) -> int:
    """Choose how one is told of something, or nothing; then show all. Errors: Refused; Failed."""
    if wanted is None:
        answer = await api.get(*PATH)
    else:
        name, value = wanted
        answer = await api.act("PUT", *PATH, said={name.replace("-", "_"): value})
    found = read(answer, Preferences)
    if as_json:
        screen.json(answer)
        return OK
    for name in CHOICES:
        screen.say(f"{name}: {getattr(found, name.replace('-', '_'))}")
    return OK
