"""Who one is at a platform: logging in and out, tokens, invites."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.errors import Failed, Refused
from warpboard.domain import accounts
from warpboard.domain.accounts import Device, Granted, Joined, Known, Made, Me, Tokens
from warpboard.domain.answers import Answer, read
from warpboard.domain.outcome import OK
from warpboard.domain.progress import News
from warpboard.domain.units import count_text, seconds_text, when
from warpboard.service.deeds import Deed, act
from warpboard.service.ports import Api, Connect, Keys, Screen, Unavailable
from warpboard.service.reading import show

INTERVAL_S_MIN, INTERVAL_S_MAX = 0.2, 60.0
# Source: RFC 8628, section 3.5.
SLOWER_S = 5.0
WAITING, SLOW_DOWN = "authorization_pending", "slow_down"
ENDS = {"expired_token": "the code is too old", "access_denied": "it was not allowed"}


@dataclass(frozen=True)
class Login:
    """Where somebody logs in, with which name for the token, for what; or a token they have."""

    url: str
    name: str
    scopes: Sequence[str]
    token: str | None = None


@dataclass(frozen=True)
class Desk:
    """What logging in needs: the platform, the file of tokens, and a way to show an address."""

    connect: Connect
    keys: Keys
    screen: Screen
    opened: Callable[[str], None]


async def login(desk: Desk, asked: Login, *, as_json: bool) -> int:
    """Get a token, try it, keep it. Errors: Refused; Failed if nobody allowed it in time."""
    if asked.token is None:
        async with desk.connect(asked.url) as api:
            token = (await _granted(api, desk, asked)).access_token
    else:
        token = asked.token
    async with desk.connect(asked.url, token=token) as api:
        answer = await api.get("me")
    me = read(answer, Me)
    desk.keys.keep(asked.url, token)
    if as_json:
        desk.screen.json({"url": asked.url, "kept_in": desk.keys.place, **answer})
        return OK
    desk.screen.say(f"logged in to {asked.url} as {me.name}")
    desk.screen.note(f"the token is kept in {desk.keys.place}")
    return OK


async def _granted(api: Api, desk: Desk, asked: Login) -> Granted:
    said = {"client_id": asked.name, "scope": " ".join(asked.scopes)}
    device = read(await api.act("POST", "auth", "device", said=said), Device)
    for line in accounts.asking(device):
        desk.screen.note(line)
    desk.opened(device.verification_uri_complete or device.verification_uri)
    until = time.monotonic() + device.expires_in
    pause_s = min(max(device.interval, INTERVAL_S_MIN), INTERVAL_S_MAX)
    with desk.screen.live(["login"]) as live:
        while (left_s := until - time.monotonic()) > 0:
            live.show("login", News("waiting for you", estimate=f", {seconds_text(left_s)} left"))
            await asyncio.sleep(min(pause_s, left_s))
            found = await _asked(api, device)
            if isinstance(found, Granted):
                return found
            pause_s = min(pause_s + found, INTERVAL_S_MAX)
    raise Failed("the code is too old: nobody allowed the login; warpboard login makes a new one")


async def _asked(api: Api, device: Device) -> Granted | float:
    """The login's end, or how much slower to ask for it. Errors: Refused."""
    said = {"device_code": device.device_code}
    try:
        return read(await api.act("POST", "auth", "device", "token", said=said), Granted)
    except Unavailable:
        return SLOWER_S
    except Refused as refused:
        if refused.code in (WAITING, SLOW_DOWN):
            return SLOWER_S if refused.code == SLOW_DOWN else 0.0
        why = ENDS.get(refused.code)
        raise Refused(refused.code, f"no login: {why}") if why else refused from refused


async def logout(api: Api, keys: Keys, screen: Screen, url: str, *, as_json: bool) -> int:
    """Revoke the kept token where that can be done, and keep it no more."""
    is_revoked = keys.token(url) is not None and await _revoked(api, screen)
    was_kept = keys.forget(url)
    if as_json:
        screen.json({"url": url, "was_kept": was_kept, "is_revoked": is_revoked})
    elif was_kept:
        screen.say(f"logged out of {url}" + ("; the token is revoked" if is_revoked else ""))
    else:
        screen.say(f"no token of {url} is kept here")
    return OK


async def _revoked(api: Api, screen: Screen) -> bool:
    try:
        number = read(await api.get("me"), Me).token
        if number is not None:
            await api.act("DELETE", "tokens", number, said={})
            return True
    except (Refused, Failed) as trouble:
        screen.note(f"warpboard: the token could not be revoked there: {trouble}")
    return False


async def whoami(api: Api, screen: Screen, url: str, *, as_json: bool) -> int:
    """Whom the platform takes one for. Errors: Refused; Failed."""
    answer = await api.get("me")
    if as_json:
        screen.json(answer | {"url": url})
        return OK
    for line in accounts.who(read(answer, Me), url):
        screen.say(line)
    return OK


async def participant(api: Api, screen: Screen, named: str, *, as_json: bool) -> int:
    """What operators know of a participant. Errors: Refused; Failed."""
    answer = await api.get("admin", "participants", named)
    if as_json:
        screen.json(answer)
        return OK
    found = read(answer, Known)
    for line in accounts.known(found):
        screen.say(line)
    screen.table(accounts.tokens(found.tokens))
    return OK


async def name(api: Api, known: str | None) -> str:
    """One's name: as it is known here, else as the platform says. Errors: Refused; Failed."""
    return known if known is not None else read(await api.get("me"), Me).name


async def unlink(api: Api, screen: Screen, known_as: str, *, as_json: bool) -> int:
    """Be known elsewhere no longer, there named by its id or as `github:4242`.

    Errors: Refused for one that is not one's own; Failed.
    """
    if ":" in known_as:
        me = read(await api.get("me"), Me)
        named = {f"{one.provider}:{one.subject}": one.id for one in me.identities}
        if known_as not in named:
            what = f"you are not known as {known_as!r}: whoami says where you are"
            raise Refused("unknown_identity", what, "identity")
        known_as = named[known_as]
    deed = Deed("DELETE", ("me", "identities", known_as), {})
    return await act(api, screen, deed, as_json=as_json)


async def tokens(api: Api, screen: Screen, *, as_json: bool) -> int:
    """One's tokens."""
    answer = await api.get("tokens")
    return show(screen, answer, accounts.tokens(read(answer, Tokens).items), as_json=as_json)


async def create(api: Api, screen: Screen, said: Answer, path: Sequence[str], as_json: bool) -> int:
    """Make a token; it is shown this once."""
    answer = await api.act("POST", *path, said=said)
    if as_json:
        screen.json(answer)
        return OK
    made = read(answer, Made)
    screen.say(made.token)
    expires = f", good until {when(made.expires_at)}" if made.expires_at else ""
    screen.note(f"token {made.id}{expires}: it is shown this once, so keep it now")
    return OK


async def join(api: Api, screen: Screen, code: str, *, as_json: bool) -> int:
    """Take up an invite. Errors: Refused for a code that opens nothing."""
    answer = await api.join(code)
    opened = read(answer, Joined).leaderboards
    if as_json:
        screen.json(answer)
    else:
        screen.say(f"{count_text(len(opened), 'leaderboard')} open to you: {', '.join(opened)}")
    return OK


async def invites(api: Api, screen: Screen, leaderboard: str, *, as_json: bool) -> int:
    """The invites to a leaderboard, and who took them."""
    answer = await api.get("admin", "leaderboards", leaderboard, "invites")
    found = read(answer, accounts.Invites).items
    return show(screen, answer, accounts.invites(leaderboard, found), as_json=as_json)


async def invite(api: Api, screen: Screen, said: Answer, *, as_json: bool) -> int:
    """Make invites; their codes are lines of the answer, to be handed out."""
    answer = await api.act("POST", "admin", "invites", said=said)
    made = read(answer, accounts.Codes)
    for code in () if as_json else made.codes:
        screen.say(code)
    if as_json:
        screen.json(answer)
    else:
        count = count_text(len(made.codes), "invite")
        screen.note(f"{count} to {', '.join(made.leaderboards)}; each opens once")
    return OK
