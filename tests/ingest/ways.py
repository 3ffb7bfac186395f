"""The whole application with every kind of caller, over a real Postgres and read side."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import httpx
from argon2 import PasswordHasher
from starlette.routing import BaseRoute, Match, Route

from ingest.app import add_routes, create_app
from ingest.bootstrap import build_logins
from ingest.http.cookies import SESSION_COOKIE
from ingest.identity.accounts.service import NewToken
from ingest.identity.http.authenticator import AuthConfig, Authenticator, Edge
from ingest.identity.login.cli_ids import CliIdLinking, pending_cli_ids
from ingest.identity.login.postgres import LoginStore
from ingest.identity.login.service import Logins
from ingest.identity.login.sign_in import Argon2Hasher
from ingest.identity.login.web import FORM_COOKIE
from ingest.identity.scopes import SCOPES_BY_ROLE
from ingest.identity.secrets import csrf_token
from ingest.popcorn.dependencies import Dependencies
from ingest.popcorn.read_client import ReadClient
from ingest.ranker_http import RankerClient, open_client
from ingest.webhooks.service import Webhooks
from tests.ingest.logins import PASSWORD, SETTINGS
from tests.support.door import FILES, TOKEN, Door, opened, postgres_stores, report_of
from tests.support.holders import bearer, expired_token, made, role, submit
from tests.support.reading import Reads, reading
from tests.support.serving import serve_app
from tests.support.waits import eventually

OPEN, CLOSED, SPARE = "copy", "club", "spare"
# A GPU type that no problem has: requests that are allowed fail on it and change nothing.
NO_GPU = "NONE"
CLI_ID = "X-Popcorn-Cli-Id"
EDGE_TOKEN = "a-token-of-the-edge"
ROLES = {"author": "creator", "creator": "creator", "moderator": "moderator", "admin": "admin"}
PARTICIPANTS = ("owner", "participant", "member", *ROLES, "banned")
WAYS = replace(SETTINGS, github_client_id="an-application", github_client_secret="a-secret")


def leaf_routes(routes: Sequence[BaseRoute]) -> Iterator[Route]:
    """Yield all routes, including those of nested routers."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from leaf_routes(inner.routes)
        elif isinstance(route, Route):
            yield route


@dataclass
class Person:
    """A caller: the headers of their programs and the cookie of their browser."""

    headers: Mapping[str, str]
    cookie: str = ""
    account: str = ""


@dataclass
class Ways:
    """A door with all routes, as in a process."""

    door: Door
    logins: Logins
    reads: Reads
    people: dict[str, Person] = field(default_factory=dict)
    # Values for the names in braces in paths of the table.
    names: dict[str, str] = field(default_factory=dict)

    def route(self, method: str, path: str) -> Route | None:
        """Return the route that answers, or None."""
        scope = {"type": "http", "method": method, "path": path, "headers": []}
        for route in leaf_routes(self.door.app.routes):
            if route.matches(scope)[0] is Match.FULL:
                return route
        return None

    async def number(self, slug: str) -> str:
        """Return the number of a new submission of the owner."""
        answer = await submit(self.door, self.people["owner"].headers, problem=slug)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["submissions"][0]["number"])

    async def token(self) -> str:
        """Return the number of a new token of the owner."""
        new = NewToken("api", "t", ["submit"], None)
        issued = await self.logins.tokens.issue(self.people["owner"].account, new, "operator:o")
        return str(issued.number)

    async def device(self) -> str:
        """Return the user code of a waiting device."""
        _, user_code = await self.logins.devices.begin("c", "submit", None)
        return user_code

    async def check(self) -> str:
        """Return a check that the author asked for."""
        files = [("files", (name, text)) for name, text in FILES.items()]
        headers = self.people["author"].headers
        answer = await self.door.http.post(
            "/v1/checks", data={"slug": OPEN}, files=files, headers=headers
        )
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    async def cli_id(self) -> str:
        """Return a CLI id that waits to be linked."""
        return await self.logins.cli_ids.issue("github", None)

    def browser(self, name: str, headers: Mapping[str, str]) -> httpx.AsyncClient:
        """Return a client at the caller's own address that follows no redirects."""
        place = sorted(self.people).index(name) + 1
        transport = httpx.ASGITransport(self.door.app, client=(f"203.0.113.{place}", 1))
        return httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8000", headers=dict(headers)
        )

    def browser_credentials(self, name: str) -> tuple[dict[str, str], str]:
        """Return the cookies of a caller's browser, and the CSRF token of its forms."""
        cookie = self.people[name].cookie
        cookies = {SESSION_COOKIE: cookie} if cookie else {}
        seed = cookie or f"the-form-of-{name}"
        text = "; ".join(f"{key}={value}" for key, value in {**cookies, FORM_COOKIE: seed}.items())
        return {"Cookie": text}, csrf_token(seed)

    def fill_path(self, path: str) -> str:
        """Return a path of the table with its names filled in."""
        return re.sub(r"\{(\w+)\}", lambda match: self.names[match[1]], path)


@asynccontextmanager
async def open_ways(
    dsn: str, *, has_archive: bool = False, is_connected: bool = False
) -> AsyncIterator[Ways]:
    """Open the application with all callers.

    If it is connected, its reads go over a real socket, so that streams arrive piece by piece, its
    commands ask the real read side as well, and the Discord edge is let in.
    """
    async with AsyncExitStack() as stack:
        reads = await stack.enter_async_context(reading(dsn, has_archive=has_archive))
        stores = await stack.enter_async_context(postgres_stores(dsn))
        connections = stores.pool
        door = await stack.enter_async_context(
            opened(
                reads.log,
                stores=stores,
                are_names_believed=False,
                blobs=reads.blobs,
                read_side=reads.app if is_connected else None,
            )
        )
        outside = await stack.enter_async_context(httpx.AsyncClient())
        people, tokens = door.commands.people, door.commands.tokens
        linking = CliIdLinking(people, tokens, is_pending=pending_cli_ids(LoginStore(connections)))
        hashes = Argon2Hasher(PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
        all_ways = build_logins(WAYS, connections, outside, linking, hashes)
        edge = Edge(EDGE_TOKEN, door.commands.feed, all_ways.sign_in.resolve_account)
        config = AuthConfig(TOKEN, edge=edge) if is_connected else AuthConfig(TOKEN)
        auth = Authenticator(door.commands.feed, people.store, tokens.usage, linking.claim, config)

        async def is_well() -> str:
            return ""

        ranker = RankerClient(reads.http)
        if is_connected:
            url, _ = await stack.enter_async_context(serve_app(reads.app))
            ranker = RankerClient(await stack.enter_async_context(open_client(url, "")))
        parts = Dependencies(door.commands, auth, ReadClient(ranker), reads.blobs, is_well, NO_GPU)
        hooks = Webhooks(door.commands.boards.decisions, door.commands.feed, stores.webhooks)
        door.app = create_app(door.commands, auth, is_well, stores.repeats)
        add_routes(door.app, all_ways, hooks, ranker, parts)
        ways = Ways(door, all_ways, reads)
        await _create_callers(ways)
        await _publish_problems(ways)
        await _create_former_callers(ways)
        await reads.settle()
        yield ways


async def _create_callers(ways: Ways) -> None:
    """Create every caller with the scopes of their role, and a browser."""
    ways.people = {
        "nobody": Person({}),
        "operator's token": Person(bearer(TOKEN), TOKEN),
        "unlinked": Person({}),
    }
    for name in PARTICIPANTS:
        if name in ROLES:
            await role(ways.door, name, ROLES[name])
        issued = await made(
            ways.door, name, *sorted(SCOPES_BY_ROLE[ROLES.get(name, "participant")])
        )
        account = await ways.door.commands.people.find(name)
        assert account is not None
        cookie = await ways.logins.sessions.open(account)
        ways.people[name] = Person(bearer(issued["token"]), cookie, account)
    narrow = (await made(ways.door, "participant", "join"))["token"]
    ways.people["narrow"] = Person(bearer(narrow), narrow)
    state = await ways.cli_id()
    ways.people["unlinked"] = Person({CLI_ID: state}, state)


async def _publish_problems(ways: Ways) -> None:
    """Publish three problems of the author; owner and member have joined the closed one."""
    author = ways.people["author"].headers
    for slug in (OPEN, CLOSED, SPARE):
        files = [("files", (name, text)) for name, text in FILES.items()]
        visibility = "closed" if slug == CLOSED else "public"
        data = {"slug": slug, "visibility": visibility, "report": report_of(FILES, slug)}
        answer = await ways.door.http.post("/v1/problems", data=data, files=files, headers=author)
        assert answer.status_code == 201, answer.text
    invites = {"leaderboards": [CLOSED], "count": 2, "reason": "r"}
    codes = (await ways.door.admin("POST", "invites", **invites)).json()["codes"]
    for name, code in zip(("owner", "member"), codes, strict=True):
        headers = ways.people[name].headers
        url = "/v1/user/join"
        assert (await ways.door.http.post(url, json={"code": code}, headers=headers)).is_success
    scopes = sorted(SCOPES_BY_ROLE["participant"])
    elsewhere = (await made(ways.door, "owner", *scopes, problems=[SPARE]))["token"]
    ways.people["elsewhere"] = Person(bearer(elsewhere), elsewhere)


async def _create_former_callers(ways: Ways) -> None:
    """Create the banned, expired and revoked callers, and what the paths name."""
    owner, scopes = ways.people["owner"].account, sorted(SCOPES_BY_ROLE["participant"])
    tokens = ways.logins.tokens
    expired = await expired_token(tokens, owner, "web", *scopes)
    ways.people["expired"] = Person(bearer(expired), expired)
    revoked = await ways.logins.sessions.open(owner)
    await ways.logins.sessions.close(revoked)
    ways.people["revoked"] = Person(bearer(revoked), revoked)
    await ways.door.admin("POST", "participants/banned/ban", reason="r")
    await ways.door.admin("POST", "participants", name="target", reason="r")
    await ways.logins.sign_in.register("walker", PASSWORD, "203.0.113.250")
    ways.names = {
        "mine": await ways.number(OPEN),
        "closed": await ways.number(CLOSED),
        "token": await ways.token(),
        "code": await ways.device(),
        "cli_id": await ways.cli_id(),
        "check": await ways.check(),
    }
    await eventually(
        lambda: tokens.feed.find_token(expired) is None and tokens.feed.find_token(revoked) is None
    )
