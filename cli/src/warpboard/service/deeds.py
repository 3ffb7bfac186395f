"""What participants and operators have done: a request that becomes an event."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warpboard.domain.answers import read
from warpboard.domain.outcome import OK
from warpboard.domain.oversight import Recorded
from warpboard.service.ports import Api, Screen


@dataclass(frozen=True)
class Deed:
    """A request that changes something: its route under /v1, and what it says."""

    method: str
    path: Sequence[str | int]
    said: Mapping[str, object]


async def act(api: Api, screen: Screen, deed: Deed, *, as_json: bool) -> int:
    """Do it, and say which event it is now; again is harmless. Errors: Refused; Failed."""
    answer = await api.act(deed.method, *deed.path, said=deed.said)
    made = read(answer, Recorded)
    if as_json:
        screen.json(answer)
    elif "event" not in answer:
        screen.say("done")
    elif made.event is None:
        screen.say("nothing to do: it is so already")
    else:
        screen.say(f"done: {made.event}, event {made.seq}")
    return OK
