"""The public client's routes and the ways in, by everybody: over a real Postgres and read side."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import httpx
from argon2 import PasswordHasher
from starlette.routing import BaseRoute, Match, Route

from ingest.__main__ import Behind as All
from ingest.__main__ import open_all
from ingest.domain.callers import ALLOWED
from ingest.http import application
from ingest.http.who import COOKIE, Gate, Keys
from ingest.login.argon import Hasher
from ingest.login.http.web import FORM_COOKIE
from ingest.login.service import Logins
from ingest.login.wiring import Behind, logins, waiting
from ingest.popcorn.asking import Asking
from ingest.popcorn.parts import Parts
from ingest.popcorn.publishing import Sources
from ingest.ranker_http import Ranker
from ingest.service.linking import Linking
from ingest.service.tokens import NewToken, csrf
from ingest.service.webhooks import Webhooks
from shared.clock import now
from shared.testing import eventually
from tests.ingest.logins import PASSWORD, SETTINGS
from tests.support.door import FILES, TOKEN, Door, opened, postgres_stores, report_of
from tests.support.holders import bearer, made, role, submit
from tests.support.reading import reading

OPEN, CLOSED, SPARE = "copy", "club", "spare"
# A GPU type that no problem has: who is let in is refused for it, and nothing is taken in.
NO_GPU = "NONE"
CLI_ID = "X-Popcorn-Cli-Id"
ROLES = {"author": "creator", "creator": "creator", "moderator": "moderator", "admin": "admin"}
PARTICIPANTS = ("owner", "participant", "member", *ROLES, "banned")
WAYS = replace(SETTINGS, github_client_id="an-application", github_client_secret="a-secret")


def leaves(routes: Sequence[BaseRoute]) -> Iterator[Route]:
    """Routes, with those of every router that was taken in among them."""
    for one in routes:
        inner = getattr(one, "original_router", None)
        if inner is not None:
            yield from leaves(inner.routes)
        elif isinstance(one, Route):
            yield one


@dataclass
class Person:
    """A caller: the headers by which programs know them, and what their browser shows."""

    headers: Mapping[str, str]
    cookie: str = ""
    account: str = ""


@dataclass
class Ways:
    """A door with all its routes, as a process has them."""

    door: Door
    logins: Logins
    people: dict[str, Person] = field(default_factory=dict)
    # What stands for a name in braces in a path of the table.
    names: dict[str, str] = field(default_factory=dict)

    def route(self, method: str, path: str) -> Route | None:
        """The route that answers; None if there is none."""
        scope = {"type": "http", "method": method, "path": path, "headers": []}
        for one in leaves(self.door.app.routes):
            if one.matches(scope)[0] is Match.FULL:
                return one
        return None

    async def number(self, slug: str) -> str:
        """A fresh submission of the owner's."""
        answer = await submit(self.door, self.people["owner"].headers, problem=slug)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["submissions"][0]["number"])

    async def token(self) -> str:
        """The number of a fresh token of the owner's."""
        new = NewToken("api", "t", ["submit"], None)
        issued = await self.logins.tokens.issue(self.people["owner"].account, new, "operator:o")
        return str(issued.number)

    async def device(self) -> str:
        """The code that a device shows which waits."""
        return (await self.logins.devices.begin("c", "submit", None)).user_code

    async def cli_id(self) -> str:
        """A CLI id that waits to be linked."""
        return await self.logins.cli_ids.give("github", None)

    def browser(self, name: str, headers: Mapping[str, str]) -> httpx.AsyncClient:
        """Somebody at an address of their own, who follows no redirect."""
        place = sorted(self.people).index(name) + 1
        transport = httpx.ASGITransport(self.door.app, client=(f"203.0.113.{place}", 1))
        return httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8000", headers=dict(headers)
        )

    def shown(self, name: str) -> tuple[dict[str, str], str]:
        """The cookies of somebody's browser, and what its forms send back."""
        cookie = self.people[name].cookie
        cookies = {COOKIE: cookie} if cookie else {}
        seed = cookie or f"the-form-of-{name}"
        text = "; ".join(f"{key}={value}" for key, value in {**cookies, FORM_COOKIE: seed}.items())
        return {"Cookie": text}, csrf(seed)

    def filled(self, path: str) -> str:
        """A path of the table, with what its names stand for now."""
        return re.sub(r"\{(\w+)\}", lambda match: self.names[match[1]], path)


@asynccontextmanager
async def founded(dsn: str) -> AsyncIterator[Ways]:
    """All of it, with everybody in it."""
    async with AsyncExitStack() as stack:
        reads = await stack.enter_async_context(reading(dsn))
        stores = await stack.enter_async_context(postgres_stores(dsn))
        connections = stores.pool
        door = await stack.enter_async_context(
            opened(reads.log, stores=stores, are_names_believed=False, blobs=reads.blobs)
        )
        outside = await stack.enter_async_context(httpx.AsyncClient())
        people, tokens = door.commands.people, door.commands.tokens
        linking = Linking(people, tokens, waits=waiting(connections))
        gate = Gate(door.commands.feed, people, tokens, linking, Keys(TOKEN))
        hashes = Hasher(PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
        behind = Behind(connections, outside, people, tokens, linking, hashes)
        all_ways = logins(replace(WAYS, postgres_dsn=dsn), behind)

        async def is_well() -> str:
            return ""

        ranker = Ranker(reads.http)
        parts = Parts(door.commands, gate, Asking(ranker), reads.blobs, is_well, NO_GPU)
        hooks = Webhooks(door.commands.boards.decisions, door.commands.feed, stores.webhooks)
        door.app = application(door.commands, gate, is_well, stores.repeats)
        open_all(door.app, All(all_ways, hooks, ranker, parts, Sources()))
        found = Ways(door, all_ways)
        await _people(found)
        await _boards(found)
        await _leave(found)
        yield found


async def _people(ways: Ways) -> None:
    """Everybody by their name, each with every scope of their role, and a browser."""
    ways.people = {
        "nobody": Person({}),
        "operator's token": Person(bearer(TOKEN), TOKEN),
        "unlinked": Person({}),
    }
    for name in PARTICIPANTS:
        if name in ROLES:
            await role(ways.door, name, ROLES[name])
        found = await made(ways.door, name, *sorted(ALLOWED[ROLES.get(name, "participant")]))
        account = await ways.door.commands.people.account(name)
        assert account is not None
        cookie = await ways.logins.sessions.open(account)
        ways.people[name] = Person(bearer(found["token"]), cookie, account)
    narrow = (await made(ways.door, "participant", "join"))["token"]
    ways.people["narrow"] = Person(bearer(narrow), narrow)
    state = await ways.cli_id()
    ways.people["unlinked"] = Person({CLI_ID: state}, state)


async def _boards(ways: Ways) -> None:
    """Three problems of the author's; one is closed, and owner and member are in it."""
    author = ways.people["author"].headers
    for slug in (OPEN, CLOSED, SPARE):
        files = [("files", (name, text)) for name, text in FILES.items()]
        visibility = "closed" if slug == CLOSED else "public"
        data = {"slug": slug, "visibility": visibility, "report": report_of(FILES, slug)}
        answer = await ways.door.http.post("/v1/problems", data=data, files=files, headers=author)
        assert answer.status_code == 201, answer.text
    wanted = {"leaderboards": [CLOSED], "count": 2, "reason": "r"}
    codes = (await ways.door.admin("POST", "invites", **wanted)).json()["codes"]
    for name, code in zip(("owner", "member"), codes, strict=True):
        headers = ways.people[name].headers
        url = "/v1/user/join"
        assert (await ways.door.http.post(url, json={"code": code}, headers=headers)).is_success
    scopes = sorted(ALLOWED["participant"])
    elsewhere = (await made(ways.door, "owner", *scopes, problems=[SPARE]))["token"]
    ways.people["elsewhere"] = Person(bearer(elsewhere), elsewhere)


async def _leave(ways: Ways) -> None:
    """Who was let in before: banned, expired, revoked; and what paths are about."""
    owner, scopes = ways.people["owner"].account, sorted(ALLOWED["participant"])
    tokens = ways.logins.tokens
    ends = NewToken("web", "t", scopes, now() + timedelta(seconds=1))
    expired = (await tokens.issue(owner, ends, "operator:o")).secret
    ways.people["expired"] = Person(bearer(expired), expired)
    revoked = await ways.logins.sessions.open(owner)
    await ways.logins.sessions.close(revoked)
    ways.people["revoked"] = Person(bearer(revoked), revoked)
    await ways.door.admin("POST", "participants/banned/ban", reason="r")
    await ways.door.admin("POST", "participants", name="target", reason="r")
    await ways.logins.arrivals.register("walker", PASSWORD, "203.0.113.250")
    ways.names = {
        "mine": await ways.number(OPEN),
        "closed": await ways.number(CLOSED),
        "token": await ways.token(),
        "code": await ways.device(),
        "cli_id": await ways.cli_id(),
    }
    await eventually(lambda: tokens.known(expired) is None and tokens.known(revoked) is None)
