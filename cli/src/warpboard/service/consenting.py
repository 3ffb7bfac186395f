"""What a problem asks one to accept before one submits: read, accepted, taken back."""

import msgspec

from shared.errors import Refused
from warpboard.domain.answers import read
from warpboard.domain.outcome import OK
from warpboard.domain.units import harmless
from warpboard.service.deeds import Deed, act
from warpboard.service.ports import Api, Screen

ACCEPT, WITHDRAW = "accept", "withdraw"


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """A text to accept; without a digest there is none."""

    is_asked: bool
    is_given: bool = False
    file: str = ""
    digest: str | None = None
    text: str = ""


async def consent(api: Api, screen: Screen, problem: str, wish: str, *, as_json: bool) -> int:
    """Show what is to be accepted, and accept it or take it back. Errors: Refused; Failed."""
    path = ("problems", problem, "consent")
    if wish == WITHDRAW:
        return await act(api, screen, Deed("DELETE", path, {}), as_json=as_json)
    answer = await api.get(*path)
    found = read(answer, Consent)
    if wish == ACCEPT and not found.is_asked:
        raise Refused("wrong_state", f"{problem} asks you to accept nothing", "problem")
    if not as_json:
        for line in _told(problem, found):
            screen.say(line)
    if wish == ACCEPT:
        deed = Deed("POST", path, {"digest": found.digest})
        return await act(api, screen, deed, as_json=as_json)
    if as_json:
        screen.json(answer)
    elif found.is_asked:
        state = "you accept it" if found.is_given else "you have not accepted it: --accept does"
        screen.note(f"{found.file} of {problem}; {state}")
    return OK


def _told(problem: str, found: Consent) -> list[str]:
    if not found.is_asked:
        return [f"{problem} asks you to accept nothing"]
    return [harmless(line) for line in found.text.splitlines()]
